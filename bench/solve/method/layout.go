package method

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	heuristics "workbench/heuristics/layout"
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/chain"
	file "workbench/model/instance/layout"
	"workbench/model/nearest"
	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/layout"
)

// LayoutMethods are the names of the methods that lay out a pipeline, the default last.
var LayoutMethods = []string{"uniform", "hand", "bottleneck", "local-search", "exact"}

// Layout lays out a chain on the GPUs of a platform by a method, "" being exact: local search and, of few layers, all layouts. The
// plan is replayed by the verifier of pipelines. proved says that a search excluded everything better. The error wraps solve.ErrInput, is
// a *plan.Infeasible, or wraps plan.ErrNoPlan.
func Layout(ctx context.Context, c *chain.Chain, p platform.Platform, s layout.Setting, name string,
	g heuristics.Goal,
) (f *file.File, proved bool, err error) {
	in, err := layout.New(c, p, s)
	if err != nil {
		return nil, false, solve.InputError(err)
	}
	if err := in.Fits(); err != nil {
		return nil, false, err
	}
	bound := in.Bounds()[0]
	g.Bound = bound.Value
	var found *heuristics.Found
	switch name = cmp.Or(name, "exact"); name {
	case "uniform":
		found = heuristics.Uniform(ctx, in, g)
	case "hand":
		found = heuristics.Hand(ctx, in, g)
	case "bottleneck":
		found = heuristics.Bottleneck(ctx, in, g)
	case "local-search":
		found = heuristics.LocalSearch(ctx, in, g)
	case "exact":
		found, proved = heuristics.Exact(ctx, in, g)
	default:
		return nil, false, solve.InputError(fmt.Errorf("--method %q: %s", name, nearest.Hint(name, LayoutMethods)))
	}
	if found == nil {
		return nil, false, fmt.Errorf("layout: %w: %s has none that fits in %s on each of %d GPUs", plan.ErrNoPlan, name,
			platform.FormatBytes(c.Unit.Bytes(p.Memory)), p.Processors)
	}
	f, err = written(in, found, name)
	if err != nil {
		return nil, false, err
	}
	if f.Bound, f.BoundBy = bound.Value, bound.By; proved {
		f.Bound, f.BoundBy = max(f.Bound, found.Objective), "enumeration of all layouts"
	}
	return f, proved, nil
}

// written replays what a method found and returns it as a file.
func written(in *layout.Instance, found *heuristics.Found, name string) (*file.File, error) {
	timed, err := found.View.Schedule(found.Order)
	if err != nil {
		return nil, err
	}
	made := found.View.Plan(name, timed)
	report, err := periodic.VerifyFlush(in.Partition(found.Layout), made)
	if err != nil {
		return nil, err
	}
	if !report.Valid() {
		return nil, fmt.Errorf("layout: %s made a plan that breaks a rule: %s", name, report.Violations[0].Detail)
	}
	f := &file.File{
		Chain: in.Chain.Name, Placement: found.View.GPU, MicroBatches: in.Jobs, Memory: in.Chain.Unit.Bytes(in.Platform.Memory),
		Objective: in.Platform.Objective, Method: name,
		Makespan: report.Makespan, Span: report.Flush.Span, PeakMemory: report.PeakMemory, LayoutBound: found.View.Bound().Value,
	}
	from := 0
	for _, to := range found.Layout.Ends {
		f.Cuts, from = append(f.Cuts, to-from), to
	}
	for i := range in.Layers {
		f.Layers = append(f.Layers, in.Chain.Layers[i].Name)
		f.Options = append(f.Options, in.Layers[i].Options[found.Layout.Options[i]].Name)
	}
	var cells bytes.Buffer
	if err := torchcsv.Write(&cells, made); err != nil {
		return nil, err
	}
	r := csv.NewReader(&cells)
	r.FieldsPerRecord = -1
	f.Schedule, err = r.ReadAll()
	return f, err
}

// LayoutText writes a layout for people.
func LayoutText(f *file.File, proved bool) string {
	var b strings.Builder
	gpus := slices.Max(f.Placement) + 1
	value, word := f.Makespan, "makespan"
	if f.Objective == plan.SpanObjective {
		value, word = f.Span, "span"
	}
	seconds := platform.FormatSeconds
	fmt.Fprintf(&b, "layout of %s: %s in %s on %s of %s, %s\n", f.Chain, platform.Count(len(f.Layers), "layer"),
		platform.Count(len(f.Cuts), "stage"),
		platform.Count(gpus, "GPU"), platform.FormatBytes(f.Memory), platform.Count(f.MicroBatches, "micro-batch"))
	line := func(label, format string, args ...any) {
		fmt.Fprintf(&b, "  %-11s %s\n", label, fmt.Sprintf(format, args...))
	}
	line("method", "%s", f.Method)
	line(word, "%s", seconds(value))
	line("peak", "%s of %s", platform.FormatBytes(f.PeakMemory), platform.FormatBytes(f.Memory))
	at := 0
	for k, n := range f.Cuts {
		counts := map[string]int{}
		var names []string
		for _, o := range f.Options[at : at+n] {
			if o != layout.None && counts[o] == 0 {
				names = append(names, o)
			}
			counts[o]++
		}
		again := ""
		for _, o := range names {
			again += fmt.Sprintf(", %d %s", counts[o], o)
		}
		line(fmt.Sprintf("stage %d", k+1), "gpu%d, layers %d–%d%s", f.Placement[k], at+1, at+n, again)
		at += n
	}
	gap := func(bound float64) float64 { return 100 * max(0, 1-bound/value) }
	line("bound", "this layout %s; all layouts %s, proved by %s", seconds(f.LayoutBound), seconds(f.Bound), f.BoundBy)
	line("gap", "this layout %.3f %%; all layouts %.3f %%", gap(f.LayoutBound), gap(f.Bound))
	status := "feasible"
	if proved || value <= f.Bound*(1+1e-8) {
		status = "optimal (the gap is closed)"
	}
	line("status", "%s; verified by replay", status)
	return b.String()
}

// LayoutFor returns what writes a layout for a target: megatron, torchtitan, deepspeed or torch-csv.
func LayoutFor(f *file.File, target string) (func(io.Writer) error, error) {
	text := ""
	var err error
	switch target {
	case "megatron":
		var flags []string
		text, flags, err = f.Megatron()
		text = "--pipeline-model-parallel-layout " + strconv.Quote(text)
		if len(flags) > 0 {
			text += " " + strings.Join(flags, " ")
		}
	case "torchtitan":
		text, err = f.Torchtitan()
	case "deepspeed":
		text, err = f.DeepSpeed()
	case "torch-csv":
		for _, row := range f.Schedule {
			text += strings.Join(row, ",") + "\n"
		}
	default:
		err = fmt.Errorf("--to %q: a layout is written for megatron, torchtitan, deepspeed or torch-csv", target)
	}
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
		return err
	}, err
}
