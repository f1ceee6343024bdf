package main

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/render/page"
	"workbench/bench/render/picture"
	"workbench/bench/render/plots"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/curve"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
)

// curveOptions are the flags of curve beside those of solve.
type curveOptions struct {
	solveOptions
	points         int
	over, at       string
	plot, quantity string
	html           string
}

// quantities are what a curve may show.
func quantities() (names []string) {
	for _, q := range curve.Quantities() {
		names = append(names, string(q))
	}
	return names
}

// mostPoints is more than a table or a picture can use.
const mostPoints = 10_000

// Points where the user does not say how many.
var defaultPoints = map[curve.Axis]int{curve.OverMemory: 20, curve.OverBandwidth: 8, curve.OverProcessors: 8}

func newCurve(s streams) *cli.Command {
	o := &curveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = append(
		flags,
		stringFlag("solver", "methods, method", &o.methods, "", "`LIST` of methods separated by commas, or all (default: the quick ones)"),
		stringFlag("instance", "over", &o.over, string(curve.OverMemory), "`AXIS` of the curve: memory, bandwidth or processors"),
		intFlag("instance", "points", &o.points, 0,
			"`N` memory limits, spread over the instance's range (20 if not given); bandwidths, from a sixteenth of --bandwidth to eight "+
				"times it (8); or GPUs, from 1 on (8)"),
		stringFlag("instance", "at", &o.at, "",
			"`LIST` of memory limits, bandwidths or numbers of GPUs, separated by commas, instead of --points"),
		stringFlag("output", "plot", &o.plot, "", "draw the curves to `FILE`.svg or .png"),
		stringFlag("output", "html", &o.html, "", "write the fastest plan for each value as a page with a slider to `FILE`"),
		stringFlag("output", "quantity", &o.quantity, string(curve.Makespan),
			"`QUANTITY` to show: makespan, throughput, ratio to the best proven bound, or the share of activations moved to the host"),
	)
	return &cli.Command{
		Name:      "curve",
		Usage:     "compute step time or period of several methods against memory, bandwidth or GPUs, all plans verified; --plot draws it",
		ArgsUsage: "INSTANCE",
		Description: "Methods that make their whole curve over memory in one run are drawn as step\n" +
			"functions with all their breakpoints; the others are run at each value.\n" +
			"--time-limit is for each run.",
		Flags: append(flags, o.flags()...),
		Action: o.action(s, 0, 1, "curve INSTANCE [--over AXIS] [--points N] [--plot FILE.svg|.png]", func(c *cli.Context, a []string) error {
			j, err := o.job(c, s, first(a))
			if err != nil {
				return err
			}
			return drawCurve(c, s, o, j)
		}),
	}
}

func drawCurve(c *cli.Context, s streams, o *curveOptions, j *job) error {
	if plan.MinimisesMemory(j.Problem.Name) {
		return usagef("%s minimises memory and has no trade-off with it; workbench compare shows its methods", j.Problem.Name)
	}
	quantity := curve.Quantity(o.quantity)
	if !slices.Contains(quantities(), o.quantity) {
		return usagef("--quantity %q: %s", o.quantity, nearest.Hint(o.quantity, quantities()))
	}
	if quantity == curve.Share && j.Problem.Moved == nil {
		return usagef("--quantity %s: %s moves no activations to the host", o.quantity, j.Problem.Name)
	}
	over, values, err := o.axis(c, j)
	if err != nil {
		return err
	}
	format, err := plotFormat(o.plot)
	if err != nil {
		return err
	}
	methods, err := curveMethods(j, o.methods)
	if err != nil {
		return err
	}
	var line *progress.Solve
	if !o.quiet {
		line = progress.NewSolve(s.err, j.Problem, 0)
		j.Setting.OnProgress = line.Live
	}
	result := curve.RunCurve(c.Context, j.Problem, methods, j.Instance, j.Setting, over, values)
	line.Done()
	err = o.print(s.out, "", result, func(w io.Writer) {
		render.Curve(w, &j.Case, result, quantity)
		interrupted(c.Context, w, methods, len(result.Series))
	})
	if err := cmp.Or(err, result.Err()); err != nil {
		return err
	}
	if o.html != "" {
		if err := sliderPage(s, o.html, j, result); err != nil {
			return err
		}
	}
	if o.plot == "" {
		return nil
	}
	figure := plots.Curve(result, j.Problem, quantity)
	return drawFigure(s, o.plot, format, figure)
}

// mostShown is how many plans a page with a slider has.
const mostShown = 40

// sliderPage writes the fastest plans of a curve as one page, those of smaller values first; over memory only plans that are faster
// than all with less.
func sliderPage(s streams, file string, j *job, c *curve.Curve) error {
	var points []curve.CurvePoint
	for k := range c.Series {
		points = append(points, c.Series[k].Points...)
	}
	points = slices.DeleteFunc(points, func(p curve.CurvePoint) bool { return p.Plan == nil })
	slices.SortStableFunc(points, func(a, b curve.CurvePoint) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(*a.Makespan, *b.Makespan))
	})
	var kept []curve.CurvePoint
	for _, p := range points {
		n := len(kept)
		faster := n == 0 || *p.Makespan < *kept[n-1].Makespan*(1-solve.Exactness)
		if faster || c.Over != curve.OverMemory && p.At > kept[n-1].At {
			kept = append(kept, p)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("--html %s: %w to show", file, plan.ErrNoPlan)
	}
	var plans []page.Plan
	for k := range min(len(kept), mostShown) {
		p := kept[k*(len(kept)-1)/max(1, min(len(kept), mostShown)-1)]
		at := j.Memory(p.At)
		switch c.Over {
		case curve.OverBandwidth:
			at = platform.FormatRate(p.At)
		case curve.OverProcessors:
			at = platform.Count(int(p.At), "GPU")
		}
		plans = append(plans, page.Plan{
			Name:     fmt.Sprintf("%s: %s by %s", at, j.Problem.Write(*p.Makespan), p.Plan.Method),
			Instance: j.Instance.Instance, Plan: p.Plan, Timeline: j.Problem.Timeline, Tensors: j.Problem.Tensors,
		})
	}
	title := fmt.Sprintf("%s of %s", j.Problem.Name, j.Instance.Name)
	return atomicfile.Write(file, s.out, func(w io.Writer) error { return page.WriteSlider(w, title, string(c.Over), plans) })
}

// axis returns what the curve is over, and at which increasing values.
func (o *curveOptions) axis(c *cli.Context, j *job) (curve.Axis, []float64, error) {
	over := curve.Axis(o.over)
	if err := o.checkAxis(c, j, over); err != nil {
		return over, nil, err
	}
	values, err := o.values(c, j, over)
	if err != nil {
		return over, nil, err
	}
	if len(values) > mostPoints {
		return over, nil, usagef("--at names %d values, at most %d are possible", len(values), mostPoints)
	}
	slices.Sort(values)
	values = slices.Compact(values)
	for _, x := range values {
		if err := j.Problem.Fit(j.Instance, over.Place(j.Setting.Platform, x)); err != nil {
			return over, nil, err
		}
	}
	return over, values, nil
}

// checkAxis refuses an axis that the problem does not have, and flags that say
// of it what --points and --at say.
func (o *curveOptions) checkAxis(c *cli.Context, j *job, over curve.Axis) error {
	var axes []string
	for _, a := range curve.Axes(j.Problem) {
		axes = append(axes, string(a))
	}
	switch {
	case !slices.Contains(axes, o.over):
		return usagef("--over %q: %s; curves of %s are over %s", o.over, nearest.Hint(o.over, axes), j.Problem.Name, strings.Join(axes, ", "))
	case c.IsSet("at") && c.IsSet("points"):
		return usagef("--at %s and --points %d: one of them is needed", o.at, o.points)
	case o.points < 1 && c.IsSet("points") || o.points > mostPoints:
		return usagef("--points %d: from 1 to %d", o.points, mostPoints)
	case over == curve.OverMemory && o.memory+o.part != "":
		return usagef("--memory, --range: the curve is over the memory; --at names limits")
	case over == curve.OverProcessors && c.IsSet("processors"):
		return usagef("--processors %d: the curve is over the GPUs; --points %d is 1 to %d of them, --at names numbers", o.processors,
			o.processors, o.processors)
	}
	return nil
}

// values returns the values that --at names, or as many as --points asks for.
func (o *curveOptions) values(c *cli.Context, j *job, over curve.Axis) (values []float64, err error) {
	if c.IsSet("at") {
		for _, word := range strings.Split(o.at, ",") {
			x, err := o.value(j, over, strings.TrimSpace(word))
			if err != nil {
				return nil, usagef("--at: %v", err)
			}
			values = append(values, x)
		}
		return values, nil
	}
	n := o.points
	if n == 0 {
		n = defaultPoints[over]
	}
	switch over {
	case curve.OverBandwidth:
		return curve.Bandwidths(j.Setting.Platform.Bandwidth, n), nil
	case curve.OverProcessors:
		if n > mostProcessors {
			return nil, usagef("--points %d: from 1 to %d GPUs", n, mostProcessors)
		}
		for p := range n {
			values = append(values, float64(p+1))
		}
		return values, nil
	}
	return curve.Limits(j.Problem, j.Instance, j.Setting, n), nil
}

// value reads one value of --at.
func (o *curveOptions) value(j *job, over curve.Axis, word string) (float64, error) {
	switch over {
	case curve.OverBandwidth:
		return platform.ParseRate(word)
	case curve.OverProcessors:
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > mostProcessors {
			return 0, fmt.Errorf("%q: an integer number of GPUs from 1 to %d is needed", word, mostProcessors)
		}
		return float64(n), nil
	}
	m, err := platform.ParseMemory(word)
	return j.Instance.Resolve(m, j.Low, j.High), err
}

// plotFormat returns the format that the name of a picture asks for, and
// refuses names that cannot be written.
func plotFormat(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
	if !slices.Contains(picture.Formats, format) {
		return "", usagef("--plot %s: a name that ends in .svg or .png is needed", name)
	}
	return format, atomicfile.Check(name)
}

// curveMethods returns the methods a list names; by default the quick ones whose
// plans keep the limit.
func curveMethods(j *job, list string) ([]*solve.Method, error) {
	if list != "" {
		return chosen(j, list)
	}
	var out []*solve.Method
	for _, m := range catalog.MethodsFor(j.Problem, j.Instance) {
		if !m.Unverified && (m.Curve != nil || m.Kind == solve.Heuristic && !m.Solver) {
			out = append(out, m)
		}
	}
	return out, nil
}
