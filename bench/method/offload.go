package method

import (
	"context"
	"errors"
	"fmt"
	"math"

	"workbench/bench/run"
	"workbench/bench/timeline"
	"workbench/heuristics/offload"
	ilpweights "workbench/ilp/weights"
	"workbench/model/allocator"
	"workbench/model/chain"
	offloadview "workbench/model/offload"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/subject"
)

// activationOffload is the problem of [000] and [004] ch. 3.
func ActivationOffload() *run.Problem {
	return &run.Problem{
		Name:      offloadview.Problem,
		Title:     "which activations go to the host between forward and backward, and when",
		Source:    "[000], [004] ch. 3",
		Objective: "makespan of a training step, seconds",
		Takes:     []string{chain.Kind},
		Apart:     true,
		Word:      "makespan",
		Defaults:  []string{"offload-milp"},
		Example:   "zoo:resnet50?image=500&batch=16",
		Moved:     activationsMoved,
		Memory:    "50%", Bandwidth: "12GB/s",
		Range:   func(in *run.Instance) (low, high float64) { return offloadview.Range(in.Chain()) },
		Fit:     linkFit(func(c *chain.Chain) float64 { _, high := offloadview.Range(c); return high }),
		Bound:   bestBound(offloadview.Problem, offloadview.Bounds, func(b offloadview.Bound) (float64, string) { return b.Value, b.By }),
		Methods: OffloadMethods,
		Does: run.Counts(
			run.Count{Word: "computations", Ops: []string{plan.OpFAll, plan.OpB}},
			run.Count{Word: "offloads", Ops: []string{plan.OpO}},
			run.Count{Word: "prefetches", Ops: []string{plan.OpP}},
		),
		Times:    movedToHost(false),
		Timeline: timeline.Offloading(), Tensors: allocator.OfOffload,
		Subjects: []*subject.Subject{subject.Offload()},
		Tiny:     map[string]string{chain.Kind: "zoo:table1-gpt2?depth=3&batch=16"},
	}
}

// activationsMoved is what plans with transfers of activations send to the host,
// as part of ā_0..ā_{N-1} ([004] Figures 4.4 and 4.5).
func activationsMoved(in *run.Instance, p *plan.Plan) float64 {
	s, err := plan.SummarizeOffload(in.Chain(), p)
	if err != nil {
		return math.NaN()
	}
	return s.OffloadShare
}

// movedToHost says where the time of a plan goes, and what it sends.
func movedToHost(again bool) func(*run.Instance, *run.Result) []run.Line {
	waiting := run.Waiting(again)
	return func(in *run.Instance, r *run.Result) []run.Line {
		return append(waiting(in, r), run.Line{Label: "moved", Text: fmt.Sprintf("%.1f %% of the activations to the host", 100*activationsMoved(in, r.Plan))})
	}
}

// boundKey is what the bounds of an instance on a platform with a link depend on.
type boundKey struct {
	problem           string
	memory, bandwidth float64
}

// bestBound adapts the bounds of a package of heuristics. Every run on the
// instance asks for them, and they may take a tenth of a second.
func bestBound[B any](problem string, bounds func(*chain.Chain, platform.Platform) ([]B, error), read func(B) (value float64, by string)) func(*run.Instance, run.Setting) run.Bound {
	return func(in *run.Instance, s run.Setting) run.Bound {
		p := s.Platform
		key := boundKey{problem, p.Memory, p.Bandwidth}
		return run.Memo(in, key, func() run.Bound { return bestOf(in, p, bounds, read) })
	}
}

// bestOf returns the best of the bounds, at least the sum of the computations.
func bestOf[B any](in *run.Instance, p platform.Platform, bounds func(*chain.Chain, platform.Platform) ([]B, error), read func(B) (value float64, by string)) run.Bound {
	best := run.Bound{Value: in.Compute(), By: "the sum of the computations", Proof: proof.Search, Assumptions: []string{}}
	all, err := bounds(in.Chain(), p)
	if err != nil {
		return best // below the least memory there are no plans and so no bounds
	}
	for _, b := range all {
		if value, by := read(b); value > best.Value {
			best.Value, best.By = value, by
		}
	}
	return best
}

// linkFit checks that times, sizes and the platform are numbers one can
// calculate with. high is what keeping everything takes.
func linkFit(high func(*chain.Chain) float64) func(*run.Instance, platform.Platform) error {
	return func(in *run.Instance, p platform.Platform) error {
		transfers := in.Chain().Input.Activation / p.Bandwidth
		for i := range in.Chain().Layers {
			transfers += in.Chain().Layers[i].Saved / p.Bandwidth
		}
		for _, x := range []struct {
			what  string
			value float64
		}{
			{"the computations of a step take %g s", in.Compute()},
			{"sending all activations takes %g s", transfers},
			{"keeping everything takes %g bytes", high(in.Chain())},
			{"memory is %g bytes", p.Memory},
			{"bandwidth is %g bytes per second", p.Bandwidth},
		} {
			if !(x.value <= largest) {
				return run.InputError(fmt.Errorf("chain %q: "+x.what+": choose units in which this is at most %g", in.Name, x.value, largest))
			}
		}
		return nil
	}
}

// onLink adapts a method of a chain with a link.
func onLink(problem, name, source, summary, complexity string, work runOnChain) *run.Method {
	return &run.Method{
		Problem: problem, Name: name, Kind: run.Heuristic, Source: source, Summary: summary, Complexity: complexity,
		Run: func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
			p, err := work(ctx, in.Chain(), s)
			if err != nil {
				return nil, linkError(err)
			}
			return &run.Outcome{Plan: p, Stopped: ctx.Err() != nil}, nil
		},
	}
}

// seeded adapts a method that chooses at random.
func seeded(work func(context.Context, *chain.Chain, platform.Platform, uint64) (*plan.Plan, error)) runOnChain {
	return func(ctx context.Context, c *chain.Chain, s run.Setting) (*plan.Plan, error) {
		return work(ctx, c, s.Platform, uint64(s.Seed))
	}
}

// linkError marks what the packages of heuristics refuse as the user's.
func linkError(err error) error {
	var infeasible *plan.Infeasible
	if errors.As(err, &infeasible) || errors.Is(err, plan.ErrNoPlan) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return run.InputError(err)
}

// upTo refuses chains that are too long for a method.
func upTo(m *run.Method, layers int, instead string) func(context.Context, *run.Instance, run.Setting) (*run.Outcome, error) {
	work := m.Run
	return func(ctx context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
		if n := in.Chain().Len(); n > layers {
			return nil, run.InputError(fmt.Errorf("%s is for at most %d layers, %s has %d: %s", m.Name, layers, in.Name, n, instead))
		}
		return work(ctx, in, s)
	}
}

// offloadMethods is the table of methods for activation offloading.
func OffloadMethods() []*run.Method {
	method := func(name, source, summary, complexity string, work runOnChain) *run.Method {
		return onLink(offloadview.Problem, name, source, summary, complexity, work)
	}
	slots := method("dynprog-slots", "[000], [004] Alg. 5, 3.3.3.2", "dynprog with sizes rounded to S slots, the rounding repaired until the set fits", "O(N·S³)", slotted(offload.DynProgSlots))
	slots.Slots = run.DefaultSlots
	methods := []*run.Method{
		method("greedy", "[000], [004] 3.2", "offloads ā_0, ā_1, … until the rest fits: Theorem 8 rounded to whole tensors", "O(N log N)", limited(offload.Greedy)),
		method("vdnn", "vDNN++, [004] 3.4.1", "thresholds on uF/ā, all or every other of those above; the best schedule", "O(N²)", limited(offload.VDNN)),
		method("tflms", "TFLMS, [004] 3.4.1", "the first n activations, fetched so many layers ahead; the best of the grid", "O(N³)", limited(offload.TFLMS)),
		method("autoswap", "AutoSwap, [004] 3.4.1", "four priority scores, weighted; the weights by a seeded search", "O(N²), some hundred schedules", seeded(offload.AutoSwap)),
		slots,
		method("dynprog", "[000], [004] Alg. 5, Thm 10", "the best set with transfers in parts, scheduled whole; exact numbers, dominated states dropped; not optimal, though printed so", "O(N·states²), states limited", limited(offload.DynProg)),
		method("search", "ours", "changes sets and orders at random, from the best of the others, until a bound is met", "a schedule a move", seeded(offload.Search)),
		{
			Problem: offloadview.Problem, Name: "fractional", Kind: run.Relaxed, Source: "[004] Thm 8",
			Summary:    "the optimum when parts of activations may move: a lower bound, no plan",
			Complexity: "O(N)",
			Run: func(_ context.Context, in *run.Instance, s run.Setting) (*run.Outcome, error) {
				o, err := offloadview.Fractional(in.Chain(), s.Platform)
				if err != nil {
					return nil, linkError(err)
				}
				return &run.Outcome{Bounds: []run.Bound{{Value: o.Bound, By: "fractional", Proof: proof.Search, Assumptions: []string{}}}}, nil
			},
		},
		{
			Problem: offloadview.Problem, Name: "optimum", Kind: run.Exact, Source: "ours",
			Summary:    "search, then a shortest path over partial plans, the dominated ones dropped, within bounds that close on the makespan",
			Complexity: "exponential in the number of different sizes of activations",
			Run:        offloadOptimum,
		},
		offloadMILP(),
	}
	for _, m := range methods {
		switch m.Name {
		case "greedy", "vdnn", "fractional":
		default:
			m.Run = upTo(m, ilpweights.MostLayers, "use greedy or vdnn, or join layers")
		}
	}
	return methods
}
