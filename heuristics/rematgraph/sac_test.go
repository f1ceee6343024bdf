package rematgraph

import (
	"math"
	"reflect"
	"testing"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/testfile"
)

// Plans by modules are plans, and none is better than the optimum, whatever outer discards.
func TestBySAC(t *testing.T) {
	r := testfile.Random(t, 8, 5)
	outer := func(b *training.Modules, _ float64) ([]float64, error) {
		discard := make([]float64, len(b.ACM))
		for i := range discard {
			if b.IA[i] < 0 || b.IA[i] > b.ACM[i] {
				t.Fatalf("%+v", b)
			}
			if b.ACM[i] > 0 && r.IntN(3) > 0 {
				discard[i] = float64(r.IntN(5)) / 4
			}
		}
		return discard, nil
	}
	neverBetter(t, r, func(v *rematgraph.View, p platform.Platform) (*plan.Plan, error) {
		return BySAC(t.Context(), "sac-ilp", v, p, outer, KnapsackGreedy)
	})
}

// twoModules is a step of modules A (f0, f1, f2) and B (f3, f4), by storage: bytes.
func twoModules() *training.Graph {
	g := &training.Graph{Name: "two modules"}
	for k, bytes := range []float64{1, 4, 2, 6, 2, 1, 2, 3, 2, 3} {
		id := []string{"f0", "f1", "f2", "f3", "f4", "l", "d2", "g2", "d1", "g1"}[k]
		g.Storages = append(g.Storages, training.Storage{ID: id, Bytes: bytes, Kind: training.Value, Result: id[0] == 'g' || id == "l"})
	}
	add := func(id, phase, layer string, time float64, reads []int, writes ...int) {
		g.Nodes = append(g.Nodes, training.Node{ID: id, Phase: phase, Layer: layer, Time: time, Reads: reads, Writes: writes})
	}
	add("F0", training.Forward, "A", 1, nil, 0)
	add("F1", training.Forward, "A", 1, []int{0}, 1)
	add("F2", training.Forward, "A", 1, []int{1}, 2)
	add("F3", training.Forward, "B", 2, []int{2}, 3)
	add("F4", training.Forward, "B", 1, []int{3}, 4)
	add("loss", training.Loss, "", 1, []int{4}, 5)
	add("B2", training.Backward, "B", 1, []int{2, 3, 5}, 6, 7)
	add("B1", training.Backward, "A", 1, []int{1, 6}, 8, 9)
	return g
}

// What sac_milp knows of a step, by hand. The curve of A goes by f1, f0, f2: 4/5 of the bytes in
// 1/3 of the time, all of them in all of it, each time at the part before. That of B is one point.
func TestModules(t *testing.T) {
	s := newSelective(view(t, twoModules()), KnapsackGreedy)
	slope := (1 - 1.0/3) / 0.8
	want := training.Modules{
		IA: []float64{0, 4, 6}, ACM: []float64{0, 5, 6}, ACT: []float64{0, 3, 3},
		AG: []float64{4, 2, 2}, TA: []float64{13, 6, 14}, TG: []float64{0, 3, 0}, M: 7,
		Slopes:     [][]float64{nil, {s.modules.Slopes[1][0]}, {0}},
		Intercepts: [][]float64{nil, {s.modules.Intercepts[1][0]}, {1}},
	}
	if !reflect.DeepEqual(s.modules, want) {
		t.Errorf("%+v, want %+v", s.modules, want)
	}
	if got, at0 := s.modules.Slopes[1][0], s.modules.Intercepts[1][0]; math.Abs(got-slope) > 1e-9 || math.Abs(at0-1.0/3+0.01*slope) > 1e-9 {
		t.Errorf("slope %v, intercept %v", got, at0)
	}
	for _, x := range []struct {
		r     []float64
		again []int
	}{{[]float64{0, 0, 0}, nil}, {[]float64{0, 1, 0}, []int{0, 1}}, {[]float64{0, 0.5, 0}, []int{1}}, {[]float64{0, 0.2, 1}, []int{1, 3}}} {
		c, err := s.partition(x.r)
		if err != nil {
			t.Fatal(err)
		}
		var again []int
		for j, is := range c.again {
			if is {
				again = append(again, j)
			}
		}
		if !reflect.DeepEqual(again, x.again) {
			t.Errorf("%v runs %v again, want %v", x.r, again, x.again)
		}
	}
}

// No breakpoint of a grid has less squares than that of two pieces.
func TestPieces(t *testing.T) {
	r := testfile.Random(t, 8, 6)
	between := 0
	for range testfile.Cases(300) {
		n := 4 + r.IntN(8)
		x, y := make([]float64, n), make([]float64, n)
		for k := 1; k < n; k++ {
			x[k], y[k] = x[k-1]+float64(1+r.IntN(20))/100, y[k-1]+float64(r.IntN(30))/100
		}
		slopes, intercepts := pieces(x, y)
		at := (intercepts[0] - intercepts[1]) / (slopes[1] - slopes[0])
		squares := func(value func(x float64) float64) (sum float64) {
			for k := range x {
				sum += (value(x[k]) - y[k]) * (value(x[k]) - y[k])
			}
			return sum
		}
		got := squares(func(x float64) float64 {
			if x < at || slopes[0] == slopes[1] {
				return slopes[0]*x + intercepts[0]
			}
			return slopes[1]*x + intercepts[1]
		})
		for k := range 100 {
			b := x[1] + (x[n-2]-x[1])*float64(k)/99
			c := hinge(x, y, b)
			if least := squares(func(x float64) float64 { return c[0] + c[1]*x + c[2]*max(0, x-b) }); least < got-1e-9 {
				t.Fatalf("%v, %v: %v squares with the pieces at %v, %v at %v", x, y, got, at, least, b)
			}
		}
		if x[0] < at && at < x[n-1] {
			between++
		}
	}
	if between < testfile.Cases(250) {
		t.Errorf("%d breakpoints are within the points", between)
	}
}
