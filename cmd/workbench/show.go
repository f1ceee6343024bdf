package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/render"
	"workbench/bench/render/page"
	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/layout"
	"workbench/model/plan"
	"workbench/model/verify"
)

func newShow(s streams) *cli.Command {
	o := &common{formats: []string{"text", "json", "dot"}}
	var out, instance, html, with string
	var open bool
	return &cli.Command{
		Name:      "show",
		Usage:     "summarise a plan, draw its timeline as a picture or a trace; summarise an instance",
		ArgsUsage: "PLAN|INSTANCE",
		Description: "The instance is that of the plan: --instance, or the built-in network\n" +
			"or file recorded in the plan, or a file of its name in the plan's folder.\n" +
			"For an instance: its composition, the memory ranges of its problems, and for a\n" +
			"training step the composition of its peak; --format dot draws that for Graphviz.",
		Flags: append([]cli.Flag{
			stringFlag("output", "timeline", &out, "", "draw the plan to `FILE`.svg, or write a trace for Perfetto to FILE.json"),
			stringFlag("output", "html", &html, "", "write the plan as a page for a browser to `FILE`: timeline, memory, largest tensors"),
			stringFlag("output", "with", &with, "", "with --html, another `PLAN` on the same time axis"),
			boolFlag("output", "open", &open,
				"open the page in a browser (BROWSER names another); without --html it is written next to the plan"),
			stringFlag("instance", "instance, i", &instance, "", "`INSTANCE` the plan was made for"),
		}, o.flags()...),
		Action: o.action(s, 1, 1, "show PLAN|INSTANCE [--timeline FILE.svg|.json] [--instance INSTANCE]", func(c *cli.Context, a []string) error {
			if data, err := os.ReadFile(a[0]); err == nil && layout.Is(data) {
				return showLayout(s, o, data, a[0])
			}
			p, err := readPlan(s, a[0])
			if err != nil && a[0] != "-" {
				if in, other := solve.Load(a[0], nil); other == nil {
					return showInstance(s, o, in)
				}
			}
			if err != nil {
				return err
			}
			if o.format == "dot" {
				return usagef("--format dot: %s is a plan; training steps are drawn", a[0])
			}
			in, err := solve.LoadOf(p, a[0], instance, s.in)
			if err != nil {
				return err
			}
			if out != "" {
				if err := drawTimeline(s, out, in.Instance, p); err != nil {
					return err
				}
			}
			if open && html == "" {
				html = pageOf(a[0])
			}
			if html != "" {
				if err := writePage(s, html, instance, a[0], with); err != nil {
					return err
				}
			}
			if open {
				if err := openPage(html); err != nil {
					return err
				}
			}
			sum, err := verify.Summarize(in.Instance, p)
			if err != nil {
				return solve.InputError(err)
			}
			if o.json() {
				var b bytes.Buffer
				if err := render.Document(&b, "workbench.plan-summary/v1", sum); err != nil {
					return err
				}
				return writeDecimals(s.out, json.RawMessage(b.Bytes()))
			}
			_, err = fmt.Fprint(s.out, sum)
			return err
		}),
	}
}

// writePage writes plan files, those that are not "", as one page.
func writePage(s streams, name, instance string, files ...string) error {
	var plans []page.Plan
	for _, file := range files {
		if file == "" {
			continue
		}
		p, err := readPlan(s, file)
		if err != nil {
			return err
		}
		in, err := solve.LoadOf(p, file, instance, s.in)
		if err != nil {
			return err
		}
		problem, err := catalog.FindProblem(p.Problem)
		if err != nil {
			return err
		}
		sum, err := verify.Summarize(in.Instance, p)
		if err != nil {
			return solve.InputError(err)
		}
		plans = append(plans, page.Plan{
			Name: fmt.Sprintf("%s by %s (%s)", p.Problem, p.Method, file), Summary: fmt.Sprint(sum),
			Instance: in.Instance, Plan: p, Timeline: problem.Timeline, Tensors: problem.Tensors,
		})
	}
	title := fmt.Sprintf("%s of %s", plans[0].Plan.Problem, plans[0].Instance.Title())
	err := atomicfile.Write(name, s.out, func(w io.Writer) error { return page.Write(w, title, plans...) })
	if errors.Is(err, plan.ErrUnreadable) {
		return solve.InputError(err)
	}
	return err
}

// writeDecimals writes v as JSON with 15 digits of every number: as many as name one
// float64 only, so that what a file says comes out as it is there, and not what is
// left of the rounding of a sum: 0.3, not 0.30000000000000004.
func writeDecimals(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var short []byte
	for d := json.NewDecoder(bytes.NewReader(data)); ; {
		d.UseNumber()
		before := d.InputOffset()
		t, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		text := data[before:d.InputOffset()]
		if n, ok := t.(json.Number); ok {
			text = bytes.TrimSuffix(text, []byte(n)) // the comma or colon before it
			x, err := n.Float64()
			if err != nil {
				return err
			}
			if x, err = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 15, 64), 64); err != nil {
				return err
			}
			number, err := json.Marshal(x)
			if err != nil {
				return err
			}
			text = append(slices.Clone(text), number...)
		}
		short = append(short, text...)
	}
	return writeJSON(w, json.RawMessage(short))
}

// showInstance sums up an instance.
func showInstance(s streams, o *common, in *solve.Instance) error {
	if o.format == "dot" {
		g := catalog.Step(in)
		if g == nil {
			return usagef("--format dot: %s is a %s; graphs of training steps are drawn", in.Name, in.Kind())
		}
		return g.WriteDOT(s.out)
	}
	outline := catalog.OutlineOf(in)
	if o.json() {
		return writeDecimals(s.out, outline)
	}
	render.Outline(s.out, in.Instance, outline)
	return nil
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
	err = atomicfile.Write(name, s.out, draw)
	if errors.Is(err, plan.ErrUnreadable) {
		return solve.InputError(err)
	}
	return err
}
