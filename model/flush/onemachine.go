package flush

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// mostLabels is how many labels [Instance.OneMachine] may make of a GPU and a width.
const mostLabels = 200_000

// OneMachine returns the best bound of a GPU that is scheduled alone, as good as it gets with
// the labels that are spent; below what an objective is looked for, and a bound is never above
// it. GPU −1 and 0: nothing is known, or ctx has ended.
//
// It is the relaxation by one machine that job shops have (Carlier, The one-machine sequencing
// problem, 1982): all other GPUs run any number of operations at once. So a micro-batch comes to the
// next operation of the GPU, F of its stages in their order and B in the reverse of it, no earlier
// than a way after the last one, which is the other stages' time and communication; W follows B.
// Memory and the one operation at a time are those of the GPU. As everywhere, micro-batches are in
// the order of their numbers.
//
// The schedules of that are the paths of a decision diagram. A layer has what may have run after
// so many operations, by numbers of each; of these a label says when the GPU is free and
// when each micro-batch on its way arrives, no earlier than that. A label is left out if another one
// of the same numbers is later in nothing, and labels that are too many are merged: of two, the
// earlier time of each event, which relaxes both (Bergman, Cire, van Hoeve and Hooker, Decision
// Diagrams for Optimization, 2016, ch. 4). And no operation waits as long as another
// B or W could have run: moved there, that delays nothing, and gives memory back earlier.
//
// All GPUs are tried with one label for the same numbers, the better half of them with 8, the better
// half of those with 64. O(labels·(width + operations on the way)).
//
// Of stages that send to the host it is the bound of [Instance.Resident].
func (v *Instance) OneMachine(ctx context.Context, below float64) Bound {
	v = v.Resident()
	best := Bound{By: "one-machine", GPU: -1}
	down := 1 - float64(16*(v.Ops()+v.Jobs*v.Stages)+64)*0x1p-52
	gpus, least := make([]int, v.GPUs), make([]float64, v.GPUs)
	for g := range gpus {
		gpus[g] = g
	}
	for _, width := range [...]int{1, 8, 64} {
		for _, g := range gpus {
			list := []Bound{{}}
			if !v.Span() {
				v.outside(g, list)
			}
			outside := list[0].Value
			least[g] = (v.machine(g, width, below-outside).least(ctx) + outside) * down
			if least[g] > best.Value {
				best.Value, best.GPU = least[g], g
			}
		}
		slices.SortStableFunc(gpus, func(a, b int) int { return cmp.Compare(least[b], least[a]) })
		gpus = gpus[:(len(gpus)+1)/2]
	}
	return best
}

// A machine is a GPU alone. Its steps are F of its stages on the way of a micro-batch, then B,
// and then the Ws.
type machine struct {
	v      *Instance
	room   int64
	steps  []step
	way    int // how many steps are on the way
	width  int
	below  float64
	labels int // that may still be made
}

type step struct {
	time   float64
	memory int64
	after  int     // the step before, of the same micro-batch; -1: none
	delay  float64 // from its end on
}

// machine returns a GPU alone.
func (v *Instance) machine(g, width int, below float64) *machine {
	m := &machine{v: v, room: v.Room[g], width: width, below: below, labels: mostLabels}
	on := v.On[g]
	end := len(on) - 1
	add := func(s, kind, after int, delay float64) {
		m.steps = append(m.steps, step{v.Time[s][kind], v.Memory[s][kind], after, max(0, delay)})
	}
	for k, s := range on {
		delay := 0.0
		if k > 0 {
			p := on[k-1]
			delay = v.forwards(p) - v.Time[p][F] - v.forwards(s)
		}
		add(s, F, k-1, delay)
	}
	for k := end; k >= 0; k-- {
		s := on[k]
		delay := v.forwards(s) - v.Time[s][F] + v.backwards(s)
		if k < end {
			delay = v.backwards(s) - v.backwards(on[k+1]) - v.Time[on[k+1]][B]
		}
		add(s, B, len(m.steps)-1, delay)
	}
	m.way = len(m.steps)
	for k, s := range on {
		if v.Split[s] {
			add(s, W, m.way-1-k, 0)
		}
	}
	return m
}

// A reached is what is known behind so many operations of each kind. Of a label, the first
// number is when the GPU is free; then come, step by step of the way, the arrivals of the micro-batches
// between the step before and it.
type reached struct {
	count  []int // by step
	held   int64
	left   float64 // what the GPU has still to compute
	labels [][]float64
}

// A layer is what is reached after so many operations, by count; the list keeps the order in which it
// was found, so that sums are the same in every run.
type layer struct {
	of   map[string]*reached
	list []*reached
}

// least returns the least time of the GPU, or below if there is none below that; 0: there are too many
// labels, or ctx has ended.
func (m *machine) least(ctx context.Context) float64 {
	from := &reached{count: make([]int, len(m.steps)), labels: [][]float64{{0}}}
	for i := range m.steps {
		from.left += float64(m.v.Jobs) * m.steps[i].time
	}
	at := &layer{list: []*reached{from}}
	for range m.v.Jobs * len(m.steps) {
		next := &layer{of: map[string]*reached{}}
		for _, x := range at.list {
			m.thin(x)
			for i := range m.steps {
				m.run(x, i, next)
			}
		}
		if at = next; m.labels < 0 || ctx.Err() != nil {
			return 0
		}
	}
	least := m.below
	for _, x := range at.list {
		for _, label := range x.labels {
			least = min(least, label[0])
		}
	}
	return least
}

// can reports whether a micro-batch waits for a step, or is on its way to it, and has room.
func (m *machine) can(x *reached, i int) bool {
	s := &m.steps[i]
	return x.count[i] < m.v.Jobs && (s.after < 0 || x.count[s.after] > x.count[i]) && x.held+s.memory <= m.room
}

// place returns where the next arrival at a step is in the labels.
func (m *machine) place(x *reached, i int) int {
	if i == 0 || i >= m.way {
		return 0 // it is there
	}
	return 1 + x.count[0] - x.count[i-1]
}

// run goes on with a step.
func (m *machine) run(x *reached, i int, next *layer) {
	if !m.can(x, i) {
		return
	}
	var instead [][2]int // other Bs and Ws, and where they arrive
	for k := m.way / 2; k < len(m.steps); k++ {
		if k != i && m.can(x, k) {
			instead = append(instead, [2]int{k, m.place(x, k)})
		}
	}
	at := m.place(x, i)
	var to *reached
	for _, label := range x.labels {
		start := max(label[0], label[at])
		end := start + m.steps[i].time
		if end+x.left-m.steps[i].time >= m.below || slices.ContainsFunc(instead, func(o [2]int) bool {
			earlier := max(label[0], label[o[1]])
			return earlier < start && earlier+m.steps[o[0]].time <= start
		}) {
			continue
		}
		if to == nil {
			to = m.after(x, i, next)
		}
		m.labels--
		to.labels = append(to.labels, m.label(x, i, label, end))
	}
}

// after returns what is reached by a step.
func (m *machine) after(x *reached, i int, next *layer) *reached {
	count := slices.Clone(x.count)
	count[i]++
	key := make([]byte, 0, 2*len(count))
	for _, n := range count {
		key = append(key, byte(n), byte(n>>8))
	}
	to := next.of[string(key)]
	if to == nil {
		to = &reached{count: count, held: x.held + m.steps[i].memory, left: x.left - m.steps[i].time}
		next.of[string(key)] = to
		next.list = append(next.list, to)
	}
	return to
}

// label returns the label behind a step that ends then.
func (m *machine) label(x *reached, i int, before []float64, end float64) []float64 {
	gone, comes := m.place(x, i), 0
	if i+1 < m.way {
		comes = 1 + x.count[0] - x.count[i+1] // behind those on their way there
	}
	label := append(make([]float64, 0, len(before)+1), end)
	for k := 1; k <= len(before); k++ {
		if k == comes {
			label = append(label, end+m.steps[i+1].delay)
		}
		if k < len(before) && k != gone {
			label = append(label, max(before[k], end))
		}
	}
	return label
}

// thin leaves out labels that another one is no later than, and merges neighbours until there are
// no more than the width, those that lose least first.
func (m *machine) thin(x *reached) {
	slices.SortFunc(x.labels, slices.Compare[[]float64])
	kept := x.labels[:0]
	for _, label := range x.labels {
		if !slices.ContainsFunc(kept, func(other []float64) bool { return noLater(other, label) }) {
			kept = append(kept, label)
		}
	}
	for len(kept) > m.width {
		kept = merge(kept, len(kept)-m.width)
	}
	x.labels = kept
}

// noLater reports whether no time of a is later than that of b.
func noLater(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// merge makes one label of so many pairs of neighbours at most.
func merge(labels [][]float64, pairs int) [][]float64 {
	lost := make([]float64, len(labels)-1)
	order := make([]int, len(lost))
	for i := range lost {
		order[i] = i
		for k := range labels[i] {
			lost[i] += math.Abs(labels[i][k] - labels[i+1][k])
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lost[a], lost[b]) })
	merged := make([]bool, len(labels))
	for _, i := range order {
		if pairs == 0 {
			break
		}
		if merged[i] || merged[i+1] {
			continue
		}
		pairs--
		merged[i], merged[i+1] = true, true
		for k := range labels[i] {
			labels[i][k] = min(labels[i][k], labels[i+1][k])
		}
		labels[i+1] = nil
	}
	return slices.DeleteFunc(labels, func(label []float64) bool { return label == nil })
}
