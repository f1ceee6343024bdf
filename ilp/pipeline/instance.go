package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// PipelineLayers is the length of the longest chain of which pipeline models
// are built: the ILP of [004] has some 30 N² columns and 10 N³ rows.
const PipelineLayers = 64

// pipelineInstance is PIPE_S&A(L, M, P, β) of [004] chapter 6 as a sequence of
// tasks. Stages are single layers, or the runs of layers of section 7.2 that
// are computed without interruption; there are n of them, L+1 in the thesis.
// Tasks are numbered from 0: task t < n is the forward of stage t, task 2n−1−t
// its backward; T_ℓ of the thesis is task ℓ−1.
//
// A size of 1000 is the memory, a time of 1 the average of the tasks that take
// time.
type pipelineInstance struct {
	chain    *chain.Chain
	platform platform.Platform
	model    string // plan.StageModel or plan.TaskModel

	n      int
	stages []plan.Stage // what a stage is made of; the processor is -1 if it is free

	time, size float64 // seconds, bytes of a unit
	memory     float64 // 1000

	d      []float64 // duration of task t
	run    []float64 // of task t: memory while it runs, beside what is stored; a_{ℓ-1} + a_ℓ in (6.36)
	out    []float64 // output of task t; a_ℓ in the thesis
	comm   []float64 // time to send the output of task t to another processor, t < 2n−1
	stored []float64 // of stage s: what each mini-batch in flight keeps; a_{ℓ-1}, or ā of 7.2
	weight []float64 // of stage s: C·W

	horizon float64 // Σd + Σd̃: a period that is always enough
}

// singleLayers returns every layer of c as a stage on no processor yet.
func singleLayers(c *chain.Chain) []plan.Stage {
	s := make([]plan.Stage, c.Len())
	for i := range s {
		s[i] = plan.Stage{Processor: -1, From: i + 1, To: i + 1}
	}
	return s
}

// checkPipeline reports what no pipeline model can be built for. model may be
// empty, for plan.TaskModel.
func checkPipeline(c *chain.Chain, p platform.Platform, model string) error {
	if p.Processors == 1 && p.Bandwidth == 0 {
		p.Bandwidth = 1 // nothing is sent
	}
	if err := formulation.CheckPlatform(c, p); err != nil {
		return err
	}
	if err := c.Validate(); err != nil {
		return fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	}
	switch {
	case c.Len() > PipelineLayers:
		return fmt.Errorf("%w: %d layers, pipeline models take %d at most: their size grows with the cube", formulation.ErrTooLong, c.Len(), PipelineLayers)
	case p.Processors < 1:
		return fmt.Errorf("%w: there are %d processors, at least one is needed", formulation.ErrInstance, p.Processors)
	case p.WeightCopies < 0:
		return fmt.Errorf("%w: %d copies of the weights, the number must not be negative", formulation.ErrInstance, p.WeightCopies)
	case model != "" && model != plan.TaskModel && model != plan.StageModel:
		return fmt.Errorf("%w: memory model %q is unknown; there are %q and %q", formulation.ErrInstance, model, plan.StageModel, plan.TaskModel)
	case !(c.TotalTime() > 0):
		return fmt.Errorf("%w: no layer of chain %q takes time, a period must be positive", formulation.ErrInstance, c.Name)
	}
	return nil
}

// newPipelineInstance reads the chain. Stages must cover it in order.
func newPipelineInstance(c *chain.Chain, p platform.Platform, stages []plan.Stage, model string) (*pipelineInstance, error) {
	if err := checkPipeline(c, p, model); err != nil {
		return nil, err
	}
	if model == "" {
		model = plan.TaskModel
	}
	next := 1
	for i, s := range stages {
		if s.From != next || s.To < s.From || s.Processor < -1 || s.Processor >= p.Processors {
			return nil, fmt.Errorf("%w: stage %d has layers %d to %d on processor %d; stages must cover layers 1 to %d in order, on processors 0 to %d",
				formulation.ErrInstance, i+1, s.From, s.To, s.Processor, c.Len(), p.Processors-1)
		}
		next = s.To + 1
	}
	if next != c.Len()+1 {
		return nil, fmt.Errorf("%w: stages cover layers 1 to %d of %d", formulation.ErrInstance, next-1, c.Len())
	}
	n := len(stages)
	in := &pipelineInstance{
		chain: c, platform: p, model: model, n: n, stages: stages, memory: 1000,
		d: make([]float64, 2*n), run: make([]float64, 2*n), out: make([]float64, 2*n), comm: make([]float64, 2*n),
		stored: make([]float64, n), weight: make([]float64, n),
	}
	in.read()
	return in, nil
}

// read fills in durations and sizes, in units.
func (in *pipelineInstance) read() {
	in.size = in.platform.Memory / in.memory
	busy := 0
	for i := range in.chain.Layers {
		for _, u := range [2]float64{in.chain.Layers[i].ForwardTime, in.chain.Layers[i].BackwardTime} {
			if u > 0 {
				busy++
			}
		}
	}
	in.time = in.chain.TotalTime() / float64(busy)
	for s := range in.n {
		in.readStage(s)
	}
	for t := range 2*in.n - 1 {
		if t != in.n-1 && in.platform.Processors > 1 {
			in.comm[t] = in.out[t] * in.size / in.platform.Bandwidth / in.time
		}
		in.horizon += in.comm[t]
	}
	for _, d := range in.d {
		in.horizon += d
	}
}

// readStage reads stage s. Its layers run one after another, so that while
// F_ℓ of them runs the inputs of the stage's layers up to ℓ are there, and
// while B_ℓ does, too.
func (in *pipelineInstance) readStage(s int) {
	f, b := s, 2*in.n-1-s
	stored, forward, backward := 0.0, 0.0, 0.0
	for l := in.stages[s].From; l <= in.stages[s].To; l++ {
		x := &in.chain.Layers[l-1]
		a, delta := in.tensors(l - 1)
		stored += a
		forward = max(forward, stored+x.Activation)
		backward = max(backward, stored+x.Gradient+delta)
		in.d[f] += x.ForwardTime / in.time
		in.d[b] += x.BackwardTime / in.time
		in.weight[s] += float64(in.platform.WeightCopies) * x.Weight / in.size
	}
	last := &in.chain.Layers[in.stages[s].To-1]
	_, delta := in.tensors(in.stages[s].From - 1)
	in.stored[s] = stored / in.size
	in.run[f] = forward / in.size
	in.run[b] = (backward - stored) / in.size // the stage's inputs count as stored
	in.out[f] = last.Activation / in.size
	in.out[b] = delta / in.size
}

// tensors returns the sizes of a_ℓ and δ_ℓ in bytes, ℓ ≥ 0.
func (in *pipelineInstance) tensors(l int) (a, delta float64) {
	if l == 0 {
		return in.chain.Input.Activation, in.chain.Input.Gradient
	}
	return in.chain.Layers[l-1].Activation, in.chain.Layers[l-1].Gradient
}

// stage returns the stage of task t.
func (in *pipelineInstance) stage(t int) int { return min(t, 2*in.n-1-t) }

// name returns the name of task t as in the thesis: "F_2" of single layers,
// "F_2..4" of stages.
func (in *pipelineInstance) name(t int) string {
	s, op := in.stages[in.stage(t)], "F"
	if t >= in.n {
		op = "B"
	}
	if s.From == s.To {
		return fmt.Sprintf("%s_%d", op, s.From)
	}
	return fmt.Sprintf("%s_%d..%d", op, s.From, s.To)
}

// fits returns a *plan.Infeasible if the memory is less than leastMemory.
func (in *pipelineInstance) fits() error {
	least := leastMemory(in)
	if least <= in.platform.Memory*(1+plan.Tolerance) {
		return nil
	}
	return &plan.Infeasible{
		Problem: plan.Pipeline, Memory: least, Given: in.platform.Memory,
		Why: fmt.Sprintf("however the layers are spread over %d processors, one of them needs that for weights, inputs, a task and buffers", in.platform.Processors),
	}
}

// leastMemory is a lower bound, in bytes, on the memory of each processor with
// which there is a pattern: of any allocation of the stages, whatever their
// processors, and of any number of mini-batches a period. O(n³).
//
// Cut the chain into runs of stages on one processor, as long as they can be.
// The processor of the run i..j needs runNeed(i,j), whatever else it does; so
// the least over all ways to cut of the largest of these is needed somewhere.
//
// And when B_N of a mini-batch runs, F_s of all stages have ended for it and no
// B_s has but that of N is running: the inputs of all stages are stored, all
// weights, and what B_N needs for itself. A processor on which no task runs at
// this moment stores as much when its next one does. So P processors need the
// sum of that.
func leastMemory(in *pipelineInstance) float64 {
	n := in.n
	best := make([]float64, n+1) // of the first stages, cut in the best way
	for j := range n {
		best[j+1] = math.Inf(1)
		for i := range j + 1 {
			if in.platform.Processors > 1 || i == 0 && j == n-1 {
				best[j+1] = min(best[j+1], max(best[i], in.runNeed(i, j)))
			}
		}
	}
	all := 0.0
	for s := range n {
		all += in.weight[s] + in.stored[s]
	}
	if in.model == plan.TaskModel {
		all += in.run[n]
	}
	return max(best[n], all/float64(min(n, in.platform.Processors))) * in.size
}

// runNeed is what the processor of the stages i..j, whose neighbours are on
// others, needs at least: their weights, the buffers of the cuts beside them
// and, by the stage model, all their inputs. By the task model, the inputs of
// i..s while B_s runs, since no B of these has run for this mini-batch, and the
// same while F_s does, whose own input is part of what F_s needs.
func (in *pipelineInstance) runNeed(i, j int) float64 {
	stored, most := 0.0, 0.0
	for s := i; s <= j; s++ {
		most = max(most, stored+in.run[s])
		stored += in.stored[s]
		most = max(most, stored+in.run[2*in.n-1-s])
	}
	if in.model == plan.StageModel {
		return in.standing(i, j) + stored
	}
	return in.standing(i, j) + most
}

// standing is what a run of the stages i..j, whose neighbours are on other
// processors, stores all the time: weights and the buffers of the cuts beside it.
func (in *pipelineInstance) standing(i, j int) (sum float64) {
	for s := i; s <= j; s++ {
		sum += in.weight[s]
	}
	return sum + in.buffer(i-1) + in.buffer(j)
}

// buffer is what each of its processors has for a cut behind stage s, if it is
// not an end of the chain.
func (in *pipelineInstance) buffer(s int) float64 {
	if s < 0 || s >= in.n-1 {
		return 0
	}
	return in.out[s] + in.out[2*in.n-2-s]
}

// late is a constant K that is larger than the difference of any two times of
// a pattern, given its longest period; in (6.14) it is the period with two
// communications, one of which is not sent.
func (in *pipelineInstance) late(longest float64) float64 {
	most := 0.0
	for t := range in.d {
		most = math.Max(most, math.Max(in.d[t], in.comm[t]))
	}
	return longest + 2*most
}
