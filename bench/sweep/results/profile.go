package results

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Steps is an increasing step function: Y[i] from X[i] to X[i+1]; 0 before X[0].
type Steps struct {
	Label string
	X, Y  []float64
}

// profile returns the performance profiles of E. Dolan and J. Moré, Benchmarking
// optimization software with performance profiles, Mathematical Programming 91
// (2002): with t_{p,s} ≥ 0 what solver s needs for problem p, +Inf if it fails,
//
//	r_{p,s} = t_{p,s} / min_s t_{p,s},   ρ_s(τ) = |{p : r_{p,s} ≤ τ}| / n_p.
//
// values[s][p] are the t; NaN is a problem that is none of the solver's, whose n_p
// is that much smaller. A problem on which all fail is one on which nobody gets a
// point; where the least t is 0, so is that of all who get one at τ = 1, and there
// is no τ for the others. Ratios within rounding of 1 are 1.
// O(solvers·problems·log problems).
func profile(values [][]float64) (functions []Steps) {
	if len(values) == 0 {
		return nil
	}
	least := make([]float64, len(values[0]))
	for p := range least {
		least[p] = math.Inf(1)
		for _, v := range values {
			if !math.IsNaN(v[p]) {
				least[p] = min(least[p], v[p])
			}
		}
	}
	for _, v := range values {
		var ratios []float64
		all := len(v)
		for p := range v {
			switch r := v[p] / least[p]; {
			case math.IsNaN(v[p]):
				all--
			case math.IsInf(v[p], 1):
			case v[p] == least[p] || r <= 1+equal:
				ratios = append(ratios, 1)
			case !math.IsInf(r, 1):
				ratios = append(ratios, r)
			}
		}
		functions = append(functions, distribution(ratios, all))
	}
	return functions
}

// distribution returns the share of all that have a value of at most x.
// O(n log n).
func distribution(values []float64, all int) (f Steps) {
	slices.Sort(values)
	for i, x := range values {
		y := float64(i+1) / float64(all)
		if n := len(f.X); n > 0 && f.X[n-1] == x {
			f.Y[n-1] = y
			continue
		}
		f.X, f.Y = append(f.X, x), append(f.Y, y)
	}
	return f
}

// planners are the methods that make plans.
func (p *Problem) planners() (list []*Method) {
	for _, m := range p.Methods {
		if !m.OnlyBounds() {
			list = append(list, m)
		}
	}
	return list
}

// curve is the name of a method's curve: with the number of cases, if it was not to
// do all.
func (p *Problem) curve(m *Method) string {
	if m.Cases == len(p.Cases) {
		return m.Label
	}
	return fmt.Sprintf("%s (%d of %d)", m.Label, m.Cases, len(p.Cases))
}

// GapDistribution returns of each method the share of its cases on which it has
// a plan with a gap of at most x percent.
func (p *Problem) GapDistribution() []Steps { return p.gaps(p.planners()) }

func (p *Problem) gaps(methods []*Method) (functions []Steps) {
	for _, m := range methods {
		f := distribution(percents(m.Gaps), m.Cases)
		f.Label = p.curve(m)
		functions = append(functions, f)
	}
	return functions
}

// ObjectiveProfile returns the performance profiles of the objectives.
func (p *Problem) ObjectiveProfile() []Steps {
	return p.named(func(m *Method) []float64 { return m.objectives })
}

// TimeProfile returns the performance profiles of the times to a plan within 1 %
// of the best.
func (p *Problem) TimeProfile() []Steps {
	return p.named(func(m *Method) []float64 { return m.times })
}

func (p *Problem) named(of func(*Method) []float64) []Steps {
	var values [][]float64
	for _, m := range p.planners() {
		values = append(values, of(m))
	}
	functions := profile(values)
	for k, m := range p.planners() {
		functions[k].Label = p.curve(m)
	}
	return functions
}

// Tradeoff is the objective over the memory limit, all else the same.
type Tradeoff struct {
	Name  string
	Cases []*Case // by memory
}

// tradeoffs finds the cases that differ in memory only, which comes last in their order.
func (p *Problem) tradeoffs() {
	for from, to := 0, 0; from < len(p.Cases); from = to {
		first := p.Cases[from].Key
		for to = from; to < len(p.Cases); to++ {
			key := p.Cases[to].Key
			if key.Memory = first.Memory; key != first {
				break
			}
		}
		if to-from > 1 {
			name := p.Cases[from].Instance + strings.TrimPrefix(Limits(&first), Memory(&first))
			p.Tradeoffs = append(p.Tradeoffs, &Tradeoff{name, p.Cases[from:to]})
		}
	}
}

// bound returns the best bound of each case of a trade-off; more memory never
// makes the optimum worse, so that a bound holds for less memory, too. NaN: none.
func (t *Tradeoff) bound() []float64 {
	y := make([]float64, len(t.Cases))
	best := math.NaN()
	for k := len(t.Cases) - 1; k >= 0; k-- {
		if c := t.Cases[k]; c.Bound != nil && !(c.Bound.Result.Bound.Value <= best) {
			best = c.Bound.Result.Bound.Value
		}
		y[k] = best
	}
	return y
}
