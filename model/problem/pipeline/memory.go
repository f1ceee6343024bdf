package pipeline

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/plan"
)

// peaks fills most[k][ℓ] with the maximum memory of the forward and backward operations of layers
// ℓ..ℓ+2^k-1 in the task model when layers 1..ℓ store their inputs for one mini-batch: F_ℓ holds
// the inputs of layers 1..ℓ and a_ℓ, B_ℓ the same inputs, δ_ℓ and δ_{ℓ-1} ([004] Lemma 18). It is a
// sparse table for range maxima. O(n·log n).
func (in *Instance) peaks() {
	row := make([]float64, in.N+1)
	for l := 1; l <= in.N; l++ {
		row[l] = in.Stored[l] + in.own(l)
	}
	in.most = [][]float64{row}
	for wide := 1; 2*wide <= in.N; wide *= 2 {
		next := make([]float64, in.N+2-2*wide)
		for l := 1; l < len(next); l++ {
			next[l] = max(row[l], row[l+wide])
		}
		in.most, row = append(in.most, next), next
	}
}

// own returns the maximum memory of F_ℓ or B_ℓ beyond the stored inputs of its processor, including
// its own: a_ℓ, or δ_ℓ and δ_{ℓ-1}.
func (in *Instance) own(l int) float64 { return max(in.OwnF[l], in.OwnB[l]) }

// otherMemory returns own in the task model, 0 in the stage model.
func (in *Instance) otherMemory(l int) float64 {
	if !in.Task {
		return 0
	}
	return in.own(l)
}

// Peak returns the activation memory of stage s(i,j) with one mini-batch in flight: the peak over
// its operations in the task model, its inputs in the stage model.
func (in *Instance) Peak(i, j int) float64 {
	if in.Task {
		k := bits.Len(uint(j+1-i)) - 1
		return max(in.most[k][i], in.most[k][j+1-1<<k]) - in.Stored[i-1] // exact, since sizes are integers
	}
	return in.Inputs(i, j)
}

// Fixed returns the memory that stage s(i,j) holds all the time: weights and buffers. The ends of
// the chain have no buffers.
func (in *Instance) Fixed(i, j int) float64 {
	return in.Weights[j] - in.Weights[i-1] + in.Buffer[i-1] + in.Buffer[j]
}

// Inputs returns Σ_{i≤ℓ≤j} a_{ℓ-1}, the memory of one mini-batch in flight.
func (in *Instance) Inputs(i, j int) float64 { return in.Stored[j] - in.Stored[i-1] }

// Needs returns 𝓜(i,j,g) of [004] 7.1.1, the memory of a processor with only stage s(i,j) and g
// mini-batches in flight. Each further mini-batch adds the inputs of the stage, in both models.
func (in *Instance) Needs(i, j, g int) float64 {
	return in.Fixed(i, j) + float64(g-1)*in.Inputs(i, j) + in.Peak(i, j)
}

// held returns a part of the memory of s(i,j) that grows with the stage: weights and inputs.
func (in *Instance) held(i, j int) float64 {
	return in.Weights[j] - in.Weights[i-1] + in.Inputs(i, j)
}

// MayRun reports whether s(i,j) may be a run: with one processor only the whole chain is.
func (in *Instance) MayRun(i, j int) bool { return in.Procs > 1 || j-i == in.N-1 }

// Infeasible returns a *plan.Infeasible if it proves that no pattern fits in memory. It returns nil
// if one fits or this remains open ([Instance.Least]).
func (in *Instance) Infeasible() error {
	low, why := in.needed()
	if in.Fits(low) && !in.Fits(in.LeastContiguous()) {
		found, _ := newPacking(in, in.Memory, leastProbe).run() // usually quick
		if found != nil {
			return nil
		}
		if least := in.Least(); least.Low > low {
			low, why = least.Low, "no allocation needs less on the processor that needs most, even with one mini-batch at a time"
		}
	}
	if in.Fits(low) {
		return nil
	}
	return &plan.Infeasible{Problem: plan.Pipeline, Memory: low, Given: in.Memory, Why: why}
}

// needed returns a closed-form lower bound on the memory of each processor, and the reason. O(n²).
//
// In any allocation layer ℓ lies in a run s(i,j) of its processor, which needs at least 𝓜(i,j,1),
// also if it has other runs. In the stage model this is clear. In the task model, when F_ℓ runs,
// the processor still stores the inputs of F_i..F_{ℓ-1} for the same mini-batch, and when B_ℓ runs
// those of F_i..F_ℓ, as in peaks.
//
// When B_N starts, the inputs of all layers are stored for its mini-batch, and in the task model
// δ_N and δ_{N-1}; the memory of the other processors at that time is counted at their next
// operation.
func (in *Instance) needed() (memory float64, why string) {
	memory, l := in.neediest()
	name := in.Chain.Layers[l-1].Name
	if name != "" {
		name = fmt.Sprintf(" (%s)", name)
	}
	why = fmt.Sprintf("layer %d%s fits on no processor: %d copies of its weights, its tensors and its buffers", l, name,
		in.Platform.WeightCopies)
	if x := in.leastRuns(); x > memory {
		memory, why = x, "however the chain is cut into stages, one of them needs that with its weights, tensors and buffers"
	}
	if x := math.Ceil(in.total() / float64(in.Procs)); x > memory {
		memory, why = x, fmt.Sprintf("an equal part of the weights and inputs that %d processors hold together", in.Procs)
	}
	return memory, why
}

// total returns the memory of all processors together when B_N runs.
func (in *Instance) total() float64 {
	sum := in.Weights[in.N] + in.Stored[in.N]
	if in.Task {
		sum += in.OwnB[in.N]
	}
	return sum
}

// Ample returns a memory beyond which more is hardly useful: weights, and tensors and buffers for a
// mini-batch on every processor and one on every link.
func (in *Instance) Ample() float64 {
	sum := 0.0
	for l := range in.A {
		sum += in.A[l] + in.D[l]
	}
	return in.Weights[in.N] + 2*float64(2*in.Procs)*sum + 1
}

// neediest returns the layer with the maximum, over the layers, of the minimum memory of a run that
// contains it, and that memory. O(n²).
func (in *Instance) neediest() (need float64, layer int) {
	least := make([]float64, in.N+1)
	for l := range least {
		least[l] = math.Inf(1)
	}
	for i := 1; i <= in.N; i++ {
		best := math.Inf(1) // over the runs from i to at least j
		for j := in.N; j >= i; j-- {
			if in.MayRun(i, j) {
				best = min(best, in.Needs(i, j, 1))
			}
			least[j] = min(least[j], best)
		}
	}
	layer = 1
	for l := 1; l <= in.N; l++ {
		if least[l] > need {
			need, layer = least[l], l
		}
	}
	return need, layer
}

// leastRuns returns the minimum, over all ways to cut the chain into runs, of the maximum memory of
// a run. O(n²).
func (in *Instance) leastRuns() float64 {
	best := make([]float64, in.N+1)
	for j := 1; j <= in.N; j++ {
		best[j] = math.Inf(1)
		for i := j; i >= 1 && in.held(i, j) < best[j]; i-- {
			if in.MayRun(i, j) {
				best[j] = min(best[j], max(best[i-1], in.Needs(i, j, 1)))
			}
		}
	}
	return best[in.N]
}

// Count returns how many items of the given size fit: ⌊room/size⌋, +Inf for size 0. The quotient of
// integers below 2^53 is never rounded up to an integer.
func Count(room, size float64) float64 {
	if size == 0 {
		return math.Inf(1)
	}
	return math.Floor(room / size)
}
