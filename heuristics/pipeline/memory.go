package pipeline

import (
	"fmt"
	"math"

	"workbench/model/plan"
)

// peaks fills most[(i-1)n + j-1] with the task model's activations of stage
// s(i,j) with one mini-batch in flight: the forwards of the stage run in
// sequence and later its backwards. At F_ℓ the inputs of layers i..ℓ and a_ℓ
// are held, at B_ℓ the same inputs, δ_ℓ and δ_{ℓ-1} ([004] Lemma 18). O(n²).
func (in *instance) peaks() {
	in.most = make([]float64, in.n*in.n)
	for i := 1; i <= in.n; i++ {
		peak := 0.0
		for j := i; j <= in.n; j++ {
			peak = max(peak, in.stored[j]-in.stored[i-1]+max(in.a[j], in.d[j]+in.d[j-1]))
			in.most[(i-1)*in.n+j-1] = peak
		}
	}
}

// fixed returns what stage s(i,j) holds for ever, bytes: weights and buffers.
// There are none at the ends of the chain.
func (in *instance) fixed(i, j int) float64 {
	return in.weights[j] - in.weights[i-1] + in.buffer[i-1] + in.buffer[j]
}

// inputs returns Σ_{i≤ℓ≤j} a_{ℓ-1}, bytes: what one mini-batch in flight takes.
func (in *instance) inputs(i, j int) float64 { return in.stored[j] - in.stored[i-1] }

// needs returns 𝓜(i,j,g) of [004] 7.1.1, the memory of a processor with stage
// s(i,j) alone and g mini-batches in flight. In the task model it is the peak
// over the tasks when the stage's forwards run in sequence, as do its
// backwards; each mini-batch more takes the stage's inputs more, in both
// models.
func (in *instance) needs(i, j, g int) float64 {
	m := in.fixed(i, j) + float64(g-1)*in.inputs(i, j)
	if in.task {
		return m + in.most[(i-1)*in.n+j-1]
	}
	return m + in.inputs(i, j)
}

// fitsSomewhere proves infeasibility of chains with a layer that fits nowhere,
// of chains that cannot be cut into stages that fit, and of chains that all
// processors together cannot hold.
//
// Whatever the allocation, layer ℓ lies in a run s(i,j) of layers of its
// processor, which needs 𝓜(i,j,1) at least, also beside other runs. That is
// clear in the stage model. In the task model, when F_ℓ runs, the processor
// still stores the inputs of F_i..F_{ℓ-1} for the same mini-batch, and when B_ℓ
// runs those of F_i..F_ℓ: what peaks reckons with.
//
// When B_n starts, the inputs of all layers are stored for its mini-batch; what
// a processor stores then is counted at its next task.
func (in *instance) fitsSomewhere() error {
	if need, l := in.neediest(); need > in.forgiven {
		name := in.chain.Layers[l-1].Name
		if name != "" {
			name = fmt.Sprintf(" (%s)", name)
		}
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: need, Given: in.memory,
			Why: fmt.Sprintf("layer %d%s fits on no processor: %d copies of its weights, its tensors and its buffers", l, name, in.platform.WeightCopies),
		}
	}
	if need := in.leastRuns(); need > in.forgiven {
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: need, Given: in.memory,
			Why: "however the chain is cut into stages, one of them needs that with its weights, tensors and buffers",
		}
	}
	if total, p := in.weights[in.n]+in.stored[in.n], float64(in.procs); total > p*in.forgiven {
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: total / p, Given: in.memory,
			Why: fmt.Sprintf("an equal part of the weights and inputs that %d processors hold together", in.procs),
		}
	}
	return nil
}

// neediest returns the layer whose run needs most where it needs least, and
// that memory. O(n²).
func (in *instance) neediest() (need float64, layer int) {
	least := make([]float64, in.n+1)
	for l := range least {
		least[l] = math.Inf(1)
	}
	for i := 1; i <= in.n; i++ {
		best := math.Inf(1) // of the runs from i to j or further
		for j := in.n; j >= i; j-- {
			if in.mayRun(i, j) {
				best = min(best, in.needs(i, j, 1))
			}
			least[j] = min(least[j], best)
		}
	}
	for l := 1; l <= in.n; l++ {
		if least[l] > need {
			need, layer = least[l], l
		}
	}
	return need, layer
}

// mayRun reports whether s(i,j) may be a run: one processor has one run.
func (in *instance) mayRun(i, j int) bool { return in.procs > 1 || j-i == in.n-1 }

// leastRuns returns the least, over all ways to cut the chain into runs, of the
// most that a run needs. O(n²).
func (in *instance) leastRuns() float64 {
	best := make([]float64, in.n+1)
	for j := 1; j <= in.n; j++ {
		best[j] = math.Inf(1)
		for i := j; i >= 1; i-- {
			if in.mayRun(i, j) {
				best[j] = min(best[j], max(best[i-1], in.needs(i, j, 1)))
			}
		}
	}
	return best[in.n]
}

// noPlan is the error of a method that found nothing.
func (in *instance) noPlan(method, why string) error {
	if in.stopped() {
		why = "in the time that there was"
	}
	return fmt.Errorf("%s: %s: %w in %.0f bytes on each of %d processors, %s", plan.Pipeline, method, plan.ErrNoPlan, in.memory, in.platform.Processors, why)
}
