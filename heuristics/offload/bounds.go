package offload

import (
	"cmp"
	"math"
	"math/big"
	"slices"

	"workbench/model/chain"
	"workbench/model/platform"
)

// Bound is a proven lower bound on the makespan of every plan.
type Bound struct {
	Value float64 // seconds
	By    string  // how it is proved
}

// Bounds returns lower bounds on the makespan, the best first. All hold for
// every plan of the integral model, without assumptions, whatever it offloads,
// how often, and in which order. (A plan that takes 10⁻⁹ more than M, which
// verifiers forgive, may be below them where not fitting by that little matters;
// they grant it 10⁻¹².) The errors are those of the methods. O(N) and what
// "whole-tensors" takes, less than a second.
//
// "lb" is Proposition 3 of [004]: LB = max(Σu, 2(M_peak − M)/β).
//
// "fractional" is Theorem 8, the optimum when parts of tensors may move. That
// it bounds all plans is proved as follows. While operation ℓ of one phase runs,
// at each instant at least X_ℓ = ā_0 + … + ā_{ℓ-1} + M_ℓ − M bytes of ā_0..ā_{ℓ-2}
// are neither stored nor reserved, though they need not be the same all the time.
//
// (1) Those away at its start were sent by transfers that had ended by then. Let
// ê_i be the earliest possible end of F_i and d(X) the time when the link, sending
// ā_0, ā_1, … without pause, but ā_i not before ê_i, has sent X bytes: no plan
// has sent X bytes of different activations before d(X), as at any time it has
// produced no more of them. So ℓ starts at max(ê_{ℓ-1}, d(X_ℓ)) at the earliest;
// this gives ê_ℓ, by induction, for the forward phase. B_ℓ starts at d(X_ℓ) at
// the earliest.
//
// (2) Those away at its end are fetched by transfers that start then or later. In
// reversed time this is (1): with r(X) for d(X), where ā_i can be sent after the
// reversed B_{i+1}, B_ℓ starts at least b̂_ℓ before the end of the plan, and each
// F_ℓ ends at least r(X_ℓ) before it.
//
// (3) F_N ends before B_N starts. Together T is at least
//
//	max(ê_N + b̂_N, max_ℓ (ê_ℓ + r(X_ℓ)), max_ℓ (d(X_ℓ) + b̂_ℓ)),
//
// with the X_ℓ of the forward phase in the second and those of the backward
// phase in the third. The schedule of Theorem 8 has these times.
//
// "whole-tensors" uses that what is away, is away whole. Each X_ℓ is raised to the
// least sum of a subset of ā_0..ā_{ℓ-2} that reaches it. (These sums are found if
// sizes are whole bytes; when they are too many, X_ℓ is raised to the next multiple
// of the sizes' greatest common divisor.) While operation ℓ runs, some set A of
// ā_0..ā_{ℓ-2} with at least X_ℓ bytes is away. Let d(A) be the time at which A has
// been sent, ā_i not before ê_i, which is least in the order of the indices, and
// r(A) the same in reversed time. Then the start of ℓ, in its phase, is at least
// the least d(A) of all such A, which makes the ê_i larger in turn. Further, let A
// be what is away when F_ℓ starts. If nothing of it comes back while F_ℓ runs, it is
// sent before F_ℓ and fetched after it. Otherwise something of at least a bytes
// does, the least of ā_0..ā_{ℓ-2}; let A' be what is away when the first such
// prefetch starts. A' was sent before that instant, is fetched from it on, and
// without what is fetched first it still has X_ℓ bytes. So T is no less than one of
//
//	min over A of X_ℓ bytes:      max(ê_{ℓ-1}, d(A)) + uF_ℓ + r(A),
//	min over A' of X_ℓ + a bytes: max(ê_{ℓ-1}, d(A')) + r(A'),
//
// and likewise for B_ℓ. Of all sets those are looked at that no other dominates
// in size, d and r; where they are too many, two are replaced by one that
// dominates both, which only lowers the minimum.
func Bounds(c *chain.Chain, p platform.Platform) ([]Bound, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	return in.bounds(), nil
}

func (in *instance) bounds() []Bound {
	bounds := []Bound{
		{in.whole(), "whole-tensors"},
		{in.fractional().makespan, "fractional"},
		{in.lb(), "lb"},
	}
	slices.SortStableFunc(bounds, func(a, b Bound) int { return cmp.Compare(b.Value, a.Value) })
	return bounds
}

// lb is LB of [004] Proposition 3.
func (in *instance) lb() float64 {
	return max(in.chain.TotalTime(), 2*(in.peakMemory()-in.limit)/in.beta)
}

// bound returns the best lower bound.
func (in *instance) bound() float64 { return in.bounds()[0].Value }

// FractionalOptimum is the optimum of [004] Problem 9, in which any part of an
// activation may be offloaded and its memory freed at once. It is no plan; Greedy
// is its rounding.
type FractionalOptimum struct {
	Makespan  float64 // seconds
	Offloaded float64 // bytes: M_peak − M, or 0
	// ā_0..ā_{Whole-1} are offloaded whole, and Part bytes of ā_Whole.
	Whole int
	Part  float64
}

// Fractional returns the optimum of the fractional relaxation: the eager,
// ordered, no-wait schedule that offloads M_peak − M bytes ([004] Theorem 8).
// The errors are those of the methods. O(N).
func Fractional(c *chain.Chain, p platform.Platform) (*FractionalOptimum, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	o := &FractionalOptimum{Makespan: in.fractional().makespan, Offloaded: max(0, in.peakMemory()-in.limit)}
	o.Part = o.Offloaded
	for o.Whole < in.n && o.Part >= in.abar[o.Whole] {
		o.Part -= in.abar[o.Whole]
		o.Whole++
	}
	return o, nil
}

// excess holds X_ℓ of both phases, index 0 unused.
type excess struct{ forward, backward []float64 }

// excess returns X_ℓ = ā_0 + … + ā_{ℓ-1} + M_ℓ − M. O(N).
func (in *instance) excess() excess {
	x := excess{make([]float64, in.n+1), make([]float64, in.n+1)}
	for l := 1; l <= in.n; l++ {
		x.forward[l] = in.before[l] + in.needF[l] - in.limit
		x.backward[l] = in.before[l] + in.needB[l] - in.limit
	}
	return x
}

// eager is the schedule of (1) and (2) of Bounds.
type eager struct {
	makespan     float64
	fwd, bwd     []float64 // ends by layer, of the backward phase in reversed time
	send, fetch  []float64 // starts of the transfers of ā_i, likewise
	fwdAt, bwdAt []float64 // starts by layer
}

func (in *instance) fractional() *eager { return in.eagerSchedule(in.excess(), 0) }

// whole is the bound "whole-tensors".
func (in *instance) whole() float64 {
	x := in.wholeTensors()
	sets := min(maxSets, max(minSets, totalSets/in.n))
	e := in.eagerSchedule(x, sets)
	return max(e.makespan, in.sameSets(x, e, sets))
}

// eagerSchedule returns the eager schedule in which x bytes are away during each
// operation, and with sets > 0 whole tensors, of which so many sets are looked at
// for each operation. O(N) and O(N·sets).
func (in *instance) eagerSchedule(x excess, sets int) *eager {
	e := &eager{}
	e.fwdAt, e.fwd, e.send = in.eagerPhase(x.forward, in.uF, 0, sets)
	e.bwdAt, e.bwd, e.fetch = in.eagerPhase(x.backward, in.uB, 1, sets)
	e.makespan = e.fwd[in.n] + e.bwd[in.n]
	// Of operations of one phase only an X larger than those of operations
	// nearer to the loss can count.
	k, most := 0, 0.0
	for l := in.n; l >= 1; l-- {
		if x.forward[l] > most {
			most = x.forward[l]
			k = in.reach(k, most)
			e.makespan = max(e.makespan, e.fwd[l]+in.when(e.fetch, k, most))
		}
	}
	k, most = 0, 0.0
	for l := in.n; l >= 1; l-- {
		if x.backward[l] > most {
			most = x.backward[l]
			k = in.reach(k, most)
			e.makespan = max(e.makespan, in.when(e.send, k, most)+e.bwd[l])
		}
	}
	return e
}

// eagerPhase returns the times of one phase: starts and ends of its operations
// and starts of transfers, when ā_i can be sent after operation i+lag.
func (in *instance) eagerPhase(x, u []float64, lag, sets int) (start, end, send []float64) {
	start, end, send = make([]float64, in.n+1), make([]float64, in.n+1), make([]float64, in.n)
	link := 0.0
	sent := func(l int) { // operation l has ended
		if i := l - lag; i >= 0 && i < in.n {
			send[i] = max(link, end[l])
			link = send[i] + in.move[i]
		}
	}
	sent(0)
	k, most := 0, 0.0
	f := newFrontier(sets, slices.Max(x))
	for l := 1; l <= in.n; l++ {
		start[l] = end[l-1]
		if sets > 0 && l >= 2 {
			f.add(in.abar[l-2], in.move[l-2], end[l-2+lag], 0)
		}
		if x[l] > most {
			most = x[l]
			k = in.reach(k, most)
			start[l] = max(start[l], in.when(send, k, most))
			if sets > 0 {
				start[l] = atLeast(start[l], f.least(most, func(a shipment) float64 { return a.out }))
			}
		}
		end[l] = start[l] + u[l]
		sent(l)
	}
	return start, end, send
}

// reach returns the first i, from on, with ā_0 + … + ā_i ≥ x.
func (in *instance) reach(from int, x float64) int {
	for from < in.n-1 && in.before[from+1] < x {
		from++
	}
	return from
}

// when is the time when x bytes have been sent, ā_k being the last of them.
func (in *instance) when(send []float64, k int, x float64) float64 {
	return send[k] + min(x-in.before[k], in.abar[k])/in.beta
}

// sameSets returns the bound of "whole-tensors" that sends and fetches the same
// set. O(N·sets).
func (in *instance) sameSets(x excess, e *eager, sets int) float64 {
	most, smallest := 0.0, make([]float64, in.n+1) // by ℓ: a
	a := math.Inf(1)
	for l := 2; l <= in.n; l++ {
		if in.abar[l-2] > 0 {
			a = min(a, in.abar[l-2])
		}
		smallest[l] = a
		if X := max(x.forward[l], x.backward[l]); X > 0 {
			most = max(most, X+a)
		}
	}
	T := 0.0
	f := newFrontier(sets, most)
	for l := 2; l <= in.n; l++ {
		i := l - 2
		f.add(in.abar[i], in.move[i], e.fwd[i], e.bwd[i+1])
		if X := x.forward[l]; X > 0 {
			start := func(s shipment) float64 { return max(e.fwd[l-1], s.out) }
			T = atLeast(T, min(
				f.least(X, func(s shipment) float64 { return start(s) + in.uF[l] + s.back }),
				f.least(X+smallest[l], func(s shipment) float64 { return start(s) + s.back })))
		}
		if X := x.backward[l]; X > 0 {
			end := func(s shipment) float64 { return max(e.bwd[l-1], s.back) }
			T = atLeast(T, min(
				f.least(X, func(s shipment) float64 { return s.out + in.uB[l] + end(s) }),
				f.least(X+smallest[l], func(s shipment) float64 { return s.out + end(s) })))
		}
	}
	return T
}

// atLeast returns the larger of t and what a frontier says; that there is no set
// large enough it says by rounding only.
func atLeast(t, least float64) float64 {
	if math.IsInf(least, 1) {
		return t
	}
	return max(t, least)
}

// Limits of wholeTensors: units that all activations may be together, and words
// of 64 sums that may be looked at.
const (
	maxUnits = 1 << 24
	maxWords = 1 << 28
)

// wholeTensors returns excess with each X_ℓ > 0 raised to the least sum of a
// subset of ā_0..ā_{ℓ-2} that is no less. The sums are the set bits of a number,
// in units of the greatest common divisor. O(N·Σā/unit/64).
func (in *instance) wholeTensors() excess {
	x := in.excess()
	unit := in.unit()
	if unit == 0 {
		return x
	}
	total := in.before[in.n] / unit
	exact := total <= maxUnits && total/64*float64(in.n) <= maxWords
	sums := big.NewInt(1)
	shifted := new(big.Int)
	for l := 2; l <= in.n; l++ {
		if exact {
			shifted.Lsh(sums, uint(in.abar[l-2]/unit))
			sums.Or(sums, shifted)
		}
		for _, phase := range [][]float64{x.forward, x.backward} {
			if phase[l] <= 0 {
				continue
			}
			// The limit has room for rounding: a multiple may lie that near below.
			need := math.Ceil(phase[l]/unit - 1e-6)
			if exact {
				need = float64(nextBit(sums, int(need)))
			}
			phase[l] = max(phase[l], need*unit)
		}
	}
	return x
}

// nextBit returns the first set bit of sums from k on, or k if there is none.
func nextBit(sums *big.Int, k int) int {
	for i := k; i < sums.BitLen(); i++ {
		if sums.Bit(i) == 1 {
			return i
		}
	}
	return k
}

// unit is the greatest common divisor of ā_0..ā_{N-1} in bytes, 0 if they are
// not whole or there is nothing.
func (in *instance) unit() float64 {
	g := 0.0
	for _, a := range in.abar[:in.n] {
		if a != math.Trunc(a) || a >= 1<<53 {
			return 0
		}
		for a != 0 {
			g, a = a, math.Mod(g, a)
		}
	}
	return g
}
