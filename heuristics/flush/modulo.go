package flush

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/flush"
)

// Modulo returns a method by modulo scheduling (software pipelining; Lam 1988): the schedule of one
// micro-batch is repeated every T. Its operations are placed in order, F forward and B backward,
// each at the earliest time without a conflict on its GPU modulo T, then the Ws in the gaps.
// Periods between the maximum load of a GPU for a micro-batch and the time of one micro-batch are
// tried, evenly and then around the best one, some with random waits, which may avoid conflicts.
// Results that do not fit in memory are skipped. The orders are timed as all others, so waits
// vanish in the end. Micro-batches wait little, and so hold memory briefly: if memory is scarce,
// list scheduling, which starts each operation as early as possible, is worse.
// O(tries·operations·log operations).
func Modulo(seed uint64) Method {
	return func(ctx context.Context, v *flush.Instance) flush.Order { return repeated(ctx, v, seed) }
}

// repeated is [Modulo].
func repeated(ctx context.Context, v *flush.Instance, seed uint64) flush.Order {
	m := &modulo{v: v, r: rand.New(rand.NewPCG(seed, 7)), t: flush.NewTimer(v), least: never}
	low, high := 0.0, v.Partition.TotalTime()+2*float64(v.Stages)*v.Partition.CommunicationTime
	for g := range v.On {
		load := 0.0
		for _, s := range v.On[g] {
			load += v.Time[s][flush.F] + v.Time[s][flush.B] + v.Time[s][flush.W]
		}
		low = max(low, load)
	}
	bound := v.Bound().Value * (1 + 1e-9)
	tries := max(20, min(moduloTries, moduloTries*stepOperations/max(v.Ops(), 1)))
	centre := low
	for k := 0; k < tries && m.least > bound && (m.found == nil || ctx.Err() == nil); k++ {
		T, wait := low+(high-low)*float64(k)/float64(tries/2), 0.0
		if k > tries/2 {
			T = max(low, centre*(1+0.05*m.r.NormFloat64()))
			wait = m.r.Float64() * 0.3
		}
		if T > 0 && m.try(T, wait) {
			centre = T
		}
	}
	return m.found
}

// moduloTries is the number of periods tried for orders of up to stepOperations.
const moduloTries = 3000

type modulo struct {
	v     *flush.Instance
	r     *rand.Rand
	t     *flush.Timer
	found flush.Order
	least float64
	busy  [][]interval // by GPU, modulo T
}

// interval is a time within a period that an operation occupies.
type interval struct{ from, to float64 }

// reserve returns the earliest time from ready on at which an operation of a length meets
// none of its GPU modulo T, and keeps it; false: there is none.
func (m *modulo) reserve(g int, ready, length, T float64) (float64, bool) {
	at := ready
	for range 2*len(m.busy[g]) + 1 {
		x, clear := math.Mod(at, T), true
		for _, b := range m.busy[g] {
			for _, turn := range [...]float64{-T, 0, T} {
				if from, to := b.from+turn, b.to+turn; x < to-1e-12*T && from < x+length-1e-12*T {
					at, clear = at+to-x, false
				}
			}
			if !clear {
				break
			}
		}
		if clear {
			m.busy[g] = append(m.busy[g], interval{x, x + length})
			return at, true
		}
	}
	return 0, false
}

// try builds the order of a period, with waits of up to a part of an operation, and
// keeps it if it is the best.
func (m *modulo) try(T, wait float64) bool {
	v := m.v
	m.busy = make([][]interval, v.GPUs)
	starts := make([]float64, flush.Kinds*v.Stages)
	place := func(l flush.Operation, ready float64) bool {
		s := l.Stage()
		if wait > 0 && m.r.IntN(4) == 0 {
			ready += wait * m.r.Float64() * v.Time[s][l.Kind()]
		}
		at, ok := m.reserve(v.GPU[s], ready, v.Time[s][l.Kind()], T)
		starts[l] = at
		return ok
	}
	ready := 0.0
	for s := range v.Stages {
		if s > 0 {
			ready += v.Delay[s-1]
		}
		if !place(flush.OperationOf(s, flush.F), ready) {
			return false
		}
		ready = starts[flush.OperationOf(s, flush.F)] + v.Time[s][flush.F]
	}
	for s := v.Stages - 1; s >= 0; s-- {
		if s < v.Stages-1 {
			ready += v.Delay[s]
		}
		if !place(flush.OperationOf(s, flush.B), ready) {
			return false
		}
		ready = starts[flush.OperationOf(s, flush.B)] + v.Time[s][flush.B]
	}
	for s := v.Stages - 1; s >= 0; s-- {
		if v.Split[s] && !place(flush.OperationOf(s, flush.W), starts[flush.OperationOf(s, flush.B)]+v.Time[s][flush.B]) {
			return false
		}
	}
	return m.keep(starts, T)
}

// keep repeats the schedule and keeps the order if it is the best.
func (m *modulo) keep(starts []float64, T float64) bool {
	type placed struct {
		at float64
		op flush.Operation
	}
	o := make(flush.Order, m.v.GPUs)
	for g := range o {
		var all []placed
		for _, s := range m.v.On[g] {
			for _, kind := range m.v.Kinds(s) {
				l := flush.OperationOf(s, kind)
				for j := range m.v.Jobs {
					all = append(all, placed{starts[l] + float64(j)*T, l})
				}
			}
		}
		slices.SortFunc(all, func(a, b placed) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.op, b.op)) })
		for _, x := range all {
			o[g] = append(o[g], x.op)
		}
	}
	if !m.v.Complete(o) || !m.v.KeepsMemory(o) || !m.t.Run(o, nil) || m.t.Objective() >= m.least {
		return false
	}
	m.found, m.least = o, m.t.Objective()
	return true
}
