package pipeline

import (
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// enumeration is a depth-first search over the allocations that may have a pattern of period T a
// mini-batch or less, 1-periodic or of any k. It starts from the first layer, since the first
// layers store the most and so have the fewest choices. Each partial allocation is bounded (see
// partialAllocation.bound). For any k, nogoods exclude it too, with backjumping (Gaschnig 1979).
// For a complete allocation a 1-periodic pattern is sought by a list scheduler and then by PESP;
// for any k, one that remains ends the enumeration. A node costs O(n²/P).
type enumeration struct {
	partialAllocation
	budget     int64 // work that is left
	pespBudget int   // decisions that one PESP may take
	levels     []float64
	nogoods    *nogoods // for any k

	backjump  int           // layers from this one on need not be tried elsewhere; 0: none
	why       argument      // of the jump
	left      []leaf        // allocations to be decided by PESP
	undecided bool          // an allocation was left without pattern or proof
	short     bool          // because of the budget
	found     *view.Pattern // a pattern of at most that period
	better    *view.Pattern // a pattern of a longer one, below what was known
	below     float64       // the shortest period that is known; 0: longer ones do not count

	excluded         excluded
	nodes, decisions int64
}

// leaf is a complete allocation, or a prefix of one in a beam search.
type leaf struct {
	owner []int   // of layers 0..l
	used  int     // processors
	spare float64 // bytes that all processors have left, on average over time
	loads uint64  // see loadKey
	part  float64 // of all allocations
}

// newEnumeration prepares an enumeration. exactLayers says that no layer is negligible.
func newEnumeration(in *instance, period float64, exactLayers, anyK bool, budget int64, stop func() bool) *enumeration {
	e := &enumeration{
		partialAllocation: newPartialAllocation(newRelaxation(in, period, exactLayers, anyK, stop)),
		budget:            budget, excluded: excluded{},
	}
	if anyK {
		e.nogoods = newNogoods(stop)
	}
	return e
}

// proved reports whether no allocation is left.
func (e *enumeration) proved() bool { return e.found == nil && !e.undecided }

func (e *enumeration) finished() bool { return e.found != nil || e.budget < 0 }

// run enumerates.
func (e *enumeration) run() {
	switch {
	case e.stopped || e.stop():
		e.budget = -1
	case !e.possible():
		e.excluded.add(argument{kind: delayBehind}, 1)
	case !e.hasRoom(1):
		e.excluded.add(argument{kind: loadOfAll}, 1)
	default:
		e.descend(1, 0, 1)
		e.decideLeaves()
	}
	if e.budget < 0 && !(e.anyK && e.undecided) {
		e.undecided, e.short = true, true
	}
}

// descend enumerates the processors of layers l..N; used processors have layers, and the node is
// part of all allocations.
func (e *enumeration) descend(l, used int, part float64) {
	e.nodes++
	if e.budget--; e.nodes%256 == 0 && e.stop() {
		e.budget = -1
	}
	switch {
	case e.finished():
		return
	case l > e.in.N && e.anyK:
		e.leafOfAnyK(used, part)
		return
	case l > e.in.N:
		e.leaf(used, part)
		return
	case e.negligible[l]:
		e.skip(l)
		e.descend(l+1, used, part)
	default:
		e.branch(l, used, part)
	}
	if e.backjump == l {
		e.backjump = 0
	}
}

// branch tries layer l first on the processor of the layer before, for every cut takes time, then on one that has
// nothing yet, which are alike, then on the others.
func (e *enumeration) branch(l, used int, part float64) {
	last, tried := e.owner[l-1], 0
	children := min(used+1, e.in.Procs)
	part /= float64(children)
	try := func(r int) {
		if e.finished() {
			return
		}
		tried++
		before, why := e.place(l, r)
		if why.kind != noArgument {
			e.excluded.add(why, part)
			return
		}
		if why := e.bound(l, max(used, r+1)); why.kind != noArgument {
			e.excluded.add(why, part)
		} else {
			e.descend(l+1, max(used, r+1), part)
		}
		e.unplace(l, r, before)
	}
	if last != noProcessor {
		try(last)
		if e.anyK && e.backjump == 0 && !e.finished() {
			set, made := e.nogoods.atRunEnd(&e.partialAllocation, l-1, used)
			if e.budget -= int64(made / labelsAUnit); set != 0 {
				e.excluded.add(argument{nogood, set}, part*float64(children-tried))
				return
			}
		}
	}
	if used < e.in.Procs && e.backjump == 0 {
		try(used)
	}
	for r := 0; r < used && e.backjump == 0; r++ {
		if r != last {
			try(r)
		}
	}
	if e.backjump > 0 && tried < children {
		e.excluded.add(e.why, part*float64(children-tried))
	}
}

// leafOfAnyK searches for a nogood of a complete allocation. One that remains ends the enumeration,
// since nothing is known of its patterns.
func (e *enumeration) leafOfAnyK(used int, part float64) {
	set, n, work := e.nogoods.exclude(&e.partialAllocation, used, e.budget)
	e.budget -= work
	switch {
	case e.stop():
		e.budget = -1
	case set == 0:
		e.undecided, e.short, e.budget = true, e.budget <= 1, -1
	default:
		e.why = argument{nogood, set}
		e.excluded.add(e.why, part)
		if n < e.in.N {
			e.backjump = n + 1
		}
	}
}

// leaf runs the list scheduler on a complete allocation and keeps the allocation for decideLeaves.
// A pattern of a longer period is kept if it improves on the incumbent: few allocations remain at a
// short period, and the best patterns are among theirs.
func (e *enumeration) leaf(used int, part float64) {
	x := e.listSchedule(e.stages())
	switch {
	case x == nil:
	case x.Rate() <= e.limit():
		e.found = x
		return
	default:
		e.better, e.below = x, x.Rate()
	}
	e.left = append(e.left, leaf{owner: slices.Clone(e.owner[:e.in.N+1]), used: used, part: part})
}

// decideLeaves looks for patterns of the allocations that are left, or proofs that they have none.
func (e *enumeration) decideLeaves() {
	for _, x := range e.left {
		if e.finished() {
			return
		}
		e.withPlaced(x, func() { e.decideLeaf(x) })
	}
}

// withPlaced calls do with the layers of x placed.
func (e *enumeration) withPlaced(x leaf, do func()) {
	before := make([]undo, len(x.owner))
	for l := 1; l < len(x.owner); l++ {
		if x.owner[l] == noProcessor {
			e.skip(l)
		} else {
			before[l], _ = e.place(l, x.owner[l]) // loads have allowed it before
		}
	}
	do()
	for l := len(x.owner) - 1; l >= 1; l-- {
		if x.owner[l] != noProcessor {
			e.unplace(l, x.owner[l], before[l])
		}
	}
}

// decideLeaf searches for a pattern of a complete allocation, or a proof that it has none: first
// for each processor alone, where everything else is a delay.
func (e *enumeration) decideLeaf(x leaf) {
	e.bound(e.in.N, x.used) // for its delays
	for r := range e.in.Procs {
		if len(e.on[r]) == 0 {
			continue
		}
		if _, answer := e.solve(e.parts(r), e.fixed); answer == infeasible {
			e.excluded.add(argument{noPattern, 0}, x.part)
			return
		}
	}
	switch _, answer := e.solve(e.parts(noProcessor), e.fixed); answer {
	case infeasible:
		e.excluded.add(argument{noPattern, 0}, x.part)
		return
	case unknown:
		e.short = true
	case feasible:
		if e.found = e.byLayers(e.stages()); e.found != nil {
			return
		}
	}
	e.undecided = true
}

// listSchedule returns a pattern of the list scheduler that takes no more than the period, or is better than what is
// known, nil if there is none.
func (e *enumeration) listSchedule(stages []plan.Stage) *view.Pattern {
	e.budget -= 128
	return e.in.schedule(view.Merged(stages), max(e.limit(), e.below*(1-leastGap)))
}
