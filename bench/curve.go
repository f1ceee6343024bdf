package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"workbench/model/plan"
	"workbench/model/platform"
)

// CurveFormat names the format of [Curve].
const CurveFormat = "workbench.curve/v1"

// Curve is the trade-off memory → makespan of several methods on one instance.
// Sizes are in bytes (slots for joins), times in seconds.
type Curve struct {
	Format   string           `json:"format"`
	Problem  string           `json:"problem"`
	Instance plan.InstanceRef `json:"instance"`
	Samples  int              `json:"samples,omitempty"`
	// Low and High are the instance's memory range, Compute the time of
	// computing everything once.
	Low     float64  `json:"low"`
	High    float64  `json:"high"`
	Compute float64  `json:"compute"`
	Series  []Series `json:"series"`
	// Bounds are the best proven bounds, by increasing memory; each holds for
	// every limit up to its own.
	Bounds []BoundPoint `json:"bounds"`
}

// Series is the curve of one method.
type Series struct {
	Method string `json:"method"`
	Kind   Kind   `json:"kind"`
	// Steps says that the points are breakpoints of a step function from one
	// run; else the method was run at each limit.
	Steps    bool         `json:"steps"`
	Points   []CurvePoint `json:"points"`
	WallTime float64      `json:"wall_time"`
	Error    string       `json:"error,omitempty"` // why there is no point at all
	Err      error        `json:"-"`
}

// CurvePoint is a verified plan, or what became of the attempt at one.
type CurvePoint struct {
	Memory     float64  `json:"memory"` // the limit
	Makespan   *float64 `json:"makespan"`
	PeakMemory *float64 `json:"peak_memory"`
	Gap        *float64 `json:"gap"` // to the best bound proven for this limit
	Status     Status   `json:"status"`
	Error      string   `json:"error,omitempty"`
}

// BoundPoint is a proven lower bound for all limits up to Memory.
type BoundPoint struct {
	Memory      float64  `json:"memory"`
	Value       float64  `json:"value"`
	By          string   `json:"by"`
	Assumptions []string `json:"assumptions"`
}

// Tradeoff is the whole curve of a method on an instance, from one run.
type Tradeoff struct {
	// Points are the breakpoints: from Memory on, Makespan is reached. Memory
	// increases, makespan decreases.
	Points []Breakpoint
	// Plan makes the plan of a memory limit.
	Plan func(memory float64) (*plan.Plan, error)
	// By says who proves that nothing is faster, at any limit; empty: nobody.
	By string
}

// Breakpoint is one step of a [Tradeoff].
type Breakpoint struct{ Memory, Makespan float64 }

// mostSteps is how many breakpoints of a trade-off are verified and kept. A
// picture shows no more; of a curve with more, those are left out that change
// the makespan least.
const mostSteps = 400

// Limits returns n memory limits spread evenly over the instance's range.
func Limits(p *Problem, in *Instance, n int) []float64 {
	low, high := p.Range(in)
	if n < 2 || high <= low {
		return []float64{high}
	}
	limits := make([]float64, 0, n)
	for k := range n {
		m := low + (high-low)*float64(k)/float64(n-1)
		if p.Slots {
			m = math.Round(m)
		}
		if k == 0 || m > limits[len(limits)-1] {
			limits = append(limits, m)
		}
	}
	return limits
}

// RunCurve runs methods at the given limits, or once where they make their
// whole curve. Every point is a plan that the verifier has replayed. An
// interrupted run returns what it has.
func RunCurve(ctx context.Context, p *Problem, methods []*Method, in *Instance, s Setting, limits []float64) *Curve {
	low, high := p.Range(in)
	c := &Curve{Format: CurveFormat, Problem: p.Name, Instance: in.Ref(), Samples: in.Samples(), Low: low, High: high, Compute: in.Compute()}
	bounds := make([]Bound, len(limits))
	for k, m := range limits {
		bounds[k] = p.Bound(in, at(s.Platform, m))
	}
	for _, m := range methods {
		start := time.Now()
		var series Series
		if m.Curve != nil {
			series = wholeCurve(ctx, m, in, s, limits, bounds)
		} else {
			series = pointwise(ctx, p, m, in, s, limits, bounds)
		}
		series.Method, series.Kind, series.WallTime = m.Name, m.Kind, time.Since(start).Seconds()
		c.Series = append(c.Series, series)
		if ctx.Err() != nil {
			break
		}
	}
	c.bound(limits, bounds)
	return c
}

// at returns the platform with another memory.
func at(p platform.Platform, memory float64) platform.Platform {
	p.Memory = memory
	return p
}

// pointwise runs a method at every limit, and keeps better bounds.
func pointwise(ctx context.Context, p *Problem, m *Method, in *Instance, s Setting, limits []float64, bounds []Bound) (series Series) {
	for k, memory := range limits {
		if ctx.Err() != nil {
			break
		}
		s.Platform = at(s.Platform, memory)
		r := Run(ctx, p, m, in, s)
		point := CurvePoint{Memory: memory, Makespan: r.Makespan, PeakMemory: r.PeakMemory, Status: r.Status, Error: r.Error}
		series.Points = append(series.Points, point)
		if r.Bound != nil && r.Bound.Value > bounds[k].Value {
			bounds[k] = *r.Bound
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

// wholeCurve takes the curve of a method, verifies the plan of every breakpoint
// it keeps, and improves the bounds if the curve is proved to be the best.
func wholeCurve(ctx context.Context, m *Method, in *Instance, s Setting, limits []float64, bounds []Bound) (series Series) {
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
	most := limits[len(limits)-1]
	t, err := m.Curve(ctx, in, s, most)
	if err != nil {
		return fail(err)
	}
	steps := thin(t.Points, mostSteps)
	for _, b := range steps {
		made, err := t.Plan(b.Memory)
		if err != nil {
			return fail(fmt.Errorf("%s: no plan at its own breakpoint of %.0f: %w", m.Name, b.Memory, err))
		}
		report, err := plan.VerifyOn(in.Instance, made)
		if err == nil && !report.Valid() {
			err = &InvalidPlanError{m.Name, report}
		}
		if err == nil && math.Abs(report.Makespan-b.Makespan) > 1e-6*b.Makespan {
			err = fmt.Errorf("%s: the curve says %g s at %.0f, its plan takes %g s", m.Name, b.Makespan, b.Memory, report.Makespan)
		}
		if err != nil {
			return fail(err)
		}
		series.Points = append(series.Points, CurvePoint{Memory: b.Memory, Makespan: &report.Makespan, PeakMemory: &report.PeakMemory, Status: Feasible})
	}
	if len(series.Points) == 0 {
		return fail(fmt.Errorf("%s: %w up to %.0f", m.Name, plan.ErrNoPlan, most))
	}
	for k, memory := range limits {
		if best := series.Makespan(memory); t.By != "" && best > bounds[k].Value {
			bounds[k] = Bound{Value: best, By: t.By, Assumptions: []string{}}
		}
	}
	return series
}

// thin keeps at most n breakpoints, first and last among them: those that
// come after a fall of the makespan of at least an n-th of the whole.
func thin(points []Breakpoint, n int) []Breakpoint {
	if len(points) <= n {
		return points
	}
	first, last := points[0], points[len(points)-1]
	step := (first.Makespan - last.Makespan) / float64(n-2)
	kept := []Breakpoint{first}
	for _, p := range points[1 : len(points)-1] {
		if kept[len(kept)-1].Makespan-p.Makespan >= step {
			kept = append(kept, p)
		}
	}
	return append(kept, last)
}

// bound sets the bounds, each improved by those of larger limits: with less
// memory nothing is faster. Then every point gets its gap.
func (c *Curve) bound(limits []float64, bounds []Bound) {
	for k := len(bounds) - 2; k >= 0; k-- {
		if bounds[k+1].Value > bounds[k].Value {
			bounds[k] = bounds[k+1]
		}
	}
	for k, m := range limits {
		c.Bounds = append(c.Bounds, BoundPoint{m, bounds[k].Value, bounds[k].By, bounds[k].Assumptions})
	}
	for i := range c.Series {
		for j := range c.Series[i].Points {
			p := &c.Series[i].Points[j]
			if b := c.BoundAt(p.Memory); b != nil && p.Makespan != nil {
				gap := max(0, RelativeGap(*p.Makespan, b.Value))
				p.Gap = &gap
			}
		}
	}
}

// BoundAt returns the best bound that holds for a memory limit, nil if none
// does.
func (c *Curve) BoundAt(memory float64) *BoundPoint {
	for k := range c.Bounds {
		if c.Bounds[k].Memory >= memory {
			return &c.Bounds[k]
		}
	}
	return nil
}

// Makespan returns the makespan of the method's best plan for a limit, NaN if
// it has none.
func (s *Series) Makespan(memory float64) float64 {
	best := math.NaN()
	for _, p := range s.Points {
		if p.Memory <= memory*(1+plan.Tolerance) && p.Makespan != nil && !(*p.Makespan >= best) {
			best = *p.Makespan
		}
	}
	return best
}

// Err returns the first error that is no missing plan: a plan that failed
// verification, a method that failed.
func (c *Curve) Err() error {
	var first error
	for i := range c.Series {
		s := &c.Series[i]
		var infeasible *plan.Infeasible
		if s.Err == nil {
			continue
		}
		if !errors.Is(s.Err, plan.ErrNoPlan) && !errors.As(s.Err, &infeasible) && !errors.Is(s.Err, ErrInput) {
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
