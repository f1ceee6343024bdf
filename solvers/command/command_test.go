package command

import (
	"testing"

	"workbench/solvers"
	"workbench/solvers/solvertest"
)

// TestContract holds the programs that are installed to the contract.
func TestContract(t *testing.T) {
	for _, d := range Dialects() {
		e := Engine{Dialect: d, Program: d.Program}
		t.Run(d.Name, func(t *testing.T) {
			if err := e.Available(); err != nil {
				t.Skip(err)
			}
			t.Parallel()
			solvertest.Run(t, solvers.New(e), knownBad[d.Name])
		})
	}
}

// knownBad are cases that a program fails.
var knownBad = map[string]map[string]string{
	"highs-command": {
		"limit/cancelled": "highs dies of an interrupt without an answer",
	},
	"glpk": {
		"limit/cancelled":                "glpsol dies of an interrupt without an answer",
		"golden/switch with M=1e7":       "its tolerance times 1e7",
		"golden/weights that nearly fit": "takes a side for one unit in 1e6 more",
	},
}
