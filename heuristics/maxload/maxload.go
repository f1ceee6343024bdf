// Package maxload splits networks over accelerators and CPUs by the dynamic program of
// Tarnawski et al., NeurIPS 2020.
package maxload

import (
	"fmt"
	"math"

	"workbench/model/instance/graph"
	"workbench/model/maxload"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
)

// MostIdeals is how many ideals the program looks at, a third of what the authors' does:
// more, and the graph is made coarser.
const MostIdeals = 20000

// Contiguous returns the device of each part in a split of the least max-load among those
// whose devices can be put in an order in which none reads of a later one, and that load,
// in milliseconds; whole is false where the graph had too many ideals, so that parts were
// merged and a better split may have been missed. The devices' sets are differences of
// ideals in a row, the last of them on an accelerator or a CPU:
//
//	best(I, a, c) = min over I' ⊂ I of max(best(I', a−1, c), accelerator(I \ I'))
//	                                and max(best(I', a, c−1), CPU(I \ I'))
//
// It looks for loads up to some top, which rises by a quarter until there is a split: sets
// of more work are not looked at, where the authors' program looks at all. The error wraps
// [plan.ErrNoPlan]. O(pairs·(Σ readers/64 + a·c)) for pairs of ideals with at most the top
// between them.
func Contiguous(in *maxload.Instance) (device []int, load float64, whole bool, err error) {
	s, err := newSplitter(in)
	if err != nil {
		return nil, 0, false, err
	}
	all, least := 0.0, 0.0 // times of everything
	for i := range in.Parts {
		x := in.Parts[i]
		slow := max(x.CPU, x.Accelerator)
		if math.IsInf(slow, 1) {
			slow = x.CPU
		}
		all += slow
		least += min(x.CPU, x.Accelerator)
	}
	for _, v := range in.Values {
		all += v.Cost // at most on one device
	}
	for top := max(least/float64(in.Devices()), all*0x1p-20); ; top *= 1.25 {
		if device := s.within(top); device != nil {
			load, err := in.MaxLoad(device)
			return device, load, len(s.t.Atoms) == s.t.View.N, err
		}
		if top > all || all == 0 {
			return nil, 0, false, fmt.Errorf("%w: no contiguous split of %q fits on %d accelerators of %g bytes and %d CPUs", plan.ErrNoPlan, in.Name, in.Accelerators, in.Memory, in.CPUs)
		}
	}
}

// splitter is the program on an instance.
type splitter struct {
	in    *maxload.Instance
	t     *ideals.Lattice
	group []int // of a part: its layer in the view
	words int
	sets  []uint64 // of ideals, by layers
	value []uint64 // of values, likewise
	// Of ideals: what their layers take on a CPU, need, and how many run there only.
	cpu, size, only []float64
	walk            *ideals.Walk
}

// newSplitter makes the lattice. The error wraps [ideals.ErrMany].
func newSplitter(in *maxload.Instance) (*splitter, error) {
	group, n := in.Groups()
	v := &ideals.View{
		Graph: &graph.Graph{Name: in.Name}, N: n,
		F: make([]float64, n), B: make([]float64, n), Out: make([]float64, n), Pred: make([][]int, n), Succ: make([][]int, n),
	}
	cpu, size, only := make([]float64, n), make([]float64, n), make([]float64, n)
	for i, g := range group {
		if x := &in.Parts[i]; math.IsInf(x.Accelerator, 1) {
			only[g]++
		} else {
			v.F[g] += x.Accelerator
		}
		cpu[g] += in.Parts[i].CPU
		size[g] += in.Parts[i].Size
	}
	for _, e := range in.Before {
		if a, b := group[e[0]], group[e[1]]; a != b {
			v.Pred[b], v.Succ[a] = append(v.Pred[b], a), append(v.Succ[a], b)
		}
	}
	t, err := v.Lattice(MostIdeals)
	if err != nil {
		return nil, err
	}
	s := &splitter{in: in, t: t, group: group, words: (n + 63) / 64, walk: t.Walk()}
	for i := range t.Len() {
		row := make([]uint64, s.words)
		c, b, o := 0.0, 0.0, 0.0
		for l := range n {
			if t.Has(i, l) {
				row[l/64] |= 1 << (l % 64)
				c, b, o = c+cpu[l], b+size[l], o+only[l]
			}
		}
		s.sets, s.cpu, s.size, s.only = append(s.sets, row...), append(s.cpu, c), append(s.size, b), append(s.only, o)
	}
	for _, x := range in.Values {
		row := make([]uint64, s.words)
		for _, p := range x.Parts {
			row[group[p]/64] |= 1 << (group[p] % 64)
		}
		s.value = append(s.value, row...)
	}
	return s, nil
}

// accelerator is the load of one that has the layers of ideal j that are not in i, +Inf if
// it cannot have them.
func (s *splitter) accelerator(i, j int) float64 {
	if s.only[j] > s.only[i] || !platform.Fits(s.size[j]-s.size[i], s.in.Memory) {
		return math.Inf(1)
	}
	load := s.t.Work[j] - s.t.Work[i]
	for k := range s.in.Values {
		in, out := false, false
		for w := range s.words {
			set := s.sets[j*s.words+w] &^ s.sets[i*s.words+w]
			x := s.value[k*s.words+w]
			in, out = in || x&set != 0, out || x&^set != 0
		}
		if in && out {
			load += s.in.Values[k].Cost
		}
	}
	return load
}

// step is how a state is reached: the ideal before, and whether an accelerator is added.
type step struct {
	ideal       int
	accelerator bool
}

// within returns the device of each part in a best split of at most a load, nil if there
// is none.
func (s *splitter) within(top float64) []int {
	a, c := s.in.Accelerators, s.in.CPUs
	states := (a + 1) * (c + 1) // devices so far
	at := func(ideal, accelerators, cpus int) int { return ideal*states + accelerators*(c+1) + cpus }
	best := make([]float64, s.t.Len()*states)
	from := make([]step, len(best))
	for i := states; i < len(best); i++ {
		best[i] = math.Inf(1)
	}
	most := top * (1 + view.Rounding)
	// helps reports whether so much work on an accelerator, without transfers, is better anywhere.
	helps := func(i, j int, work float64) bool {
		for x := range a {
			for y := range c + 1 {
				if max(best[at(i, x, y)], work) < best[at(j, x+1, y)] {
					return true
				}
			}
		}
		return false
	}
	for j := 1; j < s.t.Len(); j++ {
		s.walk.Below(j, func(i int) bool {
			work, cpu := s.t.Work[j]-s.t.Work[i], s.cpu[j]-s.cpu[i]
			fits := a > 0 && work <= most && platform.Fits(s.size[j]-s.size[i], s.in.Memory)
			if !fits && (c == 0 || cpu > most) {
				return false
			}
			load := math.Inf(1)
			if fits && helps(i, j, work) {
				load = s.accelerator(i, j)
			}
			for x := range a + 1 {
				for y := range c + 1 {
					to := at(j, x, y)
					if x > 0 {
						if v := max(best[at(i, x-1, y)], load); v < best[to] && v <= most {
							best[to], from[to] = v, step{i, true}
						}
					}
					if y > 0 {
						if v := max(best[at(i, x, y-1)], cpu); v < best[to] && v <= most {
							best[to], from[to] = v, step{i, false}
						}
					}
				}
			}
			return true
		})
	}
	all := s.t.Len() - 1
	if math.IsInf(best[at(all, a, c)], 1) {
		return nil
	}
	of := make([]int, s.t.View.N)
	for j, x, y := all, a, c; j > 0; {
		last := from[at(j, x, y)]
		d := x - 1
		if last.accelerator {
			x--
		} else {
			y--
			d = a + y
		}
		for l := range of {
			if s.t.Has(j, l) && !s.t.Has(last.ideal, l) {
				of[l] = d
			}
		}
		j = last.ideal
	}
	device := make([]int, len(s.group))
	for i, g := range s.group {
		device[i] = of[g]
	}
	return device
}
