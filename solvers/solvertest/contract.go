package solvertest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"sync/atomic"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// What the contract grants. The code here shares nothing with package solvers,
// whose checks it checks.
const (
	// grace is how long after the end of its context a solve may return: the
	// second after which an engine is left behind, and what a busy machine
	// adds.
	grace = 3 * time.Second
	// feasibility and relative are what a row may be missed by.
	feasibility = 5e-6
	relative    = 2e-9
	// gapTolerance is relative to the objective, or absolute if that is
	// larger.
	gapTolerance = 2e-6
)

var inf = math.Inf(1)

// errRefused ends a case whose needs the backend does not claim and duly
// refused.
var errRefused = errors.New("refused, as it should")

// harness solves for one case, and checks every result.
type harness struct {
	ctx     context.Context
	backend solvers.Backend
	quiet   bool // do not listen to progress unless the case does
}

// solve solves m and holds the result to the contract.
func (h *harness) solve(m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	return h.solveCtx(h.ctx, m, o)
}

func (h *harness) solveCtx(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	needs := needs(m, &o)
	can := h.backend.Can()
	w := &listener{m: m, relax: o.Relax, user: o.OnProgress}
	if o.OnProgress != nil || can&solvers.CanProgress != 0 && !h.quiet {
		o.OnProgress = w.receive
	}
	before := fingerprint(m)
	end := endOf(ctx, o.Time)
	begin := time.Now()
	r, err := h.backend.Solve(ctx, m, o)
	now := time.Now()
	w.returned.Store(true)
	if missing := needs &^ can; missing != 0 {
		return nil, refusal(err, missing)
	}
	if err != nil {
		return nil, fmt.Errorf("solve: %w", err)
	}
	if r == nil {
		return nil, errors.New("neither result nor error")
	}
	if limit := end(); !limit.IsZero() && now.Sub(limit) > grace {
		return r, fmt.Errorf("returned %v after its time was over", now.Sub(limit))
	}
	if r.Wall <= 0 || r.Wall > now.Sub(begin)+time.Millisecond {
		return r, fmt.Errorf("wall time %v of %v", r.Wall, now.Sub(begin))
	}
	if fingerprint(m) != before {
		return r, errors.New("the model was changed")
	}
	if err := verify(m, &o, r); err != nil {
		return r, fmt.Errorf("%v, %v (%s): %w", r.Status, r.Stop, r.Note, err)
	}
	if r.Backend != h.backend.Name() {
		return r, fmt.Errorf("result of %q by %q", r.Backend, h.backend.Name())
	}
	return r, w.verify(r)
}

// endOf returns a function that tells when ctx or the time limit ended, zero if
// they did not.
func endOf(ctx context.Context, limit time.Duration) func() time.Time {
	var cancelled atomic.Pointer[time.Time]
	stop := context.AfterFunc(ctx, func() {
		now := time.Now()
		cancelled.Store(&now)
	})
	begin := time.Now()
	return func() time.Time {
		stop()
		if limit > 0 && time.Since(begin) > limit {
			return begin.Add(limit)
		}
		if t := cancelled.Load(); t != nil {
			return *t
		}
		return time.Time{}
	}
}

// refusal checks that err refuses all that is missing, by name.
func refusal(err error, missing solvers.Features) error {
	if !errors.Is(err, solvers.ErrUnsupported) {
		return fmt.Errorf("does not claim %v, but instead of ErrUnsupported says %v", missing, err)
	}
	if !strings.Contains(err.Error(), missing.String()) {
		return fmt.Errorf("refusal %q does not name %v", err, missing)
	}
	return errRefused
}

// needs says what a backend must claim to be given m and o.
func needs(m *milp.Model, o *solvers.Options) solvers.Features {
	var f solvers.Features
	for _, n := range []struct {
		needed bool
		what   solvers.Features
	}{
		{m.NumIntegers() > 0 && !o.Relax, solvers.CanInteger},
		{!o.Relax && combinations(m) > 1<<31, solvers.CanLarge},
		{o.RelGap.Set && o.RelGap.Value > 0, solvers.CanRelGap},
		{o.AbsGap.Set && o.AbsGap.Value > 0, solvers.CanAbsGap},
		{o.Threads.Set && o.Threads.Value > 1, solvers.CanThreads},
		{o.Seed.Set && o.Seed.Value != 0, solvers.CanSeed},
		{o.Nodes.Set, solvers.CanNodes},
		{o.Start != nil, solvers.CanStart},
		{o.OnProgress != nil, solvers.CanProgress},
		{o.Log != nil, solvers.CanLog},
		{len(o.Raw) > 0, solvers.CanRaw},
		{o.Memory > 0, solvers.CanMemory},
	} {
		if n.needed {
			f |= n.what
		}
	}
	return f
}

// combinations is the number of values of the integer columns together.
func combinations(m *milp.Model) float64 {
	d, n := m.Data(), 1.
	for j, integer := range d.Integer {
		if integer {
			n *= math.Max(0, math.Floor(d.Upper[j])-math.Ceil(d.Lower[j])+1)
		}
	}
	return n
}

// fingerprint is a hash of everything in m.
func fingerprint(m *milp.Model) uint64 {
	d := m.Data()
	h := fnv.New64a()
	for _, v := range []any{int64(d.Sense), d.Offset, d.Cost, d.Lower, d.Upper, d.Integer, d.RowLower, d.RowUpper, d.Start, d.Col, d.Val} {
		// Writes of fixed-size values to a hash do not fail.
		_ = binary.Write(h, binary.LittleEndian, v)
	}
	return h.Sum64()
}

// verify checks r against what every result promises.
func verify(m *milp.Model, o *solvers.Options, r *solvers.Result) error {
	d := m.Data()
	sense := float64(d.Sense)
	none := -sense * inf
	if err := legal(r); err != nil {
		return err
	}
	if (o.Start == nil) != (r.Start == solvers.NoStart) {
		return fmt.Errorf("start: %v", r.Start)
	}
	switch {
	case math.IsNaN(r.Bound):
		return errors.New("bound is NaN")
	case math.IsInf(r.Bound, 0) && r.Bound != none:
		return fmt.Errorf("no bound is %v, want %v", r.Bound, none)
	case math.IsInf(r.Bound, 0) != (r.BoundBy == ""):
		return fmt.Errorf("bound %v by %q", r.Bound, r.BoundBy)
	}
	if r.Nodes < 0 || r.Iterations < 0 {
		return fmt.Errorf("%d nodes, %d iterations", r.Nodes, r.Iterations)
	}
	x, ok := r.Solution()
	if !ok {
		if !math.IsNaN(r.Gap()) {
			return fmt.Errorf("gap %v without a solution", r.Gap())
		}
		return nil
	}
	if err := feasible(m, o.Relax, x); err != nil {
		return err
	}
	obj, _ := r.Objective()
	if want := objective(&d, x); !near(obj, want, 1e-9) {
		return fmt.Errorf("objective %v, recomputed %v", obj, want)
	}
	if sense*(r.Bound-obj) > gapTolerance*math.Max(1, math.Abs(obj)) {
		return fmt.Errorf("bound %v on the wrong side of objective %v", r.Bound, obj)
	}
	gap := math.Abs(obj - r.Bound)
	if got, want := r.Gap(), gap/math.Max(1e-300, math.Abs(obj)); !near(got, want, 1e-9) && got != want {
		return fmt.Errorf("gap %v, recomputed %v", got, want)
	}
	asked := math.Max(o.AbsGap.Value, o.RelGap.Value*math.Abs(obj))
	if r.Status == solvers.Optimal && gap > asked+gapTolerance*math.Max(1, math.Abs(obj)) {
		return fmt.Errorf("optimal, but objective %v and bound %v are %v apart, asked %v", obj, r.Bound, gap, asked)
	}
	return nil
}

// near compares with a tolerance relative to b, absolute below 1.
func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(1, math.Abs(b))
}

// legal checks that status, stop and solution fit together.
func legal(r *solvers.Result) error {
	_, ok := r.Solution()
	early := r.Stop != solvers.NotStopped
	var wantSolution, wantEarly bool
	switch r.Status {
	case solvers.Optimal:
		wantSolution = true
	case solvers.Feasible:
		wantSolution, wantEarly = true, true
	case solvers.NoSolution:
		wantEarly = true
	case solvers.Infeasible, solvers.Unbounded, solvers.InfeasibleOrUnbounded:
	case solvers.Imprecise, solvers.Numerical:
		wantEarly = early
	default:
		return fmt.Errorf("status %v is none", r.Status)
	}
	if ok != wantSolution || early != wantEarly || r.Stop > solvers.Unknown {
		return fmt.Errorf("illegal combination: %v, %v, solution %t", r.Status, r.Stop, ok)
	}
	if !ok && r.Status != solvers.Imprecise && r.X != nil {
		return fmt.Errorf("%v, yet has values", r.Status)
	}
	return nil
}

// feasible checks x against every column and row of m.
func feasible(m *milp.Model, relax bool, x []float64) error {
	if len(x) != m.NumCols() {
		return fmt.Errorf("%d values for %d columns", len(x), m.NumCols())
	}
	for j, v := range x {
		c := m.Col(j)
		switch {
		case math.IsNaN(v) || math.Abs(v) >= 1e20:
			return fmt.Errorf("%s is %v, which is infinite", c.Name(), v)
		case c.Kind != milp.Continuous && !relax && v != math.Trunc(v):
			return fmt.Errorf("%s is %v, not an integer", c.Name(), v)
		case v < c.Lower-slack(c.Lower) || v > c.Upper+slack(c.Upper):
			return fmt.Errorf("%s is %v, outside [%v, %v]", c.Name(), v, c.Lower, c.Upper)
		}
	}
	if relax {
		m = m.Plain()
	}
	for row := range m.Rows() {
		if !row.Binds(x) {
			continue
		}
		activity, large := 0., 0.
		for k, j := range row.Col {
			t := row.Val[k] * x[j]
			activity, large = activity+t, math.Max(large, math.Abs(t))
		}
		tolerance := feasibility + relative*large
		if activity < row.Lower-tolerance || activity > row.Upper+tolerance {
			return fmt.Errorf("%s is %v, outside [%v, %v]", row.Name(), activity, row.Lower, row.Upper)
		}
	}
	return nil
}

func slack(bound float64) float64 {
	if math.IsInf(bound, 0) {
		return 0
	}
	return 1e-8 * math.Max(1, math.Abs(bound))
}

func objective(d *milp.Data, x []float64) float64 {
	obj := d.Offset
	for j, c := range d.Cost {
		obj += c * x[j]
	}
	return obj
}

// listener checks the progress of one solve and passes it on.
type listener struct {
	m        *milp.Model
	relax    bool
	user     func(solvers.Progress)
	inside   atomic.Bool
	returned atomic.Bool
	problem  atomic.Pointer[error]
	last     *solvers.Progress
	events   int
}

func (l *listener) receive(p solvers.Progress) {
	switch {
	case l.returned.Load():
		l.fail(errors.New("progress after the end"))
		return
	case !l.inside.CompareAndSwap(false, true):
		l.fail(errors.New("progress from two goroutines at once"))
		return
	}
	defer l.inside.Store(false)
	l.fail(l.check(&p))
	l.events++
	kept := p
	l.last = &kept
	if l.user != nil {
		l.user(p)
	}
	// The values are the receiver's: nobody must mind this.
	for j := range p.X {
		p.X[j] = math.NaN()
	}
}

// fail keeps the first problem.
func (l *listener) fail(err error) {
	if err != nil {
		l.problem.CompareAndSwap(nil, &err)
	}
}

func (l *listener) check(p *solvers.Progress) error {
	d := l.m.Data()
	sense := float64(d.Sense)
	if p.Elapsed <= 0 || math.IsNaN(p.Bound) || p.Nodes < 0 || p.Iterations < 0 {
		return fmt.Errorf("progress %+v", *p)
	}
	if math.IsInf(p.Bound, 0) && p.Bound != -sense*inf {
		return fmt.Errorf("progress: no bound is %v", p.Bound)
	}
	if sense*(p.Bound-p.Objective) > gapTolerance*math.Max(1, math.Abs(p.Objective)) {
		return fmt.Errorf("progress: bound %v on the wrong side of objective %v", p.Bound, p.Objective)
	}
	if p.X != nil {
		if err := feasible(l.m, l.relax, p.X); err != nil {
			return fmt.Errorf("progress: %w", err)
		}
		if want := objective(&d, p.X); !near(p.Objective, want, 1e-9) {
			return fmt.Errorf("progress: objective %v, recomputed %v", p.Objective, want)
		}
	}
	if q := l.last; q != nil {
		switch {
		case p.Elapsed < q.Elapsed || p.Nodes < q.Nodes:
			return fmt.Errorf("progress runs backwards: %+v, then %+v", *q, *p)
		case math.IsNaN(p.Objective) && !math.IsNaN(q.Objective) || sense*p.Objective > sense*q.Objective:
			return fmt.Errorf("progress: objective %v, then %v", q.Objective, p.Objective)
		case p.X != nil && p.Objective == q.Objective:
			return fmt.Errorf("progress: incumbent of objective %v is no improvement", p.Objective)
		}
	}
	return nil
}

// verify checks the result against what was heard.
func (l *listener) verify(r *solvers.Result) error {
	if p := l.problem.Load(); p != nil {
		return *p
	}
	if l.last == nil || math.IsNaN(l.last.Objective) {
		return nil
	}
	obj, ok := r.Objective()
	sense := float64(l.m.Data().Sense)
	if !ok && r.Status != solvers.Unbounded {
		return fmt.Errorf("%v, but progress had an incumbent of %v", r.Status, l.last.Objective)
	}
	if ok && sense*obj > sense*l.last.Objective {
		return fmt.Errorf("objective %v, but progress had an incumbent of %v", obj, l.last.Objective)
	}
	return nil
}

// optimum solves m and expects it to be solved with objective want.
func (h *harness) optimum(m *milp.Model, o solvers.Options, want float64) (*solvers.Result, error) {
	r, err := h.solve(m, o)
	if err != nil {
		return r, err
	}
	return r, hasOptimum(m, r, want)
}

func hasOptimum(m *milp.Model, r *solvers.Result, want float64) error {
	if r.Status != solvers.Optimal {
		return fmt.Errorf("%s: %v, %v (%s), want the optimum %v", m.Name(), r.Status, r.Stop, r.Note, want)
	}
	if obj, _ := r.Objective(); !near(obj, want, gapTolerance) {
		return fmt.Errorf("%s: optimum %v, want %v", m.Name(), obj, want)
	}
	return nil
}

// boundHolds checks the bound of r against the true optimum.
func boundHolds(m *milp.Model, r *solvers.Result, optimum float64) error {
	if sense := float64(m.Data().Sense); sense*r.Bound > sense*optimum+gapTolerance*math.Max(1, math.Abs(optimum)) {
		return fmt.Errorf("%s: bound %v is beyond the true optimum %v", m.Name(), r.Bound, optimum)
	}
	return nil
}

// status solves m and expects one of the given verdicts.
func (h *harness) status(m *milp.Model, o solvers.Options, want ...solvers.Status) (*solvers.Result, error) {
	r, err := h.solve(m, o)
	if err != nil {
		return r, err
	}
	for _, s := range want {
		if r.Status == s {
			return r, nil
		}
	}
	return r, fmt.Errorf("%s: %v, %v (%s), want %v", m.Name(), r.Status, r.Stop, r.Note, want)
}

// refused expects an error that is one of the targets.
func (h *harness) refused(m *milp.Model, o solvers.Options, targets ...error) error {
	r, err := h.backend.Solve(h.ctx, m, o)
	for _, target := range targets {
		if errors.Is(err, target) {
			if r != nil {
				return fmt.Errorf("result and error: %w", err)
			}
			return nil
		}
	}
	return fmt.Errorf("%s: error %v, want %v", m.Name(), err, targets)
}
