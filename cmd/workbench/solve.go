package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/method"
	"workbench/bench/run"
	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
)

// solveOptions are the flags of solve, some shared with compare.
type solveOptions struct {
	common
	problem, memory, bandwidth, timeLimit string
	backend, method, methods              string
	gap                                   float64
	threads, seed, slots                  int
	processors, weightCopies              int
	memoryModel                           string
	parallelFlag                          string // one that only pipelines have, if the user gave one
	planFile, exportModel                 string
	certify, certificateFile              string
	inProcess                             bool
}

func (o *solveOptions) instanceFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "problem", Aliases: []string{"p"}, Usage: "`PROBLEM` to solve; workbench problems lists them", Value: catalog.DefaultProblem, Destination: &o.problem, Category: "instance"},
		&cli.StringFlag{Name: "memory", Aliases: []string{"m"}, Usage: "memory `SIZE` of the GPU, as 16GiB, 12e9 or 40% of the instance's own range; slots for joins (default: the problem's)", Destination: &o.memory, Category: "instance"},
		&cli.IntFlag{Name: "processors", Usage: "`N` GPUs of a pipeline", Value: method.DefaultProcessors, Destination: &o.processors, Category: "instance", Action: onlyParallel[int](o, "--processors")},
		&cli.IntFlag{Name: "weight-copies", Usage: "`C`: how often a GPU of a pipeline holds each of its weights", Value: platform.DefaultWeightCopies, Destination: &o.weightCopies, Category: "instance", Action: onlyParallel[int](o, "--weight-copies")},
		&cli.StringFlag{Name: "memory-model", Usage: "`MODEL` in which a pipeline has to fit: task or stage", Value: plan.TaskModel, Destination: &o.memoryModel, Category: "instance", Action: onlyParallel[string](o, "--memory-model")},
		&cli.StringFlag{Name: "bandwidth", Usage: "`RATE` of each link, as 12GB/s (default: the problem's)", Destination: &o.bandwidth, Category: "instance"},
	}
}

// onlyParallel notes that the user gave a flag that only pipelines have.
func onlyParallel[T any](o *solveOptions, flag string) func(*cli.Context, T) error {
	return func(*cli.Context, T) error {
		o.parallelFlag = flag
		return nil
	}
}

func (o *solveOptions) limitFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "backend", Aliases: []string{"b"}, Usage: "MILP `BACKEND`: " + strings.Join(run.BackendNames(), " or "), Value: "highs", Destination: &o.backend, Category: "solver"},
		&cli.StringFlag{Name: "time-limit", Usage: "stop each method after `DURATION`, as 90s or 10m, with what it has", Value: "60s", Destination: &o.timeLimit, Category: "solver"},
		&cli.Float64Flag{Name: "gap", Usage: "relative `GAP` at which a proof counts as closed", Destination: &o.gap, Category: "solver"},
		&cli.IntFlag{Name: "threads", Usage: "`N` threads for the MILP backend", Value: 1, Destination: &o.threads, Category: "solver"},
		&cli.IntFlag{Name: "seed", Usage: "`N` seeds every random choice", Destination: &o.seed, Category: "solver"},
		&cli.IntFlag{Name: "slots", Usage: "`S`: methods that count memory in slots divide it into so many", Value: noSlots, DefaultText: "500, pofo 50", Destination: &o.slots, Category: "solver"},
		&cli.StringFlag{Name: "certify", Usage: "`HOW` much of a solver's bound exact arithmetic checks: off, root (one LP) or full (within the time limit)", Value: string(formulation.Full), Destination: &o.certify, Category: "solver"},
		&cli.BoolFlag{Name: "in-process", Usage: "run the MILP backend in this process instead of a child", Destination: &o.inProcess, Category: "solver"},
	}
}

func newSolve(s streams) *cli.Command {
	o := &solveOptions{}
	flags := append(o.instanceFlags(), o.limitFlags()...)
	flags = append(
		flags,
		&cli.StringFlag{Name: "method", Usage: "`METHOD`; workbench methods lists them (default: the problem's MILP with the best heuristics)", Destination: &o.method, Category: "solver"},
		&cli.StringFlag{Name: "plan", Usage: "write the plan to `FILE`", Destination: &o.planFile, Category: "output"},
		&cli.StringFlag{Name: "certificate", Usage: "write the proof of the bound to `FILE`, for workbench verify --bound", Destination: &o.certificateFile, Category: "output"},
		&cli.StringFlag{Name: "export-model", Usage: "write the MILP to `FILE`.mps or .lp instead of solving", Destination: &o.exportModel, Category: "output"},
	)
	return &cli.Command{
		Name:      "solve",
		Usage:     "solve one problem with one method: plan, proven bound, gap",
		ArgsUsage: "[INSTANCE]",
		Flags:     append(flags, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 0, 1, "solve [INSTANCE] [flags]")
			if err != nil {
				return err
			}
			log, err := o.check(s)
			if err != nil {
				return err
			}
			return solve(c.Context, s, o, log, first(a))
		},
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
	problem     *run.Problem
	in          *run.Instance
	setting     run.Setting
	low, high   float64 // the instance's memory range
	memoryWords string  // how the user wrote the memory
}

// memory writes a size of memory as the problem counts it.
func (j *job) memory(x float64) string { return formatMemory(j.problem, x) }

func formatMemory(p *run.Problem, x float64) string {
	if p.Slots {
		return fmt.Sprintf("%g slots", x)
	}
	return platform.FormatBytes(x)
}

// link writes the GPUs and the bandwidth, for problems that have them.
func (j *job) link() string {
	if j.problem.Bandwidth == "" {
		return ""
	}
	s := ", " + platform.FormatRate(j.setting.Platform.Bandwidth) + " a link"
	if j.problem.Parallel {
		s = fmt.Sprintf(" on each of %d GPUs (%s model)%s", j.setting.Platform.Processors, j.setting.MemoryModel, s)
	}
	return s
}

// job reads the instance and checks every flag.
func (o *solveOptions) job(ctx context.Context, s streams, log *slog.Logger, spec string) (*job, error) {
	p, err := catalog.FindProblem(o.problem)
	if err != nil {
		return nil, err
	}
	in, err := load(s, p, spec)
	if err != nil {
		return nil, err
	}
	if err := p.Accepts(in); err != nil {
		return nil, err
	}
	j := &job{problem: p, in: in, memoryWords: o.memory}
	set := &j.setting
	if j.memoryWords == "" {
		j.memoryWords = p.DefaultMemory(in)
	}
	memory, err := platform.ParseMemory(j.memoryWords)
	if err != nil {
		return nil, usagef("--memory: %v", err)
	}
	j.low, j.high = p.Range(in)
	set.Platform.Memory = in.Resolve(memory, j.low, j.high)
	if err := o.link(p, set); err != nil {
		return nil, err
	}
	if err := o.parallel(p, set); err != nil {
		return nil, err
	}
	if set.Time, err = platform.ParseTimeLimit(o.timeLimit); err != nil {
		return nil, usagef("--time-limit: %v", err)
	}
	switch {
	case o.gap < 0 || o.gap >= 1 || o.gap != o.gap:
		return nil, usagef("--gap %v: a fraction from 0 to below 1 is needed, as 0.01", o.gap)
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
	set.Gap, set.Threads, set.Seed, set.Slots = o.gap, o.threads, o.seed, max(o.slots, 0)
	if set.Certify, err = formulation.ParseLevel(o.certify); err != nil {
		return nil, usagef("--certify %v", err)
	}
	if set.Backend, err = run.Backend(o.backend, !o.inProcess); err != nil {
		return nil, err
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		set.Log = s.err
	}
	log.Info("instance", "name", in.Name, "size", in.Size(), "memory", set.Platform.Memory, "bandwidth", set.Platform.Bandwidth)
	return j, nil
}

// link sets the bandwidth of problems that have one, and refuses it of others.
func (o *solveOptions) link(p *run.Problem, set *run.Setting) (err error) {
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
	if set.Platform.Bandwidth <= 0 {
		return usagef("--bandwidth %q: transfers need a bandwidth above zero", rate)
	}
	return nil
}

// parallel sets what a pipeline needs beside memory and bandwidth, and refuses it
// of other problems.
func (o *solveOptions) parallel(p *run.Problem, set *run.Setting) error {
	switch {
	case !p.Parallel && o.parallelFlag != "":
		return usagef("%s: %s is about one GPU; --problem %s has several", o.parallelFlag, p.Name, plan.Pipeline)
	case !p.Parallel:
		return nil
	case o.processors < 1 || o.processors > mostProcessors:
		return usagef("--processors %d: from 1 to %d", o.processors, mostProcessors)
	case o.weightCopies < 0 || o.weightCopies > mostProcessors:
		return usagef("--weight-copies %d: from 0 to %d", o.weightCopies, mostProcessors)
	case o.memoryModel != plan.TaskModel && o.memoryModel != plan.StageModel:
		return usagef("--memory-model %q: %s", o.memoryModel, nearest.Hint(o.memoryModel, []string{plan.TaskModel, plan.StageModel}))
	}
	set.Platform.Processors, set.Platform.WeightCopies, set.MemoryModel = o.processors, o.weightCopies, o.memoryModel
	return nil
}

// load reads the instance of spec, or the problem's embedded default.
func load(s streams, p *run.Problem, spec string) (*run.Instance, error) {
	if spec == "" {
		spec = p.Example
	}
	return run.Load(spec, s.in)
}

func solve(ctx context.Context, s streams, o *solveOptions, log *slog.Logger, spec string) error {
	j, err := o.job(ctx, s, log, spec)
	if err != nil {
		return err
	}
	name := o.method
	if name == "" {
		name = catalog.DefaultMethod(j.problem, j.in)
	}
	m, err := catalog.FindMethod(j.problem, name)
	if err != nil {
		return err
	}
	if o.exportModel != "" {
		return exportModel(s, o, j, m)
	}
	if o.planFile != "" {
		// Before hours of solving, not after.
		if m.Kind == run.Relaxed {
			return usagef("--plan %s: %s proves a bound and makes no plan", o.planFile, m.Name)
		}
		if err := writable(o.planFile); err != nil {
			return err
		}
	}
	if o.certificateFile != "" {
		j.setting.Document = true
		if err := writable(o.certificateFile); err != nil {
			return err
		}
	}
	var line *statusLine
	if !o.quiet {
		line = newStatusLine(s.err)
		j.setting.OnProgress = line.Update
	}
	r := run.Run(ctx, j.problem, m, j.in, j.setting)
	line.Done()
	// The plan goes first: whoever reads the output may stop, as head does.
	var unwritten error
	if o.planFile != "" && r.Plan != nil {
		unwritten = writePlan(o.planFile, r.Plan)
	}
	if o.certificateFile != "" {
		unwritten = cmp.Or(unwritten, writeCertificate(o.certificateFile, o.certify, r))
	}
	if o.json() {
		if err := r.WriteJSON(s.out); err != nil {
			return err
		}
	} else if r.Err == nil || r.Plan != nil {
		printResult(s.out, j, r)
	}
	if unwritten != nil {
		return unwritten
	}
	return r.Err
}

// exportModel writes the MILP of a method instead of solving it.
func exportModel(s streams, o *solveOptions, j *job, m *run.Method) error {
	if m.Model == nil {
		return usagef("--export-model: %s has no MILP; methods with one: %s", m.Name, strings.Join(withModel(j), ", "))
	}
	if j.problem.Parallel && j.setting.MemoryModel != plan.TaskModel {
		return usagef("--export-model: the MILP is that of --memory-model %s, not of %s", plan.TaskModel, j.setting.MemoryModel)
	}
	model, err := m.Model(j.in, j.setting.Platform)
	if err != nil {
		return err
	}
	var write func(io.Writer) error
	switch ext := strings.ToLower(filepath.Ext(o.exportModel)); ext {
	case ".mps":
		write = func(w io.Writer) error { _, err := model.WriteMPS(w, milp.FreeMPS); return err }
	case ".lp":
		write = func(w io.Writer) error { _, err := model.WriteLP(w); return err }
	default:
		return usagef("--export-model %s: a name that ends in .mps or .lp is needed", o.exportModel)
	}
	if err := writeFile(o.exportModel, write); err != nil {
		return err
	}
	if !o.quiet {
		fmt.Fprintf(s.err, "wrote %s: %d variables (%d integer), %d constraints, %d nonzeros\n", o.exportModel, model.NumCols(), model.NumIntegers(), model.NumRows(), model.NumNonzeros())
	}
	return nil
}

// withModel names the methods that have a MILP for the instance.
func withModel(j *job) (names []string) {
	for _, m := range catalog.MethodsFor(j.problem, j.in) {
		if m.Model != nil {
			names = append(names, m.Name)
		}
	}
	return names
}

// writePlan writes a plan through a temporary file, so that an interrupted
// write leaves no half plan under the name asked for.
func writePlan(name string, p *plan.Plan) error {
	return writeFile(name, func(w io.Writer) error { return p.Write(w) })
}

// writeCertificate writes the certificate of the best bound that has one.
func writeCertificate(name, certify string, r *run.Result) error {
	c := r.Certificate()
	if c == nil {
		known := "no bound is known"
		if r.Bound != nil {
			known = "the bound is " + provedBy(r.Bound)
		}
		return fmt.Errorf("--certificate %s: nothing to write: no bound of this run was certified (%s, --certify %s)", name, known, certify)
	}
	return writeFile(name, c.Write)
}

// writeFile writes name as a whole or not at all.
func writeFile(name string, write func(io.Writer) error) error {
	f, err := beside(name)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := os.Chmod(f.Name(), 0o644); err != nil {
		return unwritable(name, err)
	}
	return unwritable(name, os.Rename(f.Name(), name))
}

// writable reports whether writeFile can be expected to write name.
func writable(name string) error {
	f, err := beside(name)
	if err != nil {
		return err
	}
	f.Close()
	return os.Remove(f.Name())
}

// beside creates a temporary file that can be renamed to name.
func beside(name string) (*os.File, error) {
	if i, err := os.Stat(name); err == nil && i.IsDir() {
		return nil, usagef("%s cannot be written: it is a directory", name)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".workbench-*")
	return f, unwritable(name, err)
}

// unwritable is the error of a file that cannot be written, nil for none: the
// name is the user's, not that of a temporary file.
func unwritable(name string, err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return usagef("%s cannot be written: %v", name, err)
}

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
