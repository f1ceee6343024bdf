package rematoffload

import (
	"context"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
)

// tail is a persistent sequence that computes B_t .. B_s from I_s and δ_t, with the values on which its cost in
// [004] 4.2.3 depends. In reversed time the outstanding prefetches, Δ bytes at the end of the sequence, leave the
// device at β bytes per second, from the last operation to the first. An operation that starts, in reversed time,
// e seconds after the end and takes need bytes in addition to I_s must wait until A + Δ − β·(e + waiting) + need ≤
// M (Lemma 8), A including I_s. The total waiting time is max(0, (A + Δ + R − M)/β) with
//
//	R = max over operations of need − β·e,
//
// so three numbers describe a sequence: its need, its time without waiting, and R. C_Δ(s,t,A,Δ) is the minimum of
// U + waiting over the sequences with need ≤ M − A.
type tail struct {
	need  float64 // bytes in addition to I_s
	u, r  float64 // seconds; bytes
	split int32   // F_ck s .. and parts t' = split; 0: F_all s
	x, y  int32   // parts: (s+1,t) in x; or (s,split) in x and (split+1,t) in y
}

// cost returns the time with the given bytes of prefetches and slack = M − A.
func (z *tail) cost(prefetch, slack, beta float64) float64 {
	return z.u + max(0, (prefetch+z.r-slack)/beta)
}

// tails holds, for each s ≤ t and each limit of M/slots, 2M/slots, .. bytes in addition to I_s, the sequences
// within the limit that are optimal for some Δ. Needs are not rounded: where two sequences lie between the same
// limits, the better one for the upper limit is kept, with its own need.
type tails struct {
	in    *instance
	slots int
	slot  float64 // bytes
	// A sequence is dropped if a faster one waits no longer except for thin bytes: slightly less than a slot, or
	// the given fraction of the limit.
	thin, part float64
	// A sequence is also dropped if the whole step then takes longer than atMost.
	atMost, longest float64
	all             []tail
	// The sequences of (s,t) at limit i are all[first[k]:first[k]+count[k]],
	// k = cell(s,t)·(slots+1) + i; by increasing u.
	first []int32
	count []int16
	row   []int

	backward []float64 // backward[ℓ] = Σ uB_1..ℓ
	found    []tail    // of the current cell

	ledger        // bytes of these tables and those of the forward phase
	scratch forth // buffers of the forward phase, reused by successive runs
}

// slot returns the memory divided by slots, or 1 if the memory is 0.
func (in *instance) slot(slots int) float64 {
	if in.Memory == 0 {
		return 1
	}
	return in.Memory / float64(slots)
}

func (d *tails) cell(s, t int) int { return (d.row[s] + t) * (d.slots + 1) }

// coarse is the fraction of the limit by which sequences must differ: with less, claims change by some 0.1 % of
// the makespan on networks, and the time more than tenfold.
const coarse = 1.0 / 8

// newTails fills the table, by increasing t and decreasing s. It takes O(N³·slots) steps times the square of the
// number of sequences that are optimal for some Δ, which is one to five on networks. Space is O(N²·slots) times
// that number, at most limit bytes. The error wraps plan.ErrNoPlan if ctx ended first, or is a *TooLargeError. It
// returns at once if the table would leave no memory for the grid of the forward phase.
func newTails(ctx context.Context, in *instance, slots int, part, atMost float64, limit int) (*tails, error) {
	n := in.N
	d := &tails{in: in, slots: slots, part: part, atMost: atMost, slot: in.slot(slots), row: make([]int, n+2), ledger: ledger{limit: limit}}
	d.row[1] = -1
	for s := 2; s <= n; s++ {
		d.row[s] = d.row[s-1] + n - s + 1
	}
	d.backward = make([]float64, n+1)
	for l := 1; l <= n; l++ {
		d.backward[l] = d.backward[l-1] + in.UB[l]
	}
	cells := n * (n + 1) / 2 * (slots + 1)
	if x := float64(slots + 2); 4*x*x*x+6*float64(cells) > float64(limit) {
		return nil, d.noRoom()
	}
	d.first, _ = table(&d.ledger, d.first, cells)
	d.count, _ = table(&d.ledger, d.count, cells)
	for t := 1; t <= n; t++ {
		for s := t; s >= 1; s-- {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("remat-offload: pofo: %w: %w", context.Cause(ctx), plan.ErrNoPlan)
			}
			if !d.fill(s, t) {
				return nil, d.noRoom()
			}
		}
	}
	return d, nil
}

// sequences returns the sequences of (s,t) for limit i.
func (d *tails) sequences(cell, i int) (from, to int32) {
	k := cell + i
	return d.first[k], d.first[k] + int32(d.count[k])
}

// limit returns i slots in bytes; all slots are the whole memory.
func (d *tails) limit(i int) float64 {
	if i == d.slots && d.in.Memory > 0 {
		return d.in.Memory
	}
	return float64(i) * d.slot
}

// slotBelow returns the largest limit in slots within the given bytes, -1 if they are negative.
func (d *tails) slotBelow(limit float64) int {
	if !(limit >= 0) {
		return -1
	}
	i := min(d.slots, int(limit/d.slot))
	if i < d.slots && d.limit(i+1) <= limit { // the quotient is rounded
		i++
	} else if d.limit(i) > limit {
		i--
	}
	return i
}

// best returns the sequence of (s,t) in slack bytes of minimum time with the given bytes of prefetches; -1 if
// there is none.
func (d *tails) best(s, t int, slack, prefetch float64) (z int32, cost float64) {
	z, cost = -1, math.Inf(1)
	from, to, more, last := d.list(d.cell(s, t), slack)
	for _, part := range [...][2]int32{{from, to}, {more, last}} {
		for k := part[0]; k < part[1]; k++ {
			x := &d.all[k]
			if x.u >= cost {
				break // sorted by increasing u
			}
			if x.need > slack {
				continue
			}
			if y := x.cost(prefetch, slack, d.in.Bandwidth); y < cost {
				z, cost = k, y
			}
		}
	}
	return z, cost
}

// fill computes the sequences of (s,t); false if the memory does not suffice.
func (d *tails) fill(s, t int) (ok bool) {
	in, beta := d.in, d.in.Bandwidth
	// Case 1: F_all s, then (s+1,t) in base ā_s, then B_s.
	needAll := in.Delta[t] + in.NeedAll(s)
	needB := in.NeedBackward(s)
	cell, inner := d.cell(s, t), 0
	least := max(needAll, needB)
	if s < t {
		inner, least = d.cell(s+1, t), needB // which every sequence needs
	}
	d.longest = d.atMost - (in.Chain.TotalTime() - (d.backward[t] - d.backward[s-1]))
	previous, below := 0, 0 // the sequences of limit i-1
	for i := 0; i <= d.slots; i++ {
		limit := d.limit(i)
		d.thin = max(0.999*d.slot, limit*d.part)
		d.found = d.found[:0]
		if limit >= least {
			switch {
			case s == t:
				u := in.UF[s] + in.UB[s]
				d.add(tail{need: max(needAll, needB), u: u, r: max(needB, needAll-beta*in.UB[s])}, limit)
			case limit >= max(needAll, needB):
				from, to, more, last := d.list(inner, limit-in.Abar[s])
				for _, part := range [...][2]int32{{from, to}, {more, last}} {
					for k := part[0]; k < part[1]; k++ {
						z := &d.all[k]
						d.add(tail{
							need: max(needAll, needB, in.Abar[s]+z.need),
							u:    in.UF[s] + z.u + in.UB[s],
							r:    max(needB, in.Abar[s]+z.r-beta*in.UB[s], needAll-beta*(in.UB[s]+z.u)),
							x:    k,
						}, limit)
					}
				}
			}
			if s < t {
				d.splits(s, t, limit)
			}
		}
		k := cell + i
		if i > 0 && slices.Equal(d.found, d.all[previous:below]) {
			d.first[k], d.count[k] = int32(previous), int16(below-previous)
			continue
		}
		previous = len(d.all)
		if d.all, ok = reserve(&d.ledger, d.all, len(d.found)); !ok {
			return false
		}
		d.all = append(d.all, d.found...)
		below = len(d.all)
		d.first[k], d.count[k] = int32(previous), int16(below-previous)
	}
	return true
}

// list returns the sequences of a cell that need at most limit bytes, as two ranges of all: those of the slot
// limit below, and those of the one above, whose needs must be checked.
func (d *tails) list(cell int, limit float64) (from, to, more, last int32) {
	i := d.slotBelow(limit)
	if i < 0 {
		return
	}
	from, to = d.sequences(cell, i)
	if i < d.slots {
		if more, last = d.sequences(cell, i+1); more == from && last == to {
			more, last = 0, 0 // the same list
		}
	}
	return from, to, more, last
}

// splits adds Case 2 of 4.2.3: F_ck s, F_none .. h, then (h+1,t) while a_h is resident, then (s,h).
func (d *tails) splits(s, t int, limit float64) {
	in, beta := d.in, d.in.Bandwidth
	run := 0.0  // maximum requirement of F_s .. F_h
	wave := 0.0 // max over k of the requirement less β·Σ uF_k+1..h
	for h := s; h < t; h++ {
		need := in.Delta[t] + in.A[h] + in.OC[h]
		if h > s {
			need += in.A[h-1]
		}
		run, wave = max(run, need), max(wave-beta*in.UF[h], need)
		if run > limit {
			return // the same holds for later h
		}
		forward := in.Until[h] - in.Until[s-1]
		from, to := d.sequences(d.cell(s, h), d.slotBelow(limit)) // limit is an integer number of slots
		above := limit - in.A[h]
		yFrom, yTo, yMore, yLast := d.list(d.cell(h+1, t), limit-in.A[h])
		if d.hopeless(from, to, yFrom, yTo, yMore, yLast, forward, in.A[h], wave) {
			continue
		}
		for x := from; x < to; x++ {
			left := &d.all[x]
			for _, part := range [...][2]int32{{yFrom, yTo}, {yMore, yLast}} {
				for y := part[0]; y < part[1]; y++ {
					right := &d.all[y]
					u := left.u + right.u
					r := max(left.r, in.A[h]+right.r-beta*left.u, wave-beta*u)
					if d.beaten(forward+u, r) || right.need > above {
						continue
					}
					d.add(tail{need: max(run, left.need, in.A[h]+right.need), u: forward + u, r: r, split: int32(h), x: x, y: y}, limit)
				}
			}
		}
	}
}

// hopeless reports whether every split into a sequence of one list and one of two others would be dropped. It
// combines the minimum time of either with the minimum of time·β + R.
func (d *tails) hopeless(x, xEnd, y, yEnd, z, zEnd int32, forward, kept, wave float64) bool {
	if x == xEnd || y == yEnd && z == zEnd {
		return true
	}
	beta := d.in.Bandwidth
	v := func(k int32) float64 { return d.all[k].u*beta + d.all[k].r }
	// Lists are sorted by increasing u and decreasing u·β + R.
	right, rightV := math.Inf(1), math.Inf(1)
	if y < yEnd {
		right, rightV = d.all[y].u, v(yEnd-1)
	}
	if z < zEnd {
		right, rightV = min(right, d.all[z].u), min(rightV, v(zEnd-1))
	}
	u := forward + d.all[x].u + right
	if u > d.longest {
		return true
	}
	least := forward*beta + max(v(xEnd-1)+right*beta, kept+rightV, wave)
	return d.beaten(u, least-u*beta)
}

// add adds z to the found sequences unless one dominates it for every Δ, and removes those that z dominates. A
// sequence of cost max(u, u + (Δ+r−..)/β) dominates another if both terms are no larger.
func (d *tails) add(z tail, limit float64) {
	if z.need > limit || z.u > d.longest {
		return
	}
	beta := d.in.Bandwidth
	v := z.u*beta + z.r
	at := 0
	for at < len(d.found) && d.found[at].u <= z.u {
		if d.found[at].u*beta+d.found[at].r <= v+d.thin {
			return
		}
		at++
	}
	end := at
	for end < len(d.found) && d.found[end].u*beta+d.found[end].r >= v {
		end++
	}
	d.found = slices.Replace(d.found, at, end, z)
}

// beaten is a fast test for most sequences that add would reject.
func (d *tails) beaten(u, r float64) bool {
	if len(d.found) == 0 {
		return false
	}
	v := u*d.in.Bandwidth + r + d.thin
	for i := range d.found {
		z := &d.found[i]
		if z.u > u {
			return false
		}
		if z.u*d.in.Bandwidth+z.r <= v {
			return true
		}
	}
	return false
}

// append appends the steps of a sequence of (s,t).
func (d *tails) append(steps []view.Step, k int32, s, t int) []view.Step {
	z := &d.all[k]
	switch {
	case z.split > 0:
		h := int(z.split)
		steps = view.Segment(steps, s, h)
		steps = d.append(steps, z.y, h+1, t)
		return d.append(steps, z.x, s, h)
	case s < t:
		steps = append(steps, view.Step{Kind: view.FAll, Layer: int32(s)})
		steps = d.append(steps, z.x, s+1, t)
		return append(steps, view.Step{Kind: view.Backward, Layer: int32(s)})
	}
	return append(steps, view.Step{Kind: view.FAll, Layer: int32(s)}, view.Step{Kind: view.Backward, Layer: int32(s)})
}
