package swap

import (
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// WindowSearch returns the best plan of the method of [003] §3, Figure 2, with a search for its
// schedule-window, which the paper leaves to the user. It tries 16 schedule-windows, evenly spread
// from the largest function to twice the memory and no larger than the variable-sequence. Then it
// tries those between the best one and its neighbours, halving the distance until nothing changes
// or 16 more have been tried. It stops with the best plan when a plan attains a bound or ctx ends.
// O(uses) a window. See scheduler for differences from the paper.
func WindowSearch(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	b := newBest(ctx, in)
	b.floor = in.BestBound()
	newWindows(b).search()
	return b.plan("window")
}

// best is the best list that a method has tried.
type best struct {
	ctx   context.Context
	m     *machine
	floor float64 // a lower bound: a list that meets it is the last to be tried
	T     float64 // its makespan; +Inf: none fits
	list  []int
	work  []int // scratch
	last  []int // that was tried last
	by    string
}

func newBest(ctx context.Context, in *instance) *best {
	m := newMachine(in)
	m.issued = true
	return &best{ctx: ctx, m: m, T: math.Inf(1)}
}

// met reports whether a makespan meets a lower bound.
func met(T, bound float64) bool { return platform.Closed(T, bound, plan.Tolerance) }

func (b *best) done() bool { return met(b.T, b.floor) || b.ctx.Err() != nil }

// try keeps list if it is faster. The list is in use until the next call.
func (b *best) try(list []int, by string) float64 {
	T := b.m.run(list)
	if T < b.T {
		b.T, b.by = T, by
		b.list = append(b.list[:0], list...)
	}
	b.last = list
	return T
}

// plan writes the best plan.
func (b *best) plan(method string) (*plan.Plan, error) {
	switch {
	case !math.IsInf(b.T, 1):
		b.m.run(b.list)
		return b.m.plan(method), nil
	case b.ctx.Err() != nil:
		return nil, fmt.Errorf("%s: %w: %w", method, plan.ErrNoPlan, b.ctx.Err())
	case b.last == nil:
		return nil, fmt.Errorf("%s: %w", method, plan.ErrNoPlan)
	}
	return nil, b.m.explain(method, b.last)
}

// windows tries schedule-windows.
type windows struct {
	*best
	scheduler *scheduler
	low, high float64
	size      float64 // of the best
}

func newWindows(b *best) *windows {
	in := b.m.in
	w := &windows{best: b, scheduler: newScheduler(in)}
	all := 0.0
	for i := range in.N {
		own := in.Own(i)
		all += own
		w.low = max(w.low, own)
	}
	w.high = max(w.low, min(all, 2*in.Memory))
	return w
}

// at tries one schedule-window.
func (w *windows) trySchedule(size float64) {
	if w.done() {
		return
	}
	w.work = w.scheduler.list(size, w.work[:0])
	before := w.T
	if w.try(w.work, "window") < before {
		w.size = size
	}
}

func (w *windows) search() {
	const coarse, fine = 16, 8
	for k := range coarse {
		w.trySchedule(w.low + (w.high-w.low)*float64(k)/(coarse-1))
	}
	step := (w.high - w.low) / (coarse - 1)
	for range fine {
		step /= 2
		if center := w.size; step > 0 && !math.IsInf(w.T, 1) {
			for _, size := range [...]float64{center - step, center + step} {
				if size >= w.low && size <= w.high {
					w.trySchedule(size)
				}
			}
		}
	}
}

// scheduler schedules as [003] §3 for a given schedule-window, in bytes; it holds the state between
// two functions. O(uses).
//
// The variable-sequence lists the variables of f_1, of f_2, and so on. At f_i, which is at
// v[l:l⁺-1] in it, the window is v[l:r] with the largest r for which the sizes, each occurrence
// counted, are at most the schedule-window. (Variables must also fit in memory together: r ends
// before one that does not, even if everything outside the window is evicted. The paper has windows
// below the memory only.) Then, with Figure 2,
//
//   - (a) each variable that is new in the window and on the CPU is swapped in;
//   - (b) while memory is exceeded, f_i waits for the oldest reserved swap-outs. These start
//     right after
//     the function that reserved them;
//   - (c) after f_i swap-outs are reserved for its variables, and the window moves to f_{i+1};
//   - (d) except for those that no later function uses and those in the new window. A variable
//     that enters
//     the window with its swap-out reserved stays resident, and the reservation is cancelled. Reserved
//     swap-outs for which no function waits never happen.
//
// The paper leaves some details open. Memory for what a function makes is reserved when it enters
// the window. Variables that are initially on the device are reserved from the start, those used
// last first. Transfers of step i are issued when f_{i-1} has ended. A swap-out of a variable whose
// value the host holds is a drop.
type scheduler struct {
	in     *instance
	window float64
	inside []int // how often a variable occurs in the window
	where  []place
	used   float64 // bytes on the GPU, set aside, or reserved to be swapped out

	queue  []reserved // swap-outs, the oldest first; cancelled ones have v < 0
	slot   []int      // where a variable is in it
	oldest int        // the first one not waited for

	r     int     // the first place after the window
	bytes float64 // of the window, with repetition

	orders *orders
}

func newScheduler(in *instance) *scheduler {
	vs := len(in.Size)
	return &scheduler{in: in, inside: make([]int, vs), where: make([]place, vs), slot: make([]int, vs), orders: newOrders(in)}
}

// place is where a variable is for the scheduler.
type place byte

const (
	absent place = iota // not made yet, or dead
	cpu                 // σ(v) = 1
	gpu                 // σ(v) = 0
	going               // σ(v) = 0, swap-out reserved
)

type reserved struct{ v, after int }

// list returns the list of [003] §3, appended to list. O(uses).
func (s *scheduler) list(window float64, list []int) []int {
	s.window = window
	clear(s.inside)
	clear(s.where)
	s.queue, s.oldest, s.used, s.r, s.bytes = s.queue[:0], 0, 0, 0, 0
	s.initial()
	for i := range s.in.N {
		s.step(i)
	}
	return s.orders.list(list)
}

// initial reserves swap-outs of what is initially on the device.
func (s *scheduler) initial() {
	var device []int
	for v, where := range s.in.Initial {
		switch where {
		case functions.Host:
			s.where[v] = cpu
		case functions.Device:
			if s.in.Size[v] > 0 {
				s.used += s.in.Size[v]
				device = append(device, v)
			}
		}
	}
	slices.SortStableFunc(device, func(a, b int) int { return s.in.First[b] - s.in.First[a] })
	for _, v := range device {
		s.reserve(v, 0)
	}
}

// reserve evicts v after f_after (0: at once), if some function waits for that.
func (s *scheduler) reserve(v, after int) {
	s.where[v], s.slot[v] = going, len(s.queue)
	s.queue = append(s.queue, reserved{v, after})
}

// step schedules f_i.
func (s *scheduler) step(i int) {
	in := s.in
	for s.r < len(in.Use) && s.enter(i) { // (a) and (b)
	}
	// (c): the window moves on; (d).
	for k := in.At[i]; k < in.At[i+1]; k++ {
		v := in.Use[k]
		s.inside[v]--
		s.bytes -= in.Size[v]
	}
	for k := in.At[i]; k < in.At[i+1]; k++ {
		switch v := in.Use[k]; {
		case in.Next[k] == in.N:
			s.where[v] = absent
			s.used -= in.Size[v]
		case s.inside[v] == 0:
			s.reserve(v, i+1)
		}
	}
}

// enter takes the next variable into the window of f_i; false if it is full.
func (s *scheduler) enter(i int) bool {
	in := s.in
	v := in.Use[s.r]
	size := in.Size[v]
	if s.bytes+size > s.window {
		return false
	}
	switch s.where[v] {
	case going: // stays resident
		s.queue[s.slot[v]].v = -1
	case gpu:
	default:
		if !s.free(i, size) {
			return false
		}
		if s.where[v] == cpu {
			s.orders.addBefore(in.come(v), i)
		}
		s.used += size
	}
	s.where[v] = gpu
	s.inside[v]++
	s.bytes += size
	s.r++
	return true
}

// free waits for reserved swap-outs until the given bytes are free. It reports false if all of them
// do not suffice.
func (s *scheduler) free(i int, size float64) bool {
	for s.used+size > s.in.Memory {
		for s.oldest < len(s.queue) && s.queue[s.oldest].v < 0 {
			s.oldest++
		}
		if s.oldest == len(s.queue) {
			return false
		}
		q := s.queue[s.oldest]
		s.oldest++
		s.where[q.v] = cpu
		s.used -= s.in.Size[q.v]
		s.orders.addEviction(q.v, q.after)
		s.orders.addBefore(s.in.wait(q.v), i)
	}
	return true
}
