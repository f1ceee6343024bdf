package results

import (
	"workbench/bench/sweep"
	"workbench/bench/sweep/results/resultstest"
)

// madeNight is a night of made rows.
func madeNight(s resultstest.Size, version string, seed uint64) *Night {
	return &Night{
		Name: "nightly", Rows: resultstest.Rows(s, version, seed),
		Environments: map[string]sweep.Environment{"e0": resultstest.Environment},
	}
}
