// Package enumerate solves small mixed-integer programs by enumerating all values of the integer columns, in plain
// Go. It judges the other backends on random models, and the conformance suite is tested on it; it is unsuitable
// for larger models.
//
// The search goes depth first through the integer columns. It prunes, by interval arithmetic, when a row can no
// longer be satisfied or the objective can no longer improve. At the leaves a dense simplex method solves for the
// continuous columns. It has no cuts, no relaxation and no presolve, so that little can be wrong.
package enumerate

import (
	"context"
	"fmt"
	"io"
	"math"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// Limits on the size of models.
const (
	maxCombinations = 1 << 31 // of integer values
	maxContinuous   = 200     // columns
	maxRows         = 500     // if there are continuous columns
)

// Engine enumerates. The zero value is ready.
type Engine struct{}

// New returns the checked backend.
func New() solvers.Backend { return solvers.New(Engine{}) }

// Name implements [solvers.Engine].
func (Engine) Name() string { return "enumerate 1" }

// Can implements [solvers.Engine].
func (Engine) Can() solvers.Features {
	return solvers.CanInteger | solvers.CanRelGap | solvers.CanAbsGap | solvers.CanNodes |
		solvers.CanStart | solvers.CanProgress | solvers.CanLog | solvers.CanDuals
}

// Run implements [solvers.Engine]. Models beyond its limits are rejected with ErrUnsupported, as the engine lacks
// CanLarge.
func (Engine) Run(ctx context.Context, p *solvers.Problem) (*solvers.Answer, error) {
	s, err := newSearch(ctx, p)
	if err != nil {
		return nil, err
	}
	accepted := s.tryStart(p.Start)
	s.descend(0)
	a := s.answer()
	a.StartAccepted = accepted
	logf(p.Log, "enumerate: %s after %d nodes\n", a.Raw, s.nodes)
	return a, nil
}

func logf(w io.Writer, format string, args ...any) {
	if w != nil {
		fmt.Fprintf(w, format, args...)
	}
}

// entry is one coefficient of a column.
type entry struct {
	row int32
	val float64
}

// change is the activity of a row before a column was fixed.
type change struct {
	row      int32
	min, max float64
}

// search is the state of one enumeration. Objectives inside are minimised.
type search struct {
	ctx   context.Context
	p     *solvers.Problem
	d     *milp.Data
	sense float64

	integers, continuous []int
	columns              [][]entry // by column
	lower, upper         []float64 // of integer columns: the remaining range
	x                    []float64 // values fixed so far
	rowMin, rowMax       []float64 // minimum and maximum activity given x
	undo                 []change
	floor                float64 // minimum objective given x

	best    []float64
	bestObj float64
	proven  float64 // minimum floor of the branches pruned by the objective
	dual    *solvers.Duals
	nodes   int64
	limit   int64 // < 0: none
	pivots  int64
	nextSay time.Time

	stop      solvers.Stop
	unbounded bool
	done      bool // the search is complete
}

func newSearch(ctx context.Context, p *solvers.Problem) (*search, error) {
	d := &p.Model
	n := len(d.Cost)
	s := &search{
		ctx: ctx, p: p, d: d, sense: float64(d.Sense), limit: p.Nodes,
		columns: make([][]entry, n), x: make([]float64, n),
		lower: append([]float64(nil), d.Lower...), upper: append([]float64(nil), d.Upper...),
		rowMin: make([]float64, len(d.RowLower)), rowMax: make([]float64, len(d.RowLower)),
		bestObj: math.Inf(1), proven: math.Inf(1), floor: s0(d),
		nextSay: time.Now().Add(sayEvery),
	}
	combinations := 1.
	for j := range n {
		if !d.Integer[j] {
			s.continuous = append(s.continuous, j)
			continue
		}
		s.integers = append(s.integers, j)
		combinations *= d.Upper[j] - d.Lower[j] + 1
	}
	switch {
	case !(combinations <= maxCombinations):
		return nil, fmt.Errorf("%w: %v: %g combinations of integers, at most %d are enumerated",
			solvers.ErrUnsupported, solvers.CanLarge, combinations, maxCombinations)
	case len(s.continuous) > maxContinuous:
		return nil, fmt.Errorf("%w: %v: %d continuous columns, at most %d are taken",
			solvers.ErrUnsupported, solvers.CanLarge, len(s.continuous), maxContinuous)
	case len(s.continuous) > 0 && len(d.RowLower) > maxRows:
		return nil, fmt.Errorf("%w: %v: %d rows, at most %d are taken with continuous columns",
			solvers.ErrUnsupported, solvers.CanLarge, len(d.RowLower), maxRows)
	}
	for i := range d.RowLower {
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			j, a := d.Col[k], d.Val[k]
			s.columns[j] = append(s.columns[j], entry{int32(i), a})
			s.rowMin[i] += least(a, d.Lower[j], d.Upper[j])
			s.rowMax[i] -= least(-a, d.Lower[j], d.Upper[j])
		}
	}
	for j, c := range d.Cost {
		s.floor += least(s.sense*c, d.Lower[j], d.Upper[j])
	}
	return s, nil
}

// s0 returns the constant part of the objective.
func s0(d *milp.Data) float64 { return float64(d.Sense) * d.Offset }

// least returns the minimum of a·x for x in [lo, up], where 0·∞ is 0.
func least(a, lo, up float64) float64 {
	switch {
	case a > 0:
		return a * lo
	case a < 0:
		return a * up
	}
	return 0
}

// descend tries all values of the integer columns from depth on, the best for the objective first.
func (s *search) descend(depth int) {
	if s.hopeless() {
		return
	}
	if depth == len(s.integers) {
		s.leaf()
		return
	}
	j := s.integers[depth]
	from, to, step := s.lower[j], s.upper[j], 1.
	if s.sense*s.d.Cost[j] < 0 {
		from, to, step = to, from, -1
	}
	for v := from; (to-v)*step >= 0; v += step {
		if s.tick(); s.done {
			return
		}
		mark, floor := len(s.undo), s.floor
		s.fix(j, v)
		s.descend(depth + 1)
		s.unfix(mark, floor)
		if s.done {
			return
		}
	}
}

// fix gives integer column j the value v.
func (s *search) fix(j int, v float64) {
	lo, up := s.d.Lower[j], s.d.Upper[j]
	s.x[j] = v
	for _, e := range s.columns[j] {
		i := e.row
		s.undo = append(s.undo, change{i, s.rowMin[i], s.rowMax[i]})
		s.rowMin[i] += e.val*v - least(e.val, lo, up)
		s.rowMax[i] += e.val*v + least(-e.val, lo, up)
	}
	c := s.sense * s.d.Cost[j]
	s.floor += c*v - least(c, lo, up)
}

// unfix restores what fix changed from stored values, so that rounding errors do not accumulate.
func (s *search) unfix(mark int, floor float64) {
	for k := len(s.undo) - 1; k >= mark; k-- {
		c := s.undo[k]
		s.rowMin[c.row], s.rowMax[c.row] = c.min, c.max
	}
	s.undo, s.floor = s.undo[:mark], floor
}

// hopeless reports whether the subtree can be pruned.
func (s *search) hopeless() bool {
	for i := range s.rowMin {
		if slack := 1e-9 * math.Max(1, math.Abs(s.rowMin[i])); s.rowMin[i] > s.d.RowUpper[i]+slack {
			return true
		}
		if slack := 1e-9 * math.Max(1, math.Abs(s.rowMax[i])); s.rowMax[i] < s.d.RowLower[i]-slack {
			return true
		}
	}
	if s.best == nil {
		return false
	}
	gap := math.Max(s.p.AbsGap, s.p.RelGap*math.Abs(s.bestObj))
	if s.floor < s.bestObj-gap {
		return false
	}
	s.proven = math.Min(s.proven, s.floor)
	return true
}

// tick counts a node and checks the limits, the clock only occasionally.
func (s *search) tick() {
	if s.limit >= 0 && s.nodes >= s.limit {
		s.end(solvers.Nodes)
		return
	}
	if s.nodes++; s.nodes%1024 == 0 {
		s.look()
	}
}

// look ends the search if its context has ended, and reports progress.
func (s *search) look() {
	switch s.ctx.Err() {
	case nil:
	case context.DeadlineExceeded: // that of the wrapper, in another process, may come slightly later
		s.end(solvers.Time)
		return
	default:
		s.end(solvers.Unknown) // the wrapper knows the reason
		return
	}
	if now := time.Now(); now.After(s.nextSay) {
		s.nextSay = now.Add(sayEvery)
		s.reportProgress(nil)
	}
}

// sayEvery is the interval between progress reports without a new incumbent.
const sayEvery = 100 * time.Millisecond

func (s *search) end(why solvers.Stop) {
	s.done = true
	if s.stop == solvers.NotStopped {
		s.stop = why
	}
}

// leaf solves for the continuous columns, all integers being fixed.
func (s *search) leaf() {
	if len(s.continuous) == 0 {
		s.accept()
		return
	}
	l := s.linear()
	v, y, dual := l.solve(func() bool {
		if s.pivots++; s.pivots%64 == 0 {
			s.look()
		}
		return s.done
	})
	switch v {
	case unbounded:
		s.unbounded, s.done = true, true
	case optimal:
		for k, j := range s.continuous {
			s.x[j] = y[k]
		}
		if s.accept() && len(s.integers) == 0 {
			s.dual = s.duals(dual)
		}
	}
}

// linear returns the model in the continuous columns, with the fixed integers moved to the sides.
func (s *search) linear() *linear {
	n, m := len(s.continuous), len(s.rowMin)
	l := &linear{
		cost: make([]float64, n), lower: make([]float64, n), upper: make([]float64, n),
		rowLower: append([]float64(nil), s.d.RowLower...), rowUpper: append([]float64(nil), s.d.RowUpper...),
		a: make([]float64, m*n),
	}
	for k, j := range s.continuous {
		l.cost[k], l.lower[k], l.upper[k] = s.sense*s.d.Cost[j], s.d.Lower[j], s.d.Upper[j]
		for _, e := range s.columns[j] {
			l.a[int(e.row)*n+k] = e.val
		}
	}
	for _, j := range s.integers {
		for _, e := range s.columns[j] {
			l.rowLower[e.row] -= e.val * s.x[j]
			l.rowUpper[e.row] -= e.val * s.x[j]
		}
	}
	return l
}

// accept keeps x if it is the best so far.
func (s *search) accept() bool {
	obj := s0(s.d)
	for j, c := range s.d.Cost {
		obj += s.sense * c * s.x[j]
	}
	if obj >= s.bestObj {
		return false
	}
	s.best, s.bestObj = append(s.best[:0], s.x...), obj
	s.reportProgress(append([]float64(nil), s.x...))
	logf(s.p.Log, "enumerate: incumbent %g after %d nodes\n", s.sense*obj, s.nodes)
	return true
}

// reportProgress reports progress; x is nil or a new incumbent.
func (s *search) reportProgress(x []float64) {
	s.p.OnProgress(solvers.Progress{
		Objective: s.sense * s.bestObj, Bound: math.NaN(), Nodes: s.nodes, Iterations: s.pivots, X: x,
	})
}

// duals puts row duals into the user's sense and adds the reduced costs.
func (s *search) duals(row []float64) *solvers.Duals {
	d := &solvers.Duals{Row: make([]float64, len(row)), Reduced: append([]float64(nil), s.d.Cost...)}
	for i, y := range row {
		d.Row[i] = s.sense * y
	}
	for j, column := range s.columns {
		for _, e := range column {
			d.Reduced[j] -= d.Row[e.row] * e.val
		}
	}
	return d
}

// startNodes limits the nodes for the completion of a partial start.
const startNodes = 10_000

// tryStart searches the subtree of start for one solution, and reports whether there is one.
func (s *search) tryStart(start []float64) bool {
	if start == nil {
		return false
	}
	limit := s.limit
	if s.limit < 0 || s.limit > startNodes {
		s.limit = startNodes
	}
	for _, j := range s.integers {
		if v := start[j]; !math.IsNaN(v) {
			s.lower[j], s.upper[j] = v, v
		}
	}
	s.descend(0)
	copy(s.lower, s.d.Lower)
	copy(s.upper, s.d.Upper)
	if s.stop == solvers.Nodes {
		s.stop, s.done = solvers.NotStopped, false
	}
	s.limit = limit
	// Only branches within the subtree of the start were pruned.
	s.proven = math.Inf(1)
	return s.best != nil
}

func (s *search) answer() *solvers.Answer {
	a := &solvers.Answer{
		Nodes: s.nodes, Iterations: s.pivots, X: s.best, Stop: s.stop, Bound: math.NaN(), Dual: s.dual,
	}
	switch {
	case s.unbounded:
		a.Status, a.X = solvers.Unbounded, nil
	case s.stop != solvers.NotStopped && s.best == nil:
		a.Status = solvers.NoSolution
	case s.stop != solvers.NotStopped:
		a.Status = solvers.Feasible
	case s.best == nil:
		a.Status = solvers.Infeasible
	default:
		a.Status, a.BoundBy = solvers.Optimal, "enumeration"
		a.Bound = s.sense * math.Min(s.bestObj, s.proven)
	}
	a.Raw = a.Status.String()
	if s.stop != solvers.NotStopped {
		a.Raw += ", " + s.stop.String()
	}
	return a
}
