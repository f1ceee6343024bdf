package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// solveOptions are the flags of solve, some shared with compare.
type solveOptions struct {
	common
	problem, bandwidth, timeLimit string
	memoryFlags
	backend, method, methods, gap       string
	threads, seed, slots                int
	processors, weightCopies            int
	memoryModel, model                  string
	schedule                            scheduleFlags
	layout                              layoutFlags
	planFile, exportModel               string
	certify, certificateFile, solverLog string
	inProcess, replicas, explainBound   bool
	gpuFlags
}

func (o *solveOptions) instanceFlags() []cli.Flag {
	return append(append([]cli.Flag{
		stringFlag("instance", "problem, p", &o.problem, "",
			"`PROBLEM` to solve; workbench problems lists them (default: the first that takes the kind of INSTANCE)"),
		stringFlag("instance", "memory, m", &o.memory, "",
			"memory `SIZE` for the plan, as 16GiB, 12e9 or 40% of the peak of keeping everything; slots for joins (default: the "+
				"problem's). With chains and graphs that is activations: what is resident is not counted, see --gpu"),
		stringFlag("instance", "range", &o.part, "",
			"memory as `SHARE` of the way from the minimum (0%) to keeping everything (100%), in place of --memory"),
		intFlag("instance", "processors", &o.processors, method.DefaultProcessors, "`N` GPUs of a pipeline"),
		boolFlag("instance", "replicas", &o.replicas, "stages of a pipeline may be on several GPUs, which take mini-batches in turn"),
		intFlag("instance", "weight-copies", &o.weightCopies, platform.DefaultWeightCopies,
			"`C`: how often a GPU of a pipeline holds each of its weights"),
		stringFlag("instance", "memory-model", &o.memoryModel, plan.TaskModel, "`MODEL` in which a pipeline has to fit: task or stage"),
		stringFlag("instance", "model", &o.model, "",
			"what the `MEMORY` of pipelines and weight offloading counts: saved (all that autograd saves, and overheads) or paper "+
				"(outputs of layers only, as printed)", "saved; of graphs paper"),
		stringFlag("instance", "bandwidth", &o.bandwidth, "", "`RATE` of each link, as 12GB/s, inf or 0 (default: the problem's)"),
	}, append(o.schedule.flags(), o.layout.flags()...)...), o.gpuFlags.budgetFlags()...)
}

func (o *solveOptions) limitFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("solver", "backend, b", &o.backend, "highs", "MILP `BACKEND`: "+strings.Join(backends.Names(), ", ")),
		stringFlag("solver", "time-limit", &o.timeLimit, "60s", "stop each method after `DURATION`, as 90s or 10m, with its results so far"),
		stringFlag("solver", "gap", &o.gap, "0", "relative `GAP` at which a proof counts as closed, as 0.01 or 1%"),
		intFlag("solver", "threads", &o.threads, 1, "`N` threads for the MILP backend"),
		intFlag("solver", "seed", &o.seed, 0, "`N` seeds every random choice"),
		intFlag("solver", "slots", &o.slots, noSlots,
			"number `S` of slots, for methods that divide the memory into slots", "500, pofo 50"),
		stringFlag("solver", "certify", &o.certify, string(formulation.Full),
			"`HOW` much of a solver's bound exact arithmetic checks: off, root (one LP) or full (within the time limit)"),
		boolFlag("solver", "in-process", &o.inProcess, "run the MILP backend in this process instead of a child"),
	}
}

func newSolve(s streams) *cli.Command {
	o := &solveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = append(
		flags,
		stringFlag("solver", "method, methods", &o.method, "",
			"`METHOD`; workbench methods lists them (default: the problem's MILP with the best heuristics)"),
		stringFlag("output", "plan", &o.planFile, "", "write the plan to `FILE`"),
		stringFlag("output", "log", &o.solverLog, "", "the MILP solver's own log to `FILE`, - for standard error"),
		stringFlag("output", "certificate", &o.certificateFile, "",
			"write the proof of the bound to `FILE`, for workbench verify --bound"),
		stringFlag("output", "export-model", &o.exportModel, "",
			"write the MILP that was solved, the last of several, to `FILE`.mps or .lp"),
	)
	flags = append(flags, boolFlag("output", "explain-bound", &o.explainBound,
		"print which argument excluded how much of the search that proved the bound"))
	return &cli.Command{
		Name:      "solve",
		Usage:     "solve one problem with one method: plan, proven bound, gap",
		ArgsUsage: "[INSTANCE]",
		Flags:     append(flags, o.flags()...),
		Action: o.action(s, 0, 1, "solve [INSTANCE] [flags]", func(c *cli.Context, a []string) error {
			return solveInstance(c, s, o, first(a))
		}),
	}
}

func first(a []string) string {
	if len(a) == 0 {
		return ""
	}
	return a[0]
}

// mostThreads is more than any solver has use for; a million bring the system
// to a halt.
const mostThreads = 1024

// mostSlots is beyond what any table has room for; noSlots leaves the number to
// the method.
const (
	mostSlots = 1 << 20
	noSlots   = -1
)

// mostProcessors is more GPUs than any chain has layers for.
const mostProcessors = 1 << 12

// job is a solve or compare with its words turned into values.
type job struct {
	render.Case
}

// memoryFlags say how much memory a plan may take.
type memoryFlags struct{ memory, part string }

// limit returns the memory that --memory or --range says, else what the problem does.
func (o *memoryFlags) limit(otherwise string) (m platform.MemorySpec, err error) {
	if o.part == "" {
		if m, err = platform.ParseMemory(cmp.Or(o.memory, otherwise)); err != nil {
			err = usagef("--memory: %v", err)
		}
		return m, err
	}
	if o.memory != "" {
		return m, usagef("--range %s: it says what --memory %s says; one of them is needed", o.part, o.memory)
	}
	if m, err = platform.ParseMemory(platform.RangeWord + o.part); err != nil || !m.Percent {
		err = usagef("--range %s: a percentage from 0%% to 100%% is needed", o.part)
	}
	return m, err
}

// job reads the instance and checks every flag.
func (o *solveOptions) job(c *cli.Context, s streams, spec string) (*job, error) {
	ctx := c.Context
	p, in, err := problemAndInstance(s, o.problem, spec)
	if err != nil {
		return nil, err
	}
	if err := p.Accepts(in); err != nil {
		return nil, err
	}
	j := &job{Case: render.Case{Problem: p, Instance: in}}
	set := &j.Setting
	memory, err := o.limit(p.DefaultMemory(in))
	if err != nil {
		return nil, err
	}
	if set.Time, err = platform.ParseTimeLimit(o.timeLimit); err != nil {
		return nil, usagef("--time-limit: %v", err)
	}
	if err := o.link(p, set); err != nil {
		return nil, err
	}
	if err := o.parallel(c, p, set); err != nil {
		return nil, err
	}
	if own := in.Objective(); own != "" {
		p.Word = own
	}
	if err := o.schedule.set(c, p, &set.Platform, o.processors); err != nil {
		return nil, err
	}
	if err := o.layout.set(c, p, &set.Platform); err != nil {
		return nil, err
	}
	if set.Platform.Model, err = p.Count(in, o.model); err != nil {
		return nil, err
	}
	j.Low, j.High = p.RangeWithin(ctx, in, *set, memory.Percent && memory.Range && o.gpu == "")
	set.Platform.Memory = in.Resolve(memory, j.Low, j.High)
	if o.gpu != "" {
		if given := cmp.Or(o.memory, o.part); given != "" {
			return nil, usagef("--gpu %s: it says what --memory or --range %s says; one of them is needed", o.gpu, given)
		}
		if j.Budget, err = o.divide(p, in); err != nil {
			return nil, err
		}
		set.Platform.Memory, set.Budget = j.Budget.Memory, j.Budget
	}
	if set.Gap, err = part("--gap", cmp.Or(o.gap, "0")); err != nil {
		return nil, err
	}
	switch {
	case o.threads < 1 || o.threads > mostThreads:
		return nil, usagef("--threads %d: from 1 to %d", o.threads, mostThreads)
	case o.slots != noSlots && o.slots < 1 || o.slots > mostSlots:
		return nil, usagef("--slots %d: from 1 to %d", o.slots, mostSlots)
	case o.seed < 0 || o.seed > math.MaxInt32:
		return nil, usagef("--seed %d: from 0 to %d", o.seed, math.MaxInt32)
	}
	if err := p.Fit(in, set.Platform); err != nil {
		return nil, err
	}
	set.Threads, set.Seed, set.Slots = o.threads, o.seed, max(o.slots, 0)
	if set.Certify, err = formulation.ParseLevel(o.certify); err != nil {
		return nil, usagef("--certify %v", err)
	}
	if err := backends.Use(set, o.backend, !o.inProcess); err != nil {
		return nil, err
	}
	if o.log.Enabled(ctx, slog.LevelDebug) {
		set.Log = s.err
	}
	if !o.quiet {
		for _, r := range j.Remarks() {
			fmt.Fprintln(s.err, "remark:", r)
		}
	}
	o.log.Info("instance", "name", in.Name, "size", in.Size(), "memory", set.Platform.Memory, "bandwidth", set.Platform.Bandwidth)
	return j, nil
}

// part reads the part that a flag says.
func part(flag, text string) (float64, error) {
	x, err := platform.ParsePart(text)
	if err != nil {
		err = usagef("%s %v", flag, err)
	}
	return x, err
}

// link sets the bandwidth of problems that have one, and refuses it of others.
func (o *solveOptions) link(p *solve.Problem, set *solve.Setting) (err error) {
	rate := o.bandwidth
	if p.Bandwidth == "" {
		if rate != "" {
			return usagef("--bandwidth %q: %s transfers nothing", rate, p.Name)
		}
		return nil
	}
	if rate == "" {
		rate = p.Bandwidth
	}
	if set.Platform.Bandwidth, err = platform.ParseRate(rate); err != nil {
		return usagef("--bandwidth: %v", err)
	}
	return nil
}

// parallel sets what a pipeline needs beside memory and bandwidth, and refuses it
// of other problems.
func (o *solveOptions) parallel(c *cli.Context, p *solve.Problem, set *solve.Setting) error {
	flag := given(c, "processors", "replicas", "weight-copies", "memory-model")
	switch {
	case p.Scheduled && flag != "" && flag != "--processors" && !(p.Parallel && flag == "--weight-copies"):
		return usagef("%s: %s has no such thing", flag, p.Name)
	case !p.Parallel && !p.Scheduled && flag != "":
		all := catalog.Problems()
		several := all[slices.IndexFunc(all, func(p *solve.Problem) bool { return p.Parallel })]
		return usagef("%s: %s is about one GPU; --problem %s has several", flag, p.Name, several.Name)
	case !p.Parallel:
		return nil
	case o.processors < 1 || o.processors > mostProcessors:
		return usagef("--processors %d: from 1 to %d", o.processors, mostProcessors)
	case o.weightCopies < 0 || o.weightCopies > mostProcessors:
		return usagef("--weight-copies %d: from 0 to %d", o.weightCopies, mostProcessors)
	case o.memoryModel != plan.TaskModel && o.memoryModel != plan.StageModel:
		return usagef("--memory-model %q: %s", o.memoryModel, nearest.Hint(o.memoryModel, []string{plan.TaskModel, plan.StageModel}))
	}
	if set.Platform.Processors, set.Platform.WeightCopies = o.processors, o.weightCopies; !p.Scheduled {
		set.Platform.Replicas, set.MemoryModel = o.replicas, o.memoryModel
	}
	return nil
}

// problemAndInstance returns the problem of a name and the instance of spec: without a name the
// first problem that takes the instance, without spec the example of the problem.
func problemAndInstance(s streams, name, spec string) (*solve.Problem, *solve.Instance, error) {
	if name == "" && spec != "" {
		in, err := solve.Load(spec, s.in)
		if err != nil {
			return nil, nil, err
		}
		p, err := catalog.ProblemFor(in)
		return p, in, err
	}
	p, err := catalog.FindProblem(cmp.Or(name, catalog.Problems()[0].Name))
	if err != nil {
		return nil, nil, err
	}
	in, err := load(s, p, spec)
	return p, in, err
}

// load reads the instance of spec, or the problem's embedded default.
func load(s streams, p *solve.Problem, spec string) (*solve.Instance, error) {
	if spec == "" {
		spec = p.Example
	}
	return solve.Load(spec, s.in)
}

func solveInstance(c *cli.Context, s streams, o *solveOptions, spec string) error {
	began := time.Now()
	j, err := o.job(c, s, spec)
	if err != nil {
		return err
	}
	if spec == "" && o.problem == "" && !o.quiet {
		fmt.Fprintf(s.err, "demonstration: %s of %s; workbench plan INSTANCE --gpu SIZE answers for a network of your own\n", j.Problem.Name,
			j.Problem.Example)
	}
	if strings.Contains(o.method, ",") {
		return usagef("--method %s: solve runs one method; workbench compare --methods %[1]s runs them all", o.method)
	}
	m, err := catalog.FindMethod(j.Problem, cmp.Or(o.method, catalog.DefaultMethod(j.Problem, j.Instance)))
	if err != nil {
		return err
	}
	if o.exportModel != "" {
		j.Setting.Document = true
		if err := exportable(o.exportModel, j, m); err != nil {
			return err
		}
	}
	if o.planFile != "" {
		// Before hours of solving, not after.
		if m.Kind == solve.Relaxed {
			return usagef("--plan %s: %s proves a bound and makes no plan", o.planFile, m.Name)
		}
		if err := atomicfile.Check(o.planFile); err != nil {
			return err
		}
	}
	if o.certificateFile != "" {
		j.Setting.Document = true
		if err := atomicfile.Check(o.certificateFile); err != nil {
			return err
		}
	}
	log, logged, err := atomicfile.Later(o.solverLog, s.err)
	if err != nil {
		return err
	}
	if log != nil {
		j.Setting.Log = log
	}
	var line *progress.Solve
	if !o.quiet {
		line = progress.NewSolve(s.err, j.Problem, j.Setting.Time)
		j.Setting.OnProgress = line.Update
	}
	j.Setting.Spent = time.Since(began) // of the one limit there is; each method of a comparison has its own
	r := solve.Run(c.Context, j.Problem, m, j.Instance, j.Setting)
	line.Done()
	results := s.out
	if o.planFile == atomicfile.Standard || o.certificateFile == atomicfile.Standard {
		results = s.err // standard output is a file now
	}
	// The plan goes first: whoever reads the output may stop, as head does.
	unwritten := logged()
	if o.planFile != "" && r.Plan != nil {
		unwritten = cmp.Or(unwritten, atomicfile.Write(o.planFile, s.out, r.Plan.Write))
	}
	if o.certificateFile != "" {
		unwritten = cmp.Or(unwritten, writeCertificate(s, o, r))
	}
	if o.exportModel != "" {
		unwritten = cmp.Or(unwritten, exportModel(s, o, r))
	}
	if o.explainBound {
		r.Explain()
	}
	if o.json() {
		if err := r.WriteJSON(results); err != nil {
			return err
		}
	} else if r.Err == nil || r.Plan != nil {
		render.Result(results, &j.Case, r)
		if o.explainBound {
			render.Explain(results, j.Problem, r)
		}
	}
	return errors.Join(r.Err, unwritten) // the answer first: that nothing fits is not lost
}

// modelFormats are the formats of --export-model, by the ending of the file's name.
var modelFormats = map[string]func(*milp.Model, io.Writer) error{
	".mps": func(m *milp.Model, w io.Writer) error { _, err := m.WriteMPS(w, milp.FreeMPS); return err },
	".lp":  func(m *milp.Model, w io.Writer) error { _, err := m.WriteLP(w); return err },
}

// exportable reports whether exportModel can be expected to write the MILP of a
// method.
func exportable(name string, j *job, m *solve.Method) error {
	if !m.Solver {
		return usagef("--export-model: %s has no MILP; methods with one: %s", m.Name, strings.Join(withModel(j), ", "))
	}
	if modelFormats[modelFormat(name)] == nil {
		return usagef("--export-model %s: a name that ends in .mps or .lp is needed", name)
	}
	return atomicfile.Check(name)
}

func modelFormat(name string) string { return strings.ToLower(filepath.Ext(name)) }

// exportModel writes the MILP that the result describes: the one solved last.
func exportModel(s streams, o *solveOptions, r *solve.Result) error {
	if r.Model == nil {
		return fmt.Errorf("--export-model %s: nothing to write: %s solved no MILP (ended: %s)", o.exportModel, r.Method, r.Ended)
	}
	write := modelFormats[modelFormat(o.exportModel)]
	if err := atomicfile.Write(o.exportModel, s.out, func(w io.Writer) error { return write(r.Model, w) }); err != nil {
		return err
	}
	if f := r.Formulation; !o.quiet {
		fmt.Fprintf(s.err, "wrote %s: %s, %s (%d integer), %s, %s\n", o.exportModel, f.Name, platform.Count(f.Variables, "variable"), f.Integers,
			platform.Count(f.Constraints, "constraint"), platform.Count(f.Nonzeros, "nonzero"))
	}
	return nil
}

// withModel names the methods that have a MILP for the instance.
func withModel(j *job) (names []string) {
	for _, m := range catalog.MethodsFor(j.Problem, j.Instance) {
		if m.Solver {
			names = append(names, m.Name)
		}
	}
	return names
}

// writeCertificate writes the certificate of the best bound that has one. Where a search of
// ours proved the answer there is none to write, which is no failure.
func writeCertificate(s streams, o *solveOptions, r *solve.Result) error {
	c := r.Certificate()
	if c == nil && (r.Status == solve.Optimal && r.Bound.Proof == proof.Search || r.Status == solve.Infeasible) {
		fmt.Fprintf(s.err, "--certificate %s: nothing to write: the answer was proved by a search, which makes no certificate\n",
			o.certificateFile)
		return nil
	}
	if c == nil {
		known := "no bound is known"
		if r.Bound != nil {
			known = "the bound is " + render.ProvedBy(r.Bound)
		}
		return fmt.Errorf("--certificate %s: nothing to write: no bound of this run was certified (%s, --certify %s)", o.certificateFile, known,
			o.certify)
	}
	return atomicfile.Write(o.certificateFile, s.out, c.Write)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
