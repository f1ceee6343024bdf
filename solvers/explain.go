package solvers

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/milp"
)

// Explanation describes why a model is infeasible, and which changes make it feasible.
type Explanation struct {
	// Status is Infeasible if that is proven, Feasible if the model has a solution, NoSolution if it could not be
	// decided within the limits. The other fields apply to Infeasible.
	Status Status
	// Conflict is a set of limits that cannot hold together, given the bounds and integrality of the columns. It
	// is Minimal only if every probe was decided within its limits. Its Bounds are set where bound propagation
	// finds them.
	Conflict *milp.Conflict
	// By is the source of the proof: "bounds propagation" or a backend's name.
	By string
	// Relief is a minimum violation of rows that makes the model feasible, by index; each row is measured by its
	// largest coefficient. Least is false if minimality is not proven. Relief is empty if none was found.
	Relief []Relief
	Least  bool
	// Probes is the number of solves.
	Probes int
}

// Relief is the amount by which a side of a row must be relaxed.
type Relief struct {
	Side   milp.Limit
	Amount float64 // > 0, in units of the row
}

// propagationRounds limits Explain's passes over the rows. Chains of implications are rarely longer, and slowly
// converging bounds prove nothing.
const propagationRounds = 20

// Explain determines why m is infeasible, in three steps of rising cost. Bound propagation takes no solve and
// finds most mistakes. An elastic model measures by how much rows must be relaxed. A deletion filter (Chinneck and
// Dravnieks 1991) removes groups of rows, then rows, then sides, while the rest stays infeasible. Any backend will
// do.
//
// Of o, each probe uses the options that concern the library: Time, Threads, Seed, Memory and Raw. Set Time: a
// probe that is not decided within it keeps what it was about to remove, and the conflict is then not Minimal.
// When ctx ends, Explain returns the results so far.
func Explain(ctx context.Context, b Backend, m *milp.Model, o Options) (*Explanation, error) {
	if m == nil {
		return nil, fmt.Errorf("%w: there is none", ErrModel)
	}
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrModel, err)
	}
	x := &explainer{
		backend: b, m: m, data: m.Data(), decided: true,
		options: Options{Time: o.Time, Threads: o.Threads, Seed: o.Seed, Memory: o.Memory, Raw: o.Raw},
	}
	_, _, c := m.Propagate(propagationRounds)
	if c != nil && len(c.Rows) == 0 {
		// The bounds of a column cross: no row matters.
		return &Explanation{Status: Infeasible, Conflict: c, By: "bounds propagation"}, nil
	}
	e := &Explanation{By: b.Name()}
	var err error
	if e.Status, err = x.prove(ctx, c, e); err != nil || e.Status != Infeasible {
		e.Probes = x.probes
		return e, err
	}
	if c == nil || !c.Minimal {
		if err := x.filter(ctx, c, e.Relief); err != nil {
			return nil, err
		}
		c = x.conflict()
	}
	e.Conflict, e.Probes = c, x.probes
	return e, nil
}

// explainer is the state of one Explain.
type explainer struct {
	backend Backend
	m       *milp.Model
	data    milp.Data
	options Options
	probes  int

	keep    [2][]bool // by side and row: in the conflict so far
	decided bool      // no probe was left undecided
}

// prove sets the relief and returns whether m is infeasible; c, if not nil, has proven that already.
func (x *explainer) prove(ctx context.Context, c *milp.Conflict, e *Explanation) (Status, error) {
	status := Infeasible
	if c != nil {
		e.By = "bounds propagation"
	} else {
		r, err := x.solve(ctx, feasibilityOf(x.data))
		if err != nil {
			return 0, err
		}
		switch _, ok := r.Solution(); {
		case ok || r.Status == Unbounded:
			return Feasible, nil
		case r.Status != Infeasible:
			status = NoSolution
		}
	}
	bound, err := x.relieve(ctx, e)
	if err != nil {
		return 0, err
	}
	// The violation exceeds the tolerance, so that the elastic bound is a proof.
	if bound > 1e-5 {
		status = Infeasible
	}
	return status, nil
}

// feasibilityOf returns d without an objective.
func feasibilityOf(d milp.Data) *milp.Model {
	d.Cost, d.Offset, d.Sense = make([]float64, len(d.Cost)), 0, milp.Minimize
	return milp.FromData(d)
}

func (x *explainer) solve(ctx context.Context, m *milp.Model) (*Result, error) {
	x.probes++
	r, err := x.backend.Solve(ctx, m, x.options)
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return r, nil
}

// relieve solves the elastic model: min Σ slack_i / max_j |a_ij|. It returns the proven bound on its optimum.
func (x *explainer) relieve(ctx context.Context, e *Explanation) (bound float64, err error) {
	elastic, slacks := x.m.Elastic(func(row int) float64 {
		largest := 0.
		for _, a := range x.m.Row(row).Val {
			largest = math.Max(largest, math.Abs(a))
		}
		if largest == 0 {
			return 1
		}
		return 1 / largest
	})
	r, err := x.solve(ctx, elastic)
	if err != nil {
		return 0, err
	}
	v, ok := r.Solution()
	if !ok {
		return r.Bound, nil
	}
	e.Least = r.Status == Optimal
	for _, s := range slacks {
		if amount := v[s.Var.Index()]; amount > feasibility {
			e.Relief = append(e.Relief, Relief{s.Row, amount})
		}
	}
	return r.Bound, nil
}

// filter removes what the infeasibility does not need, from the rows of c if it is not nil, else from all rows.
// Rows that need relief are tried last, since every conflict contains one of them.
func (x *explainer) filter(ctx context.Context, c *milp.Conflict, relief []Relief) error {
	for side, limits := range [2][]float64{x.data.RowLower, x.data.RowUpper} {
		x.keep[side] = make([]bool, len(limits))
		for i, l := range limits {
			x.keep[side][i] = c == nil && !math.IsInf(l, 0)
		}
	}
	if c != nil {
		for _, l := range c.Rows {
			x.keep[l.Side][l.Index] = true
		}
	}
	wanted := make([]bool, len(x.data.RowLower))
	for _, r := range relief {
		wanted[r.Side.Index] = true
	}
	byGroup := make([][]milp.Limit, len(x.data.Groups))
	for _, l := range x.kept() {
		g := x.m.GroupOf(l.Index)
		byGroup[g] = append(byGroup[g], l)
	}
	if err := x.shrink(ctx, ordered(byGroup, wanted)); err != nil {
		return err
	}
	var rows, sides [][]milp.Limit
	for _, l := range x.kept() {
		if n := len(rows); n > 0 && rows[n-1][0].Index == l.Index {
			rows[n-1] = append(rows[n-1], l)
			continue
		}
		rows = append(rows, []milp.Limit{l})
	}
	if err := x.shrink(ctx, ordered(rows, wanted)); err != nil {
		return err
	}
	for _, l := range x.kept() {
		if x.keep[milp.Below][l.Index] && x.keep[milp.Above][l.Index] {
			sides = append(sides, []milp.Limit{l})
		}
	}
	return x.shrink(ctx, sides)
}

// ordered returns the nonempty sets, those without wanted rows first.
func ordered(sets [][]milp.Limit, wanted []bool) [][]milp.Limit {
	var first, last [][]milp.Limit
	for _, s := range sets {
		switch {
		case len(s) == 0:
		case slices.ContainsFunc(s, func(l milp.Limit) bool { return wanted[l.Index] }):
			last = append(last, s)
		default:
			first = append(first, s)
		}
	}
	return append(first, last...)
}

// kept returns the limits kept, by row, the lower side first.
func (x *explainer) kept() []milp.Limit {
	var limits []milp.Limit
	for i := range x.keep[0] {
		for _, side := range []milp.Side{milp.Below, milp.Above} {
			if x.keep[side][i] {
				limits = append(limits, milp.Limit{Index: i, Side: side})
			}
		}
	}
	return limits
}

// shrink removes as many of the sets of limits as it can, several at a time while that succeeds: O(k log n) probes
// to find k sets of n.
func (x *explainer) shrink(ctx context.Context, sets [][]milp.Limit) error {
	size := max(1, len(sets)/2)
	for at := 0; at < len(sets); {
		if ctx.Err() != nil {
			x.decided = false
			return nil
		}
		size = min(size, len(sets)-at)
		group := sets[at : at+size]
		x.set(group, false)
		r, err := x.probe(ctx)
		if err != nil {
			return err
		}
		if r.Status == Infeasible {
			at += size
			size *= 2
			continue
		}
		x.set(group, true)
		if size > 1 {
			size /= 2
			continue
		}
		if _, ok := r.Solution(); !ok {
			x.decided = false
		}
		at++
	}
	return nil
}

func (x *explainer) set(sets [][]milp.Limit, keep bool) {
	for _, s := range sets {
		for _, l := range s {
			x.keep[l.Side][l.Index] = keep
		}
	}
}

// probe solves the model of the limits kept, without objective.
func (x *explainer) probe(ctx context.Context) (*Result, error) {
	return x.solve(ctx, x.reduced())
}

// reduced returns the model of the kept limits: other sides are infinite, and rows without sides are removed.
func (x *explainer) reduced() *milp.Model {
	d := x.data
	d.RowLower, d.RowUpper, d.RowGroup, d.Groups = nil, nil, nil, nil
	d.Start, d.Col, d.Val = []int32{0}, nil, nil
	for i := range x.keep[0] {
		lo, up := math.Inf(-1), math.Inf(1)
		if x.keep[milp.Below][i] {
			lo = x.data.RowLower[i]
		}
		if x.keep[milp.Above][i] {
			up = x.data.RowUpper[i]
		}
		if math.IsInf(lo, 0) && math.IsInf(up, 0) {
			continue
		}
		d.RowLower, d.RowUpper = append(d.RowLower, lo), append(d.RowUpper, up)
		from, to := x.data.Start[i], x.data.Start[i+1]
		d.Col, d.Val = append(d.Col, x.data.Col[from:to]...), append(d.Val, x.data.Val[from:to]...)
		d.Start = append(d.Start, int32(len(d.Col)))
	}
	return feasibilityOf(d)
}

// conflict returns the kept limits, with the relevant bounds if propagation of the kept rows alone finds them.
func (x *explainer) conflict() *milp.Conflict {
	c := &milp.Conflict{Rows: x.kept(), Minimal: x.decided}
	if _, _, found := x.reduced().Propagate(propagationRounds); found != nil {
		c.Bounds = found.Bounds
	}
	return c
}

// Text returns e as lines of text.
func (e *Explanation) Text(m *milp.Model) string {
	var b strings.Builder
	switch e.Status {
	case Feasible:
		return fmt.Sprintf("model %s has a solution\n", m.Name())
	case Infeasible:
		fmt.Fprintf(&b, "model %s is infeasible, by %s; ", m.Name(), e.By)
		b.WriteString(e.Conflict.Text(m))
		if !e.Conflict.Minimal {
			b.WriteString("not all of these may be needed\n")
		}
	default:
		fmt.Fprintf(&b, "model %s: not decided within the limits\n", m.Name())
	}
	if len(e.Relief) > 0 {
		e.writeRelief(&b, m)
	}
	return b.String()
}

func (e *Explanation) writeRelief(b *strings.Builder, m *milp.Model) {
	if e.Least {
		b.WriteString("the minimum change of rows that gives a solution:\n")
	} else {
		b.WriteString("a change of rows that gives a solution:\n")
	}
	relief := slices.Clone(e.Relief)
	slices.SortStableFunc(relief, func(a, b Relief) int { return m.GroupOf(a.Side.Index) - m.GroupOf(b.Side.Index) })
	groups := m.Groups()
	for k, r := range relief {
		row := m.Row(r.Side.Index)
		if k == 0 || row.Group() != m.GroupOf(relief[k-1].Side.Index) {
			fmt.Fprintf(b, "  %s\n", groups[row.Group()])
		}
		verb, from, to := "raise", row.Upper, row.Upper+r.Amount
		if r.Side.Side == milp.Below {
			verb, from, to = "lower", row.Lower, row.Lower-r.Amount
		}
		fmt.Fprintf(b, "    %s %s by %s, from %s to %s\n", verb, row.Name(), short(r.Amount), short(from), short(to))
	}
}

// short formats x to 7 digits, the precision of solutions.
func short(x float64) string {
	if x == math.Trunc(x) && math.Abs(x) < 1e15 {
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', 7, 64)
}
