package flush

import (
	"cmp"
	"context"
	"math"
	"slices"

	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// A rule says what a GPU does next when it could do several things.
type rule struct {
	// cap is the maximum number of micro-batches, by GPU, between the F of its first stage and the
	// B of it.
	cap []int
	// forward puts F before B until the first B has run, shallow an earlier stage before
	// a later one among several Fs.
	forward, shallow bool
	// patient waits for an F or B that is on its way rather than begin a W that is too
	// long by more than this part of itself; prompt runs a W at once after its B.
	patient float64
	prompt  bool
}

// never is when nothing comes.
var never = math.Inf(1)

// A lister schedules event by event.
type lister struct {
	v     *flush.Instance
	rule  *rule
	end   []float64 // by operation·jobs + micro-batch: when it ends, as far as it is known
	count []int     // by operation: started
	held  []int64   // by GPU
	free  []float64 // by GPU
	wakes []float64 // by GPU: when it looks for work next
	order flush.Order
	left  int
}

// list returns the order in which GPUs that never wait without reason, by a rule, run
// their operations; nil if they come to a halt. O(operations·(stages of a GPU + GPUs)).
func list(v *flush.Instance, r *rule) flush.Order {
	l := &lister{
		v: v, rule: r, end: make([]float64, flush.Kinds*v.Stages*v.Jobs), count: make([]int, flush.Kinds*v.Stages), held: make([]int64, v.GPUs),
		free: make([]float64, v.GPUs), wakes: make([]float64, v.GPUs), order: make(flush.Order, v.GPUs), left: v.Ops(),
	}
	for g := range l.order {
		l.order[g] = make([]flush.Operation, 0, 3*v.Jobs*len(v.On[g]))
	}
	for l.left > 0 {
		g := 0
		for h, at := range l.wakes { // of several the last
			if at <= l.wakes[g] {
				g = h
			}
		}
		now := l.wakes[g]
		if now == never {
			return nil
		}
		l.wakes[g] = never
		l.serve(g, now)
	}
	return l.order
}

// wake has a GPU look for work at a time, or when it is free.
func (l *lister) wake(g int, at float64) { l.wakes[g] = min(l.wakes[g], max(at, l.free[g])) }

// serve starts what a free GPU does now, or wakes it when something comes.
func (l *lister) serve(g int, now float64) {
	chosen, next, blocked := flush.Operation(-1), never, false
	for _, s := range l.v.On[g] {
		for _, kind := range [2]int{flush.F, flush.B} {
			x := flush.OperationOf(s, kind)
			ready := l.ready(x)
			switch {
			case ready == never || kind == flush.F && !l.admits(g, s):
			case ready <= now && kind == flush.B && l.full(g, x) && !(l.v.Fused && l.count[x] == l.count[x+1]):
				blocked = true
			case ready > now:
				next = min(next, ready)
			case chosen < 0 || l.moreUrgent(g, x, chosen):
				chosen = x
			}
		}
	}
	if w := l.weight(g); w >= 0 {
		long := l.v.Time[w.Stage()][flush.W]
		switch {
		case chosen >= 0 && l.rule.prompt && l.count[w] < l.count[w-1]:
			chosen = w
		case chosen < 0 && (blocked || now+long*(1-l.rule.patient) <= next):
			chosen = w
		}
	}
	if chosen >= 0 {
		l.start(g, chosen, now)
		if l.held[g] > l.v.Room[g] { // this B is one operation with its W
			w := chosen + 1
			l.end[int(chosen)*l.v.Jobs+l.count[chosen]-1] += l.v.Time[w.Stage()][flush.W]
			l.start(g, w, l.free[g])
		}
	} else {
		l.wake(g, next)
	}
}

// full reports whether a B takes memory for its W that is not there.
func (l *lister) full(g int, b flush.Operation) bool {
	return l.held[g]+l.v.Memory[b.Stage()][flush.B] > l.v.Room[g]
}

// ready returns when the next micro-batch of an operation has all it needs.
func (l *lister) ready(x flush.Operation) float64 {
	j := l.count[x]
	if j == l.v.Jobs {
		return never
	}
	from, delay := l.v.Needs(x)
	switch {
	case from < 0:
		return 0
	case j >= l.count[from]:
		return never
	}
	return l.end[int(from)*l.v.Jobs+j] + delay
}

// admits reports whether the next F of a stage fits in memory and leaves enough for the oldest
// micro-batch that has not passed all stages of the GPU. So one micro-batch can always proceed, and
// there is no deadlock.
func (l *lister) admits(g, s int) bool {
	on := l.v.On[g]
	first, last := on[0], on[len(on)-1]
	if s == first && l.count[flush.OperationOf(s, flush.F)]-l.count[flush.OperationOf(s, flush.B)] >= l.rule.cap[g] {
		return false
	}
	need := l.held[g] + l.v.Memory[s][flush.F]
	if !l.v.Fused {
		for _, r := range on {
			need = max(need, l.held[g]+l.v.Memory[s][flush.F]+max(0, l.v.Memory[r][flush.B]))
		}
	}
	oldest := l.count[flush.OperationOf(last, flush.F)] // its number
	for _, r := range on {
		if l.count[flush.OperationOf(r, flush.F)] == oldest && !(r == s) {
			need += l.v.Memory[r][flush.F]
		}
	}
	return need <= l.v.Room[g]
}

// moreUrgent reports whether x is more urgent than y.
func (l *lister) moreUrgent(g int, x, y flush.Operation) bool {
	if x.Kind() != y.Kind() {
		first := l.v.On[g][len(l.v.On[g])-1]
		forward := l.rule.forward && l.count[flush.OperationOf(first, flush.B)] == 0
		return (x.Kind() == flush.F) == forward
	}
	if x.Kind() == flush.F && l.rule.shallow {
		return x < y
	}
	return (x > y) == (x.Kind() == flush.F)
}

// weight returns a W that can run, of the stage where most wait; -1: there is none.
func (l *lister) weight(g int) flush.Operation {
	chosen, most := flush.Operation(-1), 0
	for _, s := range l.v.On[g] {
		if w := flush.OperationOf(s, flush.W); l.v.Split[s] && l.count[w-1]-l.count[w] > most {
			chosen, most = w, l.count[w-1]-l.count[w]
		}
	}
	return chosen
}

// start runs the next micro-batch of an operation.
func (l *lister) start(g int, x flush.Operation, now float64) {
	s := x.Stage()
	end := now + l.v.Time[s][x.Kind()]
	l.end[int(x)*l.v.Jobs+l.count[x]] = end
	l.count[x]++
	l.free[g] = end
	l.held[g] += l.v.Memory[s][x.Kind()]
	l.order[g] = append(l.order[g], x)
	l.left--
	l.wake(g, end)
	switch {
	case x.Kind() == flush.F && s+1 < l.v.Stages:
		l.wake(l.v.GPU[s+1], end+l.v.Delay[s])
	case x.Kind() == flush.B && s > 0:
		l.wake(l.v.GPU[s-1], end+l.v.Delay[s-1])
	}
}

// rules returns the rules that List tries: caps from 1F1B's, some more on every stage,
// to what the room holds, with each kind of patience.
func rules(v *flush.Instance) []*rule {
	var caps [][]int
	add := func(of func(g int) int) {
		cap := make([]int, v.GPUs)
		for g := range cap {
			cap[g] = max(1, min(of(g), v.Jobs))
		}
		if !slices.ContainsFunc(caps, func(c []int) bool { return slices.Equal(c, cap) }) {
			caps = append(caps, cap)
		}
	}
	add(func(int) int { return v.Jobs })
	chunks := len(v.On[0])
	for _, x := range [...]struct{ by, more float64 }{{1, 0}, {1, 1}, {1, 2}, {2, -1}, {2, 0}, {1.5, 0}, {0.5, 1}, {0.67, 1}} {
		add(func(g int) int { return int(math.Ceil(x.by*float64(v.GPUs-g+(chunks-1)*v.GPUs) + x.more)) })
	}
	for k := 1; k <= min(v.Jobs, 2*v.GPUs); k = cmp.Or(k*5/4, 1) + 1 {
		add(func(int) int { return k })
	}
	var all []*rule
	for _, cap := range caps {
		for _, patient := range []float64{1, 0.5, 0} {
			for k := range 4 {
				all = append(all, &rule{cap: cap, patient: patient, forward: k&1 == 1, shallow: k&2 == 2})
			}
		}
		all = append(all, &rule{cap: cap, prompt: true, patient: 1})
	}
	return all
}

// List schedules by events with every one of about 200 rules, and returns the best
// order. It ends with ctx, or at the bound. With copies to the host it is [Send] of that
// or, where that finds no room, one micro-batch after the other.
// O(rules·operations·GPUs).
func List(ctx context.Context, v *flush.Instance) flush.Order {
	o := Send(listed)(ctx, v)
	if o == nil && slices.Contains(v.Moves, true) && v.Fits() == nil {
		return oneByOne(v)
	}
	return o
}

// oneByOne returns the order of one micro-batch after the other, which needs the minimum memory.
func oneByOne(v *flush.Instance) flush.Order {
	o := make(flush.Order, v.GPUs)
	put := func(s int, kinds ...int) {
		for _, kind := range kinds {
			if slices.Contains(v.Kinds(s), kind) {
				o[v.GPU[s]] = append(o[v.GPU[s]], flush.OperationOf(s, kind))
			}
		}
	}
	for range v.Jobs {
		for s := range v.Stages {
			put(s, flush.F, flush.O)
		}
		for s := v.Stages - 1; s >= 0; s-- {
			put(s, flush.P, flush.B, flush.W)
		}
	}
	return o
}

// listed is [List] without copies.
func listed(ctx context.Context, v *flush.Instance) flush.Order {
	var found flush.Order
	t, least, bound := flush.NewTimer(v), never, v.Bound().Value
	for _, r := range rules(v) {
		if found != nil && (ctx.Err() != nil || platform.Closed(least, bound, plan.Tolerance)) {
			break
		}
		if o := list(v, r); o != nil && t.Run(o, nil) && t.Objective() < least {
			found, least = o, t.Objective()
		}
	}
	return found
}

// A Lister lists instances that differ in their times and sizes only.
type Lister struct{ rules []*rule }

// NewLister returns a lister for instances with the stages, GPUs and micro-batches of v.
func NewLister(v *flush.Instance) *Lister { return &Lister{rules(v)} }

// Rules returns how many rules there are.
func (l *Lister) Rules() int { return len(l.rules) }

// Objective returns the objective of list scheduling by some of the rules, and which is the best; +Inf: none comes to an end in the
// memory. It does not go on once a rule is at the bound. O(rules·operations·GPUs).
func (l *Lister) Objective(v *flush.Instance, rules []int, bound float64) (least float64, best int) {
	t := flush.NewTimer(v)
	least, best = never, -1
	for _, k := range rules {
		if o := list(v, l.rules[k]); o != nil && t.Run(o, nil) && t.Objective() < least {
			least, best = t.Objective(), k
		}
		if platform.Closed(least, bound, plan.Tolerance) {
			break
		}
	}
	return least, best
}
