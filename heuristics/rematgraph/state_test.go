package rematgraph

import (
	"math"
	"slices"
	"testing"

	"workbench/model/plan"
	"workbench/model/problem/rematgraph"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// After any moves the schedule is complete, its times and peaks are those of
// package stages, and undo restores all of it.
func TestMoves(t *testing.T) {
	r := testfile.Random(t, 1, 1)
	made := 0
	for k := range 300 {
		var g plan.Instance = random.Graph(r, 2+r.IntN(40))
		if k%2 == 0 {
			g = random.Training(r, 2+r.IntN(40))
		}
		v, err := rematgraph.New(g)
		if err != nil {
			t.Fatal(err)
		}
		const limit = 10
		x := newState(v.StoreAll(), everywhere(v, limit))
		var moves []move
		for range 60 {
			moves = x.relieving(moves[:0], r.IntN(v.N))
			if len(moves) == 0 {
				continue
			}
			made++
			before := x.s.Clone()
			total, excess, mark := x.total, x.excess, x.mark()
			peaks := slices.Clone(x.peak)
			m := moves[r.IntN(len(moves))]
			x.apply(m)
			anew := x.s.Clone()
			anew.Complete()
			if !slices.Equal(x.s.R, anew.R) || !slices.Equal(x.s.S, anew.S) {
				t.Fatalf("%+v leaves the schedule incomplete", m)
			}
			y := newState(anew, everywhere(v, limit))
			if math.Abs(y.total-x.total) > 1e-9 || math.Abs(y.excess-x.excess) > 1e-9 || !slices.Equal(y.peak, x.peak) {
				t.Fatalf("%+v: time %v, excess %v, peaks %v; they are %v, %v, %v", m, x.total, x.excess, x.peak, y.total, y.excess, y.peak)
			}
			if r.IntN(2) == 0 {
				x.undo(mark)
				if !slices.Equal(x.s.R, before.R) || !slices.Equal(x.s.S, before.S) || x.total != total || x.excess != excess ||
					!slices.Equal(x.peak, peaks) {
					t.Fatalf("%+v is not taken back", m)
				}
			}
		}
	}
	if made < 10_000 {
		t.Errorf("only %d moves were made", made)
	}
}
