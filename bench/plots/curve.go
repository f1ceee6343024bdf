package plots

import (
	"math"

	"workbench/bench"
	"workbench/model/platform"
)

// Curve is the figure of a trade-off: methods as lines or, where the whole
// curve is known, step functions; the region that a proven bound excludes
// shaded; over memory, the store-all plan marked. With throughput the y axis is
// samples per second, or steps per second if the batch size is unknown. word is
// the problem's: "makespan" or "period".
func Curve(c *bench.Curve, word string, slots, throughput bool) *Figure {
	f := &Figure{Title: c.Problem + ", " + c.Instance.Name}
	unit := f.across(c, slots)
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
		f.Y = word + " (" + u.Name + ")"
		value = func(seconds float64) float64 { return seconds / u.Size }
	}
	for k, s := range c.Series {
		if s.Method == "store-all" && c.Over == bench.OverMemory {
			if m := lastMakespan(&s); !math.IsNaN(m) {
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
			line.X, line.Y = append(line.X, p.At/unit.Size), append(line.Y, y)
		}
		f.Series = append(f.Series, line)
	}
	if len(c.Bounds) > 0 {
		f.Bound = &Bound{Name: "excluded by proof", Above: throughput}
		for _, b := range c.Bounds {
			upTo := b.At / unit.Size
			if slots {
				upTo++ // what is not a whole number is none more than its floor
			}
			f.Bound.X, f.Bound.Y = append(f.Bound.X, upTo), append(f.Bound.Y, value(b.Value))
		}
		if c.Over == bench.OverMemory {
			// The bound of the largest limit is that of any.
			f.Bound.X = append(f.Bound.X, math.Inf(1))
			f.Bound.Y = append(f.Bound.Y, value(c.Compute))
		}
	}
	return f
}

// across sets the x axis and returns its unit.
func (f *Figure) across(c *bench.Curve, slots bool) platform.Unit {
	switch {
	case c.Over == bench.OverProcessors:
		f.X, f.WholeX = "GPUs", true
		return platform.Unit{Name: "GPUs", Size: 1}
	case c.Over == bench.OverBandwidth:
		unit := platform.Unit{Name: "B/s", Size: 1}
		for _, u := range []platform.Unit{{Name: "GB/s", Size: 1e9}, {Name: "MB/s", Size: 1e6}, {Name: "kB/s", Size: 1e3}} {
			if len(c.Bounds) > 0 && c.Bounds[len(c.Bounds)-1].At >= 2*u.Size {
				unit = u
				break
			}
		}
		f.X, f.LogX = "bandwidth of each link ("+unit.Name+")", true
		return unit
	case slots:
		f.X = "memory (slots)"
		return platform.Unit{Name: "slots", Size: 1}
	}
	unit := platform.ByteUnit(c.High)
	f.X = "memory (" + unit.Name + ")"
	return unit
}

// lastMakespan returns the makespan of the last point that has a plan, NaN if
// none has.
func lastMakespan(s *bench.Series) float64 {
	for k := len(s.Points) - 1; k >= 0; k-- {
		if m := s.Points[k].Makespan; m != nil {
			return *m
		}
	}
	return math.NaN()
}

// coincides reports whether series k is, at half of the limits or more, within
// a thousandth of an earlier one, which it would hide.
func coincides(c *bench.Curve, k int) bool {
	for i := range c.Series[:k] {
		same := 0
		for _, b := range c.Bounds {
			x, y := c.Series[i].Makespan(b.At), c.Series[k].Makespan(b.At)
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
