package activationoffload

import "math"

// Gap is a rule for ε_G, the idle time between the phases, when only one of them has remaining
// transfers.
type Gap int

const (
	// GapOverlap is [004] (3.16) and (3.17): offloads overlap the first backwards, or prefetches
	// the last forwards. In addition it respects the rule that ā_{i-1} is not prefetched before
	// F_i, which uses it, has ended (see GapPrinted).
	GapOverlap Gap = iota
	// GapSimple is ε_G = (Δ_F⁺ + Δ_B⁺)/β, the end of 3.3.3.1: all offloads end
	// before B_N starts, all prefetches start after F_N has ended.
	GapSimple
	// GapPrinted is (3.16) and (3.17) as they stand. When the last offload, of
	// ā_{i-1}, ends while F_i runs, (3.17) lets its prefetch start then and takes
	// ā_{i-1} out of the memory that F_i needs, so that ε_G may be too small for
	// any schedule that fetches what has left. To compare with.
	GapPrinted
)

// comm is OFF_comm(L, M, β), [004] Problem 10, for ordered and no-wait schedules.
// Times are multiplied by β, so that all quantities are sizes, in bytes or slots.
type comm struct {
	n            int
	memory       float64   // M_GPU
	uF, uB       []float64 // β u, by layer from 1
	abar         []float64 // ā_0..ā_N
	needF, needB []float64 // M_{F_ℓ} and M_{B_ℓ}, (3.1) and (3.2), by layer from 1
}

func newComm(in *instance) *comm {
	z := emptyComm(in.N, in.Platform.Memory)
	copy(z.abar, in.Abar)
	copy(z.needF, in.NeedF)
	copy(z.needB, in.NeedB)
	for l := 1; l <= in.N; l++ {
		z.uF[l], z.uB[l] = in.sent(in.UF[l]), in.sent(in.UB[l])
	}
	return z
}

func emptyComm(n int, memory float64) *comm {
	flat := make([]float64, 5*(n+1))
	part := func(k int) []float64 { return flat[k*(n+1) : (k+1)*(n+1) : (k+1)*(n+1)] }
	return &comm{n: n, memory: memory, uF: part(0), uB: part(1), abar: part(2), needF: part(3), needB: part(4)}
}

// sent returns how many bytes can be transferred in the given seconds, at most twice the memory.
// More has no effect, as |Δ| never exceeds the memory.
func (in *instance) sent(seconds float64) float64 {
	return min(seconds*in.Bandwidth, 2*in.Memory)
}

// A commState is an entry of the table O_i of Algorithm 5: what decisions on
// ā_0..ā_{i-2} come to between F_{i-1} and F_i, and between B_i and B_{i-1}.
type commState struct {
	kept float64 // A_i: bytes resident on the GPU
	// deltaF is Δ_F,i, what is still to be offloaded after F_{i-1}, deltaB is
	// Δ_B,i, what is prefetched before B_{i-1} starts. Below 0 they are minus what
	// the other phase may transfer up to there without any delay: the idle time of
	// the link, which the thesis has, but less if memory allows less.
	deltaF, deltaB float64
	idle           float64 // Σ (ε_F + ε_B) so far
	parent         int32   // 2·(index of the state in O_{i-1}) + (1 if ā_{i-2} is offloaded)
}

// step returns what becomes of x, of O_i, if ā_{i-1} is kept and if it is
// offloaded. x has to fit: (3.8) and (3.9), that is r, s ≥ 0.
//
// r and s are what F_i and B_i leave free when all that can be elsewhere is. As
// M_F,i = A_i + Δ_F⁺ + ā_{i-1} (3.4), (3.6) is ε_F = (Δ_F − r)⁺, and Δ_F − ε_F is
// min(Δ_F, r).
//
// If Δ_F ≤ 0 after F_N and Δ_B > 0, prefetches may start beside those F_j, j ≥ i,
// say, that end after the last offload. Then U_j^F < Av_F holds for them, and (3.17)
// is
//
//	ε_G = max(Δ_B − Av_F, max_{j≥i} (Δ_B − r_j − U_j^F), 0) = (Δ_B + P)⁺
//	P   = max(−Av_F, max_{j≥i} (−r_j − U_j^F)),
//
// all times β, because R_{F_j} − M_GPU + A_{N+1} + ā_N = −r_j: what is kept of
// ā_j..ā_N, the prefetches being those of others, is subtracted in R_{F_j}. P
// satisfies P_{i+1} = max(P_i − β uF_i, −r_i), starting from Δ_F: this is what
// deltaF is, if not positive. Likewise deltaB with (3.16), so that in all cases of
// 3.3.2.2 ε_G = (Δ_F + Δ_B)⁺/β.
//
// When ā_{i-1} is offloaded and this ends before F_i does, r_i of (3.17) lacks
// ā_{i-1}; and the prefetch, of ā_{i-1} first, waits for the end of F_i.
func (z *comm) step(i int, x *commState, gap Gap) (keep, offload commState) {
	in := z.abar[i-1]
	r := max(0, z.memory-z.needF[i]-x.kept-in)
	s := max(0, z.memory-z.needB[i]-x.kept-in)
	idle := x.idle + max(0, x.deltaF-r) + max(0, x.deltaB-s) // (3.6), (3.7)
	f, b := min(x.deltaF, r), min(x.deltaB, s)
	keep = commState{
		kept:   x.kept + in,        // (3.15)
		deltaF: max(f-z.uF[i], -r), // (3.13)
		deltaB: max(b-z.uB[i], -s), // (3.14)
		idle:   idle,
	}
	offload = commState{
		kept:   x.kept,                       // (3.12)
		deltaF: max(max(f, 0)+in-z.uF[i], 0), // (3.10)
		deltaB: max(b-z.uB[i], 0) + in,       // (3.11)
		idle:   idle,
	}
	switch gap {
	case GapSimple:
		keep.deltaF, keep.deltaB = max(keep.deltaF, 0), max(keep.deltaB, 0)
	case GapPrinted:
		offload.deltaF = max(max(f, 0)+in-z.uF[i], -r-in)
	}
	return keep, offload
}

// end returns the idle time of x, of O_{N+1}, with ε_G: see step. With GapSimple no Δ is negative.
func (x *commState) end() float64 { return x.idle + max(0, x.deltaF+x.deltaB) }

// fits reports whether x, of O_i, satisfies (3.8) and (3.9).
func (z *comm) fits(i int, x *commState) bool {
	return x.kept+z.abar[i-1]+max(z.needF[i], z.needB[i]) <= z.memory
}

// idle returns the idle time of the schedule that offloads away, +Inf if that does not fit. O(N).
func (z *comm) idle(away []bool, gap Gap) float64 {
	var x commState
	for i := 1; i <= z.n; i++ {
		if !z.fits(i, &x) {
			return math.Inf(1)
		}
		keep, offload := z.step(i, &x, gap)
		if x = keep; away[i-1] {
			x = offload
		}
	}
	return x.end()
}
