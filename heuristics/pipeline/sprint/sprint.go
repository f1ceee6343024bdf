// Package sprint schedules many mini-batches of an allocation by a list, until the schedule
// repeats itself: k-periodic patterns whose k comes out.
package sprint

import (
	"cmp"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/problem/pipeline"
)

// Options of a sprint.
type Options struct {
	Period   float64 // a mini-batch, seconds, that is hoped for
	Together float64 // layers of a stage run together where they take no more seconds
	Late     float64 // how much deadlines count
	Most     int     // mini-batches of a period, at most
	Below    float64 // seconds a mini-batch that a pattern has to be below
	Ways     *int    // how many may be made yet, of this sprint and those that follow
}

// Run returns the best pattern below o.Below that it finds for an allocation, contiguous or not,
// nil if it finds none. It is a list schedule of many mini-batches, from empty processors, that
// ends when it finds itself where it was: the order of the operations between is that of a
// k-periodic pattern, whose period follows by longest paths (Retime).
//
// Where it is: how many steps each mini-batch inside has begun. A step is the forward or the
// backward of some layers of one processor, and what is sent behind it. Mini-batches pass each
// step in their order. A step may begin if it fits beside what the others store, and if then all
// could be completed, the oldest first: so no way gets stuck.
//
// Many ways are followed at a time, a beam: those that are ahead by what they have done and by what
// comes next. For each step has a deadline (see races in heuristics/pipeline): who is late for it must hold back others.
//
// A method of our own; eager 1F1B (Narayanan et al., SOSP 2019) is the same for contiguous stages with
// one way, by limits of mini-batches in a stage. Chains of up to 127 stages that run together.
// O(16·steps·20·P) times the mini-batches inside, squared, and 50 Retimes: 2 to 30 ms for the networks
// of [004] on four processors.
func Run(in *pipeline.Instance, stages []plan.Stage, o Options) *pipeline.Pattern {
	u := newSprint(in, stages, o)
	if u == nil {
		return nil
	}
	u.run()
	return u.best
}

type sprint struct {
	Options
	in     *pipeline.Instance
	stages []plan.Stage
	items  []pipeline.Item
	steps  []leg
	room   []float64   // by processor, beside weights and buffers
	stored [][]float64 // behind so many steps, by processor, of one mini-batch
	rest   [][]float64 // the most that the steps from one on need, by processor
	done   []float64   // the part of the way that so many steps are
	latest []float64   // when a step must have begun, after a mini-batch's turn
	best   *pipeline.Pattern
	timed  int
}

// A leg is a step of a sprint.
type leg struct {
	item, on, link   int // link none: nothing is sent
	back             bool
	time, send, need float64 // need: bytes, of its mini-batch, while it runs
}

// none is the link of what is not sent.
const none = -1

const (
	// sprintInside is how many mini-batches are followed, sprintBatches how many begin.
	sprintInside, sprintBatches = 12, 16
	// sprintWidth is how many ways are kept, sprintAlike how many of them in the same places.
	sprintWidth, sprintAlike = 20, 2
	// sprintTimed is how many orders of a sprint are timed.
	sprintTimed = 50
)

// A sprinter is a way to some places.
type sprinter struct {
	places        [sprintInside]uint8 // of the mini-batches inside, the newest first: how many steps each has begun
	inside, begun int
	now, score    float64   // the latest start
	free          []float64 // when each resource is
	ready         []float64 // when each mini-batch may begin its next step
	from, start   *sprinter // start: the latest at which a mini-batch began
	batch, place  int       // who has come on, by which step
}

// newSprint is nil if a load or deadlines exclude a pattern of that period. O(n²).
func newSprint(in *pipeline.Instance, stages []plan.Stage, o Options) *sprint {
	u := &sprint{Options: o, in: in}
	for _, s := range pipeline.Merged(stages) {
		for l := s.From; l <= s.To; l++ {
			if k := len(u.stages) - 1; l > s.From && in.Time(u.stages[k].From, l) <= o.Together {
				u.stages[k].To = l
			} else {
				u.stages = append(u.stages, plan.Stage{Processor: s.Processor, From: l, To: l})
			}
		}
	}
	if len(u.stages) > 127 {
		return nil
	}
	u.items = in.Items(u.stages)
	load := map[int]float64{}
	for i := range u.items {
		x := &u.items[i]
		if load[x.Resource] += x.Time(); load[x.Resource] >= o.Below {
			return nil
		}
	}
	held := make([]float64, in.Platform.Processors)
	u.room, u.stored = slices.Repeat([]float64{in.Memory}, in.Platform.Processors), [][]float64{slices.Clone(held)}
	for i := range u.items {
		u.add(i, +1, held)
	}
	for i := len(u.items) - 1; i >= 0; i-- {
		u.add(i, -1, held)
	}
	m := len(u.steps)
	u.rest, u.done = make([][]float64, m+1), make([]float64, m+1)
	u.rest[m] = make([]float64, in.Platform.Processors)
	for p := m - 1; p >= 0; p-- {
		s := &u.steps[p]
		u.rest[p] = slices.Clone(u.rest[p+1])
		u.rest[p][s.on] = max(u.rest[p][s.on], s.need)
	}
	for p, s := range u.steps {
		u.done[p+1] = u.done[p] + s.time + s.send
	}
	for p := range u.done {
		u.done[p] /= u.done[m]
	}
	if !u.deadlines() {
		return nil
	}
	return u
}

// add appends the forward of an item, or the backward for next -1, if it is no communication.
func (u *sprint) add(i, next int, held []float64) {
	in, x := u.in, &u.items[i]
	if x.Cut {
		return
	}
	r, s := x.Resource, leg{item: i, on: x.Resource, link: none, back: next < 0, time: x.F}
	if s.back {
		s.time = x.B
	} else {
		u.room[r] -= in.Weights[x.To] - in.Weights[x.From-1]
	}
	waits := 0.0
	for q := range x.To - x.From + 1 {
		l, own := x.From+q, in.A[x.From+q]
		if s.back {
			l = x.To - q
			own = in.D[l] + in.D[l-1]
			waits = in.D[l-1]
		} else {
			held[r] += in.Kept[l]
			waits = own
		}
		if !in.Task {
			own, waits = 0, 0
		}
		s.need = max(s.need, held[r]+own)
		if s.back {
			held[r] -= in.Kept[l]
		}
	}
	if k := i + next; k >= 0 && k < len(u.items) && u.items[k].Cut {
		y := &u.items[k]
		s.link, s.send, waits = y.Resource, y.F, 0
		if s.back {
			s.send = y.B
		}
		u.room[r] -= in.Buffer[y.From] // of each of its ends
	}
	u.steps = append(u.steps, s)
	behind := slices.Clone(held)
	behind[r] += waits
	u.stored = append(u.stored, behind)
}

// deadlines finds by when each step is to begin, as in a race; false: they contradict each other.
func (u *sprint) deadlines() bool {
	n := len(u.steps)
	u.latest = slices.Repeat([]float64{math.Inf(1)}, n)
	u.latest[0] = 0
	for range 2 * n {
		changed := false
		lower := func(p int, t float64) {
			if t < u.latest[p]-pipeline.Rounding*u.Period {
				u.latest[p], changed = t, true
			}
		}
		for p := n - 1; p >= 0; p-- {
			s, t := &u.steps[p], u.latest[p]
			if p > 0 {
				lower(p-1, t-u.steps[p-1].time-u.steps[p-1].send)
			}
			held, last := u.stored[p+1][s.on], p+1
			for last < n-1 && u.stored[last+1][s.on] >= held {
				last++
			}
			if count := 1 + pipeline.Count(u.room[s.on]-s.need, held); last < n && count >= 1 && count < sprintInside {
				lower(last, t+count*u.Period)
			}
		}
		if !changed {
			return true
		}
	}
	return false
}

// run keeps the best ways, step by step. O(batches · steps · width · P) times how many are inside squared.
func (u *sprint) run() {
	P := u.in.Platform.Processors
	ways := []*sprinter{{free: make([]float64, P+P*P)}}
	var next []*sprinter
	for len(ways) > 0 && *u.Ways > 0 && !u.in.Stop.Given() {
		next = next[:0]
		for _, x := range ways {
			for m := -1; m < x.inside; m++ {
				if y := u.move(x, m); y != nil {
					next = append(next, y)
				}
			}
		}
		slices.SortStableFunc(next, func(x, y *sprinter) int { return cmp.Compare(x.score, y.score) })
		ways = ways[:0]
		alike := map[[sprintInside]uint8]int{}
		for _, y := range next {
			if alike[y.places]++; alike[y.places] > sprintAlike || y.begun > sprintBatches || len(ways) == sprintWidth {
				continue
			}
			if ways = append(ways, y); y.start == y {
				u.again(y)
			}
		}
	}
}

// move is x with the next step of mini-batch m, of a new one for -1; nil if that may not begin.
func (u *sprint) move(x *sprinter, m int) *sprinter {
	place := 0
	if m >= 0 {
		place = int(x.places[m])
	}
	if m < 0 && x.inside == sprintInside || m+1 < x.inside && int(x.places[m+1]) <= place {
		return nil
	}
	s := &u.steps[place]
	held := s.need
	for i, p := range x.places[:x.inside] {
		if i != m {
			held += u.stored[p][s.on]
		}
	}
	if held > u.room[s.on] {
		return nil
	}
	*u.Ways--
	y := &sprinter{places: x.places, inside: x.inside, begun: x.begun, from: x, start: x.start, place: place, batch: x.begun - 1 - m}
	t := max(x.now, x.free[s.on])
	switch {
	case m < 0:
		y.begun++
		y.inside++
		copy(y.places[1:], x.places[:x.inside])
		y.places[0] = 1
		y.ready = append([]float64{0}, x.ready...)
		y.start, m = y, 0
	case place+1 == len(u.steps): // it is the oldest
		t = max(t, x.ready[m])
		y.inside--
		y.places[m] = 0
		y.ready = x.ready[:m]
	default:
		t = max(t, x.ready[m])
		y.places[m]++
		y.ready = slices.Clone(x.ready)
	}
	if !u.safe(y) {
		return nil
	}
	y.now, y.free = t, slices.Clone(x.free)
	end := t + s.time
	y.free[s.on] = end
	if s.link != none {
		end = max(end, y.free[s.link]) + s.send
		y.free[s.link] = end
	}
	if m < y.inside {
		y.ready[m] = end
	}
	u.rate(y)
	return y
}

// rate says how far behind x is: by its time for what is done, and by the deadline that is missed most.
func (u *sprint) rate(x *sprinter) {
	done, late := float64(x.begun-x.inside), math.Inf(-1)
	for i, p := range x.places[:x.inside] {
		done += u.done[p]
		late = max(late, max(x.now, x.ready[i])-u.Period*float64(x.begun-1-i)-u.latest[p])
	}
	if x.score = x.now - u.Period*done; !math.IsInf(late, -1) {
		x.score += u.Late * late
	}
}

// safe reports whether all mini-batches inside can be completed, the oldest first.
func (u *sprint) safe(x *sprinter) bool {
	for r, room := range u.room {
		held := 0.0
		for _, p := range x.places[:x.inside] { // of those that are younger
			if held+u.rest[p][r] > room {
				return false
			}
			held += u.stored[p][r]
		}
	}
	return true
}

// again times the orders in which x came to where it had been, if they may be better.
func (u *sprint) again(x *sprinter) {
	y := x
	for k := 1; k <= u.Most && y.from.start != nil; k++ {
		if y = y.from.start; y.places != x.places || x.now-y.now >= float64(k)*u.Below || u.timed == sprintTimed {
			continue
		}
		u.timed++
		if s := u.pattern(x, y, k); s.Retime() && s.Rate() < u.Below && u.in.Fits(s.Peak(u.in)) {
			u.best, u.Below = s, s.Rate()*(1-1e-6)
		}
	}
}

// pattern is that of the steps behind y up to x one after the other, with nothing beside them:
// it takes long, and has their order.
func (u *sprint) pattern(x, y *sprinter, k int) *pipeline.Pattern {
	n, slot, length := len(u.items), 0.0, 0
	for i := range u.items {
		slot = max(slot, 2*u.items[i].F, 2*u.items[i].B)
	}
	for z := x; z != y; z = z.from {
		length++
	}
	s := &pipeline.Pattern{Period: slot * float64(length), K: k, Stages: u.stages, Items: u.items, F: make([]float64, n*k), B: make([]float64, n*k)}
	at := s.Period
	for z := x; z != y; z = z.from {
		at -= slot
		turn := int(math.Floor(float64(z.batch) / float64(k)))
		starts, p := s.F, &u.steps[z.place]
		v, send := (z.batch-turn*k)*n+p.item, 1
		if p.back {
			starts, send = s.B, -1
		}
		starts[v] = at - float64(turn)*s.Period
		if p.link != none {
			starts[v+send] = starts[v] + slot/2
		}
	}
	return s
}
