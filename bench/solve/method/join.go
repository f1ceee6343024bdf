package method

import (
	"context"
	"fmt"
	"math"
	"strconv"

	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	joins "workbench/heuristics/join"
	"workbench/model/allocator"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testcase"
)

// Join is the problem of [004] ch. 1.
func Join() *solve.Problem {
	return &solve.Problem{
		Name:      plan.Join,
		Aliases:   []string{"siamese"},
		Title:     "rematerialization of branches that meet in one loss, unit sizes",
		Source:    "[004] ch. 1",
		Objective: "makespan of a training step, in the unit of its costs",
		Takes:     []string{join.Kind},
		Word:      "makespan",
		Slots:     true,
		Defaults:  []string{"join-dp"},
		Example:   "zoo:siamese?as=join",
		Memory:    "range 50%",
		Range: func(in *solve.Instance, _ solve.Setting) (low, high float64) {
			return float64(joins.LeastSlots(plan.As[*join.Join](in.Instance))), float64(joins.StoreAllSlots(plan.As[*join.Join](in.Instance)))
		},
		Fit: func(in *solve.Instance, p platform.Platform) error {
			if p.Memory != math.Floor(p.Memory) || p.Memory > math.MaxInt32 {
				return solve.InputError(fmt.Errorf("--memory %g: a whole number of slots up to %d is needed", p.Memory, math.MaxInt32))
			}
			return nil
		},
		Bound: func(in *solve.Instance, _ solve.Setting) solve.Bound {
			return proof.BySearch(plan.RoundDown(in.Compute(), joinRoundings), proof.SumOfComputations)
		},
		OwnMemory: func(in *solve.Instance) string {
			if j := plan.As[*join.Join](in.Instance); j != nil && j.Slots > 0 {
				return strconv.Itoa(j.Slots)
			}
			return ""
		},
		Methods: JoinMethods,
		Does: solve.Counts(
			solve.Count{Word: "forwards", Ops: []string{plan.OpF}},
			solve.Count{Word: "backwards", Ops: []string{plan.OpB}},
			solve.Count{Word: "copies", Ops: []string{plan.OpS}},
			solve.Count{Word: "discards", Ops: []string{plan.OpD}},
		),
		Times:    solve.RecomputeTime,
		Timeline: timeline.Steps(), Tensors: allocator.OfJoin,
		Subjects: []*testcase.Subject{testcase.Join()},
	}
}

// joinRoundings are those of the time of a join: a product and a sum for each kind of operation.
const joinRoundings = 8

// theorem3 proves the plans of joins.
const theorem3 = "the dynamic program of [004] Theorem 3"

// JoinMethods is the table of methods for joins.
func JoinMethods() []*solve.Method {
	return []*solve.Method{{
		Name: "join-dp", Kind: solve.Exact, Source: "[004] Thm 3, Lemma 2",
		Summary:    "the dynamic program over branches and checkpoints; proved optimal",
		Complexity: "O(m·ΣL·Π(L_k+1))",
		Run: func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
			p, err := joins.DP(ctx, plan.As[*join.Join](in.Instance), int(s.Platform.Memory))
			if err != nil {
				return nil, inputError(err)
			}
			return &solve.Outcome{Plan: p, Bounds: []solve.Bound{proof.BySearch(plan.RoundDown(p.Claims.Makespan, joinRoundings), theorem3)}}, nil
		},
		Curve: func(ctx context.Context, in *solve.Instance, s solve.Setting, most float64) (solve.Tradeoff, error) {
			c, err := joins.DPCurve(ctx, plan.As[*join.Join](in.Instance))
			if err != nil {
				return solve.Tradeoff{}, inputError(err)
			}
			t := solve.Tradeoff{By: theorem3, Plan: func(memory float64) (*plan.Plan, error) { return c.Plan(int(memory)) }}
			for _, p := range c.Points() {
				if float64(p.Slots) <= most {
					t.Points = append(t.Points, solve.Breakpoint{Memory: float64(p.Slots), Makespan: p.Makespan})
				}
			}
			return t, nil
		},
	}}
}
