package plan

import (
	"cmp"
	"slices"
)

// Assumptions of bounds on pipelines: which plans they bind.
const (
	OnePeriodic          = "1-periodic pattern"
	TwoPeriodic          = "2-periodic pattern"
	ThreePeriodic        = "3-periodic pattern"
	ContiguousAllocation = "contiguous allocation"
)

// MostPeriodic is the largest k of an assumption of patterns.
const MostPeriodic = 3

// Periodic is the assumption of k-periodic patterns, k from 1 to [MostPeriodic].
func Periodic(k int) string {
	return [MostPeriodic + 1]string{1: OnePeriodic, 2: TwoPeriodic, 3: ThreePeriodic}[k]
}

// Meets reports whether p is one of the plans that a bound under an assumption
// binds; a pattern that repeats after one mini-batch does so after every k. Of an assumption that is not one of the above, known is false.
func (p *Plan) Meets(assumption string) (meets, known bool) {
	for k := 1; k <= MostPeriodic; k++ {
		if assumption == Periodic(k) {
			return k%max(1, p.K) == 0, true
		}
	}
	if assumption == ContiguousAllocation {
		return contiguous(p.Allocation), true
	}
	return false, false
}

// contiguous reports whether the layers of every processor follow each other.
// O(stages·log stages).
func contiguous(stages []Stage) bool {
	stages = slices.SortedFunc(slices.Values(stages), func(a, b Stage) int { return cmp.Compare(a.From, b.From) })
	seen := make(map[int]bool, len(stages))
	for k, s := range stages {
		if seen[s.Processor] && stages[k-1].Processor != s.Processor {
			return false
		}
		seen[s.Processor] = true
	}
	return true
}
