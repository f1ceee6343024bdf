package main

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/outfile"
	"workbench/bench/run"
	"workbench/bench/timeline"
	"workbench/model/plan"
	"workbench/model/verify"
)

func newShow(s streams) *cli.Command {
	o := &common{}
	var out, instance string
	return &cli.Command{
		Name:      "show",
		Usage:     "summary of a plan; its timeline as a picture or a trace",
		ArgsUsage: "PLAN",
		Description: "The instance is what the plan was made for: --instance, or the built-in network\n" +
			"or file that the plan remembers, or a file of its name beside the plan.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "timeline", Usage: "draw the plan to `FILE`.svg, or write a trace for Perfetto to FILE.json", Destination: &out, Category: "output"},
			&cli.StringFlag{Name: "instance", Aliases: []string{"i"}, Usage: "`INSTANCE` the plan was made for", Destination: &instance, Category: "instance"},
		}, o.flags()...),
		Action: o.action(s, 1, 1, "show PLAN [--timeline FILE.svg|.json] [--instance INSTANCE]", func(c *cli.Context, a []string) error {
			p, err := readPlan(s, a[0])
			if err != nil {
				return err
			}
			in, err := run.LoadOf(p, a[0], instance, s.in)
			if err != nil {
				return err
			}
			if out != "" {
				if err := drawTimeline(s, out, in.Instance, p); err != nil {
					return err
				}
			}
			sum, err := verify.Summarize(in.Instance, p)
			if err != nil {
				return run.InputError(err)
			}
			if o.json() {
				return writeJSON(s.out, sum)
			}
			_, err = fmt.Fprint(s.out, sum)
			return err
		}),
	}
}

// drawTimeline writes the picture or the trace, by the extension of name.
func drawTimeline(s streams, name string, in plan.Instance, p *plan.Plan) error {
	problem, err := catalog.FindProblem(p.Problem)
	if err != nil {
		return err
	}
	var draw func(io.Writer) error
	switch ext := strings.ToLower(filepath.Ext(name)); ext {
	case ".svg":
		draw = func(w io.Writer) error { return problem.Timeline.SVG(w, in, p, timeline.Options{}) }
	case ".json":
		draw = func(w io.Writer) error { return problem.Timeline.Trace(w, in, p) }
	default:
		return usagef("--timeline %s: a name that ends in .svg (picture) or .json (trace) is needed", name)
	}
	err = outfile.Write(name, s.out, draw)
	if errors.Is(err, plan.ErrUnreadable) {
		return run.InputError(err)
	}
	return err
}
