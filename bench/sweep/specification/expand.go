package specification

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/bench/sweep"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/zoo"
)

// Expansion is the list of tasks of a specification.
type Expansion struct {
	Tasks []sweep.Task
	// Files are the instances from files, by digest. A sweep keeps copies of them, so that it can continue without
	// the files.
	Files map[string]*solve.Instance
}

// Expand returns the tasks, in an order that depends only on the specification: by repetition, then by experiment,
// then by instance. version is that of the code. Every instance is read once for each entry that names it, and its
// memory range is computed. Duplicate tasks are removed.
func (s *Spec) Expand(ctx context.Context, version string) (*Expansion, error) {
	x := &expansion{r: &reader{file: s.File}, spec: s, version: version, seen: map[string]bool{}, known: map[string]*solve.Instance{}}
	x.files = map[string]*solve.Instance{}
	for i := range s.Experiments {
		if err := x.experiment(ctx, &s.Experiments[i]); err != nil {
			return nil, err
		}
	}
	if err := x.r.err(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(x.tasks, func(a, b sweep.Task) int { return a.Repetition - b.Repetition })
	return &Expansion{Tasks: x.tasks, Files: x.files}, nil
}

type expansion struct {
	r       *reader
	spec    *Spec
	version string
	tasks   []sweep.Task
	seen    map[string]bool // by ID
	known   map[string]*solve.Instance
	files   map[string]*solve.Instance
	tooMany bool
}

// experiment appends the tasks of one grid.
func (x *expansion) experiment(ctx context.Context, e *Experiment) error {
	used := map[string]bool{} // methods and problems that support some instance
	for _, src := range e.instances {
		for _, name := range x.instanceNames(src) {
			if err := ctx.Err(); err != nil {
				return err
			}
			for _, model := range orDefault(e.models, "") {
				in, err := x.load(name, model)
				if err != nil {
					x.r.errorf(src.node, "%v", err)
					continue
				}
				x.instance(e, src, in, model, used)
				if x.tooMany {
					return x.r.err()
				}
			}
		}
	}
	if len(x.r.errs) > 0 {
		return nil
	}
	for _, v := range e.methods {
		if v.text != "all" && !used[v.text] {
			x.r.errorf(v.node, "%s works on none of these instances: workbench methods says on which it does", v.text)
		}
	}
	for _, p := range e.Problems {
		if !used["problem "+p.Name] {
			x.r.errorf(e.node, "%s is about %s, and there is none among the instances", p.Name, solve.KindWords(p.Takes))
		}
	}
	return nil
}

// instanceNames returns the names of instances of an entry, in order.
func (x *expansion) instanceNames(src source) []string {
	if src.names != nil {
		return src.names
	}
	if x.spec.Dir == "" {
		x.r.errorf(src.node, "%s: a built-in specification has no files", src.glob)
		return nil
	}
	names, err := filepath.Glob(x.path(src.glob))
	switch {
	case err != nil:
		x.r.errorf(src.node, "%s: %v", src.glob, err)
	case len(names) == 0:
		hint := ""
		if slices.Contains(zoo.Names(), src.glob) {
			hint = "; built-in networks are written " + zoo.Scheme + src.glob
		}
		x.r.errorf(src.node, "no file matches %s%s", src.glob, hint)
	}
	for i, name := range names {
		if rel, err := filepath.Rel(x.spec.Dir, name); err == nil && !filepath.IsAbs(src.glob) {
			names[i] = filepath.ToSlash(rel)
		}
	}
	return names
}

func (x *expansion) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(x.spec.Dir, filepath.FromSlash(name))
}

// load reads an instance once for each memory model, on which its range depends.
func (x *expansion) load(name, model string) (*solve.Instance, error) {
	if in := x.known[name+" "+model]; in != nil {
		return in, nil
	}
	path := name
	if !strings.HasPrefix(name, zoo.Scheme) {
		path = x.path(name)
	}
	in, err := solve.Load(path, nil)
	if err != nil {
		return nil, err
	}
	in.Source = name
	x.known[name+" "+model] = in
	if path != name || !strings.HasPrefix(name, zoo.Scheme) {
		x.files[in.SHA256] = in
	}
	return in, nil
}

// instance appends the tasks of an experiment on one instance.
func (x *expansion) instance(e *Experiment, src source, in *solve.Instance, model string, used map[string]bool) {
	accepted := false
	for _, p := range e.Problems {
		if p.Accepts(in) != nil {
			continue
		}
		accepted = true
		used["problem "+p.Name] = true
		methods := e.methodsFor(p, in)
		for _, m := range methods {
			used[m.Name] = true
		}
		counts := ""
		if p.Models {
			var err error
			if counts, err = p.Count(in, model); err != nil {
				x.r.errorf(src.node, "%v", err)
				return
			}
		}
		memories := e.memory
		if len(memories) == 0 {
			memories = []memory{defaultMemory(p, in)}
		}
		for _, limit := range memories {
			for _, at := range e.platforms(p) {
				if p.Models {
					at.Model = counts
				}
				low, high := math.NaN(), math.NaN()
				if limit.Percent {
					low, high = p.Range(in, solve.Setting{Platform: at.Platform, MemoryModel: at.model})
				}
				at.Memory = in.Resolve(limit.MemorySpec, low, high)
				if err := fits(p, in, at.Platform); err != nil {
					x.r.errorf(src.node, "%s with memory %s: %v", in.Name, limit.name, err)
					return
				}
				for _, m := range methods {
					x.method(e, in, p, m, at, limit.name)
				}
			}
		}
	}
	if !accepted {
		x.r.errorf(src.node, "%s is a %s, and %s is about %s", in.Name, solve.KindWord(in.Kind()), e.Problems[0].Name,
			solve.KindWords(e.Problems[0].Takes))
	}
}

// fits returns an error for a platform that no method supports.
func fits(p *solve.Problem, in *solve.Instance, at platform.Platform) error {
	if math.IsNaN(at.Memory) || math.IsInf(at.Memory, 0) {
		return errors.New("the ends of its memory range are not known; give the memory in bytes")
	}
	return p.Fit(in, at)
}

func defaultMemory(p *solve.Problem, in *solve.Instance) memory {
	name := p.DefaultMemory(in)
	m, err := platform.ParseMemory(name)
	if err != nil {
		panic(fmt.Sprintf("default memory of %s: %v", p.Name, err))
	}
	return memory{name, m}
}

// methodsFor returns the methods of p that the experiment names and that support the instance.
func (e *Experiment) methodsFor(p *solve.Problem, in *solve.Instance) (list []*solve.Method) {
	named := func(values []value, name string) bool {
		return slices.ContainsFunc(values, func(v value) bool { return v.text == name || v.text == "all" })
	}
	for _, m := range catalog.MethodsFor(p, in) {
		if named(e.methods, m.Name) && !named(e.without, m.Name) {
			list = append(list, m)
		}
	}
	return list
}

// place is a platform with a memory model.
type place struct {
	platform.Platform
	model string
}

// platforms returns the combinations of the axes of the platform that apply to
// p, without memory.
func (e *Experiment) platforms(p *solve.Problem) []place {
	list := []place{{}}
	if p.Bandwidth != "" {
		rate, err := platform.ParseRate(p.Bandwidth)
		if err != nil {
			panic(fmt.Sprintf("default bandwidth of %s: %v", p.Name, err))
		}
		list = product(list, orDefault(e.bandwidth, rate), func(x *place, v float64) { x.Bandwidth = v })
	}
	if p.Parallel {
		list = product(list, orDefault(e.processors, method.DefaultProcessors), func(x *place, v int) { x.Processors = v })
		list = product(list, orDefault(e.weightCopies, platform.DefaultWeightCopies), func(x *place, v int) { x.WeightCopies = v })
	}
	if p.Parallel && !p.Scheduled {
		list = product(list, orDefault(e.replicas, false), func(x *place, v bool) { x.Replicas = v })
		list = product(list, orDefault(e.memoryModels, plan.TaskModel), func(x *place, v string) { x.model = v })
	}
	if p.HasRuntime() { // the default of solve
		list = product(list, orDefault(e.runtimes, stages.Torch), func(x *place, v string) {
			if x.Model = v; v == platform.PaperModel {
				x.Model = sweep.PaperRuntime
			}
		})
	}
	if p.Scheduled { // missing values follow from the instance
		if !p.Parallel {
			list = product(list, orDefault(e.processors, 0), func(x *place, v int) { x.Processors = v })
		}
		list = product(list, orDefault(e.microBatches, 0), func(x *place, v int) { x.MicroBatches = v })
		list = product(list, orDefault(e.placements, ""), func(x *place, v string) { x.Placement = v })
		list = product(list, orDefault(e.objectives, ""), func(x *place, v string) { x.Objective = v })
	}
	return list
}

// product returns every element with every value.
func product[T, V any](list []T, values []V, set func(*T, V)) (out []T) {
	for _, x := range list {
		for _, v := range values {
			y := x
			set(&y, v)
			out = append(out, y)
		}
	}
	return out
}

// method appends the tasks of one method at one place. There are none if stages may be replicated and the method
// does not support that.
func (x *expansion) method(e *Experiment, in *solve.Instance, p *solve.Problem, m *solve.Method, at place, memoryName string) {
	if at.Replicas && !m.Replicas {
		return
	}
	list := []sweep.Task{{
		Format: sweep.TaskFormat, Problem: p.Name, Method: m.Name, Instance: in.Source, SHA256: in.SHA256,
		Memory: at.Memory, MemoryName: memoryName, Bandwidth: at.Bandwidth,
		Processors: at.Processors, WeightCopies: at.WeightCopies, Replicas: at.Replicas, MemoryModel: at.model,
		MicroBatches: at.MicroBatches, Placement: at.Placement, Minimised: at.Objective, Model: at.Model,
		TaskMemory: e.taskMemory, Version: x.version,
	}}
	if m.Slots > 0 {
		list = product(list, orDefault(e.slots, m.Slots), func(t *sweep.Task, v int) { t.Slots = v })
	}
	if m.Solver {
		list = product(list, e.backends, func(t *sweep.Task, v string) { t.Backend = v })
		list = product(list, e.threads, func(t *sweep.Task, v int) { t.Threads = v })
	}
	list = product(list, e.timeLimit, func(t *sweep.Task, v float64) { t.TimeLimit = v })
	list = product(list, e.gap, func(t *sweep.Task, v float64) { t.Gap = v })
	list = product(list, e.seeds, func(t *sweep.Task, v int) { t.Seed = v })
	if len(x.tasks)+len(list)*e.repetitions > mostTasks && !x.tooMany {
		x.tooMany = true
		x.r.errorf(e.node, "more than %d tasks up to here: a shorter list of something is needed", mostTasks)
		return
	}
	list = product(list, repetitions(e.repetitions), func(t *sweep.Task, v int) { t.Repetition = v })
	for _, t := range list {
		if id := t.ID(); !x.seen[id] {
			x.seen[id] = true
			x.tasks = append(x.tasks, t)
		}
	}
}

func repetitions(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}
