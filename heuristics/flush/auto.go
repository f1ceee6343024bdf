package flush

import (
	"context"

	"workbench/model/problem/flush"
)

// ZBAuto returns the best order of the heuristic that gives the MILP of zero bubble pipelines its
// start (Qi et al. 2024, §3.1): the first micro-batch forward, more Fs until its first B arrives,
// then a wave of Fs and one of Bs for each further micro-batch, with Ws in gaps or when memory is
// full. As in the original, eight variants are tried: whether an F may delay the first B, whether a
// stage that is ahead skips an F, and whether a W may fill a gap shorter than itself while the idle
// time is below that of the worst stage. A variant that runs out of memory is skipped; the original
// stops there. O(micro-batches·stages).
func ZBAuto(_ context.Context, v *flush.Instance) flush.Order {
	if straightStages(v) == nil {
		return nil
	}
	var orders []flush.Order
	for ways := range 8 {
		a := &auto{
			v: v, late: ways&1 == 0, backward: ways&2 == 0, greedy: ways&4 == 0,
			n: make([][3]int, v.Stages), held: make([]int64, v.Stages), clock: make([]float64, v.Stages), bubble: make([]float64, v.Stages),
			end: make([][3][]float64, v.Stages), order: make(flush.Order, v.GPUs),
		}
		if a.run() {
			orders = append(orders, a.order)
		}
	}
	if s := best(v, orders...); s != nil {
		return s.Order
	}
	return nil
}

// auto is one of the ways. A stage is a GPU.
type auto struct {
	v                      *flush.Instance
	late, backward, greedy bool
	n                      [][3]int
	held                   []int64
	clock, bubble          []float64
	end                    [][3][]float64
	order                  flush.Order
}

// arrival returns when the input of the next operation arrives from another stage.
func (a *auto) arrival(s, kind int) float64 {
	i := a.n[s][kind]
	switch {
	case kind == flush.F && s > 0:
		return a.end[s-1][flush.F][i] + a.v.Delay[s-1]
	case kind == flush.B && s+1 < a.v.Stages:
		return a.end[s+1][flush.B][i] + a.v.Delay[s]
	}
	return 0
}

// put runs the next operation of a kind.
func (a *auto) put(s, kind int) {
	start := max(a.clock[s], a.arrival(s, kind))
	if a.n[s][flush.F] > 0 {
		a.bubble[s] += start - a.clock[s]
	}
	a.clock[s] = start + a.v.Time[s][kind]
	a.end[s][kind] = append(a.end[s][kind], a.clock[s])
	a.held[s] += a.v.Memory[s][kind]
	a.n[s][kind]++
	a.order[s] = append(a.order[s], flush.OperationOf(s, kind))
}

// waiting reports whether a W could run.
func (a *auto) waiting(s int) bool { return a.v.Split[s] && a.n[s][flush.W] < a.n[s][flush.B] }

// room runs Ws until there is memory for an F, false if there is not.
func (a *auto) room(s int) bool {
	for a.held[s]+a.v.Memory[s][flush.F] > a.v.Room[s] {
		if !a.waiting(s) {
			return false
		}
		a.put(s, flush.W)
	}
	return true
}

// fill runs Ws that end before the next operation of a kind can start, and perhaps one
// more.
func (a *auto) fill(s, kind int) {
	until := a.arrival(s, kind)
	for a.waiting(s) && a.clock[s]+a.v.Time[s][flush.W] <= until {
		a.put(s, flush.W)
	}
	if a.waiting(s) && a.clock[s] < until && (a.greedy || until-a.clock[s] > a.worst()-a.bubble[s]) {
		a.put(s, flush.W)
	}
}

// worst returns the maximum idle time of a stage.
func (a *auto) worst() float64 {
	most := 0.0
	for _, b := range a.bubble {
		most = max(most, b)
	}
	return most
}

func (a *auto) run() bool {
	if !a.start() {
		return false
	}
	last := a.v.Stages - 1
	for i := 1; i < a.v.Jobs; i++ {
		forward := make([]bool, a.v.Stages)
		for s := range forward {
			forward[s] = a.n[s][flush.F] < a.v.Jobs && !a.skips(s)
		}
		for s := last - 1; s >= 0; s-- {
			forward[s] = forward[s] && forward[s+1]
		}
		for s := range forward {
			if !forward[s] {
				continue
			}
			if !a.room(s) {
				return false
			}
			if s > 0 {
				a.fill(s, flush.F)
			}
			a.put(s, flush.F)
		}
		for s := last; s >= 0; s-- {
			if s < last {
				a.fill(s, flush.B)
			}
			for s == 0 && a.n[s][flush.F] == a.v.Jobs && a.waiting(s) {
				a.put(s, flush.W)
			}
			a.put(s, flush.B)
		}
	}
	for s := range a.v.Stages {
		for a.waiting(s) {
			a.put(s, flush.W)
		}
	}
	return true
}

// start runs everything up to the first B of each stage.
func (a *auto) start() bool {
	n := a.v.Stages
	for s := range n {
		if a.held[s]+a.v.Memory[s][flush.F] > a.v.Room[s] {
			return false
		}
		a.put(s, flush.F)
	}
	more := make([]int, n)
	first := a.clock[n-1] + a.v.Time[n-1][flush.B] // end of the first B behind
	for s := n - 2; s >= 0; s-- {
		held, clock, f, arrives := a.held[s], a.clock[s], a.v.Time[s][flush.F], first+a.v.Delay[s]
		for 1+more[s] < a.v.Jobs && held+a.v.Memory[s][flush.F] <= a.v.Room[s] {
			if a.late && clock+f > arrives || !a.late && clock >= arrives {
				break
			}
			held, clock = held+a.v.Memory[s][flush.F], clock+f
			more[s]++
		}
		first = max(clock, arrives) + a.v.Time[s][flush.B]
	}
	for s := 1; s < n; s++ {
		for more[s] > 0 && more[s] >= more[s-1] && 1+more[s] < a.v.Jobs {
			more[s]--
		}
		more[s] = min(more[s], more[s-1]) // a stage has no more than the one before
	}
	for s := range n {
		for range more[s] {
			a.put(s, flush.F)
		}
	}
	for s := n - 1; s >= 0; s-- {
		a.put(s, flush.B)
	}
	return true
}

// skips reports whether a stage that is two micro-batches ahead skips an F in favour of its next B.
func (a *auto) skips(s int) bool {
	if !a.backward || s+1 == a.v.Stages || a.n[s][flush.F] < a.n[s+1][flush.F]+2 {
		return false
	}
	next := a.clock[s+1] + a.v.Time[s+1][flush.F] + a.v.Time[s+1][flush.B] + a.v.Delay[s] // its B arrives
	if a.clock[s] >= next {
		return true
	}
	held, weights := a.held[s]+a.v.Memory[s][flush.F], 0.0
	for n := a.n[s][flush.W]; held > a.v.Room[s] && a.v.Split[s] && n < a.n[s][flush.B]; n++ {
		held += a.v.Memory[s][flush.W]
		weights += a.v.Time[s][flush.W]
	}
	if a.clock[s]+a.v.Time[s][flush.F]+weights <= next {
		return false
	}
	return next-a.clock[s] <= a.worst()-a.bubble[s]
}
