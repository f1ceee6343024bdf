package plan

import (
	"cmp"
	"slices"
)

// Assumptions of bounds on pipelines: which plans they bind.
const (
	OnePeriodic          = "1-periodic pattern"
	ContiguousAllocation = "contiguous allocation"
)

// Meets reports whether p is one of the plans that a bound under an assumption
// binds. Of an assumption that is not one of the above, known is false.
func (p *Plan) Meets(assumption string) (meets, known bool) {
	switch assumption {
	case OnePeriodic:
		return p.K <= 1, true
	case ContiguousAllocation:
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
