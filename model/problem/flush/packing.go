package flush

import (
	"slices"

	"workbench/model/covering"
)

// stay is a part of a micro-batch's life in which a GPU holds a constant amount for it: one of its
// operations runs, or the micro-batch is on other GPUs.
type stay struct {
	size    int64
	running bool
	forward bool // F, out or round
	out     bool // between F of the first and F of the last stage
	depth   int  // the last stage of the GPU, from 0, that it has passed forward and not backward; -1: it waits for W
}

// packing returns a lower bound from the sets of operations that fit in memory at the same time,
// where [Instance.little] uses sums only. Let the stages of a GPU be 1 to v, and S_k the memory
// that the first k of them hold for a micro-batch. The stays of a micro-batch are
//
//	F_k           S_k,  while it runs
//	out to k + 1  S_k,  from its end to F_{k+1}, at least the time of the stages between
//	round         S_v,  from the end of F_v to B_v
//	B_k           S_k,  while it runs
//	home to k     S_k,  from the end of B_{k+1} to B_k
//	W_k           what it frees, while it runs
//
// At any time at most one operation runs and everything held fits in memory. Of the micro-batches
// that are out, with S of theirs together, one is the first to arrive at stage v while the others
// are still held: S + S_v − S_k fits in memory, where k is the largest depth of one of them. A
// state is the multiset of stays at one time. Since memory does not hold all Fs, also
//
//	first   before the first F_k or B_v, for the time that a micro-batch needs from F_1 to it, there
//	        are only stays that precede it
//	last    after the last B_k or F_v, until W_1, there are only stays that follow it, and Ws
//	few     at most i micro-batches are held for i·F_1 at the start and i·B_1 + W_1 at the end,
//	        which are disjoint if 2i is less than the number of micro-batches
//
// The minimum total time of states that gives every stay its time is a lower bound. It is a
// fractional covering program, solved by column generation (Gilmore and Gomory 1961). The proof
// uses the prices of the rows only: no state is worth more than [packer.price] finds, which
// enumerates all of them. The bound is 0 if there are too many. O(states) a round.
func (v *Instance) packing(g int) float64 {
	if need := v.Need(g); need == 0 || v.Room[g]/need >= int64(v.Jobs) {
		return 0
	}
	p := v.packer(g)
	program, proved := covering.New(p.demand), 0.0
	var pool []*covering.Column
	for range mostRounds {
		prices := program.Solve(slices.Values(pool))
		worth, most := 0.0, 0.0
		for r := range prices {
			prices[r] = max(0, prices[r])
			worth += prices[r] * p.demand[r]
		}
		before := len(pool)
		for at := range phase(2*p.depth + 1) {
			for run := -1; run < len(p.stays); run++ {
				if run >= 0 && !(p.stays[run].running && p.during(&p.stays[run], at)) {
					continue
				}
				if !p.price(prices, run, at) {
					return proved
				}
				most = max(most, p.most)
				if p.most > 1+1e-6 {
					pool = append(pool, p.column(run, at))
				}
			}
		}
		if most > 0 {
			proved = max(proved, worth/most*(1-float64(v.Jobs*v.Stages)*0x1p-50))
		}
		if len(pool) == before {
			break
		}
	}
	return proved
}

const (
	mostRounds = 60     // rounds of column generation
	mostStates = 50_000 // states enumerated in a pricing problem
	mostFew    = 16     // maximum i of the rows few
)

// phase is a phase of a schedule on a GPU with v stages: 0 is any time, then before the first F of
// stages 2 to v, before the first B, after the last B of stages 2 to v, after the last F.
type phase int

// during reports whether a phase can have a stay.
func (p *packer) during(x *stay, at phase) bool {
	d := int(at)
	switch {
	case d == 0:
		return true
	case d <= p.depth:
		return x.forward && x.depth < d
	}
	round := !x.running && x.depth == p.depth-1
	return x.depth < d-p.depth && (!x.forward || round)
}

// rows calls do with the rows of a phase: its own and those of the phases that contain it.
func (p *packer) rows(at phase, do func(row int)) {
	if at == 0 {
		return
	}
	for d := (int(at) - 1) % p.depth; d < p.depth; d++ {
		do(len(p.stays) + (int(at)-1)/p.depth*p.depth + d)
	}
}

// packer solves the pricing problem of [Instance.packing].
type packer struct {
	stays  []stay
	idle   []int // stays in which nothing runs: out, deepest first, then round, home
	room   int64
	need   int64     // S_v
	depth  int       // v
	jobs   int       // micro-batches
	demand []float64 // minimum times: of stays, of phases except 0, of few

	prices []float64
	few    []float64 // by number of micro-batches held: the price of rows few
	at     phase
	count  []int // by idle, of the current state
	best   []int
	there  int // micro-batches in the best state
	most   float64
	tried  int
}

func (v *Instance) packer(g int) *packer {
	p := &packer{room: v.Room[g], need: v.Need(g), depth: len(v.On[g]), jobs: v.Jobs}
	on, size, end := v.On[g], int64(0), len(v.On[g])-1
	for k, s := range on {
		size += v.Memory[s][F]
		x := stay{size: size, depth: k, out: k < end}
		add := func(x stay, running, forward bool, t float64) {
			x.running, x.forward = running, forward
			if !forward {
				x.out = false
			}
			if !running {
				p.idle = append(p.idle, len(p.stays))
			}
			p.stays = append(p.stays, x)
			p.demand = append(p.demand, float64(v.Jobs)*max(0, t))
		}
		add(x, true, true, v.Time[s][F])
		add(x, true, false, v.Time[s][B])
		add(stay{size: -v.Memory[s][W], depth: -1}, true, false, v.Time[s][W])
		if k == end {
			add(x, false, true, v.forwards(s)-v.Time[s][F]+v.backwards(s))
			continue
		}
		next := on[k+1]
		add(x, false, true, v.forwards(s)-v.Time[s][F]-v.forwards(next))
		add(x, false, false, v.backwards(s)-v.backwards(next)-v.Time[next][B])
	}
	slices.SortStableFunc(p.idle, func(a, b int) int {
		x, y := &p.stays[a], &p.stays[b]
		if x.out != y.out {
			if x.out {
				return -1
			}
			return 1
		}
		return y.depth - x.depth
	})
	head, tail := on[0], on[end]
	for _, s := range on[1:] {
		p.demand = append(p.demand, v.forwards(head)-v.forwards(s))
	}
	p.demand = append(p.demand, v.forwards(head)+v.backwards(tail))
	home := v.backwards(head) + v.Time[head][B] + v.Time[head][W]
	for _, s := range on[1:] {
		p.demand = append(p.demand, home-v.backwards(s)-v.Time[s][B])
	}
	p.demand = append(p.demand, v.forwards(tail)-v.Time[tail][F]+home)
	for i := 1; i <= min(mostFew, (v.Jobs-1)/2); i++ {
		p.demand = append(p.demand, float64(i)*(v.Time[head][F]+v.Time[head][B])+v.Time[head][W])
	}
	p.few = make([]float64, v.Jobs+1)
	p.count, p.best = make([]int, len(p.idle)), make([]int, len(p.idle))
	return p
}

// price finds the state of a phase with the maximum value while operation run runs (-1: none). It
// reports false if there are too many states.
func (p *packer) price(prices []float64, run int, at phase) bool {
	p.prices, p.most, p.tried, p.at = prices, 0, 0, at
	few := prices[len(p.stays)+2*p.depth:]
	for n := range p.few {
		p.few[n] = 0
		for i := max(n, 1); i <= len(few); i++ {
			p.few[n] += few[i-1]
		}
	}
	x, worth := state{room: p.room, far: -1}, 0.0
	p.rows(at, func(r int) { worth += prices[r] })
	if run >= 0 {
		o := &p.stays[run]
		x.room -= o.size
		worth += prices[run]
		if o.depth >= 0 {
			x.there = 1
		}
		if o.out {
			x.far, x.out = o.depth, o.size
		}
	}
	if x.room < 0 || x.there > p.jobs {
		return true
	}
	clear(p.count)
	p.try(0, x, worth)
	return p.tried < mostStates
}

// state is a partial state of the enumeration.
type state struct {
	room  int64
	there int   // micro-batches
	far   int   // maximum depth of those that are out; -1: none is
	out   int64 // memory of those that are out
}

// try enumerates the numbers of micro-batches in the stays idle[i:].
func (p *packer) try(i int, s state, worth float64) {
	if p.tried++; p.tried >= mostStates {
		return
	}
	if i == len(p.idle) {
		if worth += p.few[s.there]; worth > p.most {
			p.most, p.there = worth, s.there
			copy(p.best, p.count)
		}
		return
	}
	x := &p.stays[p.idle[i]]
	for n := 0; s.there <= p.jobs && s.room >= 0; n++ {
		if n == 0 || !x.out || s.out+p.need-p.ahead(s.far) <= p.room {
			p.count[i] = n
			p.try(i+1, s, worth+float64(n)*p.prices[p.idle[i]])
		}
		if !p.during(x, p.at) || x.size == 0 && p.prices[p.idle[i]] == 0 {
			break
		}
		s.there++
		s.room -= x.size
		if x.out {
			s.far = max(s.far, x.depth)
			s.out += x.size
		}
	}
	p.count[i] = 0
}

// ahead returns the memory S of a micro-batch at a depth.
func (p *packer) ahead(depth int) int64 {
	for _, i := range p.idle {
		if p.stays[i].depth == depth {
			return p.stays[i].size
		}
	}
	return 0
}

// column returns the best state found while operation run runs.
func (p *packer) column(run int, at phase) *covering.Column {
	c := &covering.Column{}
	if run >= 0 {
		c.Add(run, 1)
	}
	for i, n := range p.best {
		if n > 0 {
			c.Add(p.idle[i], float64(n))
		}
	}
	p.rows(at, func(r int) { c.Add(r, 1) })
	for r := len(p.stays) + 2*p.depth + max(p.there, 1) - 1; r < len(p.demand); r++ {
		c.Add(r, 1)
	}
	return c
}
