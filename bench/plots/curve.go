package plots

import (
	"math"

	"workbench/bench"
	"workbench/model/platform"
)

// Curve is the figure of a trade-off: methods as lines or, where the whole
// curve is known, step functions; the region that a proven bound excludes
// shaded; the store-all plan marked. With throughput the y axis is samples per
// second, or steps per second if the batch size is unknown.
func Curve(c *bench.Curve, slots, throughput bool) *Figure {
	f := &Figure{Title: c.Problem + ", " + c.Instance.Name}
	unit := platform.Unit{Name: "slots", Size: 1}
	if !slots {
		unit = platform.ByteUnit(c.High)
	}
	f.X = "memory (" + unit.Name + ")"
	var value func(seconds float64) float64
	if throughput {
		samples := 1.0
		f.Y = "throughput (steps/s)"
		if c.Samples > 0 {
			samples, f.Y = float64(c.Samples), "throughput (samples/s)"
		}
		value = func(seconds float64) float64 { return samples / seconds }
	} else {
		u := platform.TimeUnit(c.Compute)
		f.Y = "makespan (" + u.Name + ")"
		value = func(seconds float64) float64 { return seconds / u.Size }
	}
	for k, s := range c.Series {
		if s.Method == "store-all" {
			if m := s.Makespan(math.Inf(1)); !math.IsNaN(m) {
				f.Marks = append(f.Marks, Mark{"store-all", c.High / unit.Size, value(m)})
			}
			continue
		}
		if s.Kind == bench.Relaxed {
			continue // its bounds are in the area
		}
		line := Series{Name: s.Method, Steps: s.Steps, Points: !s.Steps, Style: -1, Dashed: coincides(c, k)}
		for _, p := range s.Points {
			y := math.NaN()
			if p.Makespan != nil {
				y = value(*p.Makespan)
			}
			line.X, line.Y = append(line.X, p.Memory/unit.Size), append(line.Y, y)
		}
		f.Series = append(f.Series, line)
	}
	if len(c.Bounds) > 0 {
		f.Bound = &Bound{Name: "excluded by proof", Above: throughput}
		for _, b := range c.Bounds {
			upTo := b.Memory / unit.Size
			if slots {
				upTo++ // what is not a whole number is none more than its floor
			}
			f.Bound.X, f.Bound.Y = append(f.Bound.X, upTo), append(f.Bound.Y, value(b.Value))
		}
		// The bound of the largest limit is that of any.
		f.Bound.X = append(f.Bound.X, math.Inf(1))
		f.Bound.Y = append(f.Bound.Y, value(c.Compute))
	}
	return f
}

// coincides reports whether series k is, at half of the limits or more, within
// a thousandth of an earlier one, which it would hide.
func coincides(c *bench.Curve, k int) bool {
	for i := range c.Series[:k] {
		same := 0
		for _, b := range c.Bounds {
			x, y := c.Series[i].Makespan(b.Memory), c.Series[k].Makespan(b.Memory)
			if math.Abs(x-y) <= 1e-3*x {
				same++
			}
		}
		if same > 0 && 2*same >= len(c.Bounds) {
			return true
		}
	}
	return false
}
