package platform_test

import (
	"math"
	"testing"

	"workbench/model/platform"
)

func TestGap(t *testing.T) {
	inf := math.Inf(1)
	for _, x := range []struct {
		objective, bound, excess, gap float64
		closed                        bool // within a hundredth
	}{
		{4, 3, 0.25, 0.25, false},
		{100, 99, 0.01, 0.01, true},
		{3, 4, -1. / 3, 0, true},
		{0, 0, 0, 0, true},
		{4, -inf, inf, inf, false},
		{-4, -5, 0.25, 0.25, false},
	} {
		e, g, c := platform.Excess(x.objective, x.bound), platform.Gap(x.objective, x.bound), platform.Closed(x.objective, x.bound, 0.01)
		if e != x.excess || g != x.gap || c != x.closed {
			t.Errorf("%v and bound %v: excess %v, gap %v, closed %v; want %+v", x.objective, x.bound, e, g, c, x)
		}
	}
	if platform.Closed(inf, 3, 0.01) {
		t.Error("no plan meets a bound")
	}
}
