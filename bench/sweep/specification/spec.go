// Package specification reads the specification of a sweep: a YAML file that names instances, problems, methods
// and limits. Every list is an axis of a grid. The file is checked as a whole; each error has a line, a column and
// a correction. It is expanded into tasks in an order that depends only on the file.
package specification

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/stages"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/zoo"
)

// Format is the format of specifications; they may omit it.
const Format = "workbench.sweep/v1"

// Spec is a specification. Paths in it are relative to Dir.
type Spec struct {
	Name        string
	Description string
	File        string // as given, for errors
	Dir         string
	Text        []byte
	Plans       bool // store plans
	Experiments []Experiment
}

// Experiment is a grid: every method of every problem on every instance that it supports, at each combination of
// the axes that apply to it.
type Experiment struct {
	node      ast.Node
	Problems  []*solve.Problem
	methods   []value // "all", or names
	without   []value
	instances []source
	axes
}

// source is one entry of a list of instances.
type source struct {
	node  ast.Node
	names []string // zoo:NAME?…; or
	glob  string   // a pattern of files
}

// axes are the lists that may appear at the top level, as defaults, or in an experiment. Empty: the problem's
// default.
type axes struct {
	memory       []memory
	bandwidth    []float64
	processors   []int
	weightCopies []int
	replicas     []bool
	memoryModels []string
	models       []string
	runtimes     []string
	microBatches []int
	placements   []string
	objectives   []string
	slots        []int
	backends     []string
	seeds        []int
	threads      []int
	gap          []float64
	timeLimit    []float64 // seconds; 0: none
	repetitions  int
	taskMemory   int64 // bytes; 0: no limit
	// own holds the keys of the experiment itself: those that apply to none of its problems are errors.
	own map[string]ast.Node
}

// memory is a limit as written and as parsed.
type memory struct {
	name string
	platform.MemorySpec
}

// Defaults.
const (
	defaultTimeLimit  = 60      // seconds
	defaultTaskMemory = 4 << 30 // bytes
)

// The maximum sizes of a specification: larger values are typing errors.
const (
	mostTasks       = 1_000_000
	mostRepetitions = 10_000
	mostProcessors  = 1 << 12
	mostSlots       = 1 << 20
	mostThreads     = 1024
)

// Parse reads a specification. file is its name in errors; paths in it are relative to dir. The error joins all
// errors, each an [Error].
func Parse(file, dir string, text []byte) (*Spec, error) {
	r := &reader{file: file}
	s := &Spec{File: file, Dir: dir, Text: text, Plans: true}
	if root := r.parse(text); root != nil {
		s.read(r, root)
	}
	if err := r.err(); err != nil {
		return nil, err
	}
	return s, nil
}

// read reads the document: the defaults before the experiments, whatever their order in the file.
func (s *Spec) read(r *reader, root ast.Node) {
	defaults := axes{
		backends: []string{backends.Names()[0]}, seeds: []int{0}, threads: []int{1}, gap: []float64{0},
		timeLimit: []float64{defaultTimeLimit}, repetitions: 1, taskMemory: defaultTaskMemory,
	}
	var experiments ast.Node
	known := defaults.fields(r)
	known["format"] = func(n ast.Node) {
		if v, ok := r.scalar(n); ok && v.text != Format {
			r.errorf(n, "format %q: this program knows %q", v.text, Format)
		}
	}
	known["name"] = func(n ast.Node) {
		v, ok := r.scalar(n)
		if ok && !goodName(v.text) {
			r.errorf(n, "name %q: letters, digits, - and _ are needed, for it names folders, too", v.text)
		}
		s.Name = v.text
	}
	known["description"] = func(n ast.Node) {
		v, _ := r.scalar(n)
		s.Description = v.text
	}
	known["plans"] = func(n ast.Node) {
		v, ok := r.scalar(n)
		if ok && v.text != "true" && v.text != "false" {
			r.errorf(n, "plans: %q: true or false is needed", v.text)
		}
		s.Plans = v.text != "false"
	}
	known["experiments"] = func(n ast.Node) { experiments = n }
	r.fields(root, "the specification", known, "name", "experiments")
	if experiments == nil {
		return
	}
	defaults.own = nil
	for _, n := range r.nodes(experiments, "experiments") {
		if e, ok := readExperiment(r, n, defaults); ok {
			s.Experiments = append(s.Experiments, e)
		}
	}
}

func goodName(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") == ""
}

func readExperiment(r *reader, n ast.Node, defaults axes) (e Experiment, ok bool) {
	before := len(r.errs)
	e = Experiment{node: n, axes: defaults}
	e.own = map[string]ast.Node{}
	known := e.fields(r)
	doubtful := false // an unknown problem may have the unknown methods
	for _, name := range []string{"problem", "problems"} {
		known[name] = func(n ast.Node) {
			for _, v := range r.scalars(n, name) {
				p, err := catalog.FindProblem(v.text)
				if err != nil {
					r.errorf(v.node, "%v", err)
					doubtful = true
					continue
				}
				e.Problems = append(e.Problems, p)
			}
		}
	}
	known["methods"] = func(n ast.Node) { e.methods = r.scalars(n, "methods") }
	known["without"] = func(n ast.Node) { e.without = r.scalars(n, "without") }
	known["instances"] = func(n ast.Node) {
		for _, x := range r.nodes(n, "instances") {
			if s, ok := readSource(r, x); ok {
				e.instances = append(e.instances, s)
			}
		}
	}
	r.fields(n, "an experiment", known, "instances")
	if len(e.Problems) > 0 && !doubtful {
		e.checkMethods(r)
	}
	if len(r.errs) > before {
		return e, false
	}
	if len(e.Problems) == 0 {
		r.errorf(n, "an experiment has no problem: known are %s", strings.Join(problemNames(), ", "))
		return e, false
	}
	if len(e.methods) == 0 {
		e.methods = []value{{"all", n}}
	}
	e.checkAxes(r)
	return e, len(r.errs) == before
}

func problemNames() (names []string) {
	for _, p := range catalog.Problems() {
		names = append(names, p.Name)
	}
	return names
}

// checkMethods reports names that are no methods of any of the problems.
func (e *Experiment) checkMethods(r *reader) {
	for _, v := range slices.Concat(e.methods, e.without) {
		var err error
		for _, p := range e.Problems {
			if _, err = catalog.FindMethod(p, v.text); err == nil {
				break
			}
		}
		if err != nil && v.text != "all" {
			r.errorf(v.node, "%v", err)
		}
	}
}

// checkAxes reports axes of this experiment that none of its problems has, and a grid that is too large, before it
// is expanded.
func (e *Experiment) checkAxes(r *reader) {
	tasks := float64(e.repetitions)
	for _, n := range []int{
		len(e.memory), len(e.bandwidth), len(e.processors), len(e.weightCopies), len(e.replicas), len(e.memoryModels),
		len(e.models), len(e.runtimes), len(e.microBatches),
		len(e.placements), len(e.objectives),
		len(e.slots), len(e.backends), len(e.threads), len(e.timeLimit), len(e.gap), len(e.seeds),
	} {
		tasks *= float64(max(n, 1))
	}
	if tasks > mostTasks {
		r.errorf(e.node, "its lists make %.3g tasks of one method on one instance, at most %d are possible in all", tasks, mostTasks)
	}
	some := func(has func(*solve.Problem) bool) bool { return slices.ContainsFunc(e.Problems, has) }
	links := some(func(p *solve.Problem) bool { return p.Bandwidth != "" })
	parallel := some(func(p *solve.Problem) bool { return p.Parallel })
	models := some(func(p *solve.Problem) bool { return p.Models })
	scheduled := some(func(p *solve.Problem) bool { return p.Scheduled })
	for key, applies := range map[string]bool{
		"bandwidth": links, "processors": parallel || scheduled, "weight_copies": parallel, "replicas": parallel, "memory_models": parallel,
		"models": models, "runtimes": some((*solve.Problem).HasRuntime), "micro_batches": scheduled, "placements": scheduled,
		"objectives": scheduled,
	} {
		if n, given := e.own[key]; given && !applies {
			r.errorf(n, "%s: %s has no such thing; leave it out", key, e.Problems[0].Name)
		}
	}
}

// fields returns how the axes are read.
func (a *axes) fields(r *reader) map[string]func(ast.Node) {
	known := map[string]func(ast.Node){
		"repetitions": func(n ast.Node) {
			if v, ok := r.scalar(n); ok {
				if k, ok := whole("repetitions", 1, mostRepetitions)(r, v); ok {
					a.repetitions = k
				}
			}
		},
		"task_memory": func(n ast.Node) {
			v, ok := r.scalar(n)
			if !ok {
				return
			}
			a.taskMemory = 0
			if v.text == "none" {
				return
			}
			x, err := platform.ParseBytes(v.text)
			switch {
			case err != nil:
				r.errorf(n, "task_memory: %v", err)
			case x < leastTaskMemory || x >= math.MaxInt64:
				r.errorf(n, "task_memory %q: from %s on, or none", v.text, platform.FormatBytes(leastTaskMemory))
			default:
				a.taskMemory = int64(x)
			}
		},
	}
	axis(r, known, "memory", &a.memory, readMemory)
	axis(r, known, "bandwidth", &a.bandwidth, parsed("bandwidth: %v", platform.ParseRate))
	axis(r, known, "processors", &a.processors, whole("processors", 1, mostProcessors))
	axis(r, known, "weight_copies", &a.weightCopies, whole("weight_copies", 0, mostProcessors))
	axis(r, known, "replicas", &a.replicas, func(r *reader, v value) (bool, bool) {
		word, ok := oneOf("replicas", "true", "false")(r, v)
		return word == "true", ok
	})
	axis(r, known, "micro_batches", &a.microBatches, whole("micro_batches", 1, stages.MostMicroBatches))
	axis(r, known, "placements", &a.placements, oneOf("placements", plan.Straight, plan.Interleaved, plan.VShaped))
	axis(r, known, "objectives", &a.objectives, oneOf("objectives", plan.SpanObjective, plan.MakespanObjective))
	axis(r, known, "slots", &a.slots, whole("slots", 1, mostSlots))
	axis(r, known, "seeds", &a.seeds, whole("seeds", 0, math.MaxInt32))
	axis(r, known, "threads", &a.threads, whole("threads", 1, mostThreads))
	axis(r, known, "models", &a.models, oneOf("models", platform.SavedModel, platform.PaperModel))
	axis(r, known, "runtimes", &a.runtimes, oneOf("runtimes", stages.Torch, platform.PaperModel))
	axis(r, known, "memory_models", &a.memoryModels, oneOf("memory_models", plan.TaskModel, plan.StageModel))
	axis(r, known, "backends", &a.backends, oneOf("backends", backends.Names()...))
	axis(r, known, "gap", &a.gap, parsed("gap %v", platform.ParsePart))
	axis(r, known, "time_limit", &a.timeLimit, parsed("time_limit: %v", func(text string) (float64, error) {
		d, err := platform.ParseTimeLimit(text)
		return d.Seconds(), err
	}))
	for key, read := range known {
		known[key] = func(n ast.Node) {
			if a.own != nil {
				a.own[key] = n
			}
			read(n)
		}
	}
	return known
}

// leastTaskMemory is the memory of an idle process plus a margin for small tasks.
const leastTaskMemory = 64 << 20

// axis makes known how the axis of a key is read.
func axis[T comparable](r *reader, known map[string]func(ast.Node), key string, to *[]T, read func(*reader, value) (T, bool)) {
	known[key] = func(n ast.Node) { *to = each(r, n, key, read) }
}

// each reads the values of an axis. A repeated value is an error: its tasks would be duplicates.
func each[T comparable](r *reader, n ast.Node, what string, read func(*reader, value) (T, bool)) (list []T) {
	for _, v := range r.scalars(n, what) {
		x, ok := read(r, v)
		switch {
		case !ok:
		case slices.Contains(list, x):
			r.errorf(v.node, "%s: %s is given twice", what, v.text)
		default:
			list = append(list, x)
		}
	}
	return list
}

func readMemory(r *reader, v value) (memory, bool) {
	m, err := platform.ParseMemory(v.text)
	switch {
	case err != nil:
		r.errorf(v.node, "memory: %v", err)
		return memory{}, false
	case m.Percent && strings.TrimLeft(v.text, "0123456789. ")[0] == '%':
		r.errorf(v.node, "memory %s: write range %s for a share between the minimum and keeping everything, as versions before 0.2 read it, or "+
			"peak %s for a share of keeping everything", v.text, v.text, v.text)
		return memory{}, false
	}
	return memory{strings.Join(strings.Fields(v.text), " "), m}, true
}

// parsed reads a value by a function whose errors are reported in the format.
func parsed(format string, parse func(string) (float64, error)) func(*reader, value) (float64, bool) {
	return func(r *reader, v value) (float64, bool) {
		x, err := parse(v.text)
		if err != nil {
			r.errorf(v.node, format, err)
		}
		return x, err == nil
	}
}

func whole(what string, least, most int) func(*reader, value) (int, bool) {
	return func(r *reader, v value) (int, bool) {
		x, err := strconv.Atoi(strings.ReplaceAll(v.text, "_", ""))
		if err != nil || x < least || x > most {
			r.errorf(v.node, "%s %q: an integer from %d to %d is needed", what, v.text, least, most)
			return 0, false
		}
		return x, true
	}
}

func oneOf(what string, names ...string) func(*reader, value) (string, bool) {
	return func(r *reader, v value) (string, bool) {
		if !slices.Contains(names, v.text) {
			r.errorf(v.node, "%s %q: %s", what, v.text, nearest.Hint(v.text, names))
			return "", false
		}
		return v.text, true
	}
}

// readSource reads one entry of a list of instances: a word, or a network with
// lists of values for its parameters.
func readSource(r *reader, n ast.Node) (source, bool) {
	switch r.resolve(n).(type) {
	case nil:
		return source{}, false
	case *ast.MappingNode, *ast.MappingValueNode:
		return readGrid(r, n)
	}
	v, ok := r.scalar(n)
	if !ok {
		return source{}, false
	}
	if !strings.HasPrefix(v.text, zoo.Scheme) {
		return source{node: n, glob: v.text}, true
	}
	_, rest := zoo.Form(v.text)
	name, _, err := zoo.Parse(rest)
	if err != nil {
		r.errorf(n, "%v", err)
		return source{}, false
	}
	_, ok = network(r, n, name)
	return source{node: n, names: []string{v.text}}, ok
}

// network returns the entry of a built-in network.
func network(r *reader, n ast.Node, name string) (zoo.Entry, bool) {
	for _, e := range zoo.List() {
		if e.Name == name {
			return e, true
		}
	}
	r.errorf(n, "unknown network %q: %s", name, nearest.Hint(name, zoo.Names()))
	return zoo.Entry{}, false
}

// mostGrid limits the networks of one entry.
const mostGrid = 10_000

// readGrid reads {zoo: NAME, parameter: [values], …} and returns the names of all networks of the grid; the last
// parameter varies fastest.
func readGrid(r *reader, n ast.Node) (source, bool) {
	pairs, ok := r.pairs(n, "an instance")
	if !ok {
		return source{}, false
	}
	before := len(r.errs)
	at := slices.IndexFunc(pairs, func(p pair) bool { return p.key == "zoo" })
	if at < 0 {
		r.errorf(n, "an instance is a path, zoo:NAME?…, or {zoo: NAME, parameter: [values]}")
		return source{}, false
	}
	specs := []string(nil)
	for _, v := range r.scalars(pairs[at].value, "zoo") {
		if e, ok := network(r, v.node, v.text); ok {
			checkParameters(r, e, pairs)
			specs = append(specs, zoo.Scheme+v.text)
		}
	}
	separator := "?"
	for _, p := range pairs {
		if p.key == "zoo" || strings.HasPrefix(p.key, "x-") {
			continue
		}
		if p.value == nil {
			continue
		}
		values := each(r, p.value, p.key, func(r *reader, v value) (string, bool) {
			if v.text == "" || strings.ContainsAny(v.text, "&=?") {
				r.errorf(v.node, "%s %q: a number or a word is needed", p.key, v.text)
				return "", false
			}
			return v.text, true
		})
		if len(specs)*len(values) > mostGrid {
			r.errorf(n, "the grid has more than %d networks", mostGrid)
			return source{}, false
		}
		specs = grid(specs, separator+p.key+"=", values)
		separator = "&"
	}
	return source{node: n, names: specs}, len(r.errs) == before
}

// grid appends every value to every word.
func grid(words []string, key string, values []string) (out []string) {
	for _, w := range words {
		for _, v := range values {
			out = append(out, w+key+v)
		}
	}
	return out
}

// checkParameters reports keys that are no parameters of the network.
func checkParameters(r *reader, e zoo.Entry, pairs []pair) {
	names := []string{"as"}
	for _, p := range e.Parameters {
		names = append(names, p.Name)
	}
	for _, p := range pairs {
		if p.key != "zoo" && !strings.HasPrefix(p.key, "x-") && !slices.Contains(names, p.key) {
			r.errorf(p.node, "%s has no parameter %q: %s", e.Name, p.key, nearest.Hint(p.key, names))
		}
	}
}

// orDefault returns the list, or the default as a list of one element if it is empty.
func orDefault[T any](list []T, otherwise T) []T {
	if len(list) == 0 {
		return []T{otherwise}
	}
	return list
}
