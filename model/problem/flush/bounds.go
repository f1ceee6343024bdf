package flush

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Bound is a lower bound, in seconds, on the objective of every schedule, with the name of its
// proof.
type Bound struct {
	Value float64
	By    string
	GPU   int // -1: all GPUs together
}

// String names the bound.
func (b *Bound) String() string {
	if b.GPU < 0 {
		return b.By + " of all GPUs"
	}
	return fmt.Sprintf("%s of gpu%d", b.By, b.GPU)
}

// Bounds returns the closed-form lower bounds of every GPU, the largest first. They are rounded
// down by more than the accumulated rounding error of their additions. They bound the span; for the
// makespan they include the time before the first and after the last operation of the GPU.
//
// If some stage offloads to the host, the bounds are those of [Instance.Resident], except for
// little, which counts everything held, and link. Once v.Stop is closed, Bounds returns those of
// the GPUs computed so far. O(GPUs·stages·micro-batches²).
func (v *Instance) Bounds() []Bound {
	var list []Bound
	all, v := v, v.Resident()
	trips := v.trips()
	for g := range v.On {
		if g > 0 && v.Stop.Given() {
			break
		}
		list = append(list, v.boundsOf(g, trips)...)
		if all.Moves[g] {
			own := []Bound{{all.link(g), "link", g}, {all.little(g), "little", g}}
			if !v.Span() {
				v.outside(g, own)
			}
			list = append(list, own...)
		}
	}
	most := 0.0
	for _, b := range list {
		if b.By == "load" {
			most = max(most, b.Value)
		}
	}
	list = append(list, Bound{v.gaps(most), "gaps", -1})
	down := 1 - float64(8*(v.Jobs+v.Stages)+64)*0x1p-52
	for i := range list {
		list[i].Value *= down
	}
	slices.SortStableFunc(list, func(a, b Bound) int { return cmp.Compare(b.Value, a.Value) })
	return list
}

// Resident returns the relaxation of v without transfers to the host and without the memory that B
// allocates for W. From F to B a micro-batch holds only the part that is never offloaded; W holds
// what it frees or that part, whichever is smaller. At any time this is at most what v holds, so a
// lower bound for the relaxation is a lower bound for v.
func (v *Instance) Resident() *Instance {
	if !slices.Contains(v.Sends, true) && !slices.ContainsFunc(v.Memory, func(m [Kinds]int64) bool { return m[B] > 0 }) {
		return v
	}
	x := *v
	x.Memory, x.Sends, x.Moves = slices.Clone(v.Memory), make([]bool, v.Stages), make([]bool, v.GPUs)
	for s := range x.Memory {
		left := v.Memory[s][F] + v.Memory[s][O]
		late := min(-v.Memory[s][W], left)
		x.Memory[s] = [Kinds]int64{F: left, B: late - left, W: -late}
	}
	return &x
}

// link returns a lower bound from the link of a GPU to its host, which makes one copy at a time:
// the copies run after the first F on the GPU and before the last B.
func (v *Instance) link(g int) float64 {
	first := v.On[g][0]
	t := v.Time[first][F] + v.Time[first][B]
	for _, s := range v.On[g] {
		t += float64(v.Jobs) * (v.Time[s][O] + v.Time[s][P])
	}
	return t
}

// Bound returns the largest of [Instance.Bounds].
func (v *Instance) Bound() Bound { return v.Bounds()[0] }

// forwards returns the minimum time from the start of F of a stage to the end of F of the last
// stage. backwards returns the minimum time from the start of B of the last stage to the start of B
// of a stage.
func (v *Instance) forwards(stage int) float64 {
	t := 0.0
	for s := stage; s < v.Stages; s++ {
		t += v.Time[s][F]
		if s+1 < v.Stages {
			t += v.Delay[s]
		}
	}
	return t
}

func (v *Instance) backwards(stage int) float64 {
	t := 0.0
	for s := v.Stages - 1; s > stage; s-- {
		t += v.Time[s][B] + v.Delay[s-1]
	}
	return t
}

// boundsOf returns the bounds of one GPU. Its load is the time that its operations take; the other
// bounds add idle time to the load or replace it.
//
// Warm-up: the first operation of the GPU is F of its first stage, and its first B is that of its
// last stage. That B starts no earlier than one micro-batch has passed through all later stages and
// back. Before it the GPU runs only Fs, at most as many as fit in memory; the rest of that time it
// is idle.
//
// Cool-down: the last F is that of the last stage and the last micro-batch. Its B starts no earlier
// than the micro-batch has passed through the later stages and back. In between, the GPU runs B and
// W of other micro-batches, at most of those that fit in memory at the end of that F together with
// all stages of the last micro-batch. If memory cannot hold all Fs, the last F follows the first B,
// so both idle times occur.
//
// See [Instance.little], [Instance.roundTrips] and [Instance.packing] for the other three.
func (v *Instance) boundsOf(g int, trips []*trip) []Bound {
	list := []Bound{{v.roundTrips(g, trips), "round-trips", g}, {v.packing(g), "packing", g}}
	if !v.Span() {
		v.outside(g, list)
	}
	return append(quick(v, g), list...)
}

// Quick returns the largest of the bounds but round-trips, packing, gaps and link, for one of many instances. O(stages·GPUs).
func Quick(v *Instance) float64 {
	v, most := v.Resident(), 0.0
	for g := range v.On {
		for _, b := range quick(v, g) {
			most = max(most, b.Value)
		}
	}
	return most
}

// quick returns the bounds of one GPU that take no search: load, warm-up and cool-down, and little.
func quick(v *Instance, g int) []Bound {
	first, last := v.On[g][0], v.On[g][len(v.On[g])-1]
	load, all := 0.0, int64(0)
	for _, s := range v.On[g] {
		load += float64(v.Jobs) * (v.Time[s][F] + v.Time[s][B] + v.Time[s][W])
		all += int64(v.Jobs) * v.Memory[s][F]
	}
	up := max(0, v.forwards(first)+v.backwards(last)-v.mostForward(g))
	down := max(0, v.forwards(last)-v.Time[last][F]+v.backwards(last)-v.mostBackward(g))
	idle, by := max(up, down), "warm-up"
	switch {
	case all > v.Room[g] && down > 0:
		idle, by = up+down, "warm-up and cool-down"
	case down > up:
		by = "cool-down"
	}
	list := []Bound{
		{load, "load", g},
		{load + idle, by, g},
		{v.little(g), "little", g},
	}
	if !v.Span() {
		v.outside(g, list)
	}
	return list
}

// outside turns bounds on the active time of a GPU into bounds on the makespan. It adds the time
// that the first micro-batch needs to arrive from the earlier stages, and the time that the last B
// needs to return to the first stage, whose W follows. After its last B the GPU itself can only run
// the Ws that fit in memory.
func (v *Instance) outside(g int, list []Bound) {
	first := v.On[g][0]
	head := v.forwards(0) - v.forwards(first)
	tail := v.backwards(0) - v.backwards(first) + v.Time[0][B] - v.Time[first][B] + v.Time[0][W]
	late := v.mostWeights(g)
	for i := range list {
		list[i].Value += head + max(0, tail-late)
	}
}

// item is an item of [knapsack]: at most `most` pieces, each with a size and a value.
type item struct {
	size  int64
	value float64
	most  int
}

// knapsack returns the maximum value of the fractional knapsack problem with capacity room. Items
// without value are removed first: one without size either would be as dense as any other, and the
// order by density would not be transitive. O(items·log items).
func knapsack(room int64, items []item) float64 {
	items = slices.DeleteFunc(items, func(x item) bool { return x.value == 0 })
	slices.SortStableFunc(items, func(a, b item) int {
		return cmp.Compare(b.value*float64(a.size), a.value*float64(b.size))
	})
	worth, left := 0.0, float64(max(room, 0))
	for _, x := range items {
		n := float64(x.most)
		if x.size > 0 {
			n = min(n, left/float64(x.size)*(1+0x1p-50))
			left = max(0, left-n*float64(x.size))
		}
		worth += n * x.value
	}
	return worth
}

// mostForward returns an upper bound on the time for which Fs can run before the first B ends.
func (v *Instance) mostForward(g int) float64 {
	on := v.On[g]
	if len(on) > 2 {
		var items []item
		for _, s := range on {
			items = append(items, item{v.Memory[s][F], v.Time[s][F], v.Jobs})
		}
		return knapsack(v.Room[g], items)
	}
	most := 0.0
	for n := range v.fit(v.Room[g], v.Memory[on[0]][F]) + 1 {
		t := float64(n) * v.Time[on[0]][F]
		if len(on) == 2 {
			left := v.Room[g] - int64(n)*v.Memory[on[0]][F]
			t += float64(min(n, v.fit(left, v.Memory[on[1]][F]))) * v.Time[on[1]][F]
		}
		most = max(most, t)
	}
	return most
}

// fit returns how many micro-batches of the given size fit in room, at most all.
func (v *Instance) fit(room, size int64) int {
	if size == 0 || room/size >= int64(v.Jobs) {
		return v.Jobs
	}
	return int(max(0, room) / size)
}

// mostBackward returns an upper bound on the time for which B and W of other micro-batches can run
// between the last F and its B.
func (v *Instance) mostBackward(g int) float64 {
	room := v.Room[g] - v.Need(g)
	if on := v.On[g]; len(on) == 1 {
		s, most := on[0], 0.0
		for n := range min(v.Jobs-1, v.fit(room, v.Memory[s][F])) + 1 {
			w := min(v.Jobs-1-n, v.fit(room-int64(n)*v.Memory[s][F], -v.Memory[s][W]))
			most = max(most, float64(n)*(v.Time[s][B]+v.Time[s][W])+float64(w)*v.Time[s][W])
		}
		return most
	}
	var items []item
	for _, s := range v.On[g] {
		items = append(items, item{v.Memory[s][F], v.Time[s][B] + v.Time[s][W], v.Jobs - 1}, item{-v.Memory[s][W], v.Time[s][W], v.Jobs - 1})
	}
	return knapsack(room, items)
}

// mostWeights returns an upper bound on the total time of Ws that are pending at the same time.
func (v *Instance) mostWeights(g int) float64 {
	if on := v.On[g]; len(on) == 1 {
		return float64(v.fit(v.Room[g], -v.Memory[on[0]][W])) * v.Time[on[0]][W]
	}
	var items []item
	for _, s := range v.On[g] {
		items = append(items, item{-v.Memory[s][W], v.Time[s][W], v.Jobs})
	}
	return knapsack(v.Room[g], items)
}

// held returns the minimum time from the start of F to the end of B of one micro-batch on a stage.
func (v *Instance) held(s int) float64 { return v.forwards(s) + v.backwards(s) + v.Time[s][B] }

// little returns the bound of Little's law. Each micro-batch holds memory of F until B has ended
// and memory of W until W has ended; the integral of memory over time is at most the capacity times
// the active time. Offloaded memory is held at least during F, both copies and B.
//
// On a GPU with one stage the area that is free during warm-up is added: between the n-th and the
// next F, a time of at least F, at most n micro-batches are held. O(micro-batches).
func (v *Instance) little(g int) float64 {
	if v.Room[g] <= 0 {
		return 0
	}
	area := 0.0
	for _, s := range v.On[g] {
		x := &v.Time[s]
		area += float64(v.Jobs) * (float64(v.Memory[s][F]+v.Memory[s][O])*v.held(s) +
			float64(v.Memory[s][P])*(x[F]+x[O]+x[P]+x[B]) - float64(v.Memory[s][W])*x[W])
	}
	room := float64(v.Room[g])
	if on := v.On[g]; len(on) == 1 && v.Memory[on[0]][F] > 0 {
		s := on[0]
		for held := v.Memory[s][F]; held < v.Room[g]; held += v.Memory[s][F] { // before the next F
			area += float64(v.Room[g]-held) * v.Time[s][F]
			if held/v.Memory[s][F] >= int64(v.Jobs) {
				return 0 // memory never fills
			}
		}
	}
	return area / room
}

// roundTrips returns a bound that propagates all micro-batches through all stages. Let S_s(j) be
// the j-th start of an F of stage s and E_s(j) the j-th end of a B in order of time. The first
// start on the GPU is at 0; those on earlier stages are free. Then
//
//	S_s(j) ≥ S_s(j−1) + F_s,  S_s(j) ≥ S_{s−1}(j) + F_{s−1} + delay
//	E_s(j) ≥ E_s(j−1) + B_s,  E_s(j) ≥ E_{s+1}(j) + delay + B_s
//
// since at least as many micro-batches have passed the previous stage as this one. When the j-th F
// starts, i micro-batches including this one are between F and B. Each of them holds mem, the
// memory of this F and of the earlier stages of the GPU. In addition p micro-batches wait for their
// W, where i·mem + p·mem_W fits in memory. So j − i Bs and j − i − p Ws have ended, and the last of
// these Ws ends at least W after as many Bs:
//
//	S_s(j) ≥ min over i of max(E_s(j−i), E_s(j−i−p) + W_s),  p = ⌊(room − i·mem)/mem_W⌋
//
// Between S_s(i) and E_s(j) the GPU runs F and B of at least n = j − i + 1 micro-batches on all its
// stages r from s on, since they start and end at s, and all their Ws except those still pending:
//
//	E_s(j) ≥ S_s(i) + n·Σ(F_r + B_r) + max(0, n·ΣW_r − late)
//
// The W of the last B on the GPU follows it. trips has one element a stage and is overwritten.
// O(stages·micro-batches²).
func (v *Instance) roundTrips(g int, trips []*trip) float64 {
	for _, x := range trips {
		x.reset()
	}
	first := v.On[g][0]
	for j := 1; j <= v.Jobs; j++ {
		for s, x := range trips {
			t := max(x.start[j-1]+v.Time[s][F], x.room(j))
			if s > 0 {
				t = max(t, trips[s-1].start[j]+v.Time[s-1][F]+v.Delay[s-1])
			}
			if s == first && j == 1 {
				t = 0
			}
			x.start[j] = t
			x.busy = max(x.busy, t-float64(j-1)*x.work)
			x.more = max(x.more, t-float64(j-1)*(x.work+x.weights))
		}
		for s := v.Stages - 1; s >= 0; s-- {
			x := trips[s]
			t := max(x.end[j-1]+v.Time[s][B], x.busy+float64(j)*x.work, x.more+float64(j)*(x.work+x.weights)-x.late)
			if s+1 < v.Stages {
				t = max(t, trips[s+1].end[j]+v.Delay[s]+v.Time[s][B])
			}
			x.end[j] = t
		}
	}
	return trips[first].end[v.Jobs] + v.Time[first][W]
}

// trip holds the bounds of [Instance.roundTrips] for one stage.
type trip struct {
	start, end          []float64 // by micro-batch, from 1
	wait                []int     // by number of micro-batches between F and B: how many may wait for W
	weight              float64   // time of W
	work, weights, late float64   // time per micro-batch on the GPU, from this stage on
	busy, more          float64   // the largest S(i) − (i − 1)·work, and with weights
}

// trips returns the trips of all stages.
func (v *Instance) trips() []*trip {
	all := make([]*trip, v.Stages)
	for s := range all {
		all[s] = v.trip(s)
	}
	return all
}

// reset sets all times to −∞.
func (x *trip) reset() {
	minus := math.Inf(-1)
	for j := range x.start {
		x.start[j], x.end[j] = minus, minus
	}
	x.busy, x.more = minus, minus
}

func (v *Instance) trip(s int) *trip {
	g := v.GPU[s]
	x := &trip{start: make([]float64, v.Jobs+1), end: make([]float64, v.Jobs+1), weight: v.Time[s][W], late: v.mostWeights(g)}
	kept := int64(0)
	for _, r := range v.On[g] {
		if r <= s {
			kept += v.Memory[r][F]
		}
	}
	x.wait = make([]int, v.fit(v.Room[g], kept)+1)
	for i := range x.wait {
		x.wait[i] = v.fit(v.Room[g]-int64(i)*kept, -v.Memory[s][W])
	}
	for _, r := range v.On[g] {
		if r >= s {
			x.work += v.Time[r][F] + v.Time[r][B]
			x.weights += v.Time[r][W]
		}
	}
	return x
}

// room returns the earliest time at which the j-th F fits in memory.
func (x *trip) room(j int) float64 {
	in := len(x.wait) - 1
	if j <= in {
		return math.Inf(-1)
	}
	least := math.Inf(1)
	for i := in; i >= 1 && x.end[j-i] < least; i-- {
		t := x.end[j-i]
		if w := j - i - x.wait[i]; w > 0 {
			t = max(t, x.end[w]+x.weight)
		}
		least = min(least, t)
	}
	return least
}
