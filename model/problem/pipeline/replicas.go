package pipeline

import "workbench/model/plan"

// FewTurns is how many mini-batches a period of replicated stages has at most where many
// patterns are made.
const FewTurns = 240

// A pattern of more than [FewTurns] mini-batches has at most so many, and so many operations
// of layers: a second or two, and a file of some ten MiB.
const (
	mostTurns = 2000
	mostRuns  = 1 << 17
)

// MostTurns returns how many mini-batches a period of replicated stages of a chain has at
// most: the least common multiple of the numbers of replicas.
func (in *Instance) MostTurns() int { return max(FewTurns, min(mostTurns, mostRuns/(2*in.N))) }

// Alike returns the pattern in which each mini-batch runs as one that has these starts, a
// period after the one before, nil: it would be of more mini-batches than most.
func Alike(stages []plan.Stage, items []Item, f, b []float64, period float64, most int) *Pattern {
	s := &Pattern{K: 1, Stages: stages, Items: items}
	for k := range stages {
		if s.K = Multiple(s.K, stages[k].Copies()); s.K > most {
			return nil
		}
	}
	s.Period = float64(s.K) * period
	for m := range s.K {
		for i := range items {
			s.F, s.B = append(s.F, f[i]+float64(m)*period), append(s.B, b[i]+float64(m)*period)
		}
	}
	return s
}

// Meeting returns how many mini-batches take turns where item i is: on the replicas of a
// stage, or on the links between those of two, which meet in their least common multiple.
func Meeting(items []Item, i int) int {
	if items[i].Cut {
		return Multiple(Meeting(items, i-1), Meeting(items, i+1))
	}
	return max(1, items[i].Copies)
}

// Multiple is the least common one of two numbers.
func Multiple(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
