package training

// Modules is a training step as PyTorch's sac_milp (torch/distributed/_tools/sac_ilp.py) sees
// it, by module in the order of the forward, with its names. Module 0 is the root, of which all
// others are children. One of ACM 0, as the root is, cannot be checkpointed.
type Modules struct {
	IA  []float64 // act_fw_per_module: what the backward reads of its forward, without its output
	ACM []float64 // sac_memory: what its operations write, without its output; at least IA
	AG  []float64 // act_grad_per_module: what its backward takes at most, beside what is there before it
	TA  []float64 // act_total: the activations behind its forward
	TG  []float64 // grad_total: the gradients of weights before its backward
	ACT []float64 // sac_runtime: the time of its forward, seconds
	// Slopes and Intercepts are of the segments of the part of ACT that it takes to compute
	// again what makes a part of ACM.
	Slopes, Intercepts [][]float64
	M                  float64 // fw_runtime_per_module of the root: of all forwards, seconds
}

// Peak returns max_m where nothing is checkpointed: the budget at which nothing need be.
func (b *Modules) Peak() float64 {
	peak := 0.0
	for i := range b.TA {
		peak = max(peak, b.TA[i]+b.AG[i]+b.TG[i])
	}
	return peak
}
