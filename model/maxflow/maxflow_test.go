package maxflow

import (
	"math"
	"math/rand/v2"
	"testing"
)

// A minimum cut against all subsets.
func TestMinimumCuts(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		n := 2 + r.IntN(7)
		var f Network
		f.Reset(n)
		type arc struct {
			from, to int
			cap      int64
		}
		var arcs []arc
		for range r.IntN(3 * n) {
			a := arc{r.IntN(n), r.IntN(n), int64(r.IntN(5))}
			arcs = append(arcs, a)
			f.Arc(a.from, a.to, a.cap)
		}
		across := func(side func(int) bool) int64 {
			sum := int64(0)
			for _, a := range arcs {
				if side(a.from) && !side(a.to) {
					sum += a.cap
				}
			}
			return sum
		}
		least := int64(math.MaxInt64)
		for set := range 1 << n {
			if set&1 == 1 && set&2 == 0 {
				least = min(least, across(func(i int) bool { return set>>i&1 == 1 }))
			}
		}
		f.Restore()
		got := f.Run()
		side := f.SourceSide()
		if got != least || across(func(i int) bool { return side[i] }) != least {
			t.Fatalf("flow %v, cut %v, least cut %v", got, across(func(i int) bool { return side[i] }), least)
		}
	}
}
