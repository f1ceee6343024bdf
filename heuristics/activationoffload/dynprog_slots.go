package activationoffload

import (
	"context"
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ErrSlots reports an invalid number of memory slots.
var ErrSlots = errors.New("bad number of memory slots")

// maxSlots keeps numbers of slots, and sums of them, exact in a float64.
const maxSlots = 1 << 30

// DynProgSlots returns the plan of DYNPROG ([004] 3.3). With sizes in slots of M/slots bytes it
// computes the set of activations whose schedule is best in the model of fractional communications,
// and returns the plan that offloads this set. 500 slots are usual. It tries both rules for ε_G and
// returns the better plan.
//
// The errors are those of the methods; a missing plan may be due to rounding. The time is that of
// two DynProgSlotsClaims.
func DynProgSlots(ctx context.Context, c *chain.Chain, p platform.Platform, slots int) (*plan.Plan, error) {
	return betterGap("dynprog-slots", c, p, func(gap Gap) (*Claim, error) { return DynProgSlotsClaim(ctx, c, p, slots, gap) })
}

// DynProgSlotsClaim returns the result of Algorithm 5 of [004] with the discretisation of 3.3.3.2.
// Overheads and gradients are rounded up to slots; β uF and β uB are rounded down and ā up as
// partial sums. So single ā_i may be rounded down, and the set may not fit in bytes. Then, of the
// ā_i that are rounded down, the one nearest to its true size is rounded up, and the run is
// repeated: at most N times, after which what fits in slots fits in bytes.
//
// Claim.Makespan is that of the set with true sizes, Claim.Rounded that with the sizes of the last
// run. If ctx ends, the set is the best of the form {ā_0..ā_k}. A run takes O(N · states · log
// states) time, in the worst case of dominance O(N · states²). There are at most O(slots³) states
// in a layer; dominance left fewer than slots in every network tried.
func DynProgSlotsClaim(ctx context.Context, c *chain.Chain, p platform.Platform, slots int, gap Gap) (*Claim, error) {
	if slots < 1 || slots > maxSlots {
		return nil, fmt.Errorf("%w: dynprog-slots was given %d, it needs 1 to %d; 500 are usual", ErrSlots, slots, maxSlots)
	}
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	if gap < GapOverlap || gap > GapPrinted {
		return nil, errGap(gap)
	}
	z := newComm(in)
	if p.Memory == 0 { // nothing has a size
		return in.claimed(make([]bool, in.N), 0), nil
	}
	r := newRounding(in, slots)
	for repairs := 0; ; repairs++ {
		s := newSearch(r.comm(), gap, math.MaxInt, 0.5) // idle times are integer numbers of slots
		s.run(ctx)
		idle := math.Inf(1)
		away := s.pick(in)
		if away != nil {
			idle = z.idle(away, gap)
		} else if len(s.ties) > 0 && ctx.Err() == nil && r.repair() { // none of them fits in bytes
			continue
		}
		if math.IsInf(idle, 1) {
			return nil, fmt.Errorf("offload: dynprog-slots finds no plan in %s with %d slots, to which sizes are rounded up; more slots round "+
				"less: %w",
				in.Chain.Unit.Exactly(p.Memory), slots, plan.ErrNoPlan)
		}
		k := in.claimed(away, idle)
		root := newSearch(z, gap, 0, 0)
		k.Within = max(0, idle-root.bound(1, &commState{})) / in.Bandwidth
		k.States, k.Repairs = s.states, repairs
		k.Rounded = c.TotalTime() + s.best*(p.Memory/float64(slots))/in.Bandwidth
		return k, nil
	}
}

// A rounded is an instance whose sizes are numbers of slots, and what ā would be
// without rounding.
type rounded struct {
	in    *instance
	slots float64
	abar  []float64 // ã_0..ã_N
}

// newRounding rounds the partial sums of ā up ([004] 3.3.3.2). O(N).
func newRounding(in *instance, slots int) *rounded {
	r := &rounded{in: in, slots: float64(slots), abar: make([]float64, in.N+1)}
	sum, last := 0.0, 0.0
	for i, a := range in.Abar {
		sum += a
		up := r.up(sum)
		r.abar[i], last = up-last, up
	}
	return r
}

// scale converts bytes to slots, without rounding to integers.
func (r *rounded) scale(bytes float64) float64 {
	if x := bytes * r.slots; !math.IsInf(x, 1) {
		return x / r.in.Platform.Memory // integers remain exact
	}
	return bytes / r.in.Platform.Memory * r.slots
}

func (r *rounded) up(bytes float64) float64 { return math.Ceil(r.scale(bytes)) }

// comm returns the instance in slots.
func (r *rounded) comm() *comm {
	in := r.in
	z := emptyComm(in.N, r.slots)
	copy(z.abar, r.abar)
	sumF, sumB := 0.0, 0.0
	for l := 1; l <= in.N; l++ {
		z.needF[l] = r.up(in.OF[l]) + r.abar[l]
		z.needB[l] = r.up(in.OB[l]) + r.abar[l] + r.up(in.Delta[l]) + r.up(in.Delta[l-1])
		// σ̃^F and σ̃^B.
		f, b := sumF+in.sent(in.UF[l]), sumB+in.sent(in.UB[l])
		z.uF[l] = math.Floor(r.scale(f)) - math.Floor(r.scale(sumF))
		z.uB[l] = math.Floor(r.scale(b)) - math.Floor(r.scale(sumB))
		sumF, sumB = f, b
	}
	return z
}

// repair rounds up the ā_i nearest to its size among those rounded down. It reports false if there
// is none.
func (r *rounded) repair() bool {
	best, least := 0, math.Inf(1)
	for i, a := range r.abar {
		if lost := r.scale(r.in.Abar[i]) - a; lost > 0 && lost < least {
			best, least = i, lost
		}
	}
	r.abar[best]++
	return !math.IsInf(least, 1)
}
