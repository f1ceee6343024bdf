package results

import (
	"fmt"
	"slices"

	"workbench/bench/sweep"
)

// Spread is how far apart the times of one method are on one case, over solver seeds
// and repetitions: performance variability (Lodi and Tramontani, Performance variability
// in mixed-integer programming, 2013). Each case has a ratio, its longest time over its
// shortest, a millisecond added to both; one that was stopped counts with the time at
// which it was, so that a ratio may be larger than is seen.
type Spread struct {
	Cases  int     `json:"cases"`  // with several runs
	Median float64 `json:"median"` // of the ratios of the cases
	Q3     float64 `json:"q3"`
	Most   float64 `json:"most"`
}

// spreadShift is added to times in seconds: below it the clock is what differs.
const spreadShift = 1e-3

// SpreadOf returns the spread of runs of one method; nil where no case has several.
// O(n log n).
func SpreadOf(list []*sweep.Row) *Spread {
	times := map[sweep.Task][]float64{}
	for _, r := range list {
		c := CaseOf(&r.Task)
		times[c] = append(times[c], Time(r))
	}
	var ratios []float64
	for _, t := range times {
		if len(t) > 1 {
			ratios = append(ratios, (slices.Max(t)+spreadShift)/(slices.Min(t)+spreadShift))
		}
	}
	if len(ratios) == 0 {
		return nil
	}
	slices.Sort(ratios)
	return &Spread{len(ratios), quantile(ratios, 0.5), quantile(ratios, 0.75), ratios[len(ratios)-1]}
}

// String writes the ratio of the median case and, in brackets, of the worst: ×1.31 (×4.2).
func (s *Spread) String() string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("×%.3g (×%.3g)", s.Median, s.Most)
}
