package activationoffload

import (
	"math"
	"math/big"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Bounds returns lower bounds on the makespan, the best first. All hold for every plan of the
// integral model, without assumptions, whatever it offloads, how often, and in which order. They
// are rounded down by the possible rounding error of sums of times. The errors are those of New.
// O(N) plus "whole-tensors", which takes less than a second.
//
// The sum of the computations: they run one at a time. "lb" is Proposition 3 of [004]: LB = max(Σu,
// 2(M_peak − M)/β).
//
// "fractional" is Theorem 8, the optimum when parts of tensors may be transferred. It bounds all
// plans, as follows. While operation ℓ of one phase runs, at each time at least X_ℓ = ā_0 + … +
// ā_{ℓ-1} + M_ℓ − M bytes of ā_0..ā_{ℓ-2} are neither stored nor reserved, though not necessarily
// the same bytes all the time.
//
// (1) Those on the host at its start were offloaded by transfers that had ended by then. Let ê_i be
// the earliest possible end of F_i. Let d(X) be the time when the link, sending ā_0, ā_1, … without
// pause but ā_i not before ê_i, has sent X bytes. No plan has sent X bytes of different activations
// before d(X), since at no time has it produced more of them. So ℓ starts no earlier than
// max(ê_{ℓ-1}, d(X_ℓ)). By induction this gives ê_ℓ for the forward phase. B_ℓ starts no earlier
// than d(X_ℓ).
//
// (2) Those on the host at its end are prefetched by transfers that start then or later. In
// reversed time this is (1). With r(X) for d(X), where ā_i can be sent after the reversed B_{i+1},
// B_ℓ starts at least b̂_ℓ before the end of the plan, and each F_ℓ ends at least r(X_ℓ) before it.
//
// (3) F_N ends before B_N starts. Together T is at least
//
//	max(ê_N + b̂_N, max_ℓ (ê_ℓ + r(X_ℓ)), max_ℓ (d(X_ℓ) + b̂_ℓ)),
//
// with the X_ℓ of the forward phase in the second term and those of the backward phase in the
// third. The schedule of Theorem 8 attains these times.
//
// "whole-tensors" uses that tensors are offloaded as a whole. Each X_ℓ is raised to the minimum sum
// of a subset of ā_0..ā_{ℓ-2} that is at least X_ℓ. (These sums are enumerated if sizes are
// integers; if they are too many, X_ℓ is raised to the next multiple of the greatest common
// divisor.) While operation ℓ runs, some set A of ā_0..ā_{ℓ-2} with at least X_ℓ bytes is on the
// host. Let d(A) be the earliest time at which A has been sent, ā_i not before ê_i, which is
// attained in index order, and r(A) the same in reversed time. Then ℓ starts in its phase no
// earlier than the minimum d(A) over all such A, which in turn raises the ê_i.
//
// Further, let A be what is on the host when F_ℓ starts. If nothing of it returns while F_ℓ runs,
// it is sent before F_ℓ and prefetched after it. Otherwise at least a bytes return, the smallest of
// ā_0..ā_{ℓ-2}; let A' be what is on the host when the first such prefetch starts. A' was sent
// before that time, is prefetched from then on, and has X_ℓ bytes without the first of these. So T
// is at least the smaller of
//
//	min over A of X_ℓ bytes:      max(ê_{ℓ-1}, d(A)) + uF_ℓ + r(A),
//	min over A' of X_ℓ + a bytes: max(ê_{ℓ-1}, d(A')) + r(A'),
//
// and likewise for B_ℓ. Only sets not dominated in size, d and r are considered. If they are too
// many, two are replaced by one that dominates both, which only lowers the minimum.
func Bounds(c *chain.Chain, p platform.Platform) ([]proof.Bound, error) {
	in, err := New(c, p)
	if err != nil {
		return nil, err
	}
	return in.Bounds(), nil
}

func (in *Instance) Bounds() []proof.Bound {
	return proof.BestFirst(
		proof.BySearch(plan.RoundDown(in.Chain.TotalTime(), 2*in.N), proof.SumOfComputations),
		proof.BySearch(in.roundDown(in.whole()), "whole-tensors"),
		proof.BySearch(in.roundDown(in.Fractional().Makespan), "fractional"),
		proof.BySearch(in.roundDown(in.LB()), "lb"),
	)
}

// roundDown rounds a bound down by the possible rounding error of the sum of all computations and
// transfers.
func (in *Instance) roundDown(bound float64) float64 { return plan.RoundDown(bound, 8*(in.N+2)) }

// LB returns LB of [004] Proposition 3, seconds.
func (in *Instance) LB() float64 {
	return max(in.Chain.TotalTime(), 2*(in.PeakMemory()-in.Memory)/in.Bandwidth)
}

// BestBound returns the best lower bound, seconds.
func (in *Instance) BestBound() float64 { return in.Bounds()[0].Value }

// FractionalOptimum is the optimum of [004] Problem 9, in which any part of an activation may be
// offloaded and its memory freed at once. It is not a plan; Greedy is its rounding.
type FractionalOptimum struct {
	Makespan  float64 // seconds
	Bound     float64 // Makespan rounded down: no plan takes less
	Offloaded float64 // bytes: M_peak − M, or 0
	// ā_0..ā_{Whole-1} are offloaded completely, and Part bytes of ā_Whole.
	Whole int
	Part  float64
}

// Fractional returns the optimum of the fractional relaxation: the eager, ordered, no-wait schedule
// that offloads M_peak − M bytes ([004] Theorem 8). The errors are those of [New]. O(N).
func Fractional(c *chain.Chain, p platform.Platform) (*FractionalOptimum, error) {
	in, err := New(c, p)
	if err != nil {
		return nil, err
	}
	o := &FractionalOptimum{Makespan: in.Fractional().Makespan, Offloaded: max(0, in.PeakMemory()-in.Memory)}
	o.Bound = in.roundDown(o.Makespan)
	o.Part = o.Offloaded
	for o.Whole < in.N && o.Part >= in.Abar[o.Whole] {
		o.Part -= in.Abar[o.Whole]
		o.Whole++
	}
	return o, nil
}

// Excess has X_ℓ of both phases; index 0 is unused.
type Excess struct{ Forward, Backward []float64 }

// Excess returns X_ℓ = ā_0 + … + ā_{ℓ-1} + M_ℓ − M. O(N).
func (in *Instance) Excess() Excess {
	x := Excess{make([]float64, in.N+1), make([]float64, in.N+1)}
	for l := 1; l <= in.N; l++ {
		x.Forward[l] = in.Before[l] + in.NeedF[l] - in.Memory
		x.Backward[l] = in.Before[l] + in.NeedB[l] - in.Memory
	}
	return x
}

// Eager is the schedule of (1) and (2) of [Bounds].
type Eager struct {
	Makespan     float64
	Fwd, Bwd     []float64 // ends by layer; the backward phase is in reversed time
	Send, Fetch  []float64 // starts of the transfers of ā_i, likewise
	FwdAt, BwdAt []float64 // starts by layer
}

func (in *Instance) Fractional() *Eager { return in.EagerSchedule(in.Excess(), 0) }

// whole returns the bound "whole-tensors", seconds.
func (in *Instance) whole() float64 {
	x := in.WholeTensors()
	sets := min(maxSets, max(fewSets, totalSets/in.N))
	e := in.EagerSchedule(x, sets)
	return max(e.Makespan, in.sameSets(x, e, sets))
}

// EagerSchedule returns the eager schedule with x bytes on the host during each operation. With
// sets > 0 these are whole tensors, and at most sets sets are considered for each operation. O(N)
// and O(N·sets).
func (in *Instance) EagerSchedule(x Excess, sets int) *Eager {
	e := &Eager{}
	e.FwdAt, e.Fwd, e.Send = in.eagerPhase(x.Forward, in.UF, 0, sets)
	e.BwdAt, e.Bwd, e.Fetch = in.eagerPhase(x.Backward, in.UB, 1, sets)
	e.Makespan = e.Fwd[in.N] + e.Bwd[in.N]
	// Only an X larger than those of the operations of its phase nearer to the loss matters.
	k, most := 0, 0.0
	for l := in.N; l >= 1; l-- {
		if x.Forward[l] > most {
			most = x.Forward[l]
			k = in.FirstWith(k, most)
			e.Makespan = max(e.Makespan, e.Fwd[l]+in.When(e.Fetch, k, most))
		}
	}
	k, most = 0, 0.0
	for l := in.N; l >= 1; l-- {
		if x.Backward[l] > most {
			most = x.Backward[l]
			k = in.FirstWith(k, most)
			e.Makespan = max(e.Makespan, in.When(e.Send, k, most)+e.Bwd[l])
		}
	}
	return e
}

// eagerPhase returns the times of one phase: starts and ends of its operations and starts of
// transfers, where ā_i can be sent after operation i+lag.
func (in *Instance) eagerPhase(x, u []float64, lag, sets int) (start, end, send []float64) {
	start, end, send = make([]float64, in.N+1), make([]float64, in.N+1), make([]float64, in.N)
	link := 0.0
	sent := func(l int) { // operation l has ended
		if i := l - lag; i >= 0 && i < in.N {
			send[i] = max(link, end[l])
			link = send[i] + in.Move[i]
		}
	}
	sent(0)
	k, most := 0, 0.0
	f := NewFrontier(sets, slices.Max(x))
	for l := 1; l <= in.N; l++ {
		start[l] = end[l-1]
		if sets > 0 && l >= 2 {
			f.Add(in.Abar[l-2], in.Move[l-2], end[l-2+lag], 0)
		}
		if x[l] > most {
			most = x[l]
			k = in.FirstWith(k, most)
			start[l] = max(start[l], in.When(send, k, most))
			if sets > 0 {
				start[l] = max(start[l], f.Least(most, func(a Shipment) float64 { return a.Out }))
			}
		}
		end[l] = start[l] + u[l]
		sent(l)
	}
	return start, end, send
}

// FirstWith returns the first i ≥ from with ā_0 + … + ā_i ≥ x.
func (in *Instance) FirstWith(from int, x float64) int {
	for from < in.N-1 && in.Before[from+1] < x {
		from++
	}
	return from
}

// When returns the time when x bytes have been sent, ā_k being the last of them.
func (in *Instance) When(send []float64, k int, x float64) float64 {
	return send[k] + min(x-in.Before[k], in.Abar[k])/in.Bandwidth
}

// sameSets returns the bound of "whole-tensors" that sends and prefetches the same set. O(N·sets).
func (in *Instance) sameSets(x Excess, e *Eager, sets int) float64 {
	most, smallest := 0.0, make([]float64, in.N+1) // smallest[ℓ]: a
	a := math.Inf(1)
	for l := 2; l <= in.N; l++ {
		if in.Abar[l-2] > 0 {
			a = min(a, in.Abar[l-2])
		}
		smallest[l] = a
		if X := max(x.Forward[l], x.Backward[l]); X > 0 {
			most = max(most, X+a)
		}
	}
	T := 0.0
	f := NewFrontier(sets, most)
	for l := 2; l <= in.N; l++ {
		i := l - 2
		f.Add(in.Abar[i], in.Move[i], e.Fwd[i], e.Bwd[i+1])
		if X := x.Forward[l]; X > 0 {
			start := func(s Shipment) float64 { return max(e.Fwd[l-1], s.Out) }
			T = max(T, min(
				f.Least(X, func(s Shipment) float64 { return start(s) + in.UF[l] + s.Back }),
				f.Least(X+smallest[l], func(s Shipment) float64 { return start(s) + s.Back })))
		}
		if X := x.Backward[l]; X > 0 {
			end := func(s Shipment) float64 { return max(e.Bwd[l-1], s.Back) }
			T = max(T, min(
				f.Least(X, func(s Shipment) float64 { return s.Out + in.UB[l] + end(s) }),
				f.Least(X+smallest[l], func(s Shipment) float64 { return s.Out + end(s) })))
		}
	}
	return T
}

// Limits of WholeTensors: the total size of all activations in units, and the number of words of 64
// sums.
const (
	maxUnits = 1 << 24
	maxWords = 1 << 28
)

// WholeTensors returns the excess with each X_ℓ > 0 raised to the minimum sum of a subset of
// ā_0..ā_{ℓ-2} that is at least X_ℓ. It solves subset sum by a bitset in units of the greatest
// common divisor. O(N·Σā/unit/64).
func (in *Instance) WholeTensors() Excess {
	x := in.Excess()
	unit := in.unit()
	if unit == 0 {
		return x
	}
	total := in.Before[in.N] / unit
	exact := total <= maxUnits && total/64*float64(in.N) <= maxWords
	sums := big.NewInt(1)
	shifted := new(big.Int)
	for l := 2; l <= in.N; l++ {
		if exact {
			shifted.Lsh(sums, uint(in.Abar[l-2]/unit))
			sums.Or(sums, shifted)
		}
		for _, phase := range [][]float64{x.Forward, x.Backward} {
			if phase[l] <= 0 {
				continue
			}
			need := math.Ceil(phase[l] / unit)
			if exact {
				need = float64(nextBit(sums, int(need)))
			}
			phase[l] = max(phase[l], need*unit)
		}
	}
	return x
}

// nextBit returns the first set bit of sums at or after k, or k if there is none.
func nextBit(sums *big.Int, k int) int {
	for i := k; i < sums.BitLen(); i++ {
		if sums.Bit(i) == 1 {
			return i
		}
	}
	return k
}

// unit returns the greatest common divisor of ā_0..ā_{N-1} in bytes, 0 if they are not integers or
// all 0.
func (in *Instance) unit() float64 {
	g := 0.0
	for _, a := range in.Abar[:in.N] {
		if a != math.Trunc(a) || a >= 1<<53 {
			return 0
		}
		for a != 0 {
			g, a = a, math.Mod(g, a)
		}
	}
	return g
}
