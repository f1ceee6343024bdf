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

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	heuristics "workbench/heuristics/layout"
	"workbench/model/allocator"
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/chain"
	file "workbench/model/instance/layout"
	"workbench/model/instance/stages"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/problem/layout"
	"workbench/model/proof"
	"workbench/model/testcase"
	verify "workbench/model/verify/layout"
)

// Layouts is the problem of cutting a chain into the stages of a synchronous pipeline, placing, recomputing and scheduling them.
func Layouts() *solve.Problem {
	return &solve.Problem{
		Name:      plan.Layout,
		Aliases:   []string{"layouts", "pipeline-layout"},
		Title:     "where a chain is cut into stages of a synchronous pipeline, what is computed again, and when the GPUs compute what",
		Source:    "ours",
		Objective: "makespan: the time of a step, seconds",
		Takes:     []string{chain.Kind},
		Word:      plan.MakespanObjective,
		Defaults:  []string{"exact"},
		Example:   "zoo:gpt2",
		Memory:    "16GB", Bandwidth: "50GB/s",
		Parallel: true, Scheduled: true, Objectives: []string{plan.MakespanObjective, plan.SpanObjective},
		Range: layoutRange,
		Fit: func(in *solve.Instance, p platform.Platform) error {
			if err := calculable(in, ofStep(in), ofMemory(p), ofLink(p)); err != nil {
				return err
			}
			_, err := layoutInstance(in, p)
			return err
		},
		Bound:   layoutBound,
		Methods: LayoutMethods,
		Does: func(p *plan.Plan) string {
			return solve.Counts(solve.Count{Word: "forwards", Ops: []string{plan.OpF}}, solve.Count{Word: "backwards", Ops: []string{plan.OpB}},
				solve.Count{Word: "of the weights", Ops: []string{plan.OpW}})(p)
		},
		Times:    layoutTimes,
		Timeline: timeline.Layouts(), Tensors: allocator.OfLayout,
		Subjects: []*testcase.Subject{testcase.Layout()},
		Tiny:     map[string]string{chain.Kind: tinyPipeline},
	}
}

// layoutSetting returns what a platform says of a layout.
func layoutSetting(p platform.Platform) layout.Setting {
	return layout.Setting{Split: p.Split, Latency: p.Latency, Torch: p.Runtime == stages.Torch}
}

// layoutInstance returns the view of an instance.
func layoutInstance(in *solve.Instance, p platform.Platform) (*layout.Instance, error) {
	x, err := layout.New(in.Chain(), p, layoutSetting(p))
	return x, solve.InputError(err)
}

// layoutRange returns a lower bound on the memory with which a layout exists, and the memory of all micro-batches and weights on
// one GPU.
func layoutRange(in *solve.Instance, s solve.Setting) (low, high float64) {
	p := s.Platform
	if p.Processors == 0 { // no platform is given
		p.Processors, p.WeightCopies = min(DefaultProcessors, in.Chain().Len()), platform.DefaultWeightCopies
	}
	p.Memory = platform.MaxTotal // in less, Least names one layer that does not fit, whatever all need together
	x, err := layoutInstance(in, p)
	if err != nil {
		return 0, 0 // the methods will say what is wrong
	}
	low, _ = x.Least()
	return low, max(low, x.Most())
}

// layoutBound returns the best bound over all layouts.
func layoutBound(in *solve.Instance, s solve.Setting) solve.Bound {
	return solve.Searched(in, boundKey{problem: plan.Layout, platform: s.Platform}, func() solve.Bound {
		x, err := layoutInstance(in, s.Platform)
		if err != nil || x.Fits() != nil {
			return proof.BySearch(0, "nothing") // the methods will say what is wrong
		}
		b := x.Bounds()[0]
		return proof.BySearch(b.Value, b.By)
	})
}

// layoutTimes says what each stage has, and the gaps to the bound of this layout and of all.
func layoutTimes(in *solve.Instance, r *solve.Result) []solve.Line {
	rules := "of the papers: a stage holds what it saves (--runtime paper)"
	if r.Platform.Runtime == stages.Torch {
		rules = "of PyTorch: outputs held until the backward, gradients until W (--runtime torch)"
	}
	value := r.Report.Objective(r.Problem)
	lines := []solve.Line{{Label: r.Report.Flush.Objective, Text: fmt.Sprintf("%s, %s on %s", platform.FormatSeconds(value),
		platform.Count(r.Plan.Platform.MicroBatches, "micro-batch"), platform.Count(r.Plan.Platform.Processors, "GPU"))}}
	for k, text := range verify.StageLines(r.Plan.Allocation, r.Plan.Recompute) {
		lines = append(lines, solve.Line{Label: fmt.Sprintf("stage %d", k+1), Text: text})
	}
	if own := ownBound(in, r.Plan); own > 0 && r.Bound != nil {
		gap := func(bound float64) float64 { return 100 * platform.Gap(value, bound) }
		lines = append(lines, solve.Line{Label: "layouts", Text: fmt.Sprintf("this layout: gap %.3f %%; all layouts: gap %.3f %%",
			gap(max(own, r.Bound.Value)), gap(r.Bound.Value))})
	}
	return append(lines, solve.Line{Label: "rules", Text: rules})
}

// ownBound returns the bound of the schedules of a plan's own layout, seconds; 0: unknown.
func ownBound(in *solve.Instance, p *plan.Plan) float64 {
	cut, q, err := verify.Schedule(in.Chain(), p)
	if err != nil {
		return 0
	}
	v, err := flush.New(cut, q.Converted(cut.Unit).Platform)
	if err != nil {
		return 0
	}
	return v.Bound().Value
}

// layoutWork finds a layout; proved says that none is better.
type layoutWork func(context.Context, *layout.Instance, heuristics.Goal) (found *heuristics.Found, proved bool)

// layoutWorks are the methods by name.
var layoutWorks = map[string]layoutWork{
	"uniform": unproved(heuristics.Uniform), "hand": unproved(heuristics.Hand), "bottleneck": unproved(heuristics.Bottleneck),
	"local-search": unproved(heuristics.LocalSearch), "exact": heuristics.Exact,
}

// unproved is a method that proves nothing.
func unproved(work func(context.Context, *layout.Instance, heuristics.Goal) *heuristics.Found) layoutWork {
	return func(ctx context.Context, in *layout.Instance, g heuristics.Goal) (*heuristics.Found, bool) {
		return work(ctx, in, g), false
	}
}

// LayoutMethods is the table of methods for layouts.
func LayoutMethods() []*solve.Method {
	return []*solve.Method{
		layoutMethod("uniform", solve.Heuristic, "Narayanan et al. 2021",
			"equal numbers of layers, the first and the last extra, and one recomputation for all stages: the baseline", "O(layers + operations)"),
		layoutMethod("hand", solve.Heuristic, "Megatron-LM", "the same with the first and the last layer counted as one each",
			"O(layers + operations)"),
		layoutMethod("bottleneck", solve.Heuristic, "ours", "the cut that attains the bound over all cuts", "O(GPUs·layers²·options)"),
		layoutMethod("local-search", solve.Heuristic, "ours",
			"cuts and recomputations by simulated annealing from the best of these, compared by list scheduling; the best are searched in full",
			"O(operations·log) a step"),
		layoutMethod("exact", solve.Exact, "ours",
			"local-search; few layouts are then all enumerated in the order of their bounds; proof with --runtime paper",
			"exponential"),
	}
}

// layoutMethod is the method of a name.
func layoutMethod(name string, kind solve.Kind, source, summary, complexity string) *solve.Method {
	return &solve.Method{
		Name: name, Kind: kind, Source: source, Summary: summary, Complexity: complexity,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			x, err := layoutInstance(in, s.Platform)
			if err != nil {
				return nil, err
			}
			bound := layoutBound(in, s).Value
			g := heuristics.Goal{Bound: bound, Seed: uint64(s.Seed), OnProgress: objectives(&s, name, bound)}
			found, proved, err := layOut(ctx, x, name, g)
			if err != nil {
				return nil, err
			}
			out := &solve.Outcome{Plan: layoutPlan(x, found, name), Stopped: ctx.Err() != nil}
			if proved {
				out.Bounds = append(out.Bounds, proof.BySearch(found.Objective, "enumeration of all layouts"))
			}
			return out, nil
		},
	}
}

// layOut runs a method. The error is a *plan.Infeasible, or wraps plan.ErrNoPlan.
func layOut(ctx context.Context, in *layout.Instance, name string, g heuristics.Goal) (*heuristics.Found, bool, error) {
	if err := in.Fits(); err != nil {
		return nil, false, err
	}
	found, proved := layoutWorks[name](ctx, in, g)
	if found == nil {
		return nil, false, fmt.Errorf("layout: %w: %s has none that fits in %s on each of %d GPUs", plan.ErrNoPlan, name,
			platform.FormatBytes(in.Chain.Unit.Bytes(in.Platform.Memory)), in.Platform.Processors)
	}
	return found, proved, nil
}

// layoutPlan returns what a method found as a plan.
func layoutPlan(in *layout.Instance, found *heuristics.Found, name string) *plan.Plan {
	timed, err := found.View.Schedule(found.Order)
	if err != nil {
		return nil // it has been scheduled
	}
	made := found.View.Plan(name, timed)
	p := plan.New(plan.Layout, name, in.Chain, in.Platform)
	p.Ops, p.Claims = made.Ops, made.Claims
	from := 1
	for k, to := range found.Layout.Ends {
		p.Allocation, from = append(p.Allocation, plan.Stage{Processor: found.View.GPU[k], From: from, To: to}), to+1
	}
	for i := range in.Layers {
		p.Recompute = append(p.Recompute, in.Layers[i].Options[found.Layout.Options[i]].Name)
	}
	return p
}

// Layout lays out a chain on the GPUs of a platform by a method, "" being exact: local search and, of few layers, all layouts. The
// plan is replayed by the verifier. bound holds for all layouts of the placement; proved says that a search excluded everything
// better. The error wraps solve.ErrInput, is a *plan.Infeasible, or wraps plan.ErrNoPlan.
func Layout(ctx context.Context, c *chain.Chain, p platform.Platform, s layout.Setting, name string,
	g heuristics.Goal,
) (made *plan.Plan, bound solve.Bound, proved bool, err error) {
	p.Split, p.Latency = s.Split, s.Latency
	if s.Torch {
		p.Runtime = stages.Torch
	}
	in, err := layout.New(c, p, s)
	if err != nil {
		return nil, bound, false, solve.InputError(err)
	}
	if name = cmp.Or(name, "exact"); layoutWorks[name] == nil {
		var names []string
		for _, m := range LayoutMethods() {
			names = append(names, m.Name)
		}
		return nil, bound, false, solve.InputError(fmt.Errorf("--method %q: %s", name, nearest.Hint(name, names)))
	}
	best := in.Bounds()[0]
	bound, g.Bound = proof.BySearch(best.Value, best.By), best.Value
	found, proved, err := layOut(ctx, in, name, g)
	if err != nil {
		return nil, bound, false, err
	}
	made = layoutPlan(in, found, name)
	report, err := verify.Verify(c, made)
	if err == nil && !report.Valid() {
		err = &solve.InvalidPlanError{Method: name, Report: report}
	}
	if proved {
		bound = proof.BySearch(max(bound.Value, found.Objective), "enumeration of all layouts")
	}
	return made, bound, proved, err
}

// LayoutFile returns a plan of a layout as a layout/v1 document, without bounds. c names the layers; nil: they are numbered.
func LayoutFile(p *plan.Plan, c *chain.Chain) (*file.File, error) {
	q := p.Converted(platform.Byte)
	f := &file.File{
		Chain: p.Instance.Name, MicroBatches: p.Platform.MicroBatches, Memory: q.Platform.Memory, Objective: p.Platform.Objective,
		Method: p.Method, PeakMemory: q.Claims.PeakMemory, Options: p.Recompute,
	}
	for _, s := range p.Allocation {
		f.Cuts, f.Placement = append(f.Cuts, s.To-s.From+1), append(f.Placement, s.Processor)
	}
	for i := range p.Recompute {
		name := fmt.Sprintf("layer %d", i+1)
		if c != nil && i < c.Len() {
			name = c.Layers[i].Name
		}
		f.Layers = append(f.Layers, name)
	}
	first, last := map[string]float64{}, map[string]float64{}
	for _, o := range p.Ops {
		if t, seen := first[o.Resource]; !seen || o.Start < t {
			first[o.Resource] = o.Start
		}
		last[o.Resource], f.Makespan = max(last[o.Resource], o.End), max(f.Makespan, o.End)
	}
	for g, end := range last {
		f.Span = max(f.Span, end-first[g])
	}
	var cells bytes.Buffer
	if err := torchcsv.Write(&cells, p); err != nil {
		return nil, err
	}
	r := csv.NewReader(&cells)
	r.FieldsPerRecord = -1
	var err error
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
	at, allocation := 1, []plan.Stage{}
	for k, n := range f.Cuts {
		allocation, at = append(allocation, plan.Stage{Processor: f.Placement[k], From: at, To: at + n - 1}), at+n
	}
	for k, text := range verify.StageLines(allocation, f.Options) {
		line(fmt.Sprintf("stage %d", k+1), "%s", text)
	}
	gap := func(bound float64) float64 { return 100 * platform.Gap(value, bound) }
	line("bound", "this layout %s; all layouts %s, proved by %s", seconds(f.LayoutBound), seconds(f.Bound), f.BoundBy)
	line("gap", "this layout %.3f %%; all layouts %.3f %%", gap(f.LayoutBound), gap(f.Bound))
	status := "feasible"
	if proved || platform.Closed(value, f.Bound, 1e-8) {
		status = "optimal (the gap is closed)"
	}
	line("status", "%s; verified by replay", status)
	return b.String()
}

// LayoutFor returns a function that writes a layout for a target: megatron, torchtitan, deepspeed, torch-csv or layout, its own format.
// note says what the target must be given besides; "": nothing.
func LayoutFor(f *file.File, target string) (write func(io.Writer) error, note string, err error) {
	text := ""
	switch target {
	case "megatron":
		var flags []string
		text, flags, err = f.Megatron()
		text = "--pipeline-model-parallel-layout " + strconv.Quote(text)
		if len(flags) > 0 {
			text += " " + strings.Join(flags, " ")
		}
	case "torchtitan":
		text, note, err = f.Torchtitan()
		note = "the plan also needs " + note
	case "deepspeed":
		text, note, err = f.DeepSpeed()
		note = "the plan also needs Planned(…, " + note + ")"
	case "torch-csv":
		for _, row := range f.Schedule {
			text += strings.Join(row, ",") + "\n"
		}
		note = LayoutScheduleNote
	case "layout":
		return f.Write, "", nil
	default:
		err = fmt.Errorf("--to %q: a layout is written for megatron, torchtitan, deepspeed, torch-csv or as layout/v1 (layout)", target)
	}
	return func(w io.Writer) error {
		_, err := fmt.Fprintln(w, strings.TrimSuffix(text, "\n"))
		return err
	}, note, err
}

// LayoutScheduleNote says what a schedule of torch.distributed.pipelining lacks of a layout.
const LayoutScheduleNote = "a schedule has neither the cut nor the recomputation: --to layout lists both, by layer"
