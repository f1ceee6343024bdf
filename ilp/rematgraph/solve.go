package rematgraph

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"workbench/ilp/formulation"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
	"workbench/model/proof"
	"workbench/model/verify"
)

// roughGap is the gap to which models are solved while their solutions yield no plans that fit.
const roughGap = 0.002

// Run finds a plan of a graph and bounds on its plans. It sets t.Verify and t.Bounds and, if there
// is none, t.Start. When ctx ends it returns the results so far. The error wraps
// formulation.ErrInstance, formulation.ErrTooLong or formulation.ErrStart, or is a
// *plan.Infeasible.
//
// It starts with the bound that needs no model and stops if t.Start attains it. Otherwise it solves
// Strong without the stages of the forward phase and without the memory rows of recomputations,
// both of which rarely matter: a relaxation, in which many values can be ignored. If the plan of a
// solution exceeds memory, the violated rows are added, exactly, and the model is solved again
// (lazy constraints). In between, plans are sought near the solution and near the best known one.
// With more than MostRelaxed nodes there is only the bound, if a certificate of it is requested.
func Run(ctx context.Context, t *formulation.Task, v *rematgraph.View, p platform.Platform) (*formulation.Result, error) {
	in, err := newInstance(v, p)
	if err != nil {
		return nil, err
	}
	certified := t.Certify != nil && t.Level != formulation.Off
	if err := in.atMost(MostRelaxed); err != nil && !(certified && t.Document) {
		return nil, err
	}
	if t.Start == nil {
		s := in.StoreAll()
		if in.evict(s, func() bool { return ctx.Err() != nil }) == nil {
			t.Start = in.plan("store-all, repaired", s)
		}
	}
	if err := in.setKnown(t); err != nil {
		return nil, err
	}
	c := &search{instance: in, ctx: ctx, gap: t.Options.RelGap.Value, wanted: t.Document}
	if certified {
		// A small model has the same bound and a certificate.
		c.known, t.Bounds = t.Bounds, nil
	}
	ask, stop := iter.Pull(c.phases)
	defer stop()
	return t.Run(ctx, func(sofar *formulation.Result) (*formulation.Phase, error) {
		c.sofar = sofar
		x, _ := ask()
		return x, nil
	})
}

// RunPrinted solves the paper's model unchanged, from t.Start or from store-all if that fits: the baseline of Run.
func RunPrinted(ctx context.Context, t *formulation.Task, v *rematgraph.View, p platform.Platform) (*formulation.Result, error) {
	in, err := newInstance(v, p)
	if err != nil {
		return nil, err
	}
	if err := in.atMost(MostCheckmate); err != nil {
		return nil, err
	}
	if t.Start == nil {
		if s := in.StoreAll(); in.fits(s) {
			t.Start = in.plan("store-all", s)
		}
	}
	if err := in.setKnown(t); err != nil {
		return nil, err
	}
	return t.Run(ctx, formulation.Phases(&formulation.Phase{Program: buildPrinted(in).program()}))
}

// setKnown sets what precedes any model: how plans are verified, and the bound that needs no model.
func (in *instance) setKnown(t *formulation.Task) error {
	if t.Start != nil {
		if _, err := in.read(t.Start); err != nil {
			return err
		}
	}
	t.Verify = in.verify
	b := in.TimeBound(in.platform.Memory)
	t.Bounds = append(t.Bounds, proof.BySearch(b.Seconds, b.Why))
	return nil
}

// verify replays a plan of the graph and returns its makespan.
func (in *instance) verify(p *plan.Plan) (float64, error) {
	report, err := verify.Replay(in.Instance, p)
	if err != nil {
		return 0, err
	}
	if !report.Valid() {
		return 0, fmt.Errorf("%d rules are violated: %s", len(report.Violations), report.Violations[0].Detail)
	}
	return report.Makespan, nil
}

// search is one run of Run: its phases and their results.
type search struct {
	*instance
	ctx    context.Context
	gap    float64             // relative gap at which the caller stops
	known  []proof.Bound       // to be certified first by the model of TimeBound; nil: not needed
	wanted bool                // a certificate is requested, also of the known bounds
	sofar  *formulation.Result // of the phases before
	yield  func(*formulation.Phase) bool
	over   bool     // the caller stops
	rows   [][2]int // memory rows requested, by stage and node
}

// phases yields one program after the other until the gap is closed or no program is left.
func (c *search) phases(yield func(*formulation.Phase) bool) {
	c.yield = yield
	if c.known != nil {
		node := max(0, c.TimeBound(c.platform.Memory).Node)
		small := &formulation.Phase{Program: c.timeBound(node), Time: certifying}
		if with := *c.sofar; c.wanted {
			if with.Bounds = slices.Concat(with.Bounds, c.known); with.Closed(c.gap) {
				small.Time = 0 // only the certificate remains
			}
		}
		c.ask(small)
		c.sofar.Bounds = append(c.sofar.Bounds, c.known...)
		if c.sofar.Closed(c.gap) || c.n > MostRelaxed {
			return
		}
	}
	gap, improved := max(c.gap, roughGap), false
	for {
		f := buildStrong(c.instance, Options{Backward: true, Ends: true, Contract: true, Rows: c.rows})
		phase := &formulation.Phase{Program: f.program(), Gap: gap}
		if gap > c.gap {
			phase.Level = formulation.Root // the next one has the better bound
		}
		x := c.ask(phase)
		if x == nil {
			break // a limit, or no usable result
		}
		s := f.schedule(x)
		final := gap <= c.gap
		switch more := c.broken(f, s); {
		case c.fits(s) && final:
			return // solved to optimality
		case !c.fits(s):
			c.repair(s)
			if len(more) > 0 {
				c.rows = append(c.rows, more...)
				break
			}
			if final {
				c.exact() // this model has no more to offer
				return
			}
			gap = c.gap
		default:
			gap = c.gap
		}
		if !improved {
			c.improve()
			improved = true
		}
	}
	if !improved {
		c.improve()
	}
}

// ask solves one phase and returns the solution, nil if there is none.
func (c *search) ask(x *formulation.Phase) []float64 {
	if c.over || !c.yield(x) {
		c.over = true
		return nil
	}
	return c.sofar.X
}

// broken returns the computations of s, by stage and node, that exceed the memory and whose rows the model can
// have but lacks.
func (c *search) broken(f *strong, s *rematgraph.Schedule) (rows [][2]int) {
	for t := range c.n {
		if m, i := s.StagePeak(t); !platform.Fits(m, c.platform.Memory) {
			if x := [2]int{t, i}; f.rowHolds(x) && !slices.Contains(c.rows, x) {
				rows = append(rows, x)
			}
		}
	}
	return rows
}

// mostExact is the maximum number of nodes for which the exact model is solved: it has up to n³/6
// entries.
const mostExact = 120

// exact solves the exact model, whose optimum is that of the problem but which takes longer.
func (c *search) exact() {
	if c.n <= mostExact {
		c.ask(&formulation.Phase{Program: buildStrong(c.instance, Options{}).program()})
	}
}

// incumbent returns the schedule of the best plan, nil if there is none.
func (c *search) incumbent() *rematgraph.Schedule {
	if c.sofar.Plan == nil {
		return nil
	}
	s, err := c.read(c.sofar.Plan)
	if err != nil || !c.fits(s) {
		return nil // plans of other forms have no neighbours among schedules
	}
	return s
}

// neighbourTime limits one neighbourhood, certifying the certification of a known bound. improving is the fraction
// of the time for all neighbourhoods of the best plan.
const (
	neighbourTime = 20 * time.Second
	certifying    = 5 * time.Second
	improving     = 0.2
)

// repair looks for a schedule that fits near s, which does not: it frees the stages around those that exceed the
// memory, in widening windows.
func (c *search) repair(s *rematgraph.Schedule) {
	for width := 2; width <= 64 && !c.over; width *= 2 {
		open, fits := make([]bool, c.n+1), true
		for t := range c.n {
			if m, _ := s.StagePeak(t); !platform.Fits(m, c.platform.Memory) {
				fits = false
				for u := max(0, t-width); u <= min(c.n-1, t+width); u++ {
					open[u] = true
				}
			}
		}
		if fits {
			return
		}
		if near := c.neighbour(s, open); near != nil {
			s = near
		}
	}
}

// improve looks for better schedules near the best one until its time is over or it finds none (large
// neighbourhood search). It frees one window of stages after the other, and wider ones once those yield no
// improvement.
func (c *search) improve() {
	until := time.Now().Add(time.Hour)
	if deadline, ok := c.ctx.Deadline(); ok {
		until = time.Now().Add(time.Duration(improving * float64(time.Until(deadline))))
	}
	first := c.behind
	for width := 8; width < 2*(c.n-first); width *= 2 {
		for better := true; better; {
			better = false
			for from := first; from < c.n; from += width / 2 {
				s, before := c.incumbent(), c.sofar.Objective
				if c.over || s == nil || time.Now().After(until) {
					return
				}
				open := make([]bool, c.n+1)
				for t := from; t < min(c.n, from+width); t++ {
					open[t] = true
				}
				c.neighbour(s, open)
				better = better || c.sofar.Objective < before*(1-plan.Tolerance)
			}
		}
	}
}

// neighbour returns the best schedule that fits and differs from s only in the values retained into the open
// stages; nil if it finds none.
func (c *search) neighbour(s *rematgraph.Schedule, open []bool) *rematgraph.Schedule {
	var rows [][2]int
	for t := range c.n {
		for k := 0; k <= t && (open[t] || open[t+1]); k++ {
			rows = append(rows, [2]int{t, k})
		}
	}
	f := buildStrong(c.instance, Options{Backward: true, Ends: true, Contract: true, Rows: rows, Plans: true})
	x := f.values(s)
	for t := f.first; t < c.n; t++ {
		for i := range c.M {
			if y, ok := f.s(t, i); ok && !open[t] {
				f.m.Fix(y, x[y.Index()])
			}
		}
		for j := range t {
			if y, ok := f.r(t, j); ok && !open[t] && !open[t+1] && f.into[j] == j {
				f.m.Fix(y, x[y.Index()])
			}
		}
	}
	phase := &formulation.Phase{Program: f.restriction(), Gap: roughGap / 20, Time: neighbourTime}
	if y := c.ask(phase); y != nil {
		return f.schedule(y)
	}
	return nil
}

// ordered reports whether every plan satisfies InGraphOrder where it matters to a model. Without
// the forward phase: all forwards are needed by the first node after them, and each node from that
// on reads the previous one. With it: every node reads the previous one. O(edges).
func (in *instance) ordered(forward bool) bool {
	first := in.behind
	if first == in.n {
		return false
	}
	needed := make([]bool, in.n)
	needed[first] = true
	for j := first; j >= 0; j-- {
		if !needed[j] {
			return false
		}
		for _, i := range in.Pred[j] {
			needed[in.Writer[i]] = true
		}
	}
	if forward {
		first = 0
	}
	for t := first + 1; t < in.n; t++ {
		if !slices.ContainsFunc(in.Pred[t], func(i int) bool { return in.Writer[i] == t-1 }) {
			return false
		}
	}
	return true
}
