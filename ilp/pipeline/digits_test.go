package pipeline

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/milp"
	"workbench/model/testfile"
)

// Digits say what the row of memory says, to the unit: of integers that keep it the carries are a
// solution, of others no carries are. Sizes are near multiples of the base, some negative, and the limit is a sum of them
// or a unit beside one.
func TestDigitsAreExact(t *testing.T) {
	kept, broken := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		const G = 1 << digit
		unit := rapid.SampledFrom([]float64{0x1p-5, 1, 0x1p4, 0x1p5, 0x1p17, 0x1p18, 0x1p19, 0x1p32}).Draw(t, "unit")
		in := &pipelineInstance{size: unit}
		most := scale * unit // about the memory
		size := rapid.Custom(func(t *rapid.T) float64 {
			x := rapid.SampledFrom([]float64{0, 1, G, G / 2, G * G, most, most / 2, most / 3, most / G}).Draw(t, "about")
			x = min(most, max(0, math.Floor(x)+float64(rapid.IntRange(-1, 1).Draw(t, "more"))))
			if rapid.IntRange(0, 3).Draw(t, "sign") == 0 {
				return -x
			}
			return x
		})
		m := milp.New("digits")
		g := m.Group("memory", "test")
		count := rapid.IntRange(1, 4).Draw(t, "columns")
		tops := make([]int, count)
		sizes := make([]float64, count)
		constant := size.Draw(t, "constant")
		limit := constant + float64(rapid.IntRange(-1, 1).Draw(t, "beside"))
		e := new(milp.Expr).AddConst(constant / unit)
		for k := range tops {
			tops[k] = rapid.IntRange(1, 3).Draw(t, "top")
			sizes[k] = size.Draw(t, "size")
			limit += sizes[k] * float64(rapid.IntRange(0, tops[k]).Draw(t, "there"))
			e.Add(sizes[k]/unit, m.Var(fmt.Sprint(k), milp.Integer, 0, float64(tops[k])))
		}
		carries := in.withinMemory(m, g, e, limit/unit)
		holds := func(x []float64) bool { return len(m.Violations(x, 1e-9)) == 0 }
		// some tries all carries from the k-th on.
		var some func(x []float64, k int) bool
		some = func(x []float64, k int) bool {
			if k == len(carries) {
				return holds(x)
			}
			_, top := m.Bounds(carries[k].u)
			for c := 0.0; c <= min(top, 40); c++ {
				if x[carries[k].u.Index()] = c; some(x, k+1) {
					return true
				}
			}
			return false
		}
		x := make([]float64, m.NumCols())
		var try func(k int, sum float64)
		try = func(k int, sum float64) {
			if k < count {
				for q := range tops[k] + 1 {
					x[k] = float64(q)
					try(k+1, sum+sizes[k]*float64(q))
				}
				return
			}
			if sum > limit {
				broken++
				if some(x, 0) {
					t.Fatalf("%v of %v and %v are more than %v, and a solution with carries %v", x[:count], sizes, constant, limit, x[count:])
				}
				return
			}
			kept++
			if setCarries(m, carries, x); !holds(x) {
				t.Fatalf("%v of %v and %v fit in %v, and with carries %v are no solution: %v", x[:count], sizes, constant, limit, x[count:],
					m.Violations(x, 1e-9)[0])
			}
		}
		try(0, constant)
	})
	if kept == 0 || broken == 0 {
		t.Errorf("%d sums fit, %d do not", kept, broken)
	}
}
