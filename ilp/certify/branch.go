package certify

import (
	"context"
	"math"
	"slices"

	"workbench/solvers"
)

const (
	// integrality is the distance from an integer up to which a value counts as one.
	integrality = 1e-7
	// A column is tried in both directions before it is branched on, until its pseudo-costs are averages of this
	// number of observations.
	reliable = 4
	// hopeless consecutive trials without an improvement end the search for a column; trialIterations limits each
	// trial.
	hopeless        = 6
	trialIterations = 100
	// farthest is the maximum magnitude of a value at which certificates may split.
	farthest = 1 << 51
)

// The sides of a branch.
const (
	downwards = iota
	upwards
)

// pseudoCosts holds the average rise of the objective per unit by which a column was moved, downwards and upwards
// (Benichou et al., 1971).
type pseudoCosts struct {
	sum, count [2][]float64
	all, total [2]float64 // sums and counts over all columns
}

func newPseudoCosts(columns int) (p pseudoCosts) {
	for side := range 2 {
		p.sum[side], p.count[side] = make([]float64, columns), make([]float64, columns)
	}
	return p
}

// learn records that moving column j by moved raised the objective by gain.
func (p *pseudoCosts) learn(side int, j int32, moved, gain float64) {
	if moved < integrality || math.IsNaN(gain) || math.IsInf(gain, 0) {
		return
	}
	unit := math.Max(0, gain) / moved
	p.sum[side][j] += unit
	p.count[side][j]++
	p.all[side] += unit
	p.total[side]++
}

// gain returns the expected rise of the objective if column j is moved by moved.
func (p *pseudoCosts) gain(side int, j int32, moved float64) float64 {
	switch {
	case p.count[side][j] > 0:
		return moved * p.sum[side][j] / p.count[side][j]
	case p.total[side] > 0:
		return moved * p.all[side] / p.total[side]
	}
	return moved
}

// score rates a branch by the gains of both sides (Achterberg, Constraint Integer Programming, 2007, 5.2). The
// unit of gains is the distance missing to the target.
func score(down, up, missing float64) float64 {
	if math.IsInf(missing, 0) {
		missing = 1
	}
	const least = 1e-4
	return math.Max(math.Min(down/missing, 1), least) * math.Max(math.Min(up/missing, 1), least)
}

// candidate is a column to branch on.
type candidate struct {
	column   int32
	x, score float64
}

// branch returns the column of the best score and its value, or −1 if all columns are integral. Where the library
// has no solution, it returns any column that is not fixed.
func (s *search) branch(ctx context.Context, r *solvers.LPResult) (j int32, x float64, err error) {
	if r.Status != solvers.Optimal {
		for _, j := range s.whole {
			if lower, upper := s.model.Lower[j], s.model.Upper[j]; lower < upper {
				middle := math.Floor(math.Max(lower, -farthest)/2 + math.Min(upper, farthest)/2)
				if middle = math.Min(math.Max(middle, lower), upper-1); math.Abs(middle) <= farthest {
					return j, middle + 0.5, nil
				}
			}
		}
		return -1, 0, nil
	}
	candidates := s.candidates(r.X, s.target-r.Objective)
	best, tried := candidate{column: -1, score: math.Inf(-1)}, 0
	for _, c := range candidates {
		if tried < hopeless && math.Min(s.pseudo.count[downwards][c.column], s.pseudo.count[upwards][c.column]) < reliable {
			if c.score, err = s.try(ctx, c, r.Objective); err != nil {
				return -1, 0, err
			}
			tried++
		}
		if c.score > best.score {
			best, tried = c, 0
		}
	}
	return best.column, best.x, nil
}

// candidates returns the columns that are fractional in x, the most promising first.
func (s *search) candidates(x []float64, missing float64) []candidate {
	var found []candidate
	for _, j := range s.whole {
		// Libraries return values outside the box, within their tolerance.
		v := math.Min(math.Max(x[j], s.model.Lower[j]), s.model.Upper[j])
		down := v - math.Floor(v)
		if up := 1 - down; math.Min(down, up) > integrality && math.Abs(v) <= farthest {
			found = append(found, candidate{j, v, score(s.pseudo.gain(downwards, j, down), s.pseudo.gain(upwards, j, up), missing)})
		}
	}
	slices.SortStableFunc(found, func(a, b candidate) int {
		switch {
		case a.score > b.score:
			return -1
		case a.score < b.score:
			return 1
		}
		return 0
	})
	return found
}

// try solves both children of a branch, for a few iterations, and returns its score (reliability branching:
// Achterberg, Koch and Martin, 2005).
func (s *search) try(ctx context.Context, c candidate, objective float64) (float64, error) {
	at := math.Floor(c.x)
	lower, upper := s.model.Lower[c.column], s.model.Upper[c.column]
	down, err := s.trial(ctx, c.column, lower, at, objective)
	if err != nil {
		return 0, err
	}
	s.pseudo.learn(downwards, c.column, c.x-at, down)
	up, err := s.trial(ctx, c.column, at+1, upper, objective)
	if err != nil {
		return 0, err
	}
	s.pseudo.learn(upwards, c.column, at+1-c.x, up)
	return score(down, up, s.target-objective), s.lp.SetBounds([]int32{c.column}, []float64{lower}, []float64{upper})
}

// trial returns the rise of the objective in a child, up to the target if the child is infeasible.
func (s *search) trial(ctx context.Context, j int32, lower, upper, objective float64) (gain float64, err error) {
	if err := s.lp.SetBounds([]int32{j}, []float64{lower}, []float64{upper}); err != nil {
		return 0, err
	}
	r, err := s.lp.Solve(ctx, solvers.LPOptions{Iterations: trialIterations, Cutoff: s.cutoff()})
	if err != nil {
		return 0, err
	}
	s.iterations += r.Iterations
	most := math.Abs(objective)
	if !math.IsInf(s.target, 0) {
		most = s.target - objective
	}
	switch {
	case r.Status == solvers.Infeasible:
		return most, nil
	case math.IsNaN(r.Objective):
		return 0, nil
	}
	return math.Min(math.Max(0, r.Objective-objective), most), nil
}
