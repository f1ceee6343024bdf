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
		Name:       placement.Problem,
		Aliases:    []string{"allocation", "addresses", "arena"},
		Title:      "addresses of buffers with known lifetimes",
		Source:     "Garey and Johnson 1979, SR2",
		Objective:  "height: what the buffers reach up to, bytes; or penalties",
		Takes:      []string{lifetimes.Kind},
		Word:       "height",
		Defaults:   []string{"exact"},
		Example:    "zoo:resnet18?as=lifetimes",
		Memory:     "range 100%",
		Objectives: lifetimes.Objectives(),
		Range: func(in *solve.Instance, _ solve.Setting) (low, high float64) {
			y, err := placementLayout(in, "")
			if err != nil {
				return 0, platform.MaxTotal // Fit refuses it
			}
			_, sum := y.Bounds()
			return float64(sum), float64(y.High())
		},
		Fit: func(in *solve.Instance, p platform.Platform) error {
			_, err := placementLayout(in, p.Objective)
			return inputError(err)
		},
		Bound:    placementBound,
		Methods:  PlacementMethods,
		Does:     func(p *plan.Plan) string { return platform.Count(len(p.Offsets), "offset") },
		Times:    placementLines,
		Timeline: timeline.Placements(), Tensors: allocator.OfPlacement,
		Subjects: []*testcase.Subject{testcase.Placement()},
		Tiny:     map[string]string{lifetimes.Kind: "zoo:rnn?seq=2&as=lifetimes"},
	}
}

// placementLines returns the heights, and of penalties these.
func placementLines(in *solve.Instance, r *solve.Result) []solve.Line {
	y, err := placementLayout(in, r.Platform.Objective)
	if err != nil || r.Report.Placement == nil {
		return nil
	}
	u, x := in.Unit(), r.Report.Placement
	heights, bound := y.Bounds()
	height, of := r.Report.PeakMemory, "load"
	if y.Plain() == nil {
		of = "bound of the cliques"
	}
	lines := []solve.Line{{Label: "height", Text: fmt.Sprintf("%s (%s bytes): %.3f %% above the %s", platform.FormatBytes(height),
		strconv.FormatFloat(height, 'f', -1, 64),
		100*(height-u.Bytes(float64(bound)))/math.Max(u.Bytes(float64(bound)), 1), of)}}
	if len(y.Pools) > 1 {
		for k, h := range x.Heights {
			line := fmt.Sprintf("%s in pool %s, at least %s", platform.FormatBytes(h), y.Pools[k].ID,
				platform.FormatBytes(u.Bytes(float64(heights[k]))))
			if c := y.Pools[k].Capacity; c < math.MaxInt64 {
				line += ", of " + platform.FormatBytes(u.Bytes(float64(c)))
			}
			lines = append(lines, solve.Line{Text: line})
		}
	}
	if reserved, ok := y.Lifetimes.Source["reserved"].(float64); ok && y.Lifetimes.Source["format"] == "torch-snapshot" {
		lines = append(lines, solve.Line{Label: "allocator", Text: fmt.Sprintf("%s reserved by PyTorch: fragmentation costs %s in this step",
			platform.FormatBytes(reserved), platform.FormatBytes(max(0, reserved-height)))})
	}
	if len(y.Lifetimes.Penalties) > 0 {
		lines = append(lines, solve.Line{Label: "penalty", Text: strconv.FormatFloat(x.Penalty, 'f', -1, 64)})
	}
	return lines
}

// layoutKey is what a view by pool depends on.
type layoutKey struct{ objective string }

// placementLayout returns the view of an instance by pool.
func placementLayout(in *solve.Instance, objective string) (*placement.Layout, error) {
	type made struct {
		y   *placement.Layout
		err error
	}
	m := solve.Memo(in, layoutKey{objective}, func() made {
		y, err := placement.NewLayout(plan.As[*lifetimes.Lifetimes](in.Instance), objective)
		return made{y, err}
	})
	return m.y, m.err
}

// placementValue returns a value of the objective of a layout in the unit of sizes, in which
// methods count: as many as penalties are bytes.
func placementValue(y *placement.Layout, value int64) float64 {
	if y.Objective == lifetimes.TotalPenalty {
		return float64(value) * y.Lifetimes.Unit.PerByte()
	}
	return float64(value)
}

// placementBound returns the load, or what cliques of conflicts and penalties prove.
func placementBound(in *solve.Instance, s solve.Setting) solve.Bound {
	return solve.Searched(in, boundKey{problem: placement.Problem, model: s.Platform.Objective}, func() solve.Bound {
		y, err := placementLayout(in, s.Platform.Objective)
		if err != nil {
			return proof.BySearch(0, "sizes")
		}
		by := "the load: what is alive together"
		switch {
		case y.Objective == lifetimes.TotalPenalty:
			by = "cliques of conflicts and penalties (Turán)"
		case y.Plain() == nil:
			by = "cliques of buffers that may not overlap"
		}
		return proof.BySearch(placementValue(y, y.Bound()), by)
	})
}

// PlacementMethods is the table of methods for placement.
func PlacementMethods() []*solve.Method {
	greedy := func(name, source, summary, complexity string, m heuristics.Method) *solve.Method {
		return placementMethod(name, solve.Heuristic, source, summary, complexity, m, false)
	}
	plain := func(work func(context.Context, *placement.Instance, heuristics.Goal) heuristics.Found) heuristics.Method {
		return heuristics.Method{Plain: work}
	}
	return []*solve.Method{
		placementMethod("exact", solve.Exact, "ours, after Moffitt 2023 and Côté et al. 2014",
			"the best heuristic, then a search from the bottom up that proves the minimum", "exponential", heuristics.Exact(), false),
		placementMethod("fit", solve.Heuristic, "ours, after Moffitt 2023 and Côté et al. 2014",
			"the same search for any placement within the memory", "exponential", heuristics.Exact(), true),
		greedy("first-fit", "Pisarchyk and Lee 2020", "each buffer as low as it fits, by size, area, lifetime and start: the best of these",
			"O(n²)",
			heuristics.Constructive(heuristics.FirstFit, true, false)),
		greedy("best-fit", "Pisarchyk and Lee 2020", "each buffer in the smallest gap with room for it, in the same orders", "O(n²)",
			heuristics.Constructive(heuristics.BestFit, true, true)),
		greedy("xla-heap", "XLA, GlobalDecreasingSizeBestFitHeap", "best fit by falling size", "O(n²)", heuristics.Heap()),
		greedy("hill-climb", "TVM, USMP hill climbing", "first fit by size, then 500 swaps of a buffer at the height with one below it",
			"O(n²) a step", heuristics.HillClimb()),
		greedy("skyline", "Burke et al. 2004, Sekiyama et al. 2018",
			"the lowest stretch of the skyline takes the first buffer that lives within it, in the same orders; plain instances", "O(n²)",
			heuristics.Constructive(heuristics.Skyline, false, false)),
		greedy("repair", "Maas et al. 2023 (TelaMalloc), without its solver",
			"the order of first fit, mended where a buffer has no room below a height; plain instances", "O(n²) a step",
			plain(heuristics.Repair)),
		greedy("search", "ours", "the order of first fit by simulated annealing; plain instances", "O(n²) a step", plain(heuristics.Search)),
		{
			Name: "placement-milp", Kind: solve.Exact, Source: "ours, after Sekiyama et al. 2018", Solver: true,
			Summary:    "first fit, then the MILP with an order of every pair that may not overlap",
			Complexity: "exponential; up to 100,000 pairs",
			Run:        placementMILP,
		},
	}
}

// limitedLayout returns the view by pool, of a single pool with the memory as a limit of its
// capacity. The error is a *plan.Infeasible where bounds are above the capacities.
func limitedLayout(in *solve.Instance, m platform.Platform) (*placement.Layout, error) {
	known, err := placementLayout(in, m.Objective)
	if err != nil {
		return nil, inputError(err)
	}
	if err := known.Fits(m.Memory); err != nil {
		return nil, err
	}
	if len(known.Pools) > 1 {
		return known, nil
	}
	y, p := *known, *known.Pools[0]
	p.Capacity = min(p.Capacity, int64(math.Min(m.Memory, platform.MaxTotal)))
	y.Pools = []*placement.Pool{&p}
	return &y, nil
}

// placementMethod is a method without a solver; fit says that any placement will do.
func placementMethod(name string, kind solve.Kind, source, summary, complexity string, m heuristics.Method, fit bool) *solve.Method {
	return &solve.Method{
		Name: name, Kind: kind, Source: source, Summary: summary, Complexity: complexity,
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			y, err := limitedLayout(in, s.Platform)
			if err != nil {
				return nil, err
			}
			if m.Refuses(y) {
				return nil, solve.InputError(fmt.Errorf("%s places buffers by lifetime, size and one alignment alone; %s has pins, gaps, pairs, "+
					"reserved ranges or several alignments: use exact, first-fit, best-fit, xla-heap, hill-climb or placement-milp", name, in.Name))
			}
			start := time.Now()
			var onProgress func(value, bound int64)
			if s.OnProgress != nil {
				onProgress = func(value, bound int64) {
					s.OnProgress(solve.Progress{
						Phase: name, Elapsed: time.Since(start), Objective: placementValue(y, value),
						Bound: placementValue(y, bound),
					})
				}
			}
			out := &solve.Outcome{}
			if s.Document { // before the search, which may take all the time there is
				if out.Bounds, err = certifiedRoot(ctx, in, s, func() (*formulation.Program, error) {
					return ilpplacement.Load(y.Lifetimes, s.Platform)
				}); err != nil {
					return nil, err
				}
			}
			found := m.Place(ctx, y, heuristics.Goal{Fit: fit, Seed: uint64(s.Seed)}, onProgress)
			out.Stopped = ctx.Err() != nil
			if err := placed(out, in, y, found, name, s); err != nil {
				return nil, err
			}
			if s.Document && found.Bound(y) > y.Bound() { // what the search knows, certified
				r, err := s.Task(in, "certificate", out.Plan).Run(ctx, ilpplacement.Phases(y.Lifetimes, s.Platform))
				if err := takeProof(out, r, err); err != nil {
					return out, err
				}
			}
			return out, nil
		},
	}
}

// placed takes over what a search found: a plan if it fits, and what is proved. The error
// says that there is none.
func placed(out *solve.Outcome, in *solve.Instance, y *placement.Layout, found *heuristics.Placed, name string, s solve.Setting) error {
	if bound := placementValue(y, found.Bound(y)); bound > placementValue(y, y.Bound()) {
		b := proof.BySearch(bound, "the search: no better placement exists")
		b.Why = found.Why
		out.Bounds = append(out.Bounds, b)
	}
	fits, height, bound := true, int64(0), int64(0)
	for k, p := range y.Pools {
		if found.Impossible[k] {
			why := "the search: nothing fits"
			if len(y.Pools) > 1 {
				why += " in pool " + p.ID
			}
			return &plan.Infeasible{
				Problem: placement.Problem, Memory: float64(max(found.Bounds[k], p.Capacity+1)), Given: float64(p.Capacity),
				Unit: in.Unit(), Why: why,
			}
		}
		fits, height, bound = fits && found.Fits[k], height+found.Heights[k], bound+found.Bounds[k]
	}
	switch {
	case fits && platform.Fits(float64(height), s.Platform.Memory):
		out.Plan = y.Plan(name, found.Blocks, s.Platform)
	case y.Objective != lifetimes.TotalPenalty && !platform.Fits(float64(bound), s.Platform.Memory):
		return &plan.Infeasible{
			Problem: placement.Problem, Memory: float64(bound), Given: s.Platform.Memory, Unit: in.Unit(),
			Why: "the search: no placement is lower",
		}
	}
	return nil
}

// placementMILP solves the MILP from first fit.
func placementMILP(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
	y, err := limitedLayout(in, s.Platform)
	if err != nil {
		return nil, err
	}
	out := &solve.Outcome{}
	first := heuristics.Constructive(heuristics.FirstFit, true, false).Place(ctx, y, heuristics.Goal{}, nil)
	if err := placed(out, in, y, first, "placement-milp", s); err != nil {
		return nil, err
	}
	r, err := s.Task(in, "milp", out.Plan).Run(ctx, ilpplacement.Phases(y.Lifetimes, s.Platform))
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
		out.AddResult(r)
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
