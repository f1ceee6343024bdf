package pipeline

import (
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Grid is the discretisation of MadPipe's program: the numbers of values, 0 and
// the largest included, of the special processor's time (0 to U(1,L)), of its
// memory (0 to M) and of the delay V (0 to U(1,L) + ΣC). Values are rounded up.
// Delay 0 keeps V as it is.
type Grid struct{ Time, Memory, Delay int }

var (
	// PaperGrid is the discretisation of [004] 7.3.1.
	PaperGrid = Grid{Time: 101, Memory: 11, Delay: 51}
	// FineGrid is finer, and exact in V.
	FineGrid = Grid{Time: 201, Memory: 41}
)

// MadPipe returns a pattern of the allocations of MadPipe-DP ([004] 7.1) with
// the fine grid: one special processor may have several stages. The stage ILP
// of 7.2 is replaced by the list scheduler of Schedule. Where the allocation of
// Algorithm 8 cannot be scheduled within its period T̂, because the special
// processor's memory was underestimated, allocations of larger T̂ are tried as
// long as they may be better than the best pattern so far; then the same again
// with an estimate of that memory from above, which is ours. A program takes
// O(P·Time·Memory·n²) steps of the grid's numbers at worst; there are some twenty of
// them, one for each allocation that is tried further, and its schedule.
func MadPipe(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	return MadPipeGrid(c, p, FineGrid, o)
}

// MadPipeGrid is MadPipe with a given discretisation.
func MadPipeGrid(c *chain.Chain, p platform.Platform, g Grid, o Options) (*plan.Plan, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if err := g.check(); err != nil {
		return nil, err
	}
	s := in.madPipe(g)
	if s == nil {
		return nil, in.noPlan("madpipe", "none of the allocations of MadPipe-DP could be scheduled")
	}
	return s.Plan(in.Instance, "madpipe"), nil
}

// MadPipeAllocation returns the allocation of the first phase of MadPipe and its
// period T̂* = min max(T̂, MadPipe-DP(T̂)) in seconds, which no scheduler may
// reach. As MadPipe-DP(T̂) does not increase, T̂* is the minimum T̂ with
// MadPipe-DP(T̂) ≤ T̂: Algorithm 8 looks for it with the values of the program,
// here the program only says whether all loads can be at most T̂, and T̂ is found
// to a relative 1e-4 (Algorithm 8's K = 10 steps give about 1e-3). Processor 0
// is the special one. Some twenty programs of O(P·Time·Memory·n²) at worst.
func MadPipeAllocation(c *chain.Chain, p platform.Platform, g Grid, o Options) ([]plan.Stage, float64, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, 0, err
	}
	if err := g.check(); err != nil {
		return nil, 0, err
	}
	stages, period := newMadPipe(in, g).allocation()
	if stages == nil {
		return nil, 0, in.noPlan("madpipe", "MadPipe-DP finds no allocation, whatever the period")
	}
	return stages, period, nil
}

// MadPipePaper is MadPipe as [004] 7.3 compares it: one allocation, with the grid
// of 7.3.1, where [MadPipe] schedules several. Deviations from the source: the
// list scheduler stands for the ILP of 7.2, and T̂ is found by bisection (see
// [MadPipeAllocation], which is also what it costs).
func MadPipePaper(c *chain.Chain, p platform.Platform, o Options) (*plan.Plan, error) {
	stages, _, err := MadPipeAllocation(c, p, PaperGrid, o)
	if err != nil {
		return nil, err
	}
	out, err := Schedule(c, p, stages, o)
	if err != nil {
		return nil, err
	}
	out.Method = "madpipe-paper"
	return out, nil
}

func (g Grid) check() error {
	if g.Time < 2 || g.Memory < 2 || g.Delay < 0 || g.Delay == 1 {
		return errGrid
	}
	return nil
}

// madPipe schedules allocations of growing T̂, first with the estimate of [004]
// and then with the safe one.
func (in *instance) madPipe(g Grid) *view.Pattern {
	d := newMadPipe(in, g)
	high := in.Latest()
	var best *view.Pattern
	below := math.Inf(1)
	for _, d.safe = range []bool{false, true} {
		stages, period := d.allocation()
		if stages == nil {
			continue
		}
		var last []plan.Stage
		for ; period <= high && period < below && (best == nil && !d.stopped || !in.stopped()); period *= 1.05 {
			if stages = d.allocationAt(period); stages == nil || slices.Equal(stages, last) {
				continue
			}
			last = stages
			if s := in.schedule(stages, below); s != nil {
				best, below = s, s.Period
			}
		}
		if !in.Task {
			break // the estimates are the same
		}
	}
	return best
}

// madPipeDP holds the tables of MadPipe-DP for one instance and grid.
type madPipeDP struct {
	in          *instance
	grid        Grid
	time, delay float64 // one step of each grid
	// States (p, t, m): p normal processors are used, the special one has t and
	// m steps. v[j] is the minimum V of the states with layers j+1..n placed;
	// from[j] the state that this came from, to[j] where its stage ends.
	v        [][]float64
	from, to [][]int32
	least    []float64 // of the states with no more of p, t and m
	times    int       // values of t in use: the special processor's load is at most T̂
	// safe estimates the special processor's memory from above instead of from
	// below; with one stage it is exact.
	safe bool
	// stopped: the caller wanted no more in the midst of a table.
	stopped bool
}

func newMadPipe(in *instance, g Grid) *madPipeDP {
	d := &madPipeDP{in: in, grid: g, time: in.U[in.N] / float64(g.Time-1)}
	if g.Delay > 0 {
		d.delay = in.Latest() / float64(g.Delay-1)
	}
	d.v, d.from, d.to = make([][]float64, in.N+1), make([][]int32, in.N+1), make([][]int32, in.N+1)
	return d
}

// allocation finds the minimum T̂ and its allocation.
func (d *madPipeDP) allocation() ([]plan.Stage, float64) {
	low, high := d.in.U[d.in.N]/float64(d.in.Procs), d.in.Latest()
	for l := 1; l <= d.in.N; l++ {
		low = max(low, d.in.Time(l, l))
	}
	// From below: the tables are smaller for small T̂.
	var stages []plan.Stage
	for test := low; ; test = min(1.5*test, high) {
		if stages = d.allocationAt(test); stages != nil {
			high = test
			break
		}
		if low = test; test >= high || d.stopped {
			return nil, 0
		}
	}
	for high-low > 1e-4*high && !d.stopped {
		test := low + (high-low)/2
		if s := d.allocationAt(test); s != nil {
			stages, high = s, test
		} else {
			low = test
		}
	}
	return stages, high
}

// allocationAt is MadPipe-DP(T̂) ≤ T̂ of [004] 7.1.2. It returns an allocation whose loads are all
// at most T̂ and that fits by the estimates of 7.1.1. It returns nil if there is none or the caller
// stops.
//
// The dynamic program starts from the end of the chain. Where [004] tabulates the period over (j,
// p, t_P, m_P, V), this keeps for each (j, p, t_P, m_P) the minimum V with which layers j+1..L can
// be placed: loads are compared with T̂ at once, and less delay never needs more memory nor leads
// to more delay. O(P·Time·Memory·n²) in the worst case; stages longer than T̂ are skipped, and
// states that are unreachable or leave too little time for the remaining layers.
func (d *madPipeDP) allocationAt(period float64) []plan.Stage {
	in, n, mems := d.in, d.in.N, d.grid.Memory
	limit := period * (1 + view.Rounding)
	d.times = int(min(float64(d.grid.Time-1), limit/d.time)) + 1
	normals := in.Procs // p is 0..P-1
	layer := d.times * mems
	if size := normals * layer; cap(d.least) < size {
		d.least = make([]float64, size)
	}
	d.least = d.least[:normals*layer]
	for j := range d.v {
		if size := normals * layer; cap(d.v[j]) < size {
			d.v[j], d.from[j], d.to[j] = make([]float64, size), make([]int32, size), make([]int32, size)
		} else {
			d.v[j], d.from[j], d.to[j] = d.v[j][:size], d.from[j][:size], d.to[j][:size]
		}
		for x := range d.v[j] {
			d.v[j][x] = math.Inf(1)
		}
	}
	d.v[n][0] = 0
	for j := n; j >= 1; j-- {
		if j%stopRows == 0 && in.stopped() {
			d.stopped = true
			return nil
		}
		d.nonDominated(j, func(p, t, m int, v float64) {
			x := (p*d.times+t)*mems + m
			for i := j; i >= 1; i-- {
				u := in.Time(i, j)
				if u > limit {
					break
				}
				g := max(1, view.Periods(v+u, period))
				if !in.Fits(in.Weights[j] - in.Weights[i-1] + float64(g-1)*in.Inputs(i, j)) {
					break // as for all longer stages
				}
				if in.Cut[i-1] > limit {
					continue
				}
				before := d.delayBefore(i, v, u, period)
				// What the processors left have time for, and layers 1..i-1 take.
				room, rest := float64(normals-1-p)*limit-float64(t)*d.time, in.U[i-1]
				if rest > room+limit {
					continue
				}
				if p < normals-1 && rest <= room && in.Fits(in.Needs(i, j, g)) {
					d.improve(i-1, x+layer, before, x, j)
				}
				t2 := t + steps(u, d.time)
				m2 := m + d.memorySteps(d.special(i, j, g))
				if t2 < d.times && m2 < mems && rest <= room+limit-float64(t2-t)*d.time {
					d.improve(i-1, (p*d.times+t2)*mems+m2, before, x, j)
				}
			}
		})
	}
	for x, v := range d.v[0] {
		if !math.IsInf(v, 1) {
			return d.walk(x, layer)
		}
	}
	return nil
}

// nonDominated visits the states of layer j with less V than all with no more of p, t and m.
func (d *madPipeDP) nonDominated(j int, visit func(p, t, m int, v float64)) {
	mems := d.grid.Memory
	none := slices.Repeat([]float64{math.Inf(1)}, mems)
	for p := range d.in.Procs {
		for t := range d.times {
			x := (p*d.times + t) * mems
			fewer, shorter, here := none, none, d.least[x:x+mems]
			if p > 0 {
				fewer = d.least[x-d.times*mems:][:mems]
			}
			if t > 0 {
				shorter = d.least[x-mems:][:mems]
			}
			least := math.Inf(1)
			for m, v := range d.v[j][x : x+mems] {
				if fewer[m] < least {
					least = fewer[m]
				}
				if shorter[m] < least {
					least = shorter[m]
				}
				if v < least {
					visit(p, t, m, v)
					least = v
				}
				here[m] = least
			}
		}
	}
}

// delayBefore returns V' = (V ⊕ U(i,j)) ⊕ C(i-1), rounded up to the grid.
func (d *madPipeDP) delayBefore(i int, v, u, period float64) float64 {
	v = view.Plus(v, u, period)
	if i > 1 {
		v = view.Plus(v, d.in.Cut[i-1], period)
	}
	if d.delay > 0 {
		v = d.delay * float64(steps(v, d.delay))
	}
	return v
}

// special returns the estimate of a stage's memory on the special processor:
// 𝓜(i,j,g-1) of the stage model, less than any schedule needs ([004] 7.1.1). In
// the stage model nothing depends on how stages interleave: it is 𝓜(i,j,g), as
// it is when d is safe.
func (d *madPipeDP) special(i, j, g int) float64 {
	if d.safe || !d.in.Task {
		return d.in.Needs(i, j, g)
	}
	return d.in.Fixed(i, j) + float64(g-1)*d.in.Inputs(i, j)
}

// steps returns the number of steps that a time takes when rounded up.
func steps(x, step float64) int { return int(min(math.Ceil(x/step-plan.Tolerance), math.MaxInt32)) }

// memorySteps returns the number of steps of the memory that a size takes when rounded
// up; all of the memory takes all of them.
func (d *madPipeDP) memorySteps(size float64) int {
	return int(min(math.Ceil(size*float64(d.grid.Memory-1)/d.in.Memory), math.MaxInt32))
}

func (d *madPipeDP) improve(j, x int, v float64, from, to int) {
	if v < d.v[j][x] {
		d.v[j][x], d.from[j][x], d.to[j][x] = v, int32(from), int32(to)
	}
}

// walk follows the decisions from the state x of layer 0.
func (d *madPipeDP) walk(x, layer int) []plan.Stage {
	var stages []plan.Stage
	processor := 1
	for j := 0; j < d.in.N; {
		from, to := int(d.from[j][x]), int(d.to[j][x])
		s := plan.Stage{From: j + 1, To: to}
		if from/layer != x/layer {
			s.Processor = processor
			processor++
		}
		stages = append(stages, s)
		j, x = to, from
	}
	return view.Merged(stages)
}
