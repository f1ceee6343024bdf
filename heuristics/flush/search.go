package flush

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/flush"
)

// Goal says when a search is done.
type Goal struct {
	Bound float64 // nothing is below it, seconds
	Seed  uint64
	// Steps is the maximum number of steps of the search; 0: [defaultSteps].
	Steps int
	// Conflicts is about the maximum number of conflicts of the complete search of [Exact], and
	// disables its branch and bound; 0: no limit.
	Conflicts int
	// Unproved is for many instances when only the best counts: [Improve] seeks no bound and
	// leaves out its most expensive start.
	Unproved bool
	// OnProgress, if not nil, is called with the objective of every better schedule.
	OnProgress func(objective float64)
}

// defaultSteps is for orders of up to stepOperations operations; longer ones take as many fewer.
const (
	defaultSteps   = 300_000
	stepOperations = 800
	leastSteps     = 10_000
)

// An annealer changes an order step by step.
type annealer struct {
	v        *flush.Instance
	r        *rand.Rand
	t        *flush.Timer
	order    flush.Order
	cost     float64
	count    []int32 // by operation, scratch
	best     flush.Order
	shortest float64
	enough   float64
	changed  func(float64)
}

// Search improves an order by simulated annealing. A neighbour moves an operation, or a few equal
// ones, to another position in the sequence of its GPU, usually a near one. An order that does not
// fit in memory or deadlocks is no neighbour. The energy is the objective plus a small part of the
// mean span of the GPUs, which distinguishes orders with the same longest GPU. Search starts from
// the given order, returns the best one seen, and stops with ctx, at the bound, or after its steps.
// O(operations) a step.
func Search(ctx context.Context, v *flush.Instance, from flush.Order, g Goal) flush.Order {
	return newAnnealer(v, from, g).run(ctx, hot, g.Steps)
}

// Initial temperatures, relative to the objective. The hot one is for pipelines with few GPUs,
// where the mild one does not leave a local minimum. With many GPUs most moves make some GPU wait,
// and the mild one finds plans that are 1 to 4 % shorter.
const (
	hot  = 2e-3
	mild = 5e-4
	cold = 1e-4
)

// run anneals from a heat on, which falls to a thousandth, and returns the best order seen.
func (a *annealer) run(ctx context.Context, heat float64, steps int) flush.Order {
	a.best = clone(a.order)
	if !a.t.Run(a.order, nil) {
		return a.best
	}
	a.cost, a.shortest = a.measure(), a.t.Objective()
	if steps == 0 {
		steps = max(leastSteps, min(defaultSteps, defaultSteps*stepOperations/max(a.v.Ops(), 1)))
	}
	heat *= a.shortest
	for k := 0; k < steps && a.shortest > a.enough && (k%64 != 0 || ctx.Err() == nil); k++ {
		a.step(heat * math.Pow(1e-3, float64(k)/float64(steps)))
	}
	return a.best
}

func newAnnealer(v *flush.Instance, from flush.Order, g Goal) *annealer {
	return &annealer{
		v: v, r: rand.New(rand.NewPCG(g.Seed, 19)), t: flush.NewTimer(v), count: make([]int32, flush.Kinds*v.Stages),
		order: clone(from), enough: g.Bound * (1 + 1e-9), changed: g.OnProgress,
	}
}

func clone(o flush.Order) flush.Order {
	c := make(flush.Order, len(o))
	for g := range o {
		c[g] = slices.Clone(o[g])
	}
	return c
}

// measure returns the energy that the annealing minimises.
func (a *annealer) measure() float64 { return a.t.Objective() + 0.1*a.t.MeanSpan() }

// step tries one move at a temperature.
func (a *annealer) step(heat float64) {
	g := a.r.IntN(len(a.order))
	sequence := a.order[g]
	from := a.r.IntN(len(sequence))
	far := 1 + int(math.Abs(a.r.NormFloat64())*6)
	to := from + far
	if a.r.IntN(2) == 0 {
		to = from - far
	}
	to = max(0, min(to, len(sequence)-1))
	if from == to || sequence[from] == sequence[to] && far == 1 {
		return
	}
	move(sequence, from, to)
	if a.fits(g) && a.t.Run(a.order, nil) {
		if cost := a.measure(); cost <= a.cost || a.r.Float64() < math.Exp((a.cost-cost)/heat) {
			a.cost = cost
			if x := a.t.Objective(); x < a.shortest*(1-1e-12) {
				a.shortest, a.best = x, clone(a.order)
				if a.changed != nil {
					a.changed(x)
				}
			}
			return
		}
	}
	move(sequence, to, from)
}

// move takes the operation at one place to another.
func move(sequence []flush.Operation, from, to int) {
	x := sequence[from]
	if from < to {
		copy(sequence[from:to], sequence[from+1:to+1])
	} else {
		copy(sequence[to+1:from+1], sequence[to:from])
	}
	sequence[to] = x
}

// fits reports whether every operation of a GPU comes after what it needs there, and
// all have room.
func (a *annealer) fits(g int) bool {
	for _, s := range a.v.On[g] {
		clear(a.count[flush.OperationOf(s, 0):flush.OperationOf(s+1, 0)])
	}
	held := int64(0)
	for i, l := range a.order[g] {
		held += a.v.Memory[l.Stage()][l.Kind()]
		if held > a.v.Room[g] && !a.v.Fuses(a.order[g], i, a.count) {
			return false
		}
		if from := a.v.Predecessor(l); from >= 0 && a.count[l] >= a.count[from] {
			return false
		}
		a.count[l]++
	}
	return true
}
