package flush

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// OneMachine returns the best bound of a GPU that is scheduled alone or together with one other
// GPU, with as many labels as the budget allows. below is the objective of interest; the bound
// never exceeds it. GPU −1 and value 0 mean that no bound was found or ctx has ended.
//
// The technique is the one-machine relaxation of job shops (Carlier, The one-machine sequencing
// problem, 1982): all other GPUs run any number of operations at once. So a micro-batch reaches the
// next operation of the GPU no earlier than the time of the other stages and of communication after
// its previous one. The order is F of its stages, then B in reverse; W follows B. The memory limit
// of the GPU holds, and the GPU and its link to the host run one operation at a time. As
// everywhere, micro-batches are in order of their numbers.
//
// The schedules of the relaxation are the paths of a relaxed decision diagram (Bergman, Cire, van
// Hoeve and Hooker, Decision Diagrams for Optimization, 2016, ch. 4). A layer has the states after
// n operations, by the number of each operation. A label of a state has lower bounds on the time at
// which the GPU is free and each micro-batch arrives. Dominated labels are removed. Labels over the
// width are merged: the minimum of each time, which relaxes both. Moreover no operation waits while
// another B, W or copy to the host could have finished: moving that one forward delays nothing and
// frees memory earlier.
//
// A GPU that offloads and its link share one order, that of the changes of held memory as in
// [Instance]: an operation that allocates starts after everything freed before it in the order. Two
// GPUs share the order of starts. Such a pair is a two-machine job shop, in which a micro-batch
// returning to one GPU has waited for the operations of the other. The first GPU, whose time is
// bounded, starts at 0. The other GPU, if earlier in the pipeline, starts early enough to have run
// all Fs that fit in its memory; it runs no others before the first operation of the first GPU.
//
// All GPUs are tried with width 1, the better half with 8, the better half of those with 64, and
// the best two with each other GPU. O(labels·(width + operations in flight)).
//
// If a GPU with its link needs too many labels, its bound is that of [Instance.Resident].
func (v *Instance) OneMachine(ctx context.Context, below float64) Bound {
	if !slices.Contains(v.Sends, true) {
		v = v.Resident() // drops the memory that B allocates for W
	}
	best := Bound{By: "one-machine", GPU: -1}
	gpus, least := make([]int, v.GPUs), make([]float64, v.GPUs)
	for g := range gpus {
		gpus[g] = g
	}
	for _, width := range [...]int{1, 8, 64} {
		for _, g := range gpus {
			least[g], _ = v.together(ctx, []int{g}, width, mostLabels, below)
			if least[g] == 0 && v.Moves[g] {
				least[g], _ = v.Resident().together(ctx, []int{g}, width, mostLabels, below)
			}
			if least[g] > best.Value {
				best.Value, best.GPU = least[g], g
			}
		}
		slices.SortStableFunc(gpus, func(a, b int) int { return cmp.Compare(least[b], least[a]) })
		if width < 64 {
			gpus = gpus[:(len(gpus)+1)/2]
		}
	}
	if best.Value < below*(1-1e-9) {
		if pair := v.pairs(ctx, gpus[:min(2, len(gpus))], below); pair.Value > best.Value {
			return pair
		}
	}
	return best
}

// pairs returns the best bound of some GPUs, each paired with another one, until the label budget
// is spent. GPUs with several stages exceed the budget with the first pair.
func (v *Instance) pairs(ctx context.Context, gpus []int, below float64) Bound {
	best := Bound{By: "two-machines"}
	if v.Stages > v.GPUs {
		return best
	}
	left, v := pairLabels, v.Resident()
	for _, g := range gpus {
		for other := range v.GPUs {
			if other == g {
				continue
			}
			t, spent := v.together(ctx, []int{g, other}, pairWidth, left, below)
			if left -= spent; t > best.Value {
				best.Value, best.GPU = t, g
			}
			if t == 0 || t >= below*(1-1e-9) {
				return best
			}
		}
	}
	return best
}

// Label budgets: of one GPU and width, of all pairs; and the width of a pair.
const (
	mostLabels = 200_000
	pairLabels = 500_000
	pairWidth  = 16
)

// together returns the bound for gpus, rounded down, and the number of labels it used. It bounds
// the time of gpus[0]. The bound is 0 if the labels did not suffice.
func (v *Instance) together(ctx context.Context, gpus []int, width, labels int, below float64) (float64, int) {
	list := []Bound{{}}
	if !v.Span() {
		v.outside(gpus[0], list)
	}
	m := v.machine(gpus)
	m.width, m.labels, m.below = width, labels, below-list[0].Value
	t := m.shortest(ctx)
	if t == 0 {
		return 0, labels - m.labels
	}
	down := 1 - float64(16*(v.Ops()+v.Jobs*v.Stages)+64)*0x1p-52
	return (t + list[0].Value) * down, labels - m.labels
}

// machine is the relaxation to some GPUs and their links to the host. Its steps are F of their
// stages in pipeline order, then B, then Ws and copies.
type machine struct {
	jobs   int     // micro-batches
	room   []int64 // by GPU
	steps  []step
	needs  []need
	first  []float64 // initial label: when each lane (a GPU or its link) is free, then when freed memory is available on GPUs that offload
	lanes  int
	moves  bool // some GPU has a link
	width  int
	below  float64 // target; the minimum time of the first GPU once the search has finished
	labels int     // remaining budget
}

type step struct {
	gpu, lane int
	time      float64
	memory    int64
	takes     bool  // allocates memory, at its start
	given     int   // index in labels of the time when all freed memory of the GPU is available; -1: that of its lane
	after     []int // preceding steps of the same micro-batch
	needs     []int // indices of needs from another lane or with a delay
}

// need is a minimum delay between two steps of the same micro-batch, end to start.
type need struct {
	from, to int
	delay    float64
}

// machine returns the relaxation to gpus; gpus[0] is the one whose time is bounded.
func (v *Instance) machine(gpus []int) *machine {
	m := &machine{jobs: v.Jobs, lanes: len(gpus)}
	var on []int
	link, given := make([]int, len(gpus)), make([]int, len(gpus))
	for l, g := range gpus {
		on, m.room = append(on, v.On[g]...), append(m.room, v.Room[g])
		if given[l] = -1; v.Moves[g] {
			m.moves, link[l] = true, m.lanes
			m.lanes++
		}
	}
	m.first = make([]float64, m.lanes)
	for l, g := range gpus {
		if v.Moves[g] {
			given[l] = len(m.first)
			m.first = append(m.first, 0)
		}
	}
	v.early(gpus, m.first)
	slices.Sort(on)
	of := map[Operation]int{}
	add := func(l Operation, after Operation, delay float64) {
		i, gpu := len(m.steps), slices.Index(gpus, v.GPU[l.Stage()])
		x := step{gpu: gpu, lane: gpu, time: v.time(l), memory: v.Memory[l.Stage()][l.Kind()], takes: l.Takes(), given: given[gpu]}
		if l.Copies() {
			x.lane = link[gpu]
		}
		of[l] = i
		m.steps = append(m.steps, x)
		if after >= 0 {
			m.precede(of[after], i, max(0, delay))
		}
	}
	v.wayOf(on, add)
	for _, s := range on {
		if v.Sends[s] {
			add(OperationOf(s, O), OperationOf(s, F), 0)
			add(OperationOf(s, P), OperationOf(s, O), 0)
			m.precede(of[OperationOf(s, P)], of[OperationOf(s, B)], 0)
		}
		if v.Split[s] {
			add(OperationOf(s, W), OperationOf(s, B), 0)
		}
	}
	return m
}

// wayOf calls do for F and B of some stages in the order of a micro-batch. Each comes after the
// previous one and a delay, the time of the stages in between; the first has predecessor -1.
func (v *Instance) wayOf(on []int, do func(l, after Operation, delay float64)) {
	last := len(on) - 1
	for k, s := range on {
		if k == 0 {
			do(OperationOf(s, F), -1, 0)
			continue
		}
		p := on[k-1]
		do(OperationOf(s, F), OperationOf(p, F), v.forwards(p)-v.Time[p][F]-v.forwards(s))
	}
	for k := last; k >= 0; k-- {
		s := on[k]
		if k == last {
			do(OperationOf(s, B), OperationOf(s, F), v.forwards(s)-v.Time[s][F]+v.backwards(s))
			continue
		}
		p := on[k+1]
		do(OperationOf(s, B), OperationOf(p, B), v.backwards(s)-v.backwards(p)-v.Time[p][B])
	}
}

// early sets the start times of GPUs that precede gpus[0] in the pipeline: early enough that all Fs
// that fit in their memory end before gpus[0] starts. O(GPUs·stages).
func (v *Instance) early(gpus []int, free []float64) {
	most, begin := 0.0, v.On[gpus[0]][0]
	for _, g := range gpus {
		if v.On[g][0] < begin {
			most += v.mostForward(g)
		}
	}
	for l, g := range gpus {
		if s := v.On[g][0]; s < begin {
			free[l] = v.forwards(begin) - v.forwards(s) - most
		}
	}
}

// precede adds a precedence between steps. Labels store it if the steps are on different lanes or
// have a delay.
func (m *machine) precede(from, to int, delay float64) {
	x := &m.steps[to]
	x.after = append(x.after, from)
	if m.steps[from].lane != x.lane || delay > 0 {
		x.needs = append(x.needs, len(m.needs))
		m.needs = append(m.needs, need{from, to, delay})
	}
}

// node is a state of the decision diagram: the number of operations run of each kind. The first
// numbers of a label are when the lanes are free and when freed memory is available; then, need by
// need, the arrival times of the micro-batches between its two steps.
type node struct {
	count  []int   // by step
	held   []int64 // by GPU
	left   float64 // remaining computing time of the first GPU
	todo   int     // remaining operations of the first GPU
	labels [][]float64
}

// layer has the nodes after a given number of operations, by count. The list keeps the order of
// insertion, which makes the result deterministic.
type layer struct {
	of   map[string]*node
	list []*node
}

// shortest returns the minimum time of the first GPU, or m.below if that is smaller. It returns 0
// if the label budget is exceeded or ctx has ended.
func (m *machine) shortest(ctx context.Context) float64 {
	from := &node{count: make([]int, len(m.steps)), held: make([]int64, len(m.room)), labels: [][]float64{m.first}}
	for i := range m.steps {
		if m.steps[i].lane == 0 {
			from.left += float64(m.jobs) * m.steps[i].time
			from.todo += m.jobs
		}
	}
	at := &layer{list: []*node{from}}
	for len(at.list) > 0 {
		next := &layer{of: map[string]*node{}}
		for _, x := range at.list {
			m.thin(x)
			for i := range m.steps {
				m.extend(x, i, next)
			}
		}
		if at = next; m.labels < 0 || ctx.Err() != nil {
			return 0
		}
	}
	return m.below
}

// enabled reports whether a step has a micro-batch waiting or on its way, and fits in memory.
func (m *machine) enabled(x *node, i int) bool {
	s := &m.steps[i]
	for _, from := range s.after {
		if x.count[from] <= x.count[i] {
			return false
		}
	}
	return x.count[i] < m.jobs && x.held[s.gpu]+s.memory <= m.room[s.gpu]
}

// positions returns the indices in labels of the times that bound the start of a step: its lane is
// free, the next micro-batch has arrived, freed memory is available.
func (m *machine) positions(x *node, i int) []int {
	s := &m.steps[i]
	list := []int{s.lane}
	if s.takes && s.given >= 0 {
		list = append(list, s.given)
	}
	for _, n := range s.needs {
		at := len(m.first)
		for _, o := range m.needs[:n] {
			at += x.count[o.from] - x.count[o.to]
		}
		list = append(list, at)
	}
	return list
}

// earliest returns the maximum of some times of a label.
func earliest(label []float64, places []int) float64 {
	t := label[places[0]]
	for _, at := range places[1:] {
		t = max(t, label[at])
	}
	return t
}

// extend adds to next the labels of x extended by step i.
func (m *machine) extend(x *node, i int, next *layer) {
	if !m.enabled(x, i) {
		return
	}
	s := &m.steps[i]
	type other struct {
		places []int
		time   float64
	}
	var instead []other // operations that could run on the lane instead and free memory
	for k := range m.steps {
		if o := &m.steps[k]; k != i && o.lane == s.lane && !o.takes && m.enabled(x, k) {
			instead = append(instead, other{m.positions(x, k), o.time})
		}
	}
	at, left, todo := m.positions(x, i), x.left, x.todo
	if s.lane == 0 {
		left -= s.time
		todo--
	}
	var to *node
	for _, label := range x.labels {
		start := earliest(label, at)
		end := start + s.time
		if s.lane == 0 && end+left >= m.below || slices.ContainsFunc(instead, func(o other) bool {
			earlier := earliest(label, o.places)
			return earlier < start && earlier+o.time <= start
		}) {
			continue
		}
		m.labels--
		if todo == 0 {
			m.below = end
			continue
		}
		if to == nil {
			to = m.successor(x, i, next)
			to.left, to.todo = left, todo
		}
		to.labels = append(to.labels, m.label(x, i, label, start, end))
	}
}

// successor returns the node reached from x by step i.
func (m *machine) successor(x *node, i int, next *layer) *node {
	count := slices.Clone(x.count)
	count[i]++
	key := make([]byte, 0, 2*len(count))
	for _, n := range count {
		key = append(key, byte(n), byte(n>>8))
	}
	to := next.of[string(key)]
	if to == nil {
		to = &node{count: count, held: slices.Clone(x.held)}
		to.held[m.steps[i].gpu] += m.steps[i].memory
		next.of[string(key)] = to
		next.list = append(next.list, to)
	}
	return to
}

// label returns the successor of a label when step i runs from start to end. Operations on a lane
// start no earlier than the lane is free and, without links, no earlier than this step.
func (m *machine) label(x *node, i int, before []float64, start, end float64) []float64 {
	s := &m.steps[i]
	label := append(make([]float64, 0, len(before)+2), before[:len(m.first)]...)
	if !m.moves {
		for l := range label {
			label[l] = max(label[l], start)
		}
	}
	if label[s.lane] = end; !s.takes && s.given >= 0 {
		label[s.given] = max(label[s.given], end)
	}
	at := len(m.first)
	for _, n := range m.needs {
		free := label[m.steps[n.to].lane]
		known := before[at : at+x.count[n.from]-x.count[n.to]]
		at += len(known)
		if n.to == i { // the first arrival is consumed
			known = known[1:]
		}
		for _, t := range known {
			label = append(label, max(t, free))
		}
		if n.from == i {
			label = append(label, max(free, end+n.delay))
		}
	}
	return label
}

// thin removes dominated labels and merges neighbours down to the width, in order of least loss.
func (m *machine) thin(x *node) {
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

// noLater reports whether label a dominates b: no time of a is later than that of b.
func noLater(a, b []float64) bool {
	for i := range a {
		if a[i] > b[i] {
			return false
		}
	}
	return true
}

// merge replaces at most the given number of neighbouring pairs of labels by their minimum.
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
