package pipeline

import (
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
)

// Peak returns the maximum memory of a processor in the memory model of the instance, in memory
// units.
func (s *Pattern) Peak(in *Instance) float64 {
	peak := 0.0
	for _, m := range s.Memory(in) {
		peak = max(peak, m)
	}
	return peak
}

// Memory returns the memory of each processor in the memory model of the instance. The operations
// of a processor repeat in a cycle, and only the number of operations between the ends of a
// lifetime matters. So each operation is identified by its position, plus R for each later period.
// O(ops·(log ops + k)).
func (s *Pattern) Memory(in *Instance) []float64 { return s.memoryOf(in, s.sequence(in)) }

// memoryOf returns Memory for operations in order of start.
func (s *Pattern) memoryOf(in *Instance, all []run) []float64 {
	lists := make([][]run, in.Platform.Processors)
	for _, r := range all {
		if r.op == plan.OpF || r.op == plan.OpB {
			lists[r.resource] = append(lists[r.resource], r)
		}
	}
	peaks := make([]float64, len(lists))
	for p, list := range lists {
		if len(list) > 0 {
			peaks[p] = s.processor(in, list)
		}
	}
	add := func(st *plan.Stage, size float64) {
		for i := range st.Copies() {
			peaks[st.Processor+i] += size
		}
	}
	for k := range s.Stages {
		st := &s.Stages[k]
		add(st, in.Weights[st.To]-in.Weights[st.From-1])
		if k > 0 && s.Stages[k-1].Processor != st.Processor {
			add(st, in.Buffer[st.From-1])
			add(&s.Stages[k-1], in.Buffer[st.From-1])
		}
	}
	return peaks
}

// Peak returns the maximum memory of a processor for p, a plan whose operations are in order of
// start, on a chain other than its own, in which layers keep less ([chain.Chain.Kept]). O(ops·k).
func Peak(c *chain.Chain, p *plan.Plan) (float64, error) {
	in, err := New(c, p.Platform, p.MemoryModel)
	if err != nil {
		return 0, err
	}
	s := &Pattern{Period: *p.Period, K: max(1, p.K), Stages: slices.Clone(p.Allocation)}
	slices.SortFunc(s.Stages, func(a, b plan.Stage) int { return a.From - b.From })
	stage := make([]*plan.Stage, in.N+1)
	for k := range s.Stages {
		x := &s.Stages[k]
		for l := x.From; l <= x.To; l++ {
			stage[l] = x
		}
	}
	var list []run
	for _, o := range p.Ops {
		batch := ((o.Shift % s.K) + s.K) % s.K
		list = append(list, run{
			op: o.Op, layer: o.Layer, batch: batch, shift: o.Shift,
			resource: stage[o.Layer].Processor + batch%stage[o.Layer].Copies(),
		})
	}
	return slices.Max(s.memoryOf(in, list)), nil
}

// processor returns the memory of one processor without weights and buffers.
func (s *Pattern) processor(in *Instance, list []run) float64 {
	places := make([]int, len(list)) // absolute position of each run
	for z, r := range list {
		places[z] = z + len(list)*((r.batch-r.shift)/s.K)
	}
	forward, backward := make([]int, (in.N+1)*s.K), make([]int, (in.N+1)*s.K)
	here := make([]bool, in.N+1)
	for i, r := range list {
		if r.op == plan.OpF {
			forward[r.layer*s.K+r.batch] = places[i]
			here[r.layer] = true
		} else {
			backward[r.layer*s.K+r.batch] = places[i]
		}
	}
	if !in.Task {
		total := 0.0
		for l := 1; l <= in.N; l++ {
			if !here[l] {
				continue
			}
			nca := 0
			for m := range s.K {
				if forward[l*s.K+m] == backward[l*s.K+m] {
					continue // on another replica
				}
				count := 0
				for q := range s.K {
					count += Between(forward[l*s.K+q], backward[l*s.K+q], forward[l*s.K+m]+1, len(list))
				}
				nca = max(nca, count)
			}
			total += float64(nca) * in.Kept[l]
		}
		return total
	}
	h := held{change: make([]float64, len(list)+1)}
	for l := 1; l <= in.N; l++ {
		if !here[l] {
			continue
		}
		for m := range s.K {
			f, b := forward[l*s.K+m], backward[l*s.K+m]
			h.add(f, b, in.Kept[l])
			// Direct dependency: a result is held until the next operation.
			if l < in.N && here[l+1] {
				h.add(f, forward[(l+1)*s.K+m]-1, in.A[l])
				h.add(backward[(l+1)*s.K+m], b-1, in.D[l])
			}
			if l == in.N {
				h.add(f, b-1, in.A[l])
			}
		}
	}
	peak, now := 0.0, h.always
	for i, r := range list {
		now += h.change[i]
		own := in.OwnB[r.layer]
		if r.op == plan.OpF {
			own = in.Kept[r.layer] + in.OwnF[r.layer]
		}
		peak = max(peak, now+own)
	}
	return peak
}

// held is the memory at each position of a period, as changes.
type held struct {
	always float64
	change []float64 // at positions 0.., and one after the last
}

// add holds size units from after the operation at position from until the one at position to, in
// each period.
func (h *held) add(from, to int, size float64) {
	period := len(h.change) - 1
	if to <= from {
		return
	}
	h.always += size * float64((to-from)/period)
	first := from + 1 - period*floorDiv(from+1, period)
	last := first + (to-from)%period // the first position without it
	h.change[first] += size
	if last > period {
		h.change[0] += size
		last -= period
	}
	h.change[last] -= size
}

// Between returns the number of periods q for which position z + qR lies after from and not after
// to: how many of the values written at from and read last at to are held when the operation at z
// starts.
func Between(from, to, z, r int) int {
	if to <= from {
		return 0
	}
	return floorDiv(to-z, r) - floorDiv(from-z, r)
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
