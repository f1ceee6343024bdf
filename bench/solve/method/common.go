package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"workbench/bench/solve"
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// worker is a method as the catalogue has it.
type worker = func(context.Context, *solve.Instance, solve.Setting) (*solve.Outcome, error)

// planner makes a plan and nothing else.
type planner func(context.Context, *solve.Instance, solve.Setting) (*plan.Plan, error)

// heuristic is a method that makes a plan and promises nothing.
func heuristic(name, source, summary, complexity string, work planner) *solve.Method {
	return &solve.Method{Name: name, Kind: solve.Heuristic, Source: source, Summary: summary, Complexity: complexity, Run: planned(work)}
}

// planned returns the plan of a planner as what a method found.
func planned(work planner) worker {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		p, err := work(ctx, in, s)
		if err != nil {
			return nil, inputError(tooLarge(err))
		}
		return &solve.Outcome{Plan: p, Stopped: ctx.Err() != nil}, nil
	}
}

// limited adapts a heuristic of one kind of instance that knows the platform only.
func limited[I plan.Instance](work func(context.Context, I, platform.Platform) (*plan.Plan, error)) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		return work(ctx, plan.As[I](in.Instance), s.Platform)
	}
}

// slotted adapts one that divides the memory into slots.
func slotted(work func(context.Context, *chain.Chain, platform.Platform, int) (*plan.Plan, error)) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		return work(ctx, in.Chain(), s.Platform, s.Slots)
	}
}

// seeded adapts one that chooses at random.
func seeded[I plan.Instance](work func(context.Context, I, platform.Platform, uint64) (*plan.Plan, error)) planner {
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		return work(ctx, plan.As[I](in.Instance), s.Platform, uint64(s.Seed))
	}
}

// inputError marks what the packages of heuristics refuse as the user's: that there
// is no plan is a result.
func inputError(err error) error {
	var infeasible *plan.Infeasible
	if err == nil || errors.As(err, &infeasible) || errors.Is(err, plan.ErrNoPlan) || errors.Is(err, context.Canceled) ||
		errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return solve.InputError(err)
}

// upTo refuses chains that are too long for a method.
func upTo(m *solve.Method, layers int, instead string) worker {
	work := m.Run
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if err := atMost(in, m.Name, layers, instead); err != nil {
			return nil, err
		}
		return work(ctx, in, s)
	}
}

func atMost(in *solve.Instance, method string, layers int, instead string) error {
	if in.Chain() == nil {
		return nil
	}
	if n := in.Chain().Len(); n > layers {
		return solve.InputError(fmt.Errorf("%s is for at most %d layers, %s has %d: %s", method, layers, in.Name, n, instead))
	}
	return nil
}

// largest is the largest sum of times or sizes of an instance, and its reciprocal the
// smallest.
const largest = platform.MaxTime

// quantity is a number of an instance or a platform; what has a verb for its value.
type quantity struct {
	what  string
	value float64
}

// calculable refuses quantities that are larger than one can calculate with.
func calculable(in *solve.Instance, list ...quantity) error {
	for _, x := range list {
		if !(x.value <= largest) {
			return solve.InputError(fmt.Errorf("%s %q: "+x.what+": choose units in which this is at most %g", solve.KindWord(in.Kind()), in.Name,
				x.value, largest))
		}
	}
	return nil
}

// ofStep is the time of an instance, and ofMemory and ofLink what a platform has.
func ofStep(in *solve.Instance) quantity {
	return quantity{"the computations of a step take %g s", in.Compute()}
}
func ofMemory(p platform.Platform) quantity { return quantity{"memory is %g bytes", p.Memory} }
func ofLink(p platform.Platform) quantity {
	return quantity{"bandwidth is %g bytes per second", p.Bandwidth}
}

// linkFit checks that one can calculate with times, sizes and the platform; high is
// what keeping everything takes.
func linkFit(high func(*chain.Chain) float64) func(*solve.Instance, platform.Platform) error {
	return func(in *solve.Instance, p platform.Platform) error {
		c := in.Chain()
		transfers := c.Input.Activation / p.Bandwidth
		for i := range c.Layers {
			transfers += c.Layers[i].Saved / p.Bandwidth
		}
		return calculable(in, ofStep(in), quantity{"sending all activations takes %g s", transfers},
			quantity{"keeping everything takes %g bytes", high(c)}, ofMemory(p), ofLink(p))
	}
}

// boundKey is what the bounds of an instance in closed form depend on.
type boundKey struct {
	problem  string
	platform platform.Platform
	model    string // of memory
}

// memo is [solve.Memo], or [solve.Searched] for bounds that the end of the time cuts short.
type memo func(in *solve.Instance, key any, compute func() solve.Bound) solve.Bound

// closedForms returns the best of the bounds of a problem in closed form, alone that of
// the computations where there is no other. Every run on the instance asks for it, and it may
// take a tenth of a second.
func closedForms(memo memo, problem string, alone func(*solve.Instance, solve.Setting) solve.Bound,
	bounds func(*solve.Instance, solve.Setting) ([]solve.Bound, error),
) func(*solve.Instance, solve.Setting) solve.Bound {
	return func(in *solve.Instance, s solve.Setting) solve.Bound {
		return memo(in, boundKey{problem, s.Platform, s.MemoryModel}, func() solve.Bound {
			best := alone(in, s)
			all, err := bounds(in, s)
			if err != nil {
				return best // below the least memory there are no plans and so no bounds
			}
			for _, b := range all {
				if b.Value > best.Value {
					best = b
				}
			}
			return best
		})
	}
}

// computations is the bound of an instance on one GPU without memory or link.
func computations(in *solve.Instance, _ solve.Setting) solve.Bound {
	return proof.BySearch(atLeast(in), proof.SumOfComputations)
}

// ofChain adapts the bounds of a package of chains.
func ofChain(bounds func(*chain.Chain, platform.Platform) ([]solve.Bound, error)) func(*solve.Instance,
	solve.Setting) ([]solve.Bound, error) {
	return func(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
		return bounds(in.Chain(), s.Platform)
	}
}

// atLeast is the time of computing everything once, rounded down by what the sum of so many
// operations as no instance has may have been rounded up. The bounds of a problem that know
// how many there are come closer.
func atLeast(in *solve.Instance) float64 { return plan.RoundDown(in.Compute(), 1<<21) }

// objectives returns what reports the objectives of a search, nil if nobody listens.
func objectives(s *solve.Setting, phase string, bound float64) func(objective float64) {
	if s.OnProgress == nil {
		return nil
	}
	start := time.Now()
	return func(objective float64) {
		s.OnProgress(solve.Progress{Phase: phase, Elapsed: time.Since(start), Objective: objective, Bound: bound})
	}
}

// reportProgress reports progress if anybody listens.
func reportProgress(s *solve.Setting, start time.Time, phase string, p *plan.Plan, bound float64, nodes int64) {
	if s.OnProgress == nil {
		return
	}
	objective := math.NaN()
	if p != nil {
		objective = p.Claims.Makespan
	}
	s.OnProgress(solve.Progress{Phase: phase, Elapsed: time.Since(start), Objective: objective, Bound: bound, Nodes: nodes})
}

// certifiedRoot returns the bounds, certified, of the relaxation of a program.
func certifiedRoot(ctx context.Context, in *solve.Instance, s solve.Setting,
	build func() (*formulation.Program, error),
) ([]solve.Bound, error) {
	r, err := s.Task(in, "bounds", nil).Run(ctx, func(sofar *formulation.Result) (*formulation.Phase, error) {
		if sofar.Program != nil {
			return nil, nil
		}
		program, err := build()
		return &formulation.Phase{Program: program, Relax: true}, err
	})
	if err != nil {
		return nil, err
	}
	return r.Bounds, nil
}
