package render

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/render/plots"
	"workbench/bench/solve"
	"workbench/bench/solve/curve"
	"workbench/model/platform"
)

// formatAxisValue writes a value of what the curve is over.
func formatAxisValue(c *Case, over curve.Axis, x float64) string {
	switch over {
	case curve.OverBandwidth:
		return platform.FormatRate(x)
	case curve.OverProcessors:
		return strconv.Itoa(int(x))
	}
	return c.Memory(x)
}

// heading says what the curve is of and what stays the same along it.
func heading(c *Case, x *curve.Curve) string {
	s := fmt.Sprintf("%s of %s: %s, memory ", x.Problem, x.Instance.Name, c.Instance.Size())
	switch x.Over {
	case curve.OverBandwidth:
		s += c.Limit()
		if c.Problem.Parallel {
			s += fmt.Sprintf(" on each of %d GPUs (%s model)", x.Platform.Processors, c.Setting.MemoryModel)
		}
		return s
	case curve.OverProcessors:
		return s + fmt.Sprintf("%s on each GPU (%s model), %s a link", c.Memory(x.Platform.Memory), c.Setting.MemoryModel,
			platform.FormatRate(x.Platform.Bandwidth))
	}
	return s + fmt.Sprintf("%s to %s%s", c.Memory(x.Low), c.Memory(x.High), c.Link())
}

// quantity writes a quantity, "-" for none.
func quantity(q curve.Quantity, x float64) string {
	switch {
	case math.IsNaN(x):
		return "-"
	case q == curve.Throughput:
		return fmt.Sprintf("%.4g /s", x)
	case q == curve.Ratio:
		return fmt.Sprintf("%.4f", x)
	case q == curve.Share:
		return fmt.Sprintf("%.1f %%", 100*x)
	}
	return platform.FormatSeconds(x)
}

// Curve prints a quantity of each method's plan at each value.
func Curve(w io.Writer, c *Case, x *curve.Curve, q curve.Quantity) {
	fmt.Fprintf(w, "%s\n\n", heading(c, x))
	header := table.Row{string(x.Over)}
	right := []int{1}
	scaled := x.Over == curve.OverMemory && (q == curve.Ratio || q == curve.Share) && x.High > x.Low
	if scaled {
		header, right = append(header, "of range"), append(right, 2)
	}
	for _, s := range x.Series {
		header = append(header, s.Method)
		right = append(right, len(header))
	}
	header = append(header, "bound")
	right = append(right, len(header))
	t := Table(w, header, right...)
	for _, b := range x.Bounds {
		row := table.Row{formatAxisValue(c, x.Over, b.At)}
		if scaled {
			row = append(row, fmt.Sprintf("%.4g %%", 100*(b.At-x.Low)/(x.High-x.Low)))
		}
		for i := range x.Series {
			row = append(row, quantity(q, x.Value(q, x.Series[i].Best(b.At), b.At)))
		}
		bound := platform.FormatSeconds(b.Value)
		if q == curve.Throughput {
			bound = quantity(q, x.Value(q, &curve.CurvePoint{Makespan: &b.Value}, b.At))
		}
		if b.Infeasible {
			bound = string(solve.Infeasible)
		}
		t.AppendRow(append(row, bound))
	}
	footer := table.Row{"time"}
	if scaled {
		footer = append(footer, "")
	}
	for _, s := range x.Series {
		footer = append(footer, fmt.Sprintf("%.2f s", s.WallTime))
	}
	t.AppendFooter(append(footer, ""))
	t.Render()
	fmt.Fprint(w, "\nevery plan was verified by replay; the bounds are proven")
	if a := plots.Assumptions(x); len(a) > 0 {
		fmt.Fprintf(w, ", some assuming %s", strings.Join(a, ", "))
	}
	fmt.Fprintln(w)
	for k := range x.Series {
		if less, more := x.Slower(&x.Series[k]); less != nil {
			fmt.Fprintf(w, "%s: %s with %s, slower than with %s: a plan for less memory is one for more\n",
				x.Series[k].Method, platform.FormatSeconds(*more.Makespan), formatAxisValue(c, x.Over, more.At), formatAxisValue(c, x.Over, less.At))
		}
	}
	for _, s := range x.Series {
		if s.Steps && s.Err == nil {
			fmt.Fprintf(w, "%s: %s from one run\n", s.Method, platform.Count(len(s.Points), "breakpoint"))
		}
		if s.Err != nil {
			fmt.Fprintf(w, "%s: %s\n", s.Method, OneLine(s.Error))
		}
	}
}
