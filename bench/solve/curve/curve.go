// Package curve computes trade-offs: the makespan of several methods on one instance against memory, bandwidth or
// the number of GPUs, with proven bounds.
package curve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"workbench/bench/solve"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/verify"
)

// CurveFormat names the format of [Curve].
const CurveFormat = "workbench.curve/v1"

// Axis is the independent variable of a curve.
type Axis string

const (
	OverMemory     Axis = "memory"     // bytes (slots for joins)
	OverBandwidth  Axis = "bandwidth"  // of each link, bytes per second
	OverProcessors Axis = "processors" // number of GPUs
)

// Axes returns the possible axes of curves of the problem, the default first.
func Axes(p *solve.Problem) []Axis {
	axes := []Axis{OverMemory}
	if p.Bandwidth != "" {
		axes = append(axes, OverBandwidth)
	}
	if p.Parallel {
		axes = append(axes, OverProcessors)
	}
	return axes
}

// Place returns the platform at one point of the axis.
func (a Axis) Place(p platform.Platform, at float64) platform.Platform {
	switch a {
	case OverBandwidth:
		p.Bandwidth = at
	case OverProcessors:
		p.Processors = int(at)
	default:
		p.Memory = at
	}
	return p
}

// Curve is the makespan of several methods on one instance against the memory,
// the bandwidth or the number of GPUs. Sizes are in bytes (slots for joins),
// times in seconds.
type Curve struct {
	Format   string           `json:"format"`
	Problem  string           `json:"problem"`
	Instance plan.InstanceRef `json:"instance"`
	Samples  int              `json:"samples,omitempty"`
	// Over is the axis of the curve; Platform holds the fixed values.
	Over     Axis              `json:"over"`
	Platform platform.Platform `json:"platform"`
	// Low and High are the instance's memory range, Compute the time of
	// computing everything once.
	Low     float64  `json:"low"`
	High    float64  `json:"high"`
	Compute float64  `json:"compute"`
	Series  []Series `json:"series"`
	// Bounds are the best proven bounds, by increasing memory, bandwidth or
	// number of GPUs; each holds for all values up to its own.
	Bounds []BoundPoint `json:"bounds"`
}

// Series is the curve of one method.
type Series struct {
	Method string     `json:"method"`
	Kind   solve.Kind `json:"kind"`
	// Steps reports that the points are breakpoints of a step function from one run. Otherwise the method was run
	// at each value. An exact method was also run between two values where the plan of another method was better
	// than its own.
	Steps    bool         `json:"steps"`
	Points   []CurvePoint `json:"points"`
	WallTime float64      `json:"wall_time"`
	Error    string       `json:"error,omitempty"` // why there is no point
	Err      error        `json:"-"`
}

// CurvePoint is a verified plan, or the status of an attempt without one.
type CurvePoint struct {
	At         float64      `json:"at"`     // memory, bandwidth or number of GPUs
	Memory     float64      `json:"memory"` // the limit
	Makespan   *float64     `json:"makespan"`
	PeakMemory *float64     `json:"peak_memory"`
	Moved      *float64     `json:"moved,omitempty"` // see [Moved]
	Gap        *float64     `json:"gap"`             // to the best bound proven for this value
	Status     solve.Status `json:"status"`
	Error      string       `json:"error,omitempty"`
	Plan       *plan.Plan   `json:"-"` // verified
}

// BoundPoint is a proven lower bound for all values up to At.
type BoundPoint struct {
	At          float64    `json:"at"`
	Memory      float64    `json:"memory"`
	Value       float64    `json:"value"`
	By          string     `json:"by"`
	Proof       proof.Kind `json:"proof"`
	Assumptions []string   `json:"assumptions"`
	Infeasible  bool       `json:"infeasible,omitempty"` // infeasibility is proved
}

// mostSteps limits the breakpoints of a trade-off that are verified and kept. A picture shows no more; those that
// change the makespan least are left out.
const mostSteps = 400

// Limits returns n memory limits spread evenly over the range of the instance and the platform of s.
func Limits(p *solve.Problem, in *solve.Instance, s solve.Setting, n int) []float64 {
	low, high := p.Range(in, s)
	if n < 2 || high <= low {
		return []float64{high}
	}
	limits := make([]float64, 0, n)
	for k := range n {
		m := in.Resolve(platform.MemorySpec{Percent: true, Range: true, Value: 100 * float64(k) / float64(n-1)}, low, high)
		if k == 0 || m > limits[len(limits)-1] {
			limits = append(limits, m)
		}
	}
	return limits
}

// Bandwidths returns n bandwidths in geometric progression from a sixteenth of rate to eight times it; with 8,
// each is twice the previous one.
func Bandwidths(rate float64, n int) []float64 {
	if n < 2 {
		return []float64{rate}
	}
	rates := make([]float64, n)
	for k := range rates {
		rates[k] = rate * math.Exp2(-4+7*float64(k)/float64(n-1))
	}
	return rates
}

// RunCurve runs methods at the given increasing values of the axis, or once where they compute their whole curve
// over memory. Exact methods are also run where another method's plan is better than theirs between two limits.
// The verifier has replayed the plan of every point. An interrupted run returns its points so far.
func RunCurve(ctx context.Context, p *solve.Problem, methods []*solve.Method, in *solve.Instance, s solve.Setting, over Axis,
	values []float64,
) *Curve {
	low, high := p.Range(in, s)
	c := &Curve{
		Format: CurveFormat, Problem: p.Name, Instance: in.Ref(), Samples: in.Samples(), Over: over, Platform: over.Place(s.Platform, 0),
		Low: low, High: high, Compute: in.Compute(),
	}
	for _, x := range values {
		at := s
		at.Platform = over.Place(s.Platform, x)
		b := p.Bound(in, at)
		point := BoundPoint{At: x, Memory: at.Platform.Memory, By: b.By, Proof: b.Proof, Assumptions: b.Assumptions}
		point.improve(b)
		c.Bounds = append(c.Bounds, point)
	}
	for _, m := range methods {
		start := time.Now()
		var series Series
		if m.Curve != nil && over == OverMemory {
			series = c.whole(ctx, m, in, s)
		} else {
			series = c.pointwise(ctx, p, m, in, s)
		}
		series.Method, series.Kind, series.WallTime = m.Name, m.Kind, time.Since(start).Seconds()
		c.Series = append(c.Series, series)
		if ctx.Err() != nil {
			break
		}
	}
	c.refine(ctx, p, methods, in, s)
	c.bound()
	return c
}

// improve keeps a better bound.
func (b *BoundPoint) improve(by solve.Bound) {
	switch {
	case math.IsInf(by.Value, 1):
		b.Infeasible = true
	case by.Value > b.Value:
		b.Value, b.By, b.Proof, b.Assumptions = by.Value, by.By, by.Proof, by.Assumptions
	}
}

// pointwise runs a method at every value, and keeps better bounds.
func (c *Curve) pointwise(ctx context.Context, p *solve.Problem, m *solve.Method, in *solve.Instance, s solve.Setting) (series Series) {
	base := s.Platform
	for k := range c.Bounds {
		if ctx.Err() != nil {
			break
		}
		s.Platform = c.Over.Place(base, c.Bounds[k].At)
		r := solve.Run(ctx, p, m, in, s)
		series.Points = append(series.Points, pointOf(p, in, r, c.Bounds[k].At))
		if r.Bound != nil {
			c.Bounds[k].improve(*r.Bound)
		}
		if r.Status == solve.Infeasible {
			c.Bounds[k].Infeasible = true
		}
		if r.Err != nil && series.Err == nil {
			series.Err = r.Err
		}
	}
	if slices.ContainsFunc(series.Points, func(p CurvePoint) bool { return p.Makespan != nil }) {
		series.Err = nil
	}
	if series.Err != nil {
		series.Error = series.Err.Error()
	}
	return series
}

// pointOf returns the point of a run at a value.
func pointOf(p *solve.Problem, in *solve.Instance, r *solve.Result, at float64) CurvePoint {
	point := CurvePoint{At: at, Memory: r.Platform.Memory, Makespan: r.Makespan, PeakMemory: r.PeakMemory, Status: r.Status, Error: r.Error}
	if r.Makespan != nil {
		point.Plan = r.Plan
		point.Makespan = r.Objective // of a synchronous pipeline schedule, possibly the span
	}
	if p.Moved != nil && r.Plan != nil && r.Makespan != nil {
		if share := p.Moved(in, r.Plan); !math.IsNaN(share) {
			point.Moved = &share
		}
	}
	return point
}

// refine runs exact methods between two limits where another method's plan is better than theirs, so that no curve
// is below that of an optimum. It continues while they prove optimality, at most four times as often as there are
// limits.
func (c *Curve) refine(ctx context.Context, p *solve.Problem, methods []*solve.Method, in *solve.Instance, s solve.Setting) {
	if c.Over != OverMemory {
		return
	}
	for i := range c.Series {
		exact := &c.Series[i]
		if exact.Kind != solve.Exact || exact.Steps || exact.Err != nil {
			continue
		}
		runs, start := 0, time.Now()
		for _, known := range c.better(exact) {
			best := c.held(exact, known.at)
			if known.makespan >= best*(1-plan.Tolerance) {
				continue
			}
			if runs == 4*len(c.Bounds) || ctx.Err() != nil {
				break
			}
			s.Platform.Memory = known.at
			exact.Points = append(exact.Points, pointOf(p, in, solve.Run(ctx, p, methods[i], in, s), known.at))
			if runs++; exact.Points[len(exact.Points)-1].Status != solve.Optimal {
				break
			}
		}
		exact.WallTime += time.Since(start).Seconds()
		slices.SortStableFunc(exact.Points, func(a, b CurvePoint) int { return cmp.Compare(a.At, b.At) })
	}
}

// knownPlan is a plan of another method, and the memory from which on it is valid.
type knownPlan struct{ at, makespan float64 }

// better lists the plans of other methods that are better than those of an exact one at the same memory, by
// decreasing memory, since a result for more memory may decide smaller ones.
func (c *Curve) better(exact *Series) (list []knownPlan) {
	for i := range c.Series {
		for k := range c.Series[i].Points {
			q := &c.Series[i].Points[k]
			if &c.Series[i] == exact || q.Makespan == nil {
				continue
			}
			if at := c.Threshold(q); *q.Makespan < c.held(exact, at)*(1-plan.Tolerance) {
				list = append(list, knownPlan{at, *q.Makespan})
			}
		}
	}
	slices.SortFunc(list, func(a, b knownPlan) int { return cmp.Compare(b.at, a.at) })
	return list
}

// held returns the best makespan of the series that is valid at a value.
func (c *Curve) held(s *Series, at float64) float64 {
	best := math.Inf(1)
	for k := range s.Points {
		if q := &s.Points[k]; q.Makespan != nil && c.Threshold(q) <= at {
			best = min(best, *q.Makespan)
		}
	}
	return best
}

// Threshold returns the smallest value at which a plan is valid: for memory, the plan's peak, which is below the
// limit of its run.
func (c *Curve) Threshold(p *CurvePoint) float64 {
	if c.Over == OverMemory && p.PeakMemory != nil {
		return min(p.At, max(c.Low, *p.PeakMemory))
	}
	return p.At
}

// Slower returns two plans of a method where the one with more memory is slower, as with some printed heuristics;
// nil: none. Pictures show the plan for less memory, which is also valid for more.
func (c *Curve) Slower(s *Series) (less, more *CurvePoint) {
	for k := range s.Points {
		switch p := &s.Points[k]; {
		case c.Over != OverMemory || p.Makespan == nil:
		case less == nil || *p.Makespan < *less.Makespan:
			less = p
		case *p.Makespan > *less.Makespan*(1+plan.Tolerance):
			return less, p
		}
	}
	return nil, nil
}

// whole computes the curve of a method, verifies the plan of every breakpoint it keeps, and improves the bounds if
// the curve is proved optimal.
func (c *Curve) whole(ctx context.Context, m *solve.Method, in *solve.Instance, s solve.Setting) (series Series) {
	series.Steps = true
	fail := func(err error) Series {
		series.Err, series.Error = err, err.Error()
		return series
	}
	if s.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.Time)
		defer cancel()
	}
	most := c.Bounds[len(c.Bounds)-1].At
	t, err := m.Curve(ctx, in, s.WithDefaults(m), most)
	if err != nil {
		return fail(err)
	}
	steps := thin(t.Points, mostSteps)
	for _, b := range steps {
		made, err := t.Plan(b.Memory)
		if err != nil {
			return fail(fmt.Errorf("%s: no plan at its own breakpoint of %.0f: %w", m.Name, b.Memory, err))
		}
		report, err := verify.Replay(in.Instance, made)
		if err == nil && !report.Valid() {
			err = &solve.InvalidPlanError{Method: m.Name, Report: report}
		}
		if err == nil && math.Abs(report.Makespan-b.Makespan) > 1e-6*b.Makespan {
			err = fmt.Errorf("%s: the curve says %g s at %.0f, its plan takes %g s", m.Name, b.Makespan, b.Memory, report.Makespan)
		}
		if err != nil {
			return fail(err)
		}
		series.Points = append(series.Points, CurvePoint{
			At: b.Memory, Memory: b.Memory, Makespan: &report.Makespan,
			PeakMemory: &report.PeakMemory, Status: solve.Feasible, Plan: made,
		})
	}
	if len(series.Points) == 0 {
		return fail(fmt.Errorf("%s: %w up to %.0f", m.Name, plan.ErrNoPlan, most))
	}
	for k := range c.Bounds {
		if best := t.Least(c.Bounds[k].At); t.By != "" { // over all breakpoints: between the kept ones the makespan is lower
			c.Bounds[k].improve(solve.Bound{Value: best, By: t.By, Proof: proof.Search, Assumptions: []string{}})
		}
	}
	return series
}

// thin keeps at most n breakpoints, including the first and the last: those after a decrease of the makespan of at
// least an n-th of the total.
func thin(points []solve.Breakpoint, n int) []solve.Breakpoint {
	if len(points) <= n {
		return points
	}
	first, last := points[0], points[len(points)-1]
	step := (first.Makespan - last.Makespan) / float64(n-2)
	kept := []solve.Breakpoint{first}
	for _, p := range points[1 : len(points)-1] {
		if kept[len(kept)-1].Makespan-p.Makespan >= step {
			kept = append(kept, p)
		}
	}
	return append(kept, last)
}

// bound improves each bound by those of larger values: with less memory, slower links or fewer GPUs nothing is
// faster. It then sets the gap of every point.
func (c *Curve) bound() {
	for k := len(c.Bounds) - 2; k >= 0; k-- {
		next := &c.Bounds[k+1]
		c.Bounds[k].improve(solve.Bound{Value: next.Value, By: next.By, Proof: next.Proof, Assumptions: next.Assumptions})
		c.Bounds[k].Infeasible = c.Bounds[k].Infeasible || next.Infeasible
	}
	for i := range c.Series {
		for j := range c.Series[i].Points {
			p := &c.Series[i].Points[j]
			if b := c.BoundAt(p.At); b != nil && p.Makespan != nil {
				gap := platform.Gap(*p.Makespan, b.Value)
				p.Gap = &gap
			}
		}
	}
}

// BoundAt returns the best bound that is valid for a value of the axis, nil if none is.
func (c *Curve) BoundAt(at float64) *BoundPoint {
	for k := range c.Bounds {
		if c.Bounds[k].At >= at {
			return &c.Bounds[k]
		}
	}
	return nil
}

// Best returns the method's plan at a value of the axis, nil if it has none there: at its own points or, for a
// step function, anywhere.
func (s *Series) Best(at float64) (best *CurvePoint) {
	for k := range s.Points {
		p := &s.Points[k]
		here := p.At == at
		if s.Steps {
			here = platform.Fits(p.At, at)
		}
		if here && p.Makespan != nil && (best == nil || *p.Makespan < *best.Makespan) {
			best = p
		}
	}
	return best
}

// Makespan returns the makespan of [Series.Best], NaN if there is no plan.
func (s *Series) Makespan(at float64) float64 {
	if p := s.Best(at); p != nil {
		return *p.Makespan
	}
	return math.NaN()
}

// Quantity is the dependent variable of a curve.
type Quantity string

const (
	Makespan   Quantity = "makespan"   // seconds; of cyclic plans and pipelines the period
	Throughput Quantity = "throughput" // samples per second; steps, if the batch size is unknown
	Ratio      Quantity = "ratio"      // makespan / the best proven bound
	Share      Quantity = "moved"      // see [Moved]
)

// Quantities returns all quantities.
func Quantities() []Quantity { return []Quantity{Makespan, Throughput, Ratio, Share} }

// Value returns the quantity of a plan of the curve at a value, which for a step function may lie beyond the
// plan's own; NaN if there is none.
func (c *Curve) Value(q Quantity, p *CurvePoint, at float64) float64 {
	if p == nil || p.Makespan == nil {
		return math.NaN()
	}
	switch q {
	case Throughput:
		return float64(max(1, c.Samples)) / *p.Makespan
	case Ratio:
		if b := c.BoundAt(at); b != nil && b.Value > 0 {
			return *p.Makespan / b.Value
		}
		return math.NaN()
	case Share:
		if p.Moved == nil {
			return math.NaN()
		}
		return *p.Moved
	}
	return *p.Makespan
}

// Err returns the first error other than a missing plan: a plan that failed verification, a method that failed.
func (c *Curve) Err() error {
	var first error
	for i := range c.Series {
		s := &c.Series[i]
		var infeasible *plan.Infeasible
		if s.Err == nil {
			continue
		}
		if !errors.Is(s.Err, plan.ErrNoPlan) && !errors.As(s.Err, &infeasible) && !errors.Is(s.Err, solve.ErrInput) {
			return s.Err
		}
		if first == nil {
			first = s.Err
		}
	}
	for i := range c.Series {
		if c.Series[i].Err == nil {
			return nil
		}
	}
	return first
}
