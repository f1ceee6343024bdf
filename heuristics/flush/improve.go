package flush

import (
	"context"

	"workbench/model/flush"
)

// Found is what a method came to.
type Found struct {
	Order flush.Order // nil: none
	Bound float64     // no schedule is better, by this method; 0: it proves nothing
}

// FewSteps are for a search that something else goes on after.
const FewSteps = 50_000

// starts are the methods whose best order a search starts from.
func starts() []Method {
	return []Method{OneFOneB, ZBH1, ZBH2, ZBAuto, Interleaved, VMin, VHalf, ZBV, List}
}

// Improve improves the best order of the other methods by [Search].
func Improve(ctx context.Context, v *flush.Instance, g Goal) Found {
	var orders []flush.Order
	for _, m := range starts() {
		orders = append(orders, m(ctx, v))
	}
	s := best(v, append(orders, Modulo(ctx, v, g.Seed))...)
	if s == nil {
		return Found{}
	}
	if g.OnProgress != nil {
		g.OnProgress(s.Objective)
	}
	if s.Objective <= g.Bound*(1+1e-9) {
		return Found{Order: s.Order}
	}
	// The search sees GPUs that start as soon as they can, which may start later.
	return Found{Order: best(v, s.Order, Search(ctx, v, s.Order, g)).Order}
}
