// Package plots makes figures of trade-offs and of memory over time.
package plots

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"workbench/bench/render/picture"
	"workbench/bench/solve"
	"workbench/bench/solve/curve"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Curve is the figure of a trade-off. Makespans and throughputs are step
// functions: a plan is one with more memory, faster links or more GPUs, too, so
// the line at x is the best plan found up to x, and marks are what a method
// returned for that very value. Ratios and shares are no monotone functions, and
// lines join what is known. The region that a proven bound excludes is shaded;
// of makespans over memory, the store-all plan marked. What the bound
// excludes is below makespans and ratios and above throughputs. Ratios and
// shares are drawn over the memory in percent of the instance's range, as in
// [004] Figures 3.7 to 3.13 and 4.2 to 4.5.
func Curve(c *curve.Curve, problem *solve.Problem, quantity curve.Quantity) *picture.Figure {
	f := &picture.Figure{Title: c.Problem + ", " + c.Instance.Name + pipelineOf(c, problem)}
	size := upwards(f, c, problem, quantity)
	value := func(p *curve.CurvePoint, at float64) float64 { return c.Value(quantity, p, at) / size }
	across := acrossAxis(f, c, problem, quantity)
	for k := range c.Series {
		s := &c.Series[k]
		if s.Method == "store-all" && c.Over == curve.OverMemory {
			if p := last(s); p != nil {
				f.Marks = append(f.Marks, picture.Mark{Name: "store-all", X: across(c.High), Y: value(p, c.High)})
			}
			continue
		}
		if s.Kind == solve.Relaxed {
			continue // its bounds are in the area
		}
		line := picture.Series{Name: s.Method, Style: -1}
		switch {
		case quantity == curve.Makespan || quantity == curve.Throughput:
			addSteps(&line, c, s, quantity, across, size)
		case s.Steps && quantity == curve.Ratio: // the bound has steps, too: at the limits both are known
			line.Points = true
			for _, b := range c.Bounds {
				line.Add(across(b.At), value(s.Best(b.At), b.At))
			}
		default:
			line.Points = true
			for i := range s.Points {
				line.Add(across(s.Points[i].At), value(&s.Points[i], s.Points[i].At))
			}
		}
		f.Series = append(f.Series, line)
	}
	exclude(f, c, problem, quantity, size, across)
	return f
}

// addSteps makes the line the best plan of a method up to each value, and marks the
// values for which the method was run. Over the memory, a plan holds from its peak
// on, which is below the limit it was made for.
func addSteps(s *picture.Series, c *curve.Curve, of *curve.Series, quantity curve.Quantity, across func(float64) float64, size float64) {
	s.Steps = true
	var found []*curve.CurvePoint
	for i := range of.Points {
		p := &of.Points[i]
		if p.Makespan == nil {
			continue
		}
		found = append(found, p)
		if y := c.Value(quantity, p, p.At) / size; !of.Steps && plan.Finite(y) {
			s.MarkX, s.MarkY = append(s.MarkX, across(p.At)), append(s.MarkY, y)
		}
	}
	slices.SortStableFunc(found, func(a, b *curve.CurvePoint) int { return cmp.Compare(c.Threshold(a), c.Threshold(b)) })
	for k, best := 0, 0; k < len(found); k++ {
		if *found[k].Makespan < *found[best].Makespan {
			best = k
		}
		x := across(c.Threshold(found[k]))
		if last := len(s.X) - 1; last >= 0 && s.X[last] == x {
			s.X, s.Y = s.X[:last], s.Y[:last]
		}
		s.Add(x, c.Value(quantity, found[best], c.Threshold(found[k]))/size)
	}
}

// pipelineOf says what stays the same along a curve of a pipeline.
func pipelineOf(c *curve.Curve, problem *solve.Problem) (s string) {
	if !problem.Parallel {
		return ""
	}
	if c.Over != curve.OverProcessors {
		s += ", " + platform.Count(c.Platform.Processors, "GPU")
	}
	if c.Over != curve.OverMemory {
		s += ", " + platform.FormatBytes(c.Platform.Memory) + " each"
	}
	if c.Over != curve.OverBandwidth {
		s += ", " + platform.FormatRate(c.Platform.Bandwidth)
	}
	return s
}

// upwards names the y axis and returns the size of its unit.
func upwards(f *picture.Figure, c *curve.Curve, problem *solve.Problem, quantity curve.Quantity) (size float64) {
	switch {
	case quantity == curve.Throughput && c.Samples > 0:
		f.Y = "throughput (samples/s)"
	case quantity == curve.Throughput:
		f.Y = "throughput (steps/s)"
	case quantity == curve.Ratio:
		f.Y = problem.Word + " / lower bound"
	case quantity == curve.Share:
		f.Y, f.FromZero = "activations sent to the host (%)", true
		return 0.01
	default:
		u := platform.TimeUnit(c.Compute)
		f.Y = problem.Word + " (" + u.Name + ")"
		if !problem.Parallel && c.Compute > 0 {
			f.Base, f.Above = c.Compute/u.Size, "+ % step time"
		}
		return u.Size
	}
	return 1
}

// exclude shades what the bounds exclude.
func exclude(f *picture.Figure, c *curve.Curve, problem *solve.Problem, quantity curve.Quantity, size float64,
	across func(float64) float64,
) {
	if len(c.Bounds) == 0 || quantity == curve.Share {
		return
	}
	add := func(x, seconds float64) {
		y := c.Value(quantity, &curve.CurvePoint{Makespan: &seconds}, 0) / size
		if quantity == curve.Ratio {
			y = 1
		}
		f.Bound.X, f.Bound.Y = append(f.Bound.X, x), append(f.Bound.Y, y)
	}
	f.Bound = &picture.Bound{Name: "excluded by proof", Above: quantity == curve.Throughput}
	if a := Assumptions(c); len(a) > 0 {
		f.Bound.Name = "excluded (" + strings.Join(a, ", ") + ")"
	}
	for _, b := range c.Bounds {
		upTo := across(b.At)
		if problem.Slots {
			upTo++ // what is not a whole number is none more than its floor
		}
		add(upTo, b.Value)
	}
	if c.Over == curve.OverMemory {
		// With any memory the computations of a step take their time, which
		// processors at best share evenly.
		add(math.Inf(1), c.Compute/float64(max(1, c.Platform.Processors)))
	}
}

// Assumptions are those of the bounds of a curve, each once.
func Assumptions(c *curve.Curve) (list []string) {
	for _, b := range c.Bounds {
		for _, a := range b.Assumptions {
			if !slices.Contains(list, a) {
				list = append(list, a)
			}
		}
	}
	return list
}

// acrossAxis names the x axis and returns the map to it.
func acrossAxis(f *picture.Figure, c *curve.Curve, problem *solve.Problem, quantity curve.Quantity) func(at float64) float64 {
	in := func(unit float64) func(float64) float64 { return func(at float64) float64 { return at / unit } }
	switch {
	case c.Over == curve.OverProcessors:
		f.X, f.WholeX = "GPUs", true
		return in(1)
	case c.Over == curve.OverBandwidth:
		f.LogX = true
		for _, u := range []platform.AxisUnit{{Name: "GB/s", Size: 1e9}, {Name: "MB/s", Size: 1e6}, {Name: "kB/s", Size: 1e3}} {
			if len(c.Bounds) > 0 && c.Bounds[len(c.Bounds)-1].At >= u.Size {
				f.X = "bandwidth of each link (" + u.Name + ")"
				return in(u.Size)
			}
		}
		f.X = "bandwidth of each link (B/s)"
		return in(1)
	case problem.Slots:
		f.X = "memory (slots)"
		return in(1)
	case (quantity == curve.Ratio || quantity == curve.Share) && c.High > c.Low:
		f.X = "memory (% of the instance's range)"
		return func(at float64) float64 { return 100 * (at - c.Low) / (c.High - c.Low) }
	}
	unit := platform.ByteUnit(c.High)
	f.X = "memory (" + unit.Name + ")"
	return in(unit.Size)
}

// last returns the last point that has a plan, nil if none has.
func last(s *curve.Series) *curve.CurvePoint {
	for k := len(s.Points) - 1; k >= 0; k-- {
		if s.Points[k].Makespan != nil {
			return &s.Points[k]
		}
	}
	return nil
}
