package rematoffload

import (
	"cmp"
	"slices"

	"workbench/model/plan"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

// Schedule is a sequence of steps with the gaps in which tensors are on the host, and the earliest
// times at which all of it is valid in the integral model. The transfers run one after the other:
// the offloads in the order out, then the prefetches in the order back.
//
// Memory is determined by positions among the steps. Gap g has been evicted when step leaves[g]
// starts, which waits for the offload. It occupies memory again from step returns[g] on, and the
// prefetch starts no earlier. So feasibility depends on positions only, and the times are longest
// paths in an acyclic graph.
type Schedule struct {
	*Profile
	Away            []Gap
	out, back       []int // orders of offloads and prefetches, as indices of Away
	leaves, returns []int
	start           []float64 // by step
	outAt, backAt   []float64 // by gap: starts of transfers
	Makespan        float64
}

// Retime returns the fastest schedule found for the steps and gaps, false if none fits. Offloads
// run in the order of the last uses of their tensors before the gap, prefetches in the order of the
// next uses. It tries three ways to choose positions:
//
//   - offloads end before B_N and prefetches start after F_N (OR.3), both as late and as early
//     as memory
//     allows within that;
//   - offloads may run after the loss: each ends when memory is needed, and prefetches start as
//     early as
//     the offloads then allow;
//   - prefetches may start before the loss, and offloads end in time for that.
//
// O(steps · gaps) in the worst case, usually linear.
func Retime(r *Profile, away []Gap) (*Schedule, bool) {
	var best *Schedule
	for _, way := range [...]func(*Schedule) bool{(*Schedule).split, (*Schedule).offloadsFirst, (*Schedule).prefetchesFirst} {
		s := newSchedule(r, away)
		if way(s) && s.time() && (best == nil || s.Makespan < best.Makespan) {
			best = s
		}
		if len(away) == 0 {
			break
		}
	}
	return best, best != nil
}

func newSchedule(r *Profile, away []Gap) *Schedule {
	s := &Schedule{Profile: r, Away: away}
	n := len(away)
	ints := make([]int, 4*n)
	s.out, s.back, s.leaves, s.returns = ints[:n], ints[n:2*n], ints[2*n:3*n], ints[3*n:]
	for g := range away {
		s.out[g], s.back[g] = g, g
	}
	slices.SortStableFunc(s.out, func(x, y int) int { return cmp.Compare(away[x].From, away[y].From) })
	slices.SortStableFunc(s.back, func(x, y int) int { return cmp.Compare(away[x].To, away[y].To) })
	flat := make([]float64, len(r.Steps)+2*n)
	s.start, s.outAt, s.backAt = flat[:len(r.Steps)], flat[len(r.Steps):len(r.Steps)+n], flat[len(r.Steps)+n:]
	for g, x := range away {
		s.leaves[g], s.returns[g] = x.From+1, x.To
	}
	return s
}

// split makes offloads end before the loss and prefetches start after it.
func (s *Schedule) split() bool {
	if !s.lateLeaves() {
		return false
	}
	for g := range s.Away {
		s.leaves[g] = min(s.leaves[g], s.Loss)
	}
	if !s.earlyReturns() {
		return false
	}
	for g := range s.Away {
		s.returns[g] = max(s.returns[g], s.Loss)
	}
	return true
}

// offloadsFirst makes offloads as late as possible, and prefetches as early as the resulting
// offload times allow.
func (s *Schedule) offloadsFirst() bool {
	if !s.lateLeaves() || !s.time() {
		return false
	}
	for g, x := range s.Away {
		end := s.outAt[g] + s.transfer(g)
		i, _ := slices.BinarySearch(s.start, end)
		s.leaves[g] = min(s.leaves[g], max(i, x.From+1))
	}
	return s.earlyReturns()
}

// prefetchesFirst makes prefetches as early as possible, then offloads as late as possible.
func (s *Schedule) prefetchesFirst() bool { return s.earlyReturns() && s.lateLeaves() }

// lateLeaves makes each offload end as late as memory allows, in the order out, given returns. It
// reports whether everything fits.
func (s *Schedule) lateLeaves() bool {
	gone := 0.0 // bytes on the host only
	next := 0
	back := newBuckets(len(s.Steps), s.returns)
	for g := range s.Away {
		s.leaves[g] = len(s.Steps)
	}
	for i, need := range s.During {
		for g := back.first[i]; g >= 0; g = back.next[g] {
			if s.leaves[g] <= i {
				gone -= s.In.Size(s.Away[g].Tensor)
			}
		}
		for need-gone > s.In.Memory && next < len(s.out) {
			g := s.out[next]
			next++
			if s.Away[g].From >= i {
				return false
			}
			s.leaves[g] = i
			if s.returns[g] > i {
				gone += s.In.Size(s.Away[g].Tensor)
			}
		}
		if need-gone > s.In.Memory {
			return false
		}
	}
	for g := range s.Away { // those never forced: no later than their return
		s.leaves[g] = min(s.leaves[g], s.returns[g])
	}
	return true
}

// earlyReturns makes each prefetch start as early as memory allows, given leaves; the last ones
// wait least. It is lateLeaves in reversed time.
func (s *Schedule) earlyReturns() bool {
	gone := 0.0
	next := len(s.back) - 1
	left := newBuckets(len(s.Steps), s.leaves)
	for g := range s.Away {
		s.returns[g] = -1
	}
	for i := len(s.Steps) - 1; i >= 0; i-- {
		// A tensor evicted at step i+1 is in memory at step i.
		if i+1 < len(s.Steps) {
			for g := left.first[i+1]; g >= 0; g = left.next[g] {
				if s.returns[g] > i+1 {
					gone -= s.In.Size(s.Away[g].Tensor)
				}
			}
		}
		for s.During[i]-gone > s.In.Memory && next >= 0 {
			g := s.back[next]
			next--
			if s.Away[g].To <= i {
				return false
			}
			s.returns[g] = i + 1
			if s.leaves[g] <= i {
				gone += s.In.Size(s.Away[g].Tensor)
			}
		}
		if s.During[i]-gone > s.In.Memory {
			return false
		}
	}
	for g := range s.Away {
		s.returns[g] = max(s.returns[g], s.leaves[g])
	}
	return true
}

// buckets has lists of gaps by step.
type buckets struct{ first, next []int }

func newBuckets(steps int, of []int) buckets {
	b := buckets{make([]int, steps+1), make([]int, len(of))}
	for i := range b.first {
		b.first[i] = -1
	}
	for g, i := range of {
		b.next[g], b.first[i] = b.first[i], g
	}
	return b
}

func (s *Schedule) transfer(g int) float64 { return s.In.Size(s.Away[g].Tensor) / s.In.Bandwidth }

// time computes the earliest times for the positions. It reports false if they contradict each
// other.
func (s *Schedule) time() bool {
	leave, use := newBuckets(len(s.Steps), s.leaves), make([]int, len(s.Away))
	for g, x := range s.Away {
		use[g] = x.To
	}
	need := newBuckets(len(s.Steps), use)
	out, back := 0, 0 // number of transfers that are timed
	const never = -1
	for g := range s.Away {
		s.outAt[g], s.backAt[g] = never, never
	}
	clock, link := 0.0, 0.0
	// advance times transfers whose preceding steps, before i, are timed.
	advance := func(i int) {
		for out < len(s.out) {
			g := s.out[out]
			from := s.Away[g].From
			if from >= i {
				return
			}
			ready := 0.0
			if from >= 0 {
				if ready = s.start[from]; s.Away[g].made {
					ready += s.Took[from]
				}
			}
			s.outAt[g] = max(link, ready)
			link = s.outAt[g] + s.transfer(g)
			out++
		}
		for back < len(s.back) {
			g := s.back[back]
			if s.returns[g] > i {
				return
			}
			ready := 0.0
			if j := s.returns[g] - 1; j >= 0 {
				ready = s.start[j] + s.Took[j]
			}
			s.backAt[g] = max(link, ready, s.outAt[g]+s.transfer(g))
			link = s.backAt[g] + s.transfer(g)
			back++
		}
	}
	for i := range s.Steps {
		advance(i)
		at := clock
		for g := leave.first[i]; g >= 0; g = leave.next[g] {
			if s.outAt[g] == never {
				return false
			}
			at = max(at, s.outAt[g]+s.transfer(g))
		}
		for g := need.first[i]; g >= 0; g = need.next[g] {
			if s.backAt[g] == never {
				return false
			}
			at = max(at, s.backAt[g]+s.transfer(g))
		}
		s.start[i], clock = at, at+s.Took[i]
	}
	s.Makespan = clock
	return true
}

// Plan returns the schedule as a plan with claims; the peak is that of the replay. A gap whose
// tensor is evicted and returns at once is kept, since its transfers cost nothing that time has not
// counted. The errors are those of the verifier.
func (s *Schedule) Plan(method string) (*plan.Plan, error) {
	p := plan.New(Problem, method, s.In.Chain, s.In.Platform)
	from, to := make([]int, len(s.Away)), make([]int, len(s.Away))
	for g, x := range s.Away {
		from[g], to[g] = x.From+1, x.To
	}
	after, before := newBuckets(len(s.Steps), from), newBuckets(len(s.Steps), to)
	ops := make([]plan.Op, 0, len(s.Steps)+2*len(s.Away))
	// In a tie an offload follows the step that last used its tensor, and a prefetch precedes the
	// step that needs it.
	for i, x := range s.Steps {
		for g := after.first[i]; g >= 0; g = after.next[g] {
			ops = append(ops, s.transferOp(plan.OpO, g, s.outAt[g]))
		}
		for g := before.first[i]; g >= 0; g = before.next[g] {
			ops = append(ops, s.transferOp(plan.OpP, g, s.backAt[g]))
		}
		o := x.Op()
		o.Start, o.End = s.start[i], s.start[i]+s.Took[i]
		ops = append(ops, o)
	}
	slices.SortStableFunc(ops, func(x, y plan.Op) int { return cmp.Compare(x.Start, y.Start) })
	p.Ops = ops
	r, err := verifyrematoffload.Verify(s.In.Chain, p)
	if err != nil {
		return nil, err
	}
	p.Claims = plan.Claims{Makespan: s.Makespan, PeakMemory: r.PeakMemory}
	return p, nil
}

// transferOp returns the offload or prefetch of gap g.
func (s *Schedule) transferOp(op string, g int, start float64) plan.Op {
	x, name := s.Away[g], plan.TensorA
	if x.Tensor&1 == 1 {
		name = plan.TensorAbar
	}
	return plan.Op{Op: op, Tensor: name, Layer: int(x.Tensor >> 1), Start: start, End: start + s.transfer(g)}
}
