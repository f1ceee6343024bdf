//go:build cgo && unix

package lpsolve

import (
	"testing"

	"workbench/solvers"
)

// TestClaims goes through every code and every reason to end a search.
func TestClaims(t *testing.T) {
	type outcome struct {
		status solvers.Status
		stop   solvers.Stop
	}
	reasons := []stopReason{notStopped, stoppedCancelled, stoppedTime, stoppedNodes, stoppedClosed}
	stops := []solvers.Stop{solvers.NotStopped, solvers.Cancelled, solvers.Time, solvers.Nodes, solvers.Unknown}
	// stopped is what a code means, and what after a reason to stop.
	stopped := func(unasked outcome, after solvers.Status) []outcome {
		all := []outcome{unasked}
		for _, stop := range stops[1:] {
			all = append(all, outcome{after, stop})
		}
		return all
	}
	always := func(o outcome) []outcome { return []outcome{o, o, o, o, o} }
	want := map[int][]outcome{
		-2: always(outcome{solvers.NoSolution, solvers.Memory}),
		0:  stopped(outcome{solvers.Optimal, solvers.NotStopped}, solvers.Feasible),
		1:  stopped(outcome{solvers.Feasible, solvers.Unknown}, solvers.Feasible),
		2:  stopped(outcome{solvers.Infeasible, solvers.NotStopped}, solvers.NoSolution),
		3:  stopped(outcome{solvers.Unbounded, solvers.NotStopped}, solvers.NoSolution),
		4:  stopped(outcome{solvers.Imprecise, solvers.NotStopped}, solvers.Feasible),
		5:  always(outcome{solvers.Numerical, solvers.NotStopped}),
		6:  stopped(outcome{solvers.NoSolution, solvers.Unknown}, solvers.NoSolution),
		7:  stopped(outcome{solvers.NoSolution, solvers.Time}, solvers.NoSolution),
		25: stopped(outcome{solvers.Imprecise, solvers.NotStopped}, solvers.Feasible),
	}
	for code := -10; code <= 30; code++ {
		for i, reason := range reasons {
			c, ok := claimOf(code, reason)
			w, wantOK := want[code]
			if ok != wantOK {
				t.Errorf("code %d tells something: %t, want %t", code, ok, wantOK)
				continue
			}
			if got := (outcome{c.status, c.stop}); ok && got != w[i] {
				t.Errorf("code %d after reason %d: %v, want %v", code, reason, got, w[i])
			}
		}
	}
}
