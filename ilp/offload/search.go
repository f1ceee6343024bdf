package offload

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
)

// orders are a set of tensors, in the order of their offloads and, against time,
// in that of their prefetches.
type orders struct{ O, P []int }

func (o *orders) set(p *orders) {
	o.O, o.P = append(o.O[:0], p.O...), append(o.P[:0], p.P...)
}

// search looks for better sets and orders by simulated annealing: it moves other
// tensors, and exchanges neighbours in an order. start must have a plan. It is
// the same for the same rng, and ends early with ctx. Each move costs O(N²) at
// most, as a rule O(N).
func (w *noWait) search(ctx context.Context, rng *rand.Rand, start *orders, moves int) *orders {
	var now, try, best orders
	now.set(start)
	best.set(start)
	value := w.run(now.O, now.P)
	least := value
	var tensors []int
	for i := range w.tensors() {
		if w.movable(i) && w.worth(i) {
			tensors = append(tensors, i)
		}
	}
	for m := 0; m < moves && len(tensors) > 0 && least > w.total*(1+1e-12); m++ {
		if m%1024 == 0 && ctx.Err() != nil {
			break
		}
		// From 1 % of the makespan down to 0.005 %.
		temperature := 0.01 * value * math.Pow(0.005, float64(m)/float64(moves))
		try.set(&now)
		for more := true; more; more = rng.IntN(3) == 0 {
			try.change(rng, tensors)
		}
		v := w.run(try.O, try.P)
		if v <= value || rng.Float64() < math.Exp((value-v)/temperature) {
			now, try = try, now
			if value = v; v < least {
				least = v
				best.set(&now)
			}
		}
	}
	return &best
}

// change makes one random change.
func (o *orders) change(rng *rand.Rand, tensors []int) {
	i := tensors[rng.IntN(len(tensors))]
	switch moves := slices.Contains(o.O, i); rng.IntN(5) {
	case 0, 1: // in or out
		if moves {
			o.drop(i)
		} else {
			o.add(rng, i)
		}
	case 2: // for another one
		if !moves && len(o.O) > 0 {
			o.drop(o.O[rng.IntN(len(o.O))])
			o.add(rng, i)
		}
	default:
		order := o.O
		if rng.IntN(2) == 0 {
			order = o.P
		}
		if len(order) > 1 {
			a := rng.IntN(len(order) - 1)
			order[a], order[a+1] = order[a+1], order[a]
		}
	}
}

func (o *orders) add(rng *rand.Rand, i int) {
	for _, order := range [...]*[]int{&o.O, &o.P} {
		at, _ := slices.BinarySearch(*order, i) // most orders are sorted, or nearly
		if rng.IntN(4) == 0 {
			at = rng.IntN(len(*order) + 1)
		}
		*order = slices.Insert(*order, at, i)
	}
}

func (o *orders) drop(i int) {
	for _, order := range [...]*[]int{&o.O, &o.P} {
		at := slices.Index(*order, i)
		*order = slices.Delete(*order, at, at+1)
	}
}
