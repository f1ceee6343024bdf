package ideals

import (
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
)

// LeastContiguous returns the order of the layers and the stages, one a processor, with the minimum
// memory for one mini-batch at a time, which any pattern of these stages needs
// ([view.Instance.Least]). With a lattice that omits ideals the result is good but not optimal.
//
// A stage is the difference of two ideals i ⊂ j. It needs its weights, the buffers of its cuts and,
// in the task model, the peak over its layers: what the layers so far keep, each value once, and
// what crosses before and after the layer. That depends on the order in which the stage goes from i
// to j through the lattice, so the best order is a bottleneck shortest path. A second dynamic
// program of the same kind chooses the cuts. It is the dynamic program over ideals of Narayanan et
// al. (PipeDream, SOSP 2019, §3.1) for memory instead of load. It returns nothing once View.Stopped
// reports true.
//
// The result is cached and must not be modified. O(pairs·(width·atom + readers + P)) for pairs of
// ideals one of which contains the other.
func (t *Lattice) LeastContiguous(p platform.Platform, model string, stop plan.Stop) ([]int, []plan.Stage) {
	of := leastOf{p.Processors, p.WeightCopies, model != plan.StageModel}
	if known, ok := t.least[of]; ok {
		return known.order, known.stages
	}
	order, stages := t.leastContiguous(p, of.task, stop)
	if order != nil {
		if t.least == nil {
			t.least = map[leastOf]leastFound{}
		}
		t.least[of] = leastFound{order, stages}
	}
	return order, stages
}

// leastOf is the cache key of LeastContiguous, leastFound its result.
type (
	leastOf struct {
		processors, copies int
		task               bool
	}
	leastFound struct {
		order  []int
		stages []plan.Stage
	}
)

func (t *Lattice) leastContiguous(p platform.Platform, task bool, stop plan.Stop) (order []int, stages []plan.Stage) {
	s := newLeastStages(t, p, task, stop)
	all := t.Len() - 1
	if !s.run() {
		return nil, nil
	}
	r := 0
	for k, x := range s.best[all] {
		if x < s.best[all][r] {
			r = k
		}
	}
	for j := all; j > 0; r-- {
		i := s.cut[j][r]
		part := s.through(i, j)
		order = append(part, order...)
		stages = append(stages, plan.Stage{From: len(part), Processor: r - 1})
		j = i
	}
	slices.Reverse(stages)
	end := 0
	for k := range stages {
		end, stages[k].From, stages[k].To = end+stages[k].From, end+1, end+stages[k].From
	}
	return order, stages
}

// stopped reports whether this search must end.
func (s *leastStages) stopped() bool { return s.stop.Given() || s.t.View.stopped() }

// run fills best and runs, and reports false if it was stopped.
func (s *leastStages) run() bool {
	if !s.prepare() {
		return false
	}
	for i := range s.t.Len() - 1 {
		if s.stopped() {
			return false
		}
		if s.runs[i] < s.top() {
			s.extendFrom(i)
			s.extend(i)
		}
	}
	return true
}

// leastStages is the dynamic program of LeastContiguous.
type leastStages struct {
	*readers
	task   bool
	stop   plan.Stop
	procs  int
	copies float64
	weight []float64   // by ideal, all copies
	above  [][]reach   // by ideal: those with one more atom, and that atom
	most   [][]float64 // by ideal and above: what crosses before and after a layer of the atom
	best   [][]float64 // by ideal and number of stages
	cut    [][]int     // by ideal and number of stages: where the last stage starts
	runs   []float64   // by ideal: the minimum over any number of stages, if below top
	// For the ideals that a stage from one ideal reaches:
	reached    []int
	seen       []int // when it was reached
	turn       int
	kept, peak []float64
	before     []int
}

func newLeastStages(t *Lattice, p platform.Platform, task bool, stop plan.Stop) *leastStages {
	n, procs := t.Len(), min(p.Processors, t.View.N)
	s := &leastStages{
		readers: t.readers(), task: task, stop: stop, procs: procs, copies: float64(p.WeightCopies), weight: make([]float64, n),
		above: make([][]reach, n), most: make([][]float64, n),
		best: make([][]float64, n), cut: make([][]int, n), seen: make([]int, n), kept: make([]float64, n), peak: make([]float64, n),
		before: make([]int, n),
	}
	return s
}

// prepare fills weight, above and most, and reports false if it was stopped.
func (s *leastStages) prepare() bool {
	t := s.t
	n := t.Len()
	for j := range n {
		if s.stopped() {
			return false
		}
		s.best[j], s.cut[j] = slices.Repeat([]float64{math.Inf(1)}, s.procs+1), make([]int, s.procs+1)
		for l := range t.View.N {
			if t.Has(j, l) {
				s.weight[j] += s.copies * t.View.Weight[l]
			}
		}
		if j < n-1 && t.Has(j, t.View.N-1) {
			continue // the loss is last
		}
		for _, i := range t.Below[j] {
			a := slices.IndexFunc(t.Atoms, func(atom []int) bool { return t.Has(j, atom[0]) && !t.Has(i, atom[0]) })
			s.above[i], s.most[i] = append(s.above[i], reach{j, a}), append(s.most[i], s.crossing(i, t.Atoms[a]))
		}
	}
	s.best[0][0] = 0
	s.runs = slices.Repeat([]float64{math.Inf(1)}, n)
	s.runs[0] = 0
	return true
}

// crossing returns the maximum memory that crosses before and after one layer of an atom, whose
// layers run one after the other after ideal i.
func (s *leastStages) crossing(i int, atom []int) (most float64) {
	before := s.t.Cut[i]
	for n := range atom {
		behind := 0.0
		in := func(l int) bool { return s.t.Has(i, l) || slices.Contains(atom[:n+1], l) }
		for u := range s.t.View.N {
			if in(u) && slices.ContainsFunc(s.t.View.Succ[u], func(r int) bool { return !in(r) }) {
				behind += s.t.View.Out[u]
			}
		}
		most = max(most, before+behind)
		before = behind
	}
	return most
}

// top returns the best known minimum memory of the whole graph.
func (s *leastStages) top() float64 { return slices.Min(s.best[s.t.Len()-1]) }

// extendFrom finds the best orders of the stages that start at ideal i.
func (s *leastStages) extendFrom(i int) {
	s.turn++
	s.reached = append(s.reached[:0], i)
	s.seen[i], s.kept[i], s.peak[i] = s.turn, 0, 0
	top := s.top()
	for n := 0; n < len(s.reached); n++ { // by number of atoms: all paths to it are known
		k := s.reached[n]
		if s.weight[k]-s.weight[i]+s.peak[k] >= top {
			continue
		}
		for e, x := range s.above[k] {
			j := x.ideal
			if s.seen[j] != s.turn {
				s.seen[j], s.kept[j], s.peak[j] = s.turn, s.kept[k]+s.fresh(i, k, s.t.Atoms[x.layer]...), math.Inf(1)
				s.reached = append(s.reached, j)
			}
			peak := max(s.peak[k], s.kept[j])
			if s.task {
				peak = max(peak, s.kept[j]+s.most[k][e])
			}
			if peak < s.peak[j] {
				s.peak[j], s.before[j] = peak, k
			}
		}
	}
}

// extend appends the stages from ideal i to those before it.
func (s *leastStages) extend(i int) {
	all := s.t.Len() - 1
	for _, j := range s.reached[1:] {
		if s.procs == 1 && j < all {
			continue
		}
		need := s.weight[j] - s.weight[i] + 2*s.t.Cut[i] + 2*s.t.Cut[j] + s.peak[j]
		s.runs[j] = min(s.runs[j], max(s.runs[i], need))
		for r, x := range s.best[i][:s.procs] {
			if m := max(x, need); m < s.best[j][r+1] {
				s.best[j][r+1], s.cut[j][r+1] = m, i
			}
		}
	}
}

// through returns the layers of a stage in the best order.
func (s *leastStages) through(i, j int) (order []int) {
	s.extendFrom(i)
	for j != i {
		k := s.before[j]
		for _, x := range s.above[k] {
			if x.ideal == j {
				order = append(slices.Clone(s.t.Atoms[x.layer]), order...)
			}
		}
		j = k
	}
	return order
}
