package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench"
	"workbench/bench/plots"
	"workbench/model/nearest"
	"workbench/model/platform"
)

// curveOptions are the flags of curve beside those of solve.
type curveOptions struct {
	solveOptions
	points         int
	plot, quantity string
}

// quantities are what the y axis may be.
var quantities = []string{"makespan", "throughput"}

// mostPoints is more than a table or a picture can use.
const mostPoints = 10_000

func newCurve(s streams) *cli.Command {
	o := &curveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = slices.DeleteFunc(flags, func(f cli.Flag) bool { return f.Names()[0] == "memory" })
	flags = append(
		flags,
		&cli.StringFlag{Name: "methods", Usage: "`LIST` of methods separated by commas, or all (default: the quick ones)", Destination: &o.methods, Category: "solver"},
		&cli.IntFlag{Name: "points", Usage: "`N` memory limits, spread over the instance's range", Value: 20, Destination: &o.points, Category: "instance"},
		&cli.StringFlag{Name: "plot", Usage: "draw the curves to `FILE`.svg or .png", Destination: &o.plot, Category: "output"},
		&cli.StringFlag{Name: "quantity", Usage: "`QUANTITY` to draw: makespan or throughput", Value: "makespan", Destination: &o.quantity, Category: "output"},
	)
	return &cli.Command{
		Name:      "curve",
		Usage:     "the trade-off memory → makespan of several methods, all plans verified; drawn with --plot",
		ArgsUsage: "INSTANCE",
		Description: "Methods that make their whole curve in one run are drawn as step functions\n" +
			"with all their breakpoints; the others are run at each of the limits.\n" +
			"--time-limit is for each run.",
		Flags: append(flags, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 0, 1, "curve INSTANCE [--points N] [--plot FILE.svg|.png]")
			if err != nil {
				return err
			}
			log, err := o.check(s)
			if err != nil {
				return err
			}
			j, err := o.job(c.Context, s, log, first(a))
			if err != nil {
				return err
			}
			return curve(c, s, o, j)
		},
	}
}

func curve(c *cli.Context, s streams, o *curveOptions, j *job) error {
	switch {
	case o.points < 1 || o.points > mostPoints:
		return usagef("--points %d: from 1 to %d", o.points, mostPoints)
	case !slices.Contains(quantities, o.quantity):
		return usagef("--quantity %q: %s", o.quantity, nearest.Hint(o.quantity, quantities))
	}
	format, err := plotFormat(o.plot)
	if err != nil {
		return err
	}
	methods, err := curveMethods(j, o.methods)
	if err != nil {
		return err
	}
	var line *statusLine
	if !o.quiet {
		line = newStatusLine(s.err)
		j.setting.OnProgress = line.Live
	}
	result := bench.RunCurve(c.Context, j.problem, methods, j.in, j.setting, bench.Limits(j.problem, j.in, o.points))
	line.Done()
	if o.json() {
		if err := writeJSON(s.out, result); err != nil {
			return err
		}
	} else {
		printCurve(s.out, j, result)
	}
	if err := result.Err(); err != nil {
		return err
	}
	if o.plot == "" {
		return nil
	}
	figure := plots.Curve(result, j.problem.Slots, o.quantity == "throughput")
	err = writeFile(o.plot, func(w io.Writer) error { return figure.Write(w, format) })
	if errors.Is(err, plots.ErrEmpty) {
		return bench.InputError(err)
	}
	return err
}

// plotFormat returns the format that the name of a picture asks for, and
// refuses names that cannot be written.
func plotFormat(name string) (string, error) {
	if name == "" {
		return "", nil
	}
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(name)), ".")
	if !slices.Contains(plots.Formats, format) {
		return "", usagef("--plot %s: a name that ends in .svg or .png is needed", name)
	}
	return format, writable(name)
}

// curveMethods returns the methods a list names; by default the quick ones whose
// plans keep the limit.
func curveMethods(j *job, list string) ([]*bench.Method, error) {
	if list != "" {
		return chosen(j, list)
	}
	var out []*bench.Method
	for _, m := range bench.MethodsFor(j.problem, j.in) {
		if !m.Unverified && (m.Curve != nil || m.Kind == bench.Heuristic && !m.Solver) {
			out = append(out, m)
		}
	}
	return out, nil
}

// printCurve prints the makespan of each method at each limit.
func printCurve(w io.Writer, j *job, c *bench.Curve) {
	fmt.Fprintf(w, "%s of %s: %s, memory %s to %s%s\n\n", c.Problem, c.Instance.Name, j.in.Size(), j.memory(c.Low), j.memory(c.High), j.link())
	header := table.Row{"memory"}
	right := []int{1}
	for _, s := range c.Series {
		header = append(header, s.Method)
		right = append(right, len(header))
	}
	header = append(header, "bound")
	right = append(right, len(header))
	t := newTable(w, header, right...)
	for _, b := range c.Bounds {
		row := table.Row{j.memory(b.Memory)}
		for i := range c.Series {
			cell := "-"
			if m := c.Series[i].Makespan(b.Memory); !math.IsNaN(m) {
				cell = platform.FormatSeconds(m)
			}
			row = append(row, cell)
		}
		t.AppendRow(append(row, platform.FormatSeconds(b.Value)))
	}
	footer := table.Row{"time"}
	for _, s := range c.Series {
		footer = append(footer, fmt.Sprintf("%.2f s", s.WallTime))
	}
	t.AppendFooter(append(footer, ""))
	t.Render()
	fmt.Fprintln(w, "\nevery plan was verified by replay; the bounds are proven")
	for _, s := range c.Series {
		if s.Steps && s.Err == nil {
			fmt.Fprintf(w, "%s: %d breakpoints from one run\n", s.Method, len(s.Points))
		}
		if s.Err != nil {
			fmt.Fprintf(w, "%s: %s\n", s.Method, oneLine(s.Error))
		}
	}
}
