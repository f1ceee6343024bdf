//go:build cgo && !nohighs

package highs

import (
	"testing"

	"workbench/solvers"
)

// TestClaims goes through every model status and all that it depends on.
func TestClaims(t *testing.T) {
	type outcome struct {
		status solvers.Status
		stop   solvers.Stop
	}
	early := func(stop solvers.Stop) [3]outcome {
		return [3]outcome{{solvers.NoSolution, stop}, {solvers.NoSolution, stop}, {solvers.Feasible, stop}}
	}
	always := func(s solvers.Status) [3]outcome { return [3]outcome{{status: s}, {status: s}, {status: s}} }
	iou, unbounded := outcome{status: solvers.InfeasibleOrUnbounded}, outcome{status: solvers.Unbounded}
	numerical, imprecise := outcome{status: solvers.Numerical}, outcome{status: solvers.Imprecise}
	// Without a point, with an infeasible one, with a feasible one.
	want := map[int][3]outcome{
		4:  always(solvers.Numerical),
		7:  always(solvers.Optimal),
		8:  always(solvers.Infeasible),
		9:  always(solvers.InfeasibleOrUnbounded),
		10: {iou, iou, unbounded},
		11: early(solvers.Objective),
		12: early(solvers.Objective),
		13: early(solvers.Time),
		14: early(solvers.Iterations),
		15: {numerical, imprecise, imprecise},
		16: early(solvers.Solutions),
		17: early(solvers.Cancelled),
		18: early(solvers.Memory),
		19: early(solvers.Cancelled),
	}
	if last := lastStatus(); last >= len(claims) {
		t.Errorf("HiGHS has model statuses up to %d, the table up to %d", last, len(claims)-1)
	}
	points := [3]facts{{nodeLimit: -1}, {point: true, nodeLimit: -1}, {point: true, feasible: true, nodeLimit: -1}}
	for code := -1; code <= len(claims); code++ {
		for i, f := range points {
			c, ok := claimOf(code, f)
			w, wantOK := want[code]
			if ok != wantOK {
				t.Errorf("status %d tells something: %t, want %t", code, ok, wantOK)
				continue
			}
			if got := (outcome{c.status, c.stop}); ok && got != w[i] {
				t.Errorf("status %d, %+v: %v, want %v", code, f, got, w[i])
			}
		}
	}
	for _, test := range []struct {
		nodes, limit int64
		want         solvers.Stop
	}{{5, -1, solvers.Solutions}, {5, 6, solvers.Solutions}, {5, 5, solvers.Nodes}, {0, 0, solvers.Nodes}} {
		if c, _ := claimOf(16, facts{nodes: test.nodes, nodeLimit: test.limit}); c.stop != test.want {
			t.Errorf("solution limit after %d of %d nodes: %v, want %v", test.nodes, test.limit, c.stop, test.want)
		}
	}
}
