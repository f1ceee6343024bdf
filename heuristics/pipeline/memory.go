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
// and of chains that all processors together cannot hold.
//
// Whatever the allocation, layer ℓ lies in a run s(i,j) of layers of its
// processor, which holds their weights and the buffers of both ends. In the
// stage model it also holds an input of each of these layers, in the task model
// what F_ℓ and B_ℓ read and write.
func (in *instance) fitsSomewhere() error {
	// least[ℓ]: over the runs with ℓ inside, found by rows of i.
	worst, layer := 0.0, 0
	least := make([]float64, in.n+1)
	for l := range least {
		least[l] = -1
	}
	for i := 1; i <= in.n; i++ {
		if in.procs == 1 && i > 1 {
			break
		}
		// best over j ≥ ℓ, from the right
		best := -1.0
		for j := in.n; j >= i; j-- {
			if in.procs > 1 || j == in.n {
				m := in.fixed(i, j)
				if !in.task {
					m += in.inputs(i, j)
				}
				if best < 0 || m < best {
					best = m
				}
			}
			if least[j] < 0 || best < least[j] {
				least[j] = best
			}
		}
	}
	for l := 1; l <= in.n; l++ {
		m := least[l]
		if in.task {
			m += in.tensors(l)
		}
		if m > worst {
			worst, layer = m, l
		}
	}
	if worst > in.limit {
		name := in.chain.Layers[layer-1].Name
		if name != "" {
			name = fmt.Sprintf(" (%s)", name)
		}
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: worst, Given: in.memory,
			Why: fmt.Sprintf("layer %d%s fits on no processor: %d copies of its weights, its tensors and its buffers", layer, name, in.platform.WeightCopies),
		}
	}
	if m := in.leastRuns(); m > in.limit {
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: m, Given: in.memory,
			Why: "however the chain is cut into stages, one of them needs that with its weights, tensors and buffers",
		}
	}
	total := in.weights[in.n]
	if !in.task {
		total += in.stored[in.n]
	}
	if p := float64(in.procs); total > p*in.limit {
		return &plan.Infeasible{
			Problem: plan.Pipeline, Memory: total / p, Given: in.memory,
			Why: fmt.Sprintf("an equal part of what %d processors hold together", in.procs),
		}
	}
	return nil
}

// leastRuns returns the least, over all ways to cut the chain into runs, of the
// most that a run needs by the argument of fitsSomewhere. O(n²).
func (in *instance) leastRuns() float64 {
	best := make([]float64, in.n+1)
	for j := 1; j <= in.n; j++ {
		best[j] = math.Inf(1)
		tensors := 0.0
		for i := j; i >= 1; i-- {
			if in.task {
				tensors = max(tensors, in.tensors(i))
			} else {
				tensors = in.inputs(i, j)
			}
			if in.procs > 1 || j-i == in.n-1 {
				best[j] = min(best[j], max(best[i-1], in.fixed(i, j)+tensors))
			}
		}
	}
	return best[in.n]
}

// tensors returns what F_ℓ and B_ℓ read and write, or hold for B_ℓ, at most.
func (in *instance) tensors(l int) float64 {
	return in.a[l-1] + max(in.a[l], in.d[l]+in.d[l-1])
}

// noPlan is the error of a method that found nothing.
func (in *instance) noPlan(method, why string) error {
	return fmt.Errorf("%s: %s: %w in %v bytes on each of %d processors, %s", plan.Pipeline, method, plan.ErrNoPlan, in.memory, in.platform.Processors, why)
}
