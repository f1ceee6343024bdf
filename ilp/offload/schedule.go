package offload

import (
	"math"
)

// noWait makes of an order of offloads and one of prefetches the plan in which
// all offloads precede all prefetches, everything before the loss is as early
// and everything after it as late as can be: [004] Proposition 1. The backward
// half is the forward one of reversed time. In the units of offloadInstance.
//
// There are better plans for some instances, that begin a prefetch before the
// last offload (errata 4).
type noWait struct {
	*offloadInstance
	forward, backward half
	gap               float64 // from the end of F_N to the start of B_N
}

// half is one direction: starts of computations, starts of transfers in order.
// Of the backward half, times count back from the end of the plan.
type half struct {
	s     []float64 // of F_{k+1}, or of reversed B_{k+1}
	end   float64   // of the last computation
	start []float64 // of the transfers, in order
	done  []float64 // when the memory of the tensor is free
}

func newNoWait(in *offloadInstance) *noWait {
	w := &noWait{offloadInstance: in}
	for _, h := range [...]*half{&w.forward, &w.backward} {
		h.s = make([]float64, in.n)
		h.start, h.done = make([]float64, 0, in.n), make([]float64, 0, in.n)
	}
	return w
}

// run times the transfers in the orders given. It returns +Inf if the orders
// do not fit. O(N + transfers).
func (w *noWait) run(offloads, prefetches []int) float64 {
	if !w.pass(&w.forward, offloads, false) || !w.pass(&w.backward, prefetches, true) {
		return math.Inf(1)
	}
	w.gap = w.join(offloads, prefetches)
	if math.IsInf(w.gap, 1) {
		return w.gap
	}
	return w.forward.end + w.gap + w.backward.end
}

// pass times one half. Forward, O_i starts once F_i has ended and frees ā_i
// when it and F_{i+1} have; in reversed time, P_i starts once B_{i+1} has ended
// and frees ā_i when it ends.
func (w *noWait) pass(h *half, order []int, back bool) bool {
	h.start, h.done = h.start[:0], h.done[:0]
	ended := 0.0 // of the last computation
	link := 0.0
	next := 0 // transfers begun, whose start is known
	freed, counted := 0.0, 0
	for k := range w.n {
		j := k
		if back {
			j = 2*w.n - 1 - k
		}
		// Transfers of tensors that are there; O_i needs F_i, number i−1.
		for next < len(order) {
			i := order[next]
			after := i - 1
			if back {
				after = i
			}
			if after >= k {
				break
			}
			from := link
			if after >= 0 {
				from = max(from, h.s[after]+w.length(after, back))
			}
			h.start = append(h.start, from)
			link = from + w.move[i]
			done := link
			if !back && i < k {
				done = max(done, h.s[i]+w.u[i])
			}
			h.done = append(h.done, done)
			next++
		}
		start, away := ended, freed
		for q := counted; away < w.excess[j]-1e-9; q++ {
			if q == next {
				return false
			}
			i := order[q]
			if i == k {
				continue // in use by F_{k+1}
			}
			if !back {
				h.done[q] = max(h.done[q], h.s[i]+w.u[i])
			}
			start = max(start, h.done[q])
			away += w.abar[i]
			if q == counted {
				freed += w.abar[i]
				counted++
			}
		}
		h.s[k] = start
		ended = start + w.u[j]
	}
	for ; next < len(order); next++ {
		i := order[next]
		after := i - 1
		if back {
			after = i
		}
		from := link
		if after >= 0 {
			from = max(from, h.s[after]+w.length(after, back))
		}
		h.start = append(h.start, from)
		link = from + w.move[i]
		h.done = append(h.done, link)
	}
	if !back {
		for q, i := range order {
			h.done[q] = max(h.done[q], h.s[i]+w.u[i])
		}
	}
	h.end = ended
	return true
}

func (w *noWait) length(k int, back bool) float64 {
	if back {
		return w.u[2*w.n-1-k]
	}
	return w.u[k]
}

// join returns the least gap between the halves: the link is free, and the
// prefetches of the backward half leave the computations of the forward one
// their memory, and the other way round.
func (w *noWait) join(offloads, prefetches []int) float64 {
	gap := 0.0
	f, b := &w.forward, &w.backward
	// In times of the forward half, x of the backward one is f.end+gap+b.end−x.
	last, first := f.end, b.end
	if n := len(offloads); n > 0 {
		last = f.start[n-1] + w.move[offloads[n-1]]
	}
	if n := len(prefetches); n > 0 {
		first = b.start[n-1] + w.move[prefetches[n-1]]
	}
	// last ≤ f.end + gap + b.end − first
	if len(offloads) > 0 {
		gap = max(gap, last+first-f.end-b.end)
	}
	gap = max(gap, w.beside(f, b, offloads, prefetches, false))
	return max(gap, w.beside(b, f, prefetches, offloads, true))
}

// beside returns the least gap with which the transfers of half g, that happen
// after those of h in h's time, leave the computations of h their memory. In h's
// time, a transfer of g that ends at x holds memory from h.end+gap+g.end−x on.
func (w *noWait) beside(h, g *half, order, others []int, back bool) float64 {
	gap, all := 0.0, 0.0
	for _, i := range order {
		all += w.abar[i]
	}
	for k := range w.n {
		j := k
		if back {
			j = 2*w.n - 1 - k
		}
		away := all
		for _, i := range order {
			if i >= k {
				away -= w.abar[i]
			}
		}
		for r := len(others) - 1; r >= 0; r-- {
			if others[r] >= k {
				continue
			}
			if away -= w.abar[others[r]]; away < w.excess[j]-1e-9 {
				gap = max(gap, h.s[k]+w.u[j]+g.done[r]-h.end-g.end)
				break
			}
		}
	}
	return gap
}
