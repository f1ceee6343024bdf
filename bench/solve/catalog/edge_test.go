package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/bench/solve/method"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/placement"
	"workbench/model/verify"
	"workbench/model/zoo"
)

// An edge is a problem on an instance, of which the least memory is known.
type edge struct {
	*testing.T
	p     *solve.Problem
	in    *solve.Instance
	least float64 // bytes
}

// At the least memory, which the proof that nothing fits in a byte names, the default
// method has a plan that takes all of it, and one unit below it every method says that
// there is none: every problem on all networks of the zoo, but pipelines, whose least
// takes a search, on two. Of these the range begins at the least; of pipelines on graphs and of placement
// only its ends are known.
func TestLeastOfNetworks(t *testing.T) {
	names, quick := zoo.Names(), []string{"siamese", "unet"}
	if testing.Short() {
		names = quick[:1]
	}
	for _, name := range names {
		for _, kind := range []string{"chain", "graph", "join", "functions", "stages", "lifetimes"} {
			in, err := solve.Load(zoo.Scheme+name+"?as="+kind, nil)
			if err != nil {
				continue // there is none
			}
			for _, p := range catalog.Problems() {
				if p.Accepts(in) != nil || p.Parallel && !slices.Contains([]string{"resnet18", "unet"}, name) {
					continue
				}
				t.Run(name+"/"+kind+"/"+p.Name, func(t *testing.T) {
					e := &edge{T: t, p: p, in: in}
					if e.findLeast(); e.open() {
						e.interval()
						return
					}
					e.atLeast()
					e.below()
					if slices.Contains(quick, name) {
						e.between()
					}
				})
			}
		}
	}
}

// limit is such that no machine is too slow for it: plenty, since what runs is stopped at
// its first plan, and next to nothing for rematerialization of graphs, where a plan of the
// least memory is there whatever the time, and nothing stops for it.
func (e *edge) limit() time.Duration {
	if e.p.Name == plan.Remat && e.in.Graph() != nil {
		return time.Millisecond
	}
	return time.Minute
}

// run runs a method until its first plan.
func (e *edge) run(m *solve.Method, memory float64) *solve.Result {
	e.Helper()
	backend, err := backends.New("highs", false)
	if err != nil {
		e.Fatal(err)
	}
	ctx, planned := untilPlanned(e.T)
	s := solve.Setting{
		Platform: platform.Platform{Memory: memory, Bandwidth: 12e9}, Backend: backend, Threads: 1, Time: e.limit(), Gap: 0.5,
		OnProgress: planned,
	}
	if e.p.Parallel {
		s.Platform.Processors, s.Platform.WeightCopies = method.DefaultProcessors, platform.DefaultWeightCopies
	}
	return solve.Run(ctx, e.p, m, e.in, s)
}

// untilPlanned returns a context and the progress that ends it with the first plan.
func untilPlanned(t *testing.T) (context.Context, func(solve.Progress)) {
	ctx, stop := context.WithCancel(t.Context())
	return ctx, func(p solve.Progress) {
		if !math.IsNaN(p.Objective) && !math.IsInf(p.Objective, 0) {
			stop()
		}
	}
}

func (e *edge) findLeast() {
	e.Helper()
	low, _ := e.p.Range(e.in, solve.Setting{}) // without a limit: what needs a search is known from here on
	r := e.run(e.method(), 1)
	var none *plan.Infeasible
	if !errors.As(r.Err, &none) {
		e.Fatalf("in 1 byte: %s %s", r.Status, r.Error)
	}
	e.least = none.Memory
	if e.p.Parallel && e.in.Chain() != nil {
		e.least = low // a search: what is known at once is less
	}
}

// open reports whether the least memory of a problem is between what is known to be
// needed and a beginning of the range, or more.
func (e *edge) open() bool {
	return e.p.Name == placement.Problem || e.p.Name == plan.Layout || e.in.Graph() != nil && e.p.Parallel
}

// interval looks below what is known to be needed, where no method has a plan, in the
// middle of what is open, where nothing may be called infeasible but by a search that
// proves more to be needed, and at the end, where there is a plan.
func (e *edge) interval() {
	e.Helper()
	e.below()
	low, high := e.p.Range(e.in, solve.Setting{})
	end := low
	if e.p.Name == placement.Problem || e.p.Name == plan.Layout {
		end = high
	}
	if e.least > end {
		e.Fatalf("at least %.0f bytes are needed, %.0f are enough", e.least, end)
	}
	m := e.method()
	if e.p.Parallel {
		m = e.quick()
	}
	for _, memory := range []float64{e.least, math.Floor((e.least + end) / 2)} {
		r := e.run(m, memory)
		var none *plan.Infeasible
		proved := errors.As(r.Err, &none) && none.Memory > memory
		if r.Plan == nil && r.Status != solve.Limit && !proved {
			e.Errorf("in %.0f of %.0f to %.0f bytes: %s %s", memory, e.least, end, r.Status, r.Error)
		}
	}
	if r := e.run(e.method(), end); r.Plan == nil {
		e.Errorf("in %.0f bytes: %s %s", end, r.Status, r.Error)
	}
}

// quick is a method of pipelines that takes moments.
func (e *edge) quick() *solve.Method {
	e.Helper()
	name := "1f1b-star"
	if e.p.Name == plan.Layout {
		name = "bottleneck"
	}
	m, err := catalog.FindMethod(e.p, name)
	if err != nil {
		e.Fatal(err)
	}
	return m
}

func (e *edge) method() *solve.Method {
	e.Helper()
	m, err := catalog.FindMethod(e.p, catalog.DefaultMethod(e.p, e.in))
	if err != nil {
		e.Fatal(err)
	}
	return m
}

// atLeast solves at the least memory.
func (e *edge) atLeast() {
	if took := e.solve(e.least); took != e.least {
		e.Errorf("a plan of %.0f bytes, the least is %.0f", took, e.least)
	}
	if low, _ := e.p.Range(e.in, solve.Setting{}); low < e.least {
		e.Errorf("the range begins at %.0f, the least is %.0f", low, e.least)
	}
}

// between solves in the middle of the range, and then in what that plan takes.
func (e *edge) between() {
	low, high := e.p.Range(e.in, solve.Setting{})
	took := e.solve(math.Floor((low + high) / 2))
	if again := e.solve(took); again > took {
		e.Errorf("a plan of %.0f bytes in %.0f", again, took)
	}
}

// solve returns what the plan of the default method takes, of which solve and verify
// say the same: it is valid in that, and not in one unit less.
func (e *edge) solve(memory float64) (took float64) {
	e.Helper()
	r := e.run(e.method(), memory)
	if r.Plan == nil || r.PeakMemory == nil {
		e.Fatalf("in %.0f bytes: %s %s", memory, r.Status, r.Error)
	}
	for _, less := range []float64{0, 1} {
		p := *r.Plan
		p.Platform.Memory = *r.PeakMemory - less
		q := &p
		if len(p.Ops) < fileOps {
			q = e.written(q)
		}
		report, err := verify.Replay(e.in.Instance, q)
		if err != nil || report.Valid() != (less == 0) || report.PeakMemory != *r.PeakMemory {
			e.Errorf("the plan for %.0f bytes, in its own %.0f less %v: %v, %+v", memory, *r.PeakMemory, less, err, report)
		}
	}
	return *r.PeakMemory
}

// fileOps is how many operations make a plan too long to be written here: seconds, or gigabytes.
const fileOps = 1 << 17

// written returns a plan as it is after it is written and read.
func (e *edge) written(p *plan.Plan) *plan.Plan {
	e.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		e.Fatal(err)
	}
	q, err := plan.Read(&b, "plan.json")
	if err != nil {
		e.Fatal(err)
	}
	return q
}

// below runs all methods one unit below the least memory.
func (e *edge) below() {
	methods := catalog.MethodsFor(e.p, e.in)
	if e.p.Parallel && e.in.Chain() != nil {
		methods = []*solve.Method{e.method(), e.quick()} // each of them finds the least memory
	}
	for _, m := range methods {
		r := e.run(m, e.least-1)
		var none *plan.Infeasible
		if errors.As(r.Err, &none) && none.Memory == e.least || m.Kind == solve.Heuristic && errors.Is(r.Err, solve.ErrInput) {
			continue // proved, or refused as too large
		}
		e.Errorf("%s in %.0f bytes: %s %s", m.Name, e.least-1, r.Status, r.Error)
	}
}

// The range of memory begins at the minimum of the platform that was given: there the method has a plan, and one unit below it the
// proof that there is none.
func TestRangeOfPlatform(t *testing.T) {
	on := func(gpus, copies int, placement string) platform.Platform {
		return platform.Platform{Bandwidth: 12e9, Processors: gpus, WeightCopies: copies, Placement: placement}
	}
	for _, x := range []struct {
		problem, spec, method string
		platform              platform.Platform
		model                 string
	}{
		{plan.Flush, "zoo:resnet50?as=stages&stages=8", "list", on(0, 0, plan.Straight), ""},
		{plan.Flush, "zoo:resnet50?as=stages&stages=8", "list", on(0, 0, plan.VShaped), ""},
		{plan.Flush, "zoo:resnet50?as=stages&stages=8", "list", on(4, 0, plan.Interleaved), ""},
		{plan.Flush, "zoo:resnet50?as=stages&stages=8", "list", on(2, 0, "0,1,1,0,0,1,1,0"), ""},
		{plan.Pipeline, "zoo:resnet18", "search", on(2, 3, ""), plan.TaskModel},
		{plan.Pipeline, "zoo:resnet18", "search", on(3, 0, ""), plan.StageModel},
		{plan.Pipeline, "zoo:gpt2", "search", on(8, 3, ""), plan.TaskModel},
	} {
		in, err := solve.Load(x.spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		problem, m := catalogtest.Find(t, x.problem, x.method)
		s := solve.Setting{Platform: x.platform, MemoryModel: x.model, Time: time.Minute}
		low, high := problem.Range(in, s)
		if !(low < high) {
			t.Errorf("%s on %+v: the range is from %.0f to %.0f", x.problem, x.platform, low, high)
		}
		for _, memory := range []float64{low, low - 1} {
			ctx, planned := untilPlanned(t)
			s.Platform.Memory, s.OnProgress = memory, planned
			r := solve.Run(ctx, problem, m, in, s)
			var none *plan.Infeasible
			if fits := memory == low; fits != (r.Plan != nil) || !fits && (!errors.As(r.Err, &none) || none.Memory != low) {
				t.Errorf("%s on %+v, minimum %.0f, in %.0f: %s %v", x.problem, x.platform, low, memory, r.Status, r.Err)
			}
		}
	}
}
