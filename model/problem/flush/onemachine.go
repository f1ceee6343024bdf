package flush

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// OneMachine returns the best bound of a GPU that is scheduled alone, or with another one, as good as it
// gets with the labels that are spent; below what an objective is looked for, and a bound is never above
// it. GPU −1 and 0: nothing is known, or ctx has ended.
//
// It is the relaxation by one machine that job shops have (Carlier, The one-machine sequencing
// problem, 1982): all other GPUs run any number of operations at once. So a micro-batch comes to the
// next operation of the GPU, F of its stages in their order and B in the reverse of it, no earlier
// than a way after the last one, which is the other stages' time and communication; W follows B.
// Memory and the one operation at a time are those of the GPU, and of its link to the host. As everywhere, micro-batches are in
// the order of their numbers.
//
// The schedules of that are the paths of a decision diagram. A layer has what may have run after
// so many operations, by numbers of each; of these a label says when the GPU is free and
// when each micro-batch on its way arrives, no earlier than that. A label is left out if another one
// of the same numbers is later in nothing, and labels that are too many are merged: of two, the
// earlier time of each event, which relaxes both (Bergman, Cire, van Hoeve and Hooker, Decision
// Diagrams for Optimization, 2016, ch. 4). And no operation waits as long as another
// B, W or copy to the host could have run: moved there, that delays nothing, and gives memory back earlier.
//
// A GPU that sends and its link have one order, that in which operations change what is held, as in [Instance]: what takes memory
// starts when all that has been given back before is free. Two GPUs have that in which operations start: nothing starts before
// what comes before it. Such a pair is two machines of the job shop, where a micro-batch that comes back to one of them
// has waited for what the other one runs. Its first GPU, of which the time counts, begins at 0; the other one, if it is before that, with
// so much time that all Fs that there is memory for have come from there: before the first operation of the first GPU it runs no others.
//
// All GPUs are tried with one label for the same numbers, the better half of them with 8, the better
// half of those with 64; then the best two with each of the others. O(labels·(width + operations on the way)).
//
// Where a GPU and its link are too many labels the bound is that of [Instance.Resident].
func (v *Instance) OneMachine(ctx context.Context, below float64) Bound {
	if !slices.Contains(v.Sends, true) {
		v = v.Resident() // a B that takes memory takes none
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

// pairs returns the best bound of some GPUs, each with another one, until there are too many labels. GPUs of several stages
// have too many from the first pair on.
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

// How many labels there may be: of a GPU and a width, of all pairs, and of a pair that agree in what has run.
const (
	mostLabels = 200_000
	pairLabels = 500_000
	pairWidth  = 16
)

// together returns the bound of some GPUs, the first of which counts, rounded down, and how many labels it took; 0: too many.
func (v *Instance) together(ctx context.Context, gpus []int, width, labels int, below float64) (float64, int) {
	list := []Bound{{}}
	if !v.Span() {
		v.outside(gpus[0], list)
	}
	m := v.machine(gpus)
	m.width, m.labels, m.below = width, labels, below-list[0].Value
	t := m.least(ctx)
	if t == 0 {
		return 0, labels - m.labels
	}
	down := 1 - float64(16*(v.Ops()+v.Jobs*v.Stages)+64)*0x1p-52
	return (t + list[0].Value) * down, labels - m.labels
}

// A machine is some GPUs with their links to the host, and no others. Its steps are F of their stages on the way of a
// micro-batch, then B, and then Ws and copies.
type machine struct {
	jobs   int     // micro-batches
	room   []int64 // by GPU
	steps  []step
	needs  []need
	first  []float64 // when nothing has run: when lanes are free, each a GPU or its link, and what is given back on GPUs that send
	lanes  int
	moves  bool // there are links
	width  int
	below  float64 // what is looked for; the least time of the first GPU, once that is through
	labels int     // that may still be made
}

type step struct {
	gpu, lane int
	time      float64
	memory    int64
	takes     bool  // memory, at its start
	given     int   // where labels have when all that the GPU has given back is free; -1: its own lane says so
	after     []int // steps before, of the same micro-batch
	needs     []int // of what is not on its lane, or is on its way
}

// A need is a time from the end of a step to the start of another one, of the same micro-batch.
type need struct {
	from, to int
	delay    float64
}

// machine returns some GPUs, of which the first counts.
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
	of := map[Letter]int{}
	add := func(l Letter, after Letter, delay float64) {
		i, gpu := len(m.steps), slices.Index(gpus, v.GPU[l.Stage()])
		x := step{gpu: gpu, lane: gpu, time: v.time(l), memory: v.Memory[l.Stage()][l.Kind()], takes: l.Takes(), given: given[gpu]}
		if l.Copies() {
			x.lane = link[gpu]
		}
		of[l] = i
		m.steps = append(m.steps, x)
		if after >= 0 {
			m.come(of[after], i, max(0, delay))
		}
	}
	v.wayOf(on, add)
	for _, s := range on {
		if v.Sends[s] {
			add(LetterOf(s, O), LetterOf(s, F), 0)
			add(LetterOf(s, P), LetterOf(s, O), 0)
			m.come(of[LetterOf(s, P)], of[LetterOf(s, B)], 0)
		}
		if v.Split[s] {
			add(LetterOf(s, W), LetterOf(s, B), 0)
		}
	}
	return m
}

// wayOf goes through F and B of stages as a micro-batch does: each comes after the one before and a delay, that of the
// stages between; the first after none, -1.
func (v *Instance) wayOf(on []int, do func(l, after Letter, delay float64)) {
	last := len(on) - 1
	for k, s := range on {
		if k == 0 {
			do(LetterOf(s, F), -1, 0)
			continue
		}
		p := on[k-1]
		do(LetterOf(s, F), LetterOf(p, F), v.forwards(p)-v.Time[p][F]-v.forwards(s))
	}
	for k := last; k >= 0; k-- {
		s := on[k]
		if k == last {
			do(LetterOf(s, B), LetterOf(s, F), v.forwards(s)-v.Time[s][F]+v.backwards(s))
			continue
		}
		p := on[k+1]
		do(LetterOf(s, B), LetterOf(p, B), v.backwards(s)-v.backwards(p)-v.Time[p][B])
	}
}

// early sets when GPUs before the first of some may begin: so early that the Fs that all of these have memory for are through
// before the first GPU begins. O(GPUs·stages).
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

// come has a step come after another one, which labels say of what is not on one lane.
func (m *machine) come(from, to int, delay float64) {
	x := &m.steps[to]
	x.after = append(x.after, from)
	if m.steps[from].lane != x.lane || delay > 0 {
		x.needs = append(x.needs, len(m.needs))
		m.needs = append(m.needs, need{from, to, delay})
	}
}

// A reached is what is known behind so many operations of each kind. Of a label, the first
// numbers are when the lanes are free, and what is given back; then come, need by need, the arrivals of the micro-batches
// between its steps.
type reached struct {
	count  []int   // by step
	held   []int64 // by GPU
	left   float64 // what the first GPU has still to compute
	todo   int     // so many operations
	labels [][]float64
}

// A layer is what is reached after so many operations, by count; the list keeps the order in which it
// was found, so that sums are the same in every run.
type layer struct {
	of   map[string]*reached
	list []*reached
}

// least returns the least time of the first GPU, or below if there is none below that; 0: there are too many
// labels, or ctx has ended.
func (m *machine) least(ctx context.Context) float64 {
	from := &reached{count: make([]int, len(m.steps)), held: make([]int64, len(m.room)), labels: [][]float64{m.first}}
	for i := range m.steps {
		if m.steps[i].lane == 0 {
			from.left += float64(m.jobs) * m.steps[i].time
			from.todo += m.jobs
		}
	}
	at := &layer{list: []*reached{from}}
	for len(at.list) > 0 {
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
	return m.below
}

// can reports whether a micro-batch waits for a step, or is on its way to it, and has room.
func (m *machine) can(x *reached, i int) bool {
	s := &m.steps[i]
	for _, from := range s.after {
		if x.count[from] <= x.count[i] {
			return false
		}
	}
	return x.count[i] < m.jobs && x.held[s.gpu]+s.memory <= m.room[s.gpu]
}

// places returns where labels have when a step can begin: its lane is free, the next micro-batch has arrived, memory that was
// given back is free.
func (m *machine) places(x *reached, i int) []int {
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

// earliest returns the latest of some times of a label.
func earliest(label []float64, places []int) float64 {
	t := label[places[0]]
	for _, at := range places[1:] {
		t = max(t, label[at])
	}
	return t
}

// run goes on with a step.
func (m *machine) run(x *reached, i int, next *layer) {
	if !m.can(x, i) {
		return
	}
	s := &m.steps[i]
	type other struct {
		places []int
		time   float64
	}
	var instead []other // what else could run on the lane, and gives memory back
	for k := range m.steps {
		if o := &m.steps[k]; k != i && o.lane == s.lane && !o.takes && m.can(x, k) {
			instead = append(instead, other{m.places(x, k), o.time})
		}
	}
	at, left, todo := m.places(x, i), x.left, x.todo
	if s.lane == 0 {
		left -= s.time
		todo--
	}
	var to *reached
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

// successor returns what is reached by a step.
func (m *machine) successor(x *reached, i int, next *layer) *reached {
	count := slices.Clone(x.count)
	count[i]++
	key := make([]byte, 0, 2*len(count))
	for _, n := range count {
		key = append(key, byte(n), byte(n>>8))
	}
	to := next.of[string(key)]
	if to == nil {
		to = &reached{count: count, held: slices.Clone(x.held)}
		to.held[m.steps[i].gpu] += m.steps[i].memory
		next.of[string(key)] = to
		next.list = append(next.list, to)
	}
	return to
}

// label returns the label behind a step that runs then. What is on a lane begins no earlier than that is free and, without
// links, than this step.
func (m *machine) label(x *reached, i int, before []float64, start, end float64) []float64 {
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
		if n.to == i { // the first has run
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
