package pipeline

import (
	"fmt"
	"math"
	"math/bits"

	"workbench/model/plan"
)

// peaks fills most[k][ℓ] with the most that the forwards and backwards of layers
// ℓ..ℓ+2^k-1 need in the task model when all layers from the first on store their
// inputs for one mini-batch: at F_ℓ the inputs of layers 1..ℓ and a_ℓ are held, at
// B_ℓ the same inputs, δ_ℓ and δ_{ℓ-1} ([004] Lemma 18). O(n·log n).
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

// own is the most that F_ℓ or B_ℓ needs beside the stored inputs of its
// processor, its layer's included: a_ℓ or δ_ℓ and δ_{ℓ-1}.
func (in *Instance) own(l int) float64 { return max(in.OwnF[l], in.OwnB[l]) }

// otherMemory is own in the task model; in the stage model nothing else is counted.
func (in *Instance) otherMemory(l int) float64 {
	if !in.Task {
		return 0
	}
	return in.own(l)
}

// Peak returns the activations of stage s(i,j) with one mini-batch in flight:
// of the task model the most while one of its tasks runs, of the stage model
// its inputs.
func (in *Instance) Peak(i, j int) float64 {
	if in.Task {
		k := bits.Len(uint(j+1-i)) - 1
		return max(in.most[k][i], in.most[k][j+1-1<<k]) - in.Stored[i-1] // sizes are whole: exact
	}
	return in.Inputs(i, j)
}

// Fixed returns what stage s(i,j) holds for ever: weights and buffers. There
// are no buffers at the ends of the chain.
func (in *Instance) Fixed(i, j int) float64 {
	return in.Weights[j] - in.Weights[i-1] + in.Buffer[i-1] + in.Buffer[j]
}

// Inputs returns Σ_{i≤ℓ≤j} a_{ℓ-1}: what one mini-batch in flight takes.
func (in *Instance) Inputs(i, j int) float64 { return in.Stored[j] - in.Stored[i-1] }

// Needs returns 𝓜(i,j,g) of [004] 7.1.1, the memory of a processor with stage
// s(i,j) alone and g mini-batches in flight: each mini-batch more takes the
// stage's inputs more, in both models.
func (in *Instance) Needs(i, j, g int) float64 {
	return in.Fixed(i, j) + float64(g-1)*in.Inputs(i, j) + in.Peak(i, j)
}

// held is a part of what s(i,j) needs that grows with it: weights and inputs.
func (in *Instance) held(i, j int) float64 {
	return in.Weights[j] - in.Weights[i-1] + in.Inputs(i, j)
}

// MayRun reports whether s(i,j) may be a run: one processor has one run.
func (in *Instance) MayRun(i, j int) bool { return in.Procs > 1 || j-i == in.N-1 }

// Infeasible returns a *plan.Infeasible if no pattern fits in the memory, and
// nil if one does, or if that was not found out ([Instance.Least]).
func (in *Instance) Infeasible() error {
	low, why := in.needed()
	if in.Fits(low) && !in.Fits(in.LeastContiguous()) {
		found, _ := newPacking(in, in.Memory, leastProbe).run() // mostly that is quick
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

// needed returns a memory that each processor needs at least, in closed form,
// and what for. O(n²).
//
// Whatever the allocation, layer ℓ lies in a run s(i,j) of layers of its
// processor, which needs 𝓜(i,j,1) at least, also beside other runs. That is
// clear in the stage model. In the task model, when F_ℓ runs, the processor
// still stores the inputs of F_i..F_{ℓ-1} for the same mini-batch, and when B_ℓ
// runs those of F_i..F_ℓ: what peaks reckons with.
//
// When B_N starts, the inputs of all layers are stored for its mini-batch, and
// in the task model δ_N and δ_{N-1}; what the other processors store then is
// counted at their next task.
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

// total is what all processors hold together when B_N runs.
func (in *Instance) total() float64 {
	sum := in.Weights[in.N] + in.Stored[in.N]
	if in.Task {
		sum += in.OwnB[in.N]
	}
	return sum
}

// Ample returns a size beyond which more memory is hardly of use: weights, and
// tensors and buffers for a mini-batch on every processor and one on every link.
func (in *Instance) Ample() float64 {
	sum := 0.0
	for l := range in.A {
		sum += in.A[l] + in.D[l]
	}
	return in.Weights[in.N] + 2*float64(2*in.Procs)*sum + 1
}

// neediest returns the layer whose run needs most where it needs least, and
// that memory. O(n²).
func (in *Instance) neediest() (need float64, layer int) {
	least := make([]float64, in.N+1)
	for l := range least {
		least[l] = math.Inf(1)
	}
	for i := 1; i <= in.N; i++ {
		best := math.Inf(1) // of the runs from i to j or further
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

// leastRuns returns the least, over all ways to cut the chain into runs, of the
// most that a run needs. O(n²).
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

// Count returns how many things of that size fit in a room: ⌊room/size⌋, +Inf
// of no size. The quotient of whole numbers below 2^53 is never rounded up to a
// whole number.
func Count(room, size float64) float64 {
	if size == 0 {
		return math.Inf(1)
	}
	return math.Floor(room / size)
}
