package flush

import (
	"context"
	"math/rand/v2"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
	"workbench/model/proof"
)

// Found is the result of a method.
type Found struct {
	Order flush.Order   // nil: none
	Bound float64       // no schedule is better, by this method; 0: it proves nothing
	By    string        // the name of that proof
	Why   []proof.Share // which argument excluded which part of its search; nil: it is none
}

// FewSteps are for a search that something else goes on after.
const FewSteps = 50_000

// starts are the methods whose best order a search starts from.
func starts() []Method {
	return []Method{
		Send(GPipe), Send(LoopedBFS), Send(OneFOneB), Send(ZBH1), Send(ZBH2), Send(ZBAuto), Send(Interleaved), Send(VMin),
		Send(VHalf), Send(ZBV), Send(torchInterleaved(false)), Send(torchInterleaved(true)), Send(DualPipeV), List,
	}
}

// Improve returns an improvement of the best order of the other methods by [Search], at a hot
// and at a mild temperature. If the bound of the goal is below that order, it also tries to raise it by the one-machine
// bound.
func Improve(ctx context.Context, v *flush.Instance, g Goal) Found {
	var s *flush.Schedule
	methods := starts()
	if !g.Unproved {
		methods = append(methods, Send(Modulo(g.Seed)))
	}
	for _, m := range methods {
		if ctx.Err() != nil && s != nil {
			break
		}
		if x := best(v, m(ctx, v)); x != nil && (s == nil || x.Objective < s.Objective) {
			s = x
		}
	}
	if s == nil {
		return Found{}
	}
	if g.OnProgress != nil {
		g.OnProgress(s.Objective)
	}
	if platform.Closed(s.Objective, g.Bound, plan.Tolerance) {
		return Found{Order: s.Order}
	}
	found := Found{}
	if !g.Unproved {
		if alone := v.OneMachine(ctx, s.Objective); alone.Value > g.Bound {
			g.Bound = alone.Value
			found.Bound, found.By = alone.Value, alone.String()
		}
	}
	found.Order = anneal(ctx, v, s, g).Order
	return found
}

// Restart is [Improve] and goes on until the deadline of ctx, if it has one, or the bound: from the best order by annealing with
// other seeds, and by complete searches of neighbourhoods ([neighbour]) where all times are multiples of a unit.
func Restart(ctx context.Context, v *flush.Instance, g Goal) Found {
	f := Improve(ctx, v, g)
	s := best(v, f.Order)
	if _, ok := ctx.Deadline(); !ok || s == nil {
		return f
	}
	g.Bound = max(g.Bound, f.Bound)
	unit, ok := commonUnit(v)
	ok = ok && v.Ops() <= mostNeighbours && !v.Fused
	r := rand.New(rand.NewPCG(g.Seed, 23))
	for k := 1; !platform.Closed(s.Objective, g.Bound, plan.Tolerance) && ctx.Err() == nil; k++ {
		if ok && k%8 != 0 {
			if x := neighbour(ctx, v, unit, s, r, 500); x != nil {
				s = x
				if g.OnProgress != nil {
					g.OnProgress(s.Objective)
				}
			}
			continue
		}
		again := g
		again.Seed = r.Uint64()
		s = anneal(ctx, v, s, again)
	}
	f.Order = s.Order
	return f
}

// mostNeighbours is for how many operations neighbourhoods are searched: beyond, their pairs are too many.
const mostNeighbours = 2000

// anneal improves a schedule by a hot [Search], by a mild one, and the better of both by a cold
// one. Search times GPUs as early as possible, although they may start later.
func anneal(ctx context.Context, v *flush.Instance, start *flush.Schedule, g Goal) *flush.Schedule {
	s, least, report := start, start.Objective, g.OnProgress
	g.OnProgress = func(objective float64) {
		if report != nil && objective < least {
			report(objective)
		}
		least = min(least, objective)
	}
	for _, heat := range [...]float64{hot, mild, cold} {
		if ctx.Err() != nil {
			break
		}
		from := start
		if heat == cold {
			from = s
		}
		if x := best(v, newAnnealer(v, from.Order, g).run(ctx, heat, g.Steps)); x != nil && x.Objective < s.Objective {
			s = x
		}
		if platform.Closed(s.Objective, g.Bound, plan.Tolerance) {
			break
		}
	}
	return s
}
