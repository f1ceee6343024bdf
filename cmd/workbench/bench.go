package main

import (
	"github.com/urfave/cli/v2"
)

// newBench groups the commands of sweeps.
func newBench(s streams) *cli.Command {
	return &cli.Command{
		Name:  "bench",
		Usage: "run sweeps: many methods on many instances, from a specification to a report",
		Subcommands: []*cli.Command{
			newBenchRun(s), newBenchResume(s), newBenchMerge(s), newBenchServe(s), newBenchWork(s),
			newBenchReport(s), newBenchCompare(s), newBenchHistory(s), newBenchExport(s), newBenchStatus(s), newBenchPrune(s),
		},
	}
}
