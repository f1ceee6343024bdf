package swap

import (
	"testing"

	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/swap"
	"workbench/model/zoo"
)

// [003] §2 prints that LMS swaps out what is used again within the threshold, and
// then that a larger threshold may take more memory than there is. With the rule
// as printed it takes less; with that of Le et al., more.
func TestLMSPrintedIsReversed(t *testing.T) {
	s, err := zoo.LoadFunctions("zoo:resnet50")
	if err != nil {
		t.Fatal(err)
	}
	_, high, err := view.Range(s)
	if err != nil {
		t.Fatal(err)
	}
	p := platform.Platform{Memory: 2 * high, Bandwidth: 12e9}
	for _, x := range []struct {
		name string
		run  func(threshold int) (*plan.Plan, error)
		sign float64
	}{
		{"Le et al.", func(x int) (*plan.Plan, error) { return LMS(t.Context(), s, p, x, 1) }, 1},
		{"printed", func(x int) (*plan.Plan, error) { return LMSPrinted(t.Context(), s, p, x, 1) }, -1},
	} {
		var first, last float64
		for threshold := 0; threshold <= s.Len(); threshold += 25 {
			got, err := x.run(threshold)
			if err != nil {
				t.Fatal(err)
			}
			peak := verified(t, s, got).PeakMemory
			t.Logf("%s, threshold %d: %.3g GB", x.name, threshold, peak/1e9)
			if last > 0 && x.sign*(peak-last) < -1e-6*high {
				t.Errorf("%s: %g bytes with threshold %d, %g with less", x.name, peak, threshold, last)
			}
			if first == 0 {
				first = peak
			}
			last = peak
		}
		if x.sign*(last-first) < high/10 {
			t.Errorf("%s: from %g to %g bytes", x.name, first, last)
		}
	}
}
