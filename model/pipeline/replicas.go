package pipeline

import "workbench/model/plan"

// MostTurns is how many mini-batches a period of replicated stages has at most: the least
// common multiple of the numbers of replicas.
const MostTurns = 240

// Alike returns the pattern in which each mini-batch runs as one that has these starts, a
// period after the one before, nil: it would be of too many mini-batches.
func Alike(stages []plan.Stage, items []Item, f, b []float64, period float64) *Pattern {
	s := &Pattern{K: 1, Stages: stages, Items: items}
	for k := range stages {
		s.K = multiple(s.K, stages[k].Copies())
	}
	if s.K > MostTurns {
		return nil
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
		return multiple(Meeting(items, i-1), Meeting(items, i+1))
	}
	return max(1, items[i].Copies)
}

// multiple is the least common one.
func multiple(a, b int) int {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}
