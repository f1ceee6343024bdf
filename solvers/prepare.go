package solvers

import (
	"fmt"
	"math"

	"workbench/model/milp"
)

// Magnitudes at which the libraries start to reinterpret numbers: HiGHS drops entries up to small and rejects
// those above large; HiGHS treats 1e20, lp_solve 1e30 as infinite.
const (
	small    = 1e-9
	large    = 1e15
	infinite = 1e20
)

// validate returns an error for options that are out of range for a model of n columns.
func (o *Options) validate(n int) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrOption}, args...)...)
	}
	badGap := func(g Opt[float64]) bool { return g.Set && !(g.Value >= 0 && !math.IsInf(g.Value, 1)) }
	switch {
	case o.Time < 0:
		return bad("Time %v is negative", o.Time)
	case badGap(o.RelGap):
		return bad("RelGap %v is not a fraction ≥ 0", o.RelGap.Value)
	case badGap(o.AbsGap):
		return bad("AbsGap %v is not a number ≥ 0", o.AbsGap.Value)
	case o.Threads.Set && o.Threads.Value < 1:
		return bad("Threads %d is below 1", o.Threads.Value)
	case o.Seed.Set && o.Seed.Value < 0:
		return bad("Seed %d is negative", o.Seed.Value)
	case o.Nodes.Set && o.Nodes.Value < 0:
		return bad("Nodes %d is negative", o.Nodes.Value)
	case o.Memory < 0:
		return bad("Memory %d is negative", o.Memory)
	case o.Start != nil && len(o.Start) != n:
		return bad("Start has %d values for %d columns", len(o.Start), n)
	}
	return nil
}

// needs returns the features that o requires. An option set to its neutral value requires none.
func (o *Options) needs() Features {
	var f Features
	ask := func(asked bool, what Features) {
		if asked {
			f |= what
		}
	}
	ask(o.RelGap.Value != 0, CanRelGap)
	ask(o.AbsGap.Value != 0, CanAbsGap)
	ask(o.Threads.Value > 1, CanThreads)
	ask(o.Seed.Value != 0, CanSeed)
	ask(o.Nodes.Set, CanNodes)
	ask(o.Start != nil, CanStart)
	ask(o.OnProgress != nil, CanProgress)
	ask(o.Log != nil, CanLog)
	ask(len(o.Raw) != 0, CanRaw)
	ask(o.Memory != 0, CanMemory)
	return f
}

// problem converts model and options into the input of an engine, except for Time and the two sinks. O(columns +
// nonzeros). d is not changed.
func problem(m *milp.Model, d *milp.Data, o *Options) (*Problem, error) {
	p := &Problem{
		Model:   *d,
		RelGap:  o.RelGap.Value,
		AbsGap:  o.AbsGap.Value,
		Threads: max(1, o.Threads.Value),
		Seed:    o.Seed.Value,
		Nodes:   -1,
		Memory:  o.Memory,
		Raw:     o.Raw,
	}
	if o.Nodes.Set {
		p.Nodes = o.Nodes.Value
	}
	q := &p.Model
	var err error
	if q.Lower, q.Upper, err = normalise(func(j int) string { return m.Col(j).Name() }, d.Lower, d.Upper); err != nil {
		return nil, err
	}
	if q.RowLower, q.RowUpper, err = normalise(func(i int) string { return m.Row(i).Name() }, d.RowLower, d.RowUpper); err != nil {
		return nil, err
	}
	for j, integer := range d.Integer {
		if integer {
			// Bounds are often computed: 2.9999999999 stands for 3.
			q.Lower[j], q.Upper[j] = math.Ceil(q.Lower[j]-small)+0, math.Floor(q.Upper[j]+small) // no −0
		}
	}
	for j, c := range d.Cost {
		if math.Abs(c) >= infinite {
			return nil, fmt.Errorf("%w: cost %g of %s is infinite to the libraries: rescale the objective", ErrModel, c, m.Col(j).Name())
		}
	}
	if err := dropSmall(m, q); err != nil {
		return nil, err
	}
	p.Start = integralStart(q, o.Start)
	return p, nil
}

// normalise returns copies of the bounds in which every value from ±1e20 on is infinite.
func normalise(name func(int) string, lower, upper []float64) (lo, up []float64, err error) {
	lo, up = make([]float64, len(lower)), make([]float64, len(upper))
	for i := range lower {
		l, u := lower[i], upper[i]
		if l >= infinite || u <= -infinite {
			return nil, nil, fmt.Errorf("%w: limits [%g, %g] of %s are infinite to the libraries: drop it or rescale", ErrModel, l, u, name(i))
		}
		if l <= -infinite {
			l = math.Inf(-1)
		}
		if u >= infinite {
			u = math.Inf(1)
		}
		lo[i], up[i] = l, u
	}
	return lo, up, nil
}

// dropSmall removes the entries of magnitude below 1e-9, which libraries drop silently, if they cannot move their
// row by as much. It rejects the model if one can. The matrix is copied only if there are any.
func dropSmall(m *milp.Model, d *milp.Data) error {
	tiny := 0
	for i := range d.RowLower {
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			a, j := math.Abs(d.Val[k]), d.Col[k]
			if a > large {
				return fmt.Errorf("%w: coefficient %g of %s in %s is above %g, the maximum of the libraries: rescale them",
					ErrModel, d.Val[k], m.Col(int(j)).Name(), m.Row(i).Name(), large)
			}
			if a >= small {
				continue
			}
			tiny++
			if a*math.Max(math.Abs(d.Lower[j]), math.Abs(d.Upper[j])) > small {
				return fmt.Errorf("%w: coefficient %g of %s in %s is below %g, which libraries drop, but matters at the variable's bounds: rescale "+
					"them",
					ErrModel, d.Val[k], m.Col(int(j)).Name(), m.Row(i).Name(), small)
			}
		}
	}
	if tiny == 0 {
		return nil
	}
	start := make([]int32, 1, len(d.Start))
	col, val := make([]int32, 0, len(d.Col)-tiny), make([]float64, 0, len(d.Val)-tiny)
	for i := range d.RowLower {
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			if math.Abs(d.Val[k]) >= small {
				col, val = append(col, d.Col[k]), append(val, d.Val[k])
			}
		}
		start = append(start, int32(len(col)))
	}
	d.Start, d.Col, d.Val = start, col, val
	return nil
}

// integralStart returns the values of start in integer columns, rounded, and NaN elsewhere. It returns nil if
// there are none or if one is fractional or out of bounds, since libraries treat those differently.
func integralStart(d *milp.Data, start []float64) []float64 {
	if start == nil {
		return nil
	}
	given := 0
	out := make([]float64, len(start))
	for j, v := range start {
		out[j] = math.NaN()
		if !d.Integer[j] || math.IsNaN(v) {
			continue
		}
		r := math.Round(v)
		// Negated, so that an infinite v fails.
		if !(math.Abs(v-r) <= integrality) || r < d.Lower[j] || r > d.Upper[j] {
			return nil
		}
		out[j] = r
		given++
	}
	if given == 0 {
		return nil
	}
	return out
}

// contradiction returns why d is infeasible if a single column or row shows it, else "".
func contradiction(m *milp.Model, d *milp.Data) string {
	for j := range d.Lower {
		if d.Lower[j] > d.Upper[j] {
			if d.Integer[j] {
				return fmt.Sprintf("no integer lies within the bounds of %s", m.Col(j).Name())
			}
			return fmt.Sprintf("bounds of %s are [%g, %g]", m.Col(j).Name(), d.Lower[j], d.Upper[j])
		}
	}
	for i := range d.RowLower {
		lo, up := d.RowLower[i], d.RowUpper[i]
		switch {
		case lo > up:
			return fmt.Sprintf("sides of %s are [%g, %g]", m.Row(i).Name(), lo, up)
		case d.Start[i] == d.Start[i+1] && (lo > feasibility || up < -feasibility):
			return fmt.Sprintf("%s has no entries and sides [%g, %g]", m.Row(i).Name(), lo, up)
		}
	}
	return ""
}
