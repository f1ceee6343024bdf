package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	heuristics "workbench/heuristics/placement"
	"workbench/ilp/formulation"
	ilpplacement "workbench/ilp/placement"
	"workbench/model/allocator"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/placement"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// Placement is the problem of offsets for buffers of known lifetimes.
func Placement() *solve.Problem {
	return &solve.Problem{
		Name:      placement.Problem,
		Aliases:   []string{"allocation", "addresses", "arena"},
		Title:     "addresses of buffers with known lifetimes",
		Source:    "Garey and Johnson 1979, SR2",
		Objective: "height: what the buffers reach up to, bytes",
		Takes:     []string{lifetimes.Kind},
		Word:      "height",
		Defaults:  []string{"exact"},
		Example:   "zoo:resnet18?as=lifetimes",
		Memory:    "100%",
		Range: func(in *solve.Instance) (low, high float64) {
			v := placementView(in)
			for i := range v.Buffers {
				high += float64(v.Buffers[i].Room)
			}
			return float64(v.Load()), high
		},
		Fit:     func(in *solve.Instance, p platform.Platform) error { return nil },
		Bound:   placementBound,
		Methods: PlacementMethods,
		Does:    func(p *plan.Plan) string { return platform.Count(len(p.Offsets), "offset") },
		Times: func(in *solve.Instance, r *solve.Result) []solve.Line {
			height, load := r.Report.PeakMemory, placementBound(in, solve.Setting{Platform: r.Platform}).Value
			return []solve.Line{{Label: "height", Text: fmt.Sprintf("%s (%s bytes): %.3f %% above the load", platform.FormatBytes(height), strconv.FormatFloat(height, 'f', -1, 64),
				100*(height-in.Unit().Bytes(load))/math.Max(in.Unit().Bytes(load), 1))}}
		},
		Timeline: timeline.Placements(), Tensors: allocator.OfPlacement,
		Subjects: []*testcase.Subject{testcase.Placement()},
		Tiny:     map[string]string{lifetimes.Kind: "zoo:rnn?seq=2&as=lifetimes"},
	}
}

// placementView returns the view of an instance.
func placementView(in *solve.Instance) *placement.Instance {
	return placement.New(plan.As[*lifetimes.Lifetimes](in.Instance))
}

// placementBound returns the load.
func placementBound(in *solve.Instance, s solve.Setting) solve.Bound {
	return solve.Searched(in, boundKey{problem: placement.Problem}, func() solve.Bound {
		return proof.BySearch(float64(placementView(in).Load()), "the load: what is alive together")
	})
}

// PlacementMethods is the table of methods for placement.
func PlacementMethods() []*solve.Method {
	greedy := func(name, source, summary, complexity string, place func(*placement.Instance, []int) []int64) *solve.Method {
		return placementMethod(name, solve.Heuristic, source, summary, complexity, func(ctx context.Context, v *placement.Instance, _ heuristics.Goal) heuristics.Found {
			offsets := heuristics.Greedy(ctx, v, place)
			return heuristics.Found{Offsets: offsets, Height: v.Height(offsets), Bound: v.Load()}
		})
	}
	return []*solve.Method{
		placementMethod("exact", solve.Exact, "ours, after Moffitt 2023 and Côté et al. 2014",
			"first fit, then a search from the bottom up that proves the least height", "exponential", heuristics.Least),
		placementMethod("fit", solve.Heuristic, "ours, after Moffitt 2023 and Côté et al. 2014",
			"the same search for any placement within the memory", "exponential",
			func(ctx context.Context, v *placement.Instance, g heuristics.Goal) heuristics.Found {
				g.Enough = g.Memory
				return heuristics.Least(ctx, v, g)
			}),
		greedy("first-fit", "Pisarchyk and Lee 2020", "each buffer as low as it fits, by size, area, lifetime and start: the best of these", "O(n²)", heuristics.FirstFit),
		greedy("best-fit", "Pisarchyk and Lee 2020", "each buffer in the smallest gap with room for it, in the same orders", "O(n²)", heuristics.BestFit),
		greedy("skyline", "Burke et al. 2004, Sekiyama et al. 2018", "the lowest stretch of the skyline takes the first buffer that lives within it, in the same orders", "O(n²)", heuristics.Skyline),
		placementMethod("repair", solve.Heuristic, "Maas et al. 2023 (TelaMalloc), without its solver", "the order of first fit, mended where a buffer has no room below a height", "O(n²) a step",
			heuristics.Repair),
		placementMethod("search", solve.Heuristic, "ours", "the order of first fit by simulated annealing", "O(n²) a step",
			heuristics.Search),
		{
			Name: "placement-milp", Kind: solve.Exact, Source: "ours, after Sekiyama et al. 2018", Solver: true,
			Summary:    "first fit, then the MILP with an order of every pair alive together",
			Complexity: "exponential; up to 100,000 pairs",
			Run:        placementMILP,
		},
	}
}

// placementMethod is a method without a solver.
func placementMethod(name string, kind solve.Kind, source, summary, complexity string, work func(context.Context, *placement.Instance, heuristics.Goal) heuristics.Found) *solve.Method {
	return &solve.Method{
		Name: name, Kind: kind, Source: source, Summary: summary, Complexity: complexity,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			v := placementView(in)
			if err := v.Fits(s.Platform.Memory); err != nil {
				return nil, err
			}
			start := time.Now()
			goal := heuristics.Goal{Memory: int64(math.Min(s.Platform.Memory, platform.MaxTotal)), Seed: uint64(s.Seed)}
			if s.OnProgress != nil {
				goal.OnProgress = func(height, bound int64) {
					s.OnProgress(solve.Progress{Phase: name, Elapsed: time.Since(start), Objective: float64(height), Bound: float64(bound)})
				}
			}
			out := &solve.Outcome{}
			if s.Document { // before the search, which may take all the time there is
				var err error
				if out.Bounds, err = certifiedRoot(ctx, in, s, func() (*formulation.Program, error) {
					return ilpplacement.Load(v.Lifetimes, s.Platform)
				}); err != nil {
					return nil, err
				}
			}
			found := work(ctx, v, goal)
			out.Stopped = ctx.Err() != nil
			if found.Bound > v.Load() {
				out.Bounds = append(out.Bounds, proof.BySearch(float64(found.Bound), "the search: no lower placement exists"))
			}
			switch {
			case platform.Fits(float64(found.Height), s.Platform.Memory):
				out.Plan = v.Plan(name, found.Offsets, s.Platform)
			case !platform.Fits(float64(found.Bound), s.Platform.Memory):
				return nil, &plan.Infeasible{
					Problem: placement.Problem, Memory: float64(found.Bound), Given: s.Platform.Memory, Unit: in.Unit(),
					Why: "the search: no placement is lower",
				}
			}
			if s.Document && found.Bound > v.Load() { // what the search knows, certified
				r, err := s.Task(in, "certificate", out.Plan).Run(ctx, ilpplacement.Phases(v.Lifetimes, s.Platform))
				if err := takeProof(out, r, err); err != nil {
					return out, err
				}
			}
			return out, nil
		},
	}
}

// placementMILP solves the MILP from first fit.
func placementMILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	v := placementView(in)
	if err := v.Fits(s.Platform.Memory); err != nil {
		return nil, err
	}
	out := &solve.Outcome{}
	if offsets := heuristics.Greedy(ctx, v, heuristics.FirstFit); platform.Fits(float64(v.Height(offsets)), s.Platform.Memory) {
		out.Offer(in, v.Plan("placement-milp", offsets, s.Platform))
	}
	r, err := s.Task(in, "milp", out.Plan).Run(ctx, ilpplacement.Phases(v.Lifetimes, s.Platform))
	if err := takeProof(out, r, err); err != nil {
		return nil, err
	}
	if out.Plan != nil {
		out.Plan.Method = "placement-milp"
	}
	out.Stopped = ctx.Err() != nil
	return out, nil
}

// takeProof takes over what came of a MILP after a search. One that cannot be built or
// solved costs what it would have proved: that is an error only where there is no plan.
func takeProof(out *solve.Outcome, r *formulation.Result, err error) error {
	if r != nil {
		out.Take(r)
	}
	var infeasible *plan.Infeasible
	switch {
	case errors.As(err, &infeasible):
		return err
	case err != nil && out.Plan == nil:
		return userError(err)
	case err != nil:
		out.Remark("no MILP bound: " + err.Error())
	}
	return nil
}
