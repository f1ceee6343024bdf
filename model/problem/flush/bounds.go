package flush

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// A Bound is a number, in seconds, that the objective of no schedule is below, and the
// name of its proof.
type Bound struct {
	Value float64
	By    string
	GPU   int // -1: all together
}

// String names the bound.
func (b *Bound) String() string {
	if b.GPU < 0 {
		return b.By + " of all GPUs"
	}
	return fmt.Sprintf("%s of gpu%d", b.By, b.GPU)
}

// Bounds returns the closed-form bounds of every GPU, the best first, rounded down by
// what the additions in them may have been rounded up. They hold for the span and, with
// what comes before the first and after the last operation of the GPU, for the makespan.
// Where something is sent to the host they are those of [Instance.Resident], but for little, which
// counts all that is held, and link. Once v.Stop is closed those of the GPUs so far are
// returned. O(GPUs·stages·micro-batches²) at most.
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

// Resident returns v without what goes to the host and without what B takes for W: a micro-batch holds from F to B what
// is left, W what it gives back or, if that is less, what is left, and nothing is copied. At any time that is no more
// than what v holds, so that what is true of every schedule of it is true of every one of v.
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

// link is what the link of a GPU to its host copies, one at a time: behind the first F on the GPU, and before
// the last B.
func (v *Instance) link(g int) float64 {
	first := v.On[g][0]
	t := v.Time[first][F] + v.Time[first][B]
	for _, s := range v.On[g] {
		t += float64(v.Jobs) * (v.Time[s][O] + v.Time[s][P])
	}
	return t
}

// Bound returns the best of [Instance.Bounds].
func (v *Instance) Bound() Bound { return v.Bounds()[0] }

// forwards returns the least time from the start of F of a stage to the end of F of the
// last one, backwards that from the start of B of the last one to the start of B of a
// stage.
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

// boundsOf returns the bounds of one GPU.
//
// load: what it computes. All bounds below add to it, or replace it.
//
// warm-up: its first operation is F of its first stage, and B of its last stage the
// first B; that starts no earlier than the micro-batch has been through all stages behind
// and back. Predecessor it only Fs run, and no more than fit in the room. The rest of
// that time it is idle.
//
// cool-down: its last F is that of its last stage, of the last micro-batch, and B of
// both comes no earlier than that has been through the stages behind and back. In between
// B and W of other micro-batches run, and no more than have memory at the end of that F,
// which all stages of the last micro-batch have, too. Where the room does not hold
// all Fs, the last F is after the first B, so that both times of idleness are there.
//
// little, round trips and packing: see [Instance.little], [Instance.roundTrips] and
// [Instance.packing].
func (v *Instance) boundsOf(g int, trips []*trip) []Bound {
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
		{v.roundTrips(g, trips), "round-trips", g},
		{v.packing(g), "packing", g},
	}
	if !v.Span() {
		v.outside(g, list)
	}
	return list
}

// outside makes bounds on the time in which a GPU computes such on the makespan: before
// it, the first micro-batch comes through the stages before; and after its last B
// that goes back through them to the first, whose W follows. Behind that B on the GPU
// only W have been left, of no more than have memory.
func (v *Instance) outside(g int, list []Bound) {
	first := v.On[g][0]
	head := v.forwards(0) - v.forwards(first)
	tail := v.backwards(0) - v.backwards(first) + v.Time[0][B] - v.Time[first][B] + v.Time[0][W]
	late := v.mostWeights(g)
	for i := range list {
		list[i].Value += head + max(0, tail-late)
	}
}

// An item of [knapsack]: so many pieces at most, each of a size and a value.
type item struct {
	size  int64
	value float64
	most  int
}

// knapsack returns what the items in a room are worth at most, fractions allowed. What is worth
// nothing is left out: without a size either it would be as dense as any other, and the order
// by density none. O(items·log items).
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

// mostForward returns how long Fs can run before a B has ended.
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

// fit returns how many micro-batches of a size have room.
func (v *Instance) fit(room, size int64) int {
	if size == 0 || room/size >= int64(v.Jobs) {
		return v.Jobs
	}
	return int(max(0, room) / size)
}

// mostBackward returns how long B and W of other micro-batches can run after the last F
// and before its B.
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

// mostWeights returns how long W that wait at one time take.
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

// held returns the least time from the start of F to the end of B of one micro-batch on
// a stage.
func (v *Instance) held(s int) float64 { return v.forwards(s) + v.backwards(s) + v.Time[s][B] }

// little is Little's law: memory times time that the micro-batches take, F's until
// B has ended and W's until W has, is at most what a GPU has while it computes. What goes to the host
// is there while F, both copies and B run, at least. On a GPU
// of one stage what is free at first is taken off: from the n-th F to the next, which is
// F or longer, no more than n micro-batches are there. O(micro-batches).
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
				return 0 // the room is never full
			}
		}
	}
	return area / room
}

// roundTrips follows the micro-batches through all stages. Let S_s(j) be the j-th start
// of an F of stage s and E_s(j) the j-th end of a B, in order of time, the first start on
// the GPU at 0 and those on stages before it at any time. Then
//
//	S_s(j) ≥ S_s(j−1) + F_s,  S_s(j) ≥ S_{s−1}(j) + F_{s−1} + delay
//	E_s(j) ≥ E_s(j−1) + B_s,  E_s(j) ≥ E_{s+1}(j) + delay + B_s
//
// for as many have been on the stage before as are on this one. When the j-th F
// starts, some i micro-batches, itself one, are between F and B, where each holds mem, what this F and
// those of earlier stages of the GPU have taken, and p wait for their W, with i·mem + p·mem_W in the room. So j − i Bs have
// ended, and j − i − p Ws, the last
// of which is no earlier than W after so many Bs:
//
//	S_s(j) ≥ min over i of max(E_s(j−i), E_s(j−i−p) + W_s),  p = ⌊(room − i·mem)/mem_W⌋
//
// And from S_s(i) to E_s(j) the GPU runs F and B of n = j − i + 1 micro-batches at least, on
// all its stages r from s on, since they begin at s and end there; and all their Ws but
// for what still has memory:
//
//	E_s(j) ≥ S_s(i) + n·Σ(F_r + B_r) + max(0, n·ΣW_r − late)
//
// After the last B on the GPU its W follows. O(stages·micro-batches²) at most.
//
// Trips are those of all stages, whose times are overwritten.
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

// A trip is what [Instance.roundTrips] knows of a stage.
type trip struct {
	start, end          []float64 // by micro-batch, from 1 on
	wait                []int     // by micro-batches between F and B: how many may wait for W
	weight              float64   // W
	work, weights, late float64   // of a micro-batch on the GPU, from this stage on
	busy, more          float64   // the largest S(i) − (i − 1)·work, and with weights
}

// trips returns those of all stages.
func (v *Instance) trips() []*trip {
	all := make([]*trip, v.Stages)
	for s := range all {
		all[s] = v.trip(s)
	}
	return all
}

// reset makes all times unknown.
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

// room returns when there is room for the j-th F.
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
