package pipeline

import "workbench/model/plan"

// FewTurns is the maximum number of mini-batches a period of replicated stages where many patterns
// are built.
const FewTurns = 240

// mostTurns and mostRuns limit the mini-batches of a period and its layer operations: one or two
// seconds, and a file of about 10 MiB.
const (
	mostTurns = 2000
	mostRuns  = 1 << 17
)

// MostTurns returns the maximum number of mini-batches a period of replicated stages of a chain.
// The number is the least common multiple of the numbers of replicas.
func (in *Instance) MostTurns() int { return max(FewTurns, min(mostTurns, mostRuns/(2*in.N))) }

// Alike returns the pattern in which each mini-batch has the given starts, one period after the
// previous one. It returns nil if that needs more than most mini-batches.
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

// Meeting returns the number of mini-batches after which item i repeats: the replicas of a stage,
// or for a link the least common multiple of those of both stages.
func Meeting(items []Item, i int) int {
	if items[i].Cut {
		return Multiple(Meeting(items, i-1), Meeting(items, i+1))
	}
	return max(1, items[i].Copies)
}

// Multiple returns the least common multiple of two numbers.
func Multiple(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
