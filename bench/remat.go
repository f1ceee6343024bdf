package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/heuristics/remat"
	"workbench/heuristics/rematgraph"
	"workbench/ilp/formulation"
	ilpremat "workbench/ilp/remat"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/stages"
	"workbench/solvers"
)

// rematerialization is the problem of [002], [004] ch. 2 and Checkmate.
func rematerialization() *Problem {
	return &Problem{
		Name:      plan.Remat,
		Title:     "which activations are kept and which are computed again",
		Source:    "[002], [004] ch. 2, Checkmate",
		Objective: "makespan of a training step, seconds",
		Takes:     []Form{AChain, AGraph},
		Word:      "makespan",
		Defaults:  []string{"chain-milp", "checkmate"},
		Example:   "zoo:resnet50",
		Memory:    "25%",
		Range:     rematRange,
		Fit:       rematFit,
		Bound:     rematBound,
	}
}

// rematFacts is what every run on an instance asks for again, and takes a
// second on a graph of thousands of nodes or a chain of a million layers.
type rematFacts struct {
	low, high float64           // the memory range
	bounds    map[float64]Bound // closed-form bounds by memory
}

// rematFacts returns those of the instance.
func (in *Instance) rematFacts() *rematFacts {
	if in.remat == nil {
		in.remat = &rematFacts{bounds: map[float64]Bound{}}
		if in.Graph == nil {
			in.remat.low, in.remat.high = remat.Range(in.Chain)
		} else if low, high, err := rematgraph.Range(in.Graph); err == nil { // else Validate refuses it
			in.remat.low, in.remat.high = low, high
		}
	}
	return in.remat
}

func rematRange(in *Instance) (low, high float64) {
	f := in.rematFacts()
	return f.low, f.high
}

// rematFit checks that a graph is not too large for everything, and that the
// numbers are ones that one can calculate with.
func rematFit(in *Instance, p platform.Platform) error {
	if in.Graph != nil && in.Graph.Len() > stages.Most {
		n := in.Graph.Len()
		return InputError(fmt.Errorf("graph %q has %d nodes, at most %d are possible: the sets of values of its stages would take %s", in.Name, n, stages.Most, platform.FormatBytes(float64(n)*float64(n)/4)))
	}
	_, high := rematRange(in)
	for _, x := range []struct {
		what  string
		value float64
	}{
		{"the computations of a step take %g s", in.Compute()},
		{"keeping everything takes %g bytes", high},
		{"memory is %g bytes", p.Memory},
	} {
		if !(x.value <= largest) {
			return InputError(fmt.Errorf("%s %q: "+x.what+": choose units in which this is at most %g", in.Form(), in.Name, x.value, largest))
		}
	}
	return nil
}

// rematBound returns the best of the closed-form bounds.
func rematBound(in *Instance, s Setting) Bound {
	p := s.Platform
	known := in.rematFacts().bounds
	if b, ok := known[p.Memory]; ok {
		return b
	}
	known[p.Memory] = closedBound(in, p)
	return known[p.Memory]
}

func closedBound(in *Instance, p platform.Platform) Bound {
	best := Bound{Value: in.Compute(), By: "the sum of the computations", Assumptions: []string{}}
	if in.Graph != nil {
		if t, why, err := rematgraph.TimeBound(in.Graph, p.Memory); err == nil && t > best.Value {
			best.Value, best.By = t, why
		}
		return best
	}
	bounds, err := remat.Bounds(in.Chain, p)
	if err != nil {
		return best // below the least memory there are no plans and so no bounds
	}
	for _, b := range bounds {
		if b.Value > best.Value {
			best.Value, best.By = b.Value, b.By
		}
	}
	return best
}

// rematMethods is the table of methods for rematerialization.
func rematMethods() []*Method {
	chains := []Form{AChain}
	onChain := func(name, source, summary, complexity string, run runOnChain) *Method {
		return &Method{
			Problem: plan.Remat, Name: name, Kind: Heuristic, Source: source, Summary: summary, Complexity: complexity, Takes: chains,
			Run: func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
				p, err := run(ctx, in.Chain, s)
				return &Outcome{Plan: p, Stopped: ctx.Err() != nil}, tooLarge(err)
			},
		}
	}
	storeAll := onChain("store-all", "[004] 2.4.4, PyTorch's default", "keeps everything, computes nothing again", "O(N)",
		func(_ context.Context, c *chain.Chain, s Setting) (*plan.Plan, error) {
			return remat.StoreAll(c, s.Platform)
		})
	storeAll.Takes = nil
	onlyChain := storeAll.Run
	storeAll.Run = func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
		if in.Graph == nil {
			return onlyChain(ctx, in, s)
		}
		p, err := rematgraph.StoreAll(in.Graph, s.Platform)
		return &Outcome{Plan: p}, err
	}
	periodic := onChain("periodic", "PyTorch checkpoint_sequential, [004] 2.4.4", "segments of equal length, the last kept whole; the best number of segments that fits", "O(N²)", limited(remat.Periodic))
	revolve := onChain("revolve", "[002] §5, [004] 2.4.4", "checkpoints a only, F_all right before each B; the best such plan", "exponential at worst; see persistent", limited(remat.Revolve))
	revolve.Curve = exactCurve(remat.RevolveCurve)
	persistentSlots := onChain("persistent-slots", "[004] Thm 6, Alg. 3, Alg. 4", "the best memory-persistent plan, sizes rounded up to S slots", "O(N³·S)", slotted(remat.PersistentSlots))
	persistentSlots.Slots = DefaultSlots
	persistentSlots.Curve = slottedCurve(remat.PersistentSlotsCurve)
	persistent := onChain("persistent", "[004] Thm 6, without slots", "the best memory-persistent plan, in exact arithmetic", "exponential at worst; N³ steps times the breakpoints that matter", limited(remat.Persistent))
	persistent.Curve = exactCurve(remat.PersistentCurve)
	floatingSlots := onChain("floating-slots", "[004] Thm 5, Alg. 1, Alg. 2, repaired (findings)", "the floating recurrence, sizes rounded up to S slots; not optimal, though printed so", "O(N⁴·S)", slotted(remat.FloatingSlots))
	floatingSlots.Slots = DefaultSlots
	floatingSlots.Curve = slottedCurve(remat.FloatingSlotsCurve)
	floating := onChain("floating", "[004] Thm 5, repaired (findings)", "the floating recurrence in exact arithmetic; not optimal, though printed so", "exponential at worst", limited(remat.Floating))
	floating.Curve = exactCurve(remat.FloatingCurve)
	printed := onChain("floating-printed", "[004] Thm 5 as printed", "the floating recurrence to the letter: its plans may not fit", "exponential at worst", limited(remat.FloatingPrinted))
	printed.Unverified = true
	return []*Method{
		storeAll, periodic, revolve, persistentSlots, persistent, floatingSlots, floating, printed,
		{
			Problem: plan.Remat, Name: "optimum", Kind: Exact, Source: "ours", Takes: chains,
			Summary:    "searches the stored sets between backwards for the true optimum, and proves it",
			Complexity: "exponential at worst",
			Run:        rematOptimum,
		},
		{
			Problem: plan.Remat, Name: "chain-milp", Kind: Exact, Source: "ours", Takes: chains, Solver: true,
			Summary:    "a MILP of the rules, which tells a from ā; started from the best heuristic",
			Complexity: "exponential; O(N²) binaries",
			Run:        chainMILP, Model: modelOf(ilpremat.MILP),
		},
	}
}

// runOnChain is a method of package remat under a setting.
type runOnChain func(context.Context, *chain.Chain, Setting) (*plan.Plan, error)

// limited adapts a method that knows the memory limit only.
func limited(run func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error)) runOnChain {
	return func(ctx context.Context, c *chain.Chain, s Setting) (*plan.Plan, error) {
		return run(ctx, c, s.Platform)
	}
}

// slotted adapts a method that divides the memory into slots.
func slotted(run func(context.Context, *chain.Chain, platform.Platform, int) (*plan.Plan, error)) runOnChain {
	return func(ctx context.Context, c *chain.Chain, s Setting) (*plan.Plan, error) {
		return run(ctx, c, s.Platform, s.Slots)
	}
}

// curveOnChain makes a whole curve.
type curveOnChain func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error)

func exactCurve(run func(context.Context, *chain.Chain, float64) (*remat.Curve, error)) curveOnChain {
	return func(ctx context.Context, in *Instance, _ Setting, most float64) (Tradeoff, error) {
		t, err := run(ctx, in.Chain, most)
		return tradeoff(t, err)
	}
}

func slottedCurve(run func(context.Context, *chain.Chain, float64, int) (*remat.SlotsCurve, error)) curveOnChain {
	return func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error) {
		t, err := run(ctx, in.Chain, most, s.Slots)
		return tradeoff(t, err)
	}
}

// tradeoff adapts a curve of package remat.
func tradeoff[T interface {
	Points() []remat.Point
	Plan(memory float64) (*plan.Plan, error)
}](t T, err error) (Tradeoff, error) {
	if err != nil {
		return Tradeoff{}, tooLarge(err)
	}
	out := Tradeoff{Plan: t.Plan}
	for _, p := range t.Points() {
		out.Points = append(out.Points, Breakpoint(p))
	}
	return out, nil
}

// tooLarge marks instances that are too large for a method as the user's.
func tooLarge(err error) error {
	var large *remat.TooLargeError
	if errors.As(err, &large) {
		return InputError(err)
	}
	return err
}

// bestOnChain returns the best plan of the heuristics that are quick on this
// chain, nil if none has one. An Infeasible error is passed on.
func bestOnChain(ctx context.Context, in *Instance, s *Setting, start time.Time) (best *plan.Plan, err error) {
	for _, run := range []func(context.Context, *chain.Chain, platform.Platform) (*plan.Plan, error){remat.Persistent, remat.Floating} {
		p, err := run(ctx, in.Chain, s.Platform)
		var infeasible *plan.Infeasible
		if errors.As(err, &infeasible) {
			return nil, err
		}
		if err == nil && (best == nil || p.Claims.Makespan < best.Claims.Makespan) {
			best = p
			s.tell(start, "heuristics", best, math.Inf(-1), 0)
		}
	}
	return best, nil
}

// rematOptimum searches for the true optimum.
func rematOptimum(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
	start := time.Now()
	first, err := bestOnChain(ctx, in, &s, start)
	if err != nil {
		return nil, err
	}
	r, err := remat.Optimum(ctx, in.Chain, s.Platform, first, remat.OptimumOptions{})
	if err != nil {
		return nil, tooLarge(err)
	}
	out := &Outcome{Plan: r.Plan, Stopped: !r.Proved}
	out.Bounds = []Bound{{Value: r.Bound, By: fmt.Sprintf("the search for the optimum (%d states)", r.States), Assumptions: []string{}}}
	return out, nil
}

// chainMILP solves the MILP of the rules, starting from the best heuristic.
func chainMILP(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
	start := time.Now()
	best, err := bestOnChain(ctx, in, &s, start)
	if err != nil {
		return nil, err
	}
	out := &Outcome{Plan: best}
	o, ok := s.options(ctx, start, out)
	if !ok {
		out.Stopped = true
		return out, nil
	}
	found, bound, r, err := ilpremat.Solve(ctx, s.Backend, in.Chain, s.Platform, best, o)
	if err != nil {
		return out.withoutMILP(err)
	}
	model, err := modelOf(ilpremat.MILP)(in, s.Platform)
	if err != nil {
		return nil, err
	}
	out.ran(r, model)
	out.Bounds = append(out.Bounds, Bound{Value: bound, By: "the MILPs chain-bound and chain-milp (" + r.BoundBy + ", " + r.Backend + ")", Assumptions: []string{}})
	if found != nil && (best == nil || found.Claims.Makespan < best.Claims.Makespan) {
		out.Plan = found
	}
	if out.Plan != nil {
		out.Plan.Method = "chain-milp"
	}
	return out, nil
}

// withoutMemory lets the MILPs' methods take a memory of nothing, which gives a
// model no scale: either nothing has a size and all of it can be kept, or
// nothing fits.
func withoutMemory(methods []*Method) []*Method {
	keepAll := methods[0] // store-all
	for _, m := range methods {
		if !m.Solver {
			continue
		}
		run := m.Run
		m.Run = func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
			if s.Platform.Memory > 0 {
				return run(ctx, in, s)
			}
			out, err := keepAll.Run(ctx, in, s)
			if err == nil {
				out.Plan.Method = m.Name
			}
			return out, err
		}
	}
	return methods
}

// withoutMILP returns what a method has when its MILP cannot be built or
// solved for this instance.
func (out *Outcome) withoutMILP(err error) (*Outcome, error) {
	if out.Plan != nil && (tooFarApart(err) || errors.Is(err, formulation.ErrTooLong) || errors.Is(err, solvers.ErrModel)) {
		out.Note = "no MILP bound: " + err.Error()
		return out, nil
	}
	return nil, userError(err)
}
