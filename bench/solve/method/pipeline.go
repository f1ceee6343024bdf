package method

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/heuristics/pipeline"
	"workbench/heuristics/pipelinegraph"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// Defaults of the pipeline's platform, where the user does not say.
const (
	DefaultProcessors = 4
	defaultBandwidth  = 12e9
)

// Pipeline is the problem of [004] ch. 5–7.
func Pipeline() *solve.Problem {
	return &solve.Problem{
		Name:      plan.Pipeline,
		Aliases:   []string{"pipelines", "model-parallelism"},
		Title:     "which GPU computes which layers, and a periodic pattern that overlaps mini-batches",
		Source:    "[004] ch. 5–7",
		Objective: "period per mini-batch T/k, seconds",
		Takes:     []string{chain.Kind, graph.Kind},
		Word:      "period",
		Defaults:  []string{"pipeline-milp", "search"},
		Example:   "zoo:resnet50?image=1000&batch=8",
		Memory:    "8GiB", Bandwidth: platform.FormatRate(defaultBandwidth),
		Parallel: true, Models: true,
		Range: pipelineRange,
		Fit: func(in *solve.Instance, p platform.Platform) error {
			return calculable(in, ofStep(in), ofMemory(p), ofLink(p))
		},
		Bound:   pipelineBound(),
		Methods: PipelineMethods,
		Does:    layersOfGPUs,
		Times: func(_ *solve.Instance, r *solve.Result) []solve.Line {
			return []solve.Line{
				{Label: "period", Text: fmt.Sprintf("%s a mini-batch: T = %s for %d", platform.FormatSeconds(r.Report.Makespan),
					platform.FormatSeconds(*r.Plan.Period), max(1, r.Plan.K))},
				counted(r.Platform),
			}
		},
		Timeline: timeline.Patterns(), Tensors: allocator.OfPipeline,
		Subjects: []*testcase.Subject{testcase.Pipeline(), testcase.GraphPipeline()},
		Tiny:     map[string]string{chain.Kind: tinyPipeline, graph.Kind: tinyGraph},
	}
}

// tinyPipeline takes 1 s to send at 12 GB/s.
const tinyPipeline = `{"format":"workbench.chain/v1","name":"tiny","input":{"activation":12e9},"layers":[
			{"name":"one","forward_time":2,"backward_time":3,"activation":12e9,"gradient":12e9,"weight":2e9},
			{"name":"loss","forward_time":1,"backward_time":2,"activation":6e9}]}`

// layersOfGPUs says which layers each GPU computes: "layers on gpu0 1–7, gpu1 8–12".
func layersOfGPUs(p *plan.Plan) string {
	var order []int
	layers, name := map[int][]string{}, map[int]string{}
	for _, s := range p.Allocation {
		if layers[s.Processor] == nil {
			order = append(order, s.Processor)
			if name[s.Processor] = fmt.Sprintf("gpu%d", s.Processor); s.Copies() > 1 {
				name[s.Processor] += fmt.Sprintf("–%d", s.Processor+s.Copies()-1)
			}
		}
		text := fmt.Sprintf("%d–%d", s.From, s.To)
		if s.From == s.To {
			text = fmt.Sprint(s.From)
		}
		layers[s.Processor] = append(layers[s.Processor], text)
	}
	var parts []string
	for _, g := range order {
		parts = append(parts, fmt.Sprintf("%s %s", name[g], strings.Join(layers[g], " and ")))
	}
	return "layers on " + strings.Join(parts, ", ")
}

// pipelineRange returns the minimum memory with which a pattern exists and the memory of the best 1F1B* where memory is unlimited.
func pipelineRange(in *solve.Instance, s solve.Setting) (low, high float64) {
	p := s.Platform
	if p.Processors == 0 { // no platform is given
		p.Bandwidth, p.Processors, p.WeightCopies = defaultBandwidth, DefaultProcessors, platform.DefaultWeightCopies
	}
	p.Memory, p.Replicas, p.Model = 1, false, cmp.Or(p.Model, in.Model())
	type key struct {
		platform    platform.Platform
		memoryModel string
	}
	r := solve.Searched(in, key{p, s.MemoryModel}, func() (r memoryRange) {
		r.low, r.high = pipelineRangeOn(in, p, s.MemoryModel)
		return r
	})
	return r.low, r.high
}

// pipelineRangeOn computes [pipelineRange] on a complete platform.
func pipelineRangeOn(in *solve.Instance, p platform.Platform, memoryModel string) (low, high float64) {
	x, err := layersOf(in, p, memoryModel)
	if err != nil {
		return 0, 0 // the methods will say what is wrong
	}
	if low, err = leastOf(in, x); err != nil {
		return 0, 0 // the methods will say what is wrong
	}
	p.Memory = math.MaxFloat64 / 4
	free, err := pipeline.OneFOneBStar(x.Chain, p, pipeline.Options{Model: memoryModel, Stop: in.Stop})
	if err != nil {
		return low, low // the methods will say what is wrong
	}
	return low, max(low, free.Claims.PeakMemory)
}

// pipelineBound returns the best of the bounds in closed form.
func pipelineBound() func(*solve.Instance, solve.Setting) solve.Bound {
	load := func(in *solve.Instance, s solve.Setting) solve.Bound {
		return proof.BySearch(atLeast(in)/float64(max(s.Platform.Processors, 1)), "load")
	}
	return closedForms(solve.Searched, plan.Pipeline, load, func(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
		if s.Platform.Replicas {
			return nil, nil // a layer may be on all GPUs: the others do not hold
		}
		if in.Graph() != nil {
			return graphPipelineBounds(in, s)
		}
		x, err := view.New(in.Chain(), s.Platform, s.MemoryModel)
		if err != nil {
			return nil, err // the methods will say what is wrong
		}
		x.Stop = in.Stop
		if err := x.Infeasible(); err != nil {
			return nil, err
		}
		return x.Bounds(), nil
	})
}

// PipelineMethods is the table of methods for pipelines.
func PipelineMethods() []*solve.Method {
	heuristic := func(name, source, summary, complexity string, work pipelinegraph.Method, first ...pipelinegraph.Method) *solve.Method {
		return &solve.Method{
			Name: name, Kind: solve.Heuristic, Source: source, Summary: summary, Complexity: complexity,
			Run: onLayers(name, work, first...),
		}
	}
	list := []*solve.Method{
		heuristic(pipeDream, "PipeDream, [004] 6.5", "its partition, with and without its memory model, and eager 1F1B for each number of "+
			"mini-batches in flight, simulated for 500; where that does not settle, and of graphs always, with 1F1B*; with --replicas stages on "+
			"several GPUs", "O(P·n²) and the simulations; with replicas O(P²·n²·log)", pipeline.PipeDream, pipeline.PipeDreamStar),
		heuristic("pipedream-star", "[004] 7.3.3", "PipeDream's partition with 1F1B* of the smallest period that fits", "O(P·n²)",
			pipeline.PipeDreamStar),
		heuristic("pipedream-star-memory", "[004] 7.3", "the same with the partition whose r-th stage from the end fits with r mini-batches",
			"O(P·n²)", pipeline.PipeDreamStarMemory),
		heuristic("gpipe", "GPipe", "k micro-batches forwards, then backwards, then a flush; the best k", "O(P·n²)", pipeline.GPipe),
		heuristic("1f1b", "PipeDream", "its partition and as many mini-batches in flight as stages", "O(P·n²) and a simulation",
			pipeline.OneFOneB),
		heuristic("1f1b-star", "[004] Alg. 6, 7", "the contiguous allocation and period that 1F1B* does best with", "O(P·n²·log)",
			pipeline.OneFOneBStar),
		heuristic("k-periodic", "[004] Thm 16", "1F1B* with every (k+1)-th mini-batch left out", "O(P²·n²·log)", pipeline.KPeriodic),
		heuristic("madpipe", "[004] ch. 7", "MadPipe's program with a fine grid, one processor with several stages, and a list scheduler",
			"O(P·n²·grid) a period, and the schedules", pipeline.MadPipe),
		heuristic("madpipe-paper", "[004] 7.3", "one allocation of MadPipe's program with the grid of the thesis, scheduled by the list "+
			"scheduler", "O(P·n²·grid) a period, and a schedule", pipeline.MadPipePaper),
		heuristic(searching, "ours", "moves layers and stages between processors, from the best of the others, beam searches over "+
			"allocations, and annealing of orders; with --replicas stages on several GPUs", "a schedule a move, O(200·n³) a beam", pipeline.Search,
			pipeline.OneFOneBStar, pipeline.KPeriodic, pipeline.MadPipePaper, pipeline.MadPipe),
		{
			Takes: []string{chain.Kind},
			Name:  "madpipe-milp", Kind: solve.Heuristic, Source: "[004] 7.1, 7.2", Solver: true,
			Summary:    "MadPipe's allocation, scheduled by the stage ILP",
			Complexity: "exponential; O(stages²) binaries",
			Run:        madPipeMILP,
		},
		exactPipeline("branch-and-bound", "search among 1-periodic patterns, then allocations layer by layer with bounds on loads, delays "+
			"and memory, and their patterns by the order of operations"),
		{
			Takes: []string{chain.Kind},
			Name:  "pipeline-ilp", Kind: solve.Exact, Source: "[004] ch. 6; ours", Solver: true,
			Summary:     "the ILP of chapter 6, strengthened, from 1F1B*: for chains of a few layers",
			Complexity:  "exponential; O(n²) binaries, O(n³) rows",
			Assumptions: []string{plan.OnePeriodic},
			Run:         pipelineILP,
		},
		{
			Takes: []string{chain.Kind},
			Name:  "pipeline-milp", Kind: solve.Exact, Source: "[004] ch. 6, 7.2; ours", Solver: true,
			Parts: []string{"1f1b-star", "k-periodic", "madpipe", "search", "branch-and-bound"},
			Summary: "search and branch-and-bound, patterns of several mini-batches a period, certified bounds in closed form, and the ILP " +
				"of chapter 6 for up to 8 layers",
			Complexity: "exponential, as branch-and-bound",
			Run:        pipelineMILP,
		},
	}
	for _, m := range list {
		if m.Replicas = m.Name == pipeDream || m.Name == searching; !m.Replicas {
			m.Run = straight(m.Name, m.Run)
		}
	}
	return list
}

// The methods that know replicated stages.
const (
	pipeDream = "pipedream"
	searching = "search"
)

// straight is a worker that knows no replicated stages, and whose bounds do not hold for
// them, as one that says so.
func straight(name string, work worker) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if s.Platform.Replicas {
			return nil, inputError(fmt.Errorf("%w: %s plans each stage on one GPU; with replicas there are %s and %s", view.ErrPlatform, name,
				pipeDream, searching))
		}
		return work(ctx, in, s)
	}
}

// exactPipeline closes in on the least period of 1-periodic patterns by branch
// and bound, from the best one that the search finds.
func exactPipeline(name, summary string) *solve.Method {
	return &solve.Method{
		Takes: []string{chain.Kind},
		Name:  name, Kind: solve.Exact, Source: "ours",
		Summary:     summary,
		Complexity:  "exponential; O(n²/P) an allocation, O(n²) a decision",
		Assumptions: []string{plan.OnePeriodic},
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			out, err := searchedPipeline(ctx, in, &s, nil)
			if err != nil {
				return nil, err
			}
			if err := branchAndBound(out, ctx, in, &s); err != nil {
				return nil, err
			}
			if out.Plan != nil {
				out.Plan.Method = name
			}
			return out, nil
		},
	}
}

// searchedPipeline returns the best 1-periodic pattern that the search finds. better,
// if not nil, hears of those on its way.
func searchedPipeline(ctx context.Context, in *solve.Instance, s *solve.Setting, better func(*plan.Plan)) (*solve.Outcome, error) {
	start := time.Now()
	closed := pipelineBound()(in, *s).Value
	reportProgress(s, start, "heuristics", nil, closed, 0)
	best, err := pipeline.SearchOnePeriodic(in.Chain(), s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done(), Better: better})
	if err != nil && !errors.Is(err, plan.ErrNoPlan) {
		return nil, inputError(err)
	}
	reportProgress(s, start, "heuristics", best, closed, 0)
	out := &solve.Outcome{}
	out.UpdateIncumbent(in, best)
	return out, nil
}

// branches names the search, and how far it went.
func branches(r *pipeline.ExactResult) string {
	return fmt.Sprintf("branch and bound (%s, %s about patterns)", platform.Count(r.Allocations, "allocation"),
		platform.Count(r.Patterns, "decision"))
}

// period is that of the plan, +Inf: there is none.
func period(out *solve.Outcome) float64 {
	if out.Plan == nil {
		return math.Inf(1)
	}
	return out.Plan.Claims.Makespan
}

// branchAndBound improves out's plan among 1-periodic patterns and adds bounds on these and on all.
func branchAndBound(out *solve.Outcome, ctx context.Context, in *solve.Instance, s *solve.Setting) error {
	start := time.Now()
	o := pipeline.Options{Model: s.MemoryModel}
	if s.OnProgress != nil {
		o.Progress = func(period, bound float64, allocations int64) {
			s.OnProgress(solve.Progress{Phase: "branch and bound", Elapsed: time.Since(start), Objective: period, Bound: bound, Nodes: allocations})
		}
	}
	r, err := pipeline.Exact(ctx, in.Chain(), s.Platform, o, period(out), s.Gap)
	if err != nil {
		return inputError(err)
	}
	out.UpdateIncumbent(in, r.Plan)
	by := branches(r)
	anyK := proof.BySearch(r.AnyK.Period, by)
	anyK.Why = r.AnyK.Why
	one := solve.Bound{
		Value: r.OnePeriodic.Period, By: by, Proof: proof.Search, Assumptions: []string{plan.OnePeriodic},
		Why: r.OnePeriodic.Why,
	}
	out.Bounds = append(out.Bounds, one, anyK)
	out.Stopped = !closedWithin(out, s)
	reportProgress(s, start, "branch and bound", out.Plan, r.OnePeriodic.Period, r.Allocations)
	return nil
}

// closedWithin reports whether out's bounds prove its plan, by more than a
// solver's word.
func closedWithin(out *solve.Outcome, s *solve.Setting) bool {
	if out.Plan == nil {
		return false
	}
	for _, b := range out.Bounds {
		if b.Proof.Trusted() && platform.Closed(out.Plan.Claims.Makespan, b.Value, max(s.Gap, 2*solve.Tolerance)) {
			return true
		}
	}
	return false
}
