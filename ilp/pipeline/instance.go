package pipeline

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// PipelineLayers limits the length of the chains for which pipeline models are built: the ILP of [004] has some 30
// N² columns and 10 N³ rows.
const PipelineLayers = 64

// pipelineInstance is PIPE_S&A(L, M, P, β) of [004] chapter 6 as a sequence of tasks. Stages are single layers, or
// the runs of layers of section 7.2 that are computed without interruption. Their number is n, L+1 in the thesis.
// Tasks are numbered from 0: task t < n is the forward of stage t, task 2n−1−t its backward. T_ℓ of the thesis is
// task ℓ−1.
//
// Units are powers of two, so that scaling is exact. The average load of a processor is about 2^10 time units, and
// the memory about 2^10 size units. Durations are rounded down to a grid on which sums are exact. A pattern with
// longer operations remains a pattern if the operations are shortened and end at the same times. The models are
// therefore relaxations in exact arithmetic, and their plans are timed with the original durations.
type pipelineInstance struct {
	view     *view.Instance
	chain    *chain.Chain
	platform platform.Platform
	model    string // plan.StageModel or plan.TaskModel

	n      int
	stages []plan.Stage // the layers of each stage; the processor is -1 if it is free

	time, size float64 // seconds, and units of the chain's sizes, per unit here
	memory     float64 // M

	d      []float64 // duration of task t
	run    []float64 // of task t: memory while it runs, in addition to what is stored; a_{ℓ-1} + a_ℓ in (6.36)
	out    []float64 // output of task t; a_ℓ in the thesis
	comm   []float64 // time to send the output of task t to another processor, t < 2n−1
	stored []float64 // of stage s: memory of each mini-batch in flight; a_{ℓ-1}, or ā of 7.2
	weight []float64 // of stage s: C·W

	horizon float64 // Σd + Σd~, rounded up: every instance that fits has a pattern of this period
	grid    float64 // times are integer multiples of it, so that their sums are exact
}

// scale is the approximate value of a good period and of the memory, in units of a model.
const scale = 1 << 10

// singleLayers returns every layer of c as a stage without a processor.
func singleLayers(c *chain.Chain) []plan.Stage {
	s := make([]plan.Stage, c.Len())
	for i := range s {
		s[i] = plan.Stage{Processor: -1, From: i + 1, To: i + 1}
	}
	return s
}

// read returns the view of an instance. The error wraps formulation.ErrInstance or formulation.ErrTooLong if no
// model can be built.
func read(c *chain.Chain, p platform.Platform, model string) (*view.Instance, error) {
	in, err := view.New(c, p, model)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", formulation.ErrInstance, err)
	case c.Len() > PipelineLayers:
		return nil, fmt.Errorf("%w: %d layers, pipeline models take %d at most: their size grows with the cube", formulation.ErrTooLong, c.Len(),
			PipelineLayers)
	}
	return in, nil
}

// newPipelineInstance reads the chain. The stages must cover it in order.
func newPipelineInstance(c *chain.Chain, p platform.Platform, stages []plan.Stage, model string) (*pipelineInstance, error) {
	x, err := read(c, p, model)
	if err != nil {
		return nil, err
	}
	return staged(x, stages)
}

// staged returns an instance of stages, which must cover the chain in order.
func staged(x *view.Instance, stages []plan.Stage) (*pipelineInstance, error) {
	next := 1
	for i, s := range stages {
		if s.From != next || s.To < s.From || s.Processor < -1 || s.Processor >= x.Platform.Processors {
			return nil, fmt.Errorf("%w: stage %d has layers %d to %d on processor %d; stages must cover layers 1 to %d in order, on processors "+
				"0 to %d",
				formulation.ErrInstance, i+1, s.From, s.To, s.Processor, x.N, x.Platform.Processors-1)
		}
		next = s.To + 1
	}
	if next != x.N+1 {
		return nil, fmt.Errorf("%w: stages cover layers 1 to %d of %d", formulation.ErrInstance, next-1, x.N)
	}
	n := len(stages)
	in := &pipelineInstance{
		view: x, chain: x.Chain, platform: x.Platform, model: x.Model, n: n, stages: stages,
		d: make([]float64, 2*n), run: make([]float64, 2*n), out: make([]float64, 2*n), comm: make([]float64, 2*n),
		stored: make([]float64, n), weight: make([]float64, n),
	}
	in.read()
	return in, nil
}

// read sets the durations and sizes, in units.
func (in *pipelineInstance) read() {
	x := in.view
	in.time = timeUnit(x)
	in.size = 1 / milp.PowerOfTwo(min(x.Memory, x.Ample()), scale)
	in.memory = x.Memory / in.size
	in.grid = max(timeGrain, 1/milp.PowerOfTwo(x.Latest()/in.time, 1<<finest))
	for s := range in.n {
		in.readStage(s)
	}
	for t := range 2*in.n - 1 {
		if t != in.n-1 && in.platform.Processors > 1 {
			in.comm[t] = in.roundDown(milp.Down.Quo(in.out[t]*in.size, in.platform.Bandwidth) / in.time)
		}
	}
	in.horizon = in.roundUp(x.Latest() / in.time * (1 + view.Rounding))
}

const (
	// timeGrain is the finest grid of times: about a billionth of a good period. Solvers do not resolve smaller
	// differences.
	timeGrain = 0x1p-20
	// finest is the number of bits of a time on the grid: sums of 32 horizons are exact.
	finest = 48
)

// roundDown and roundUp round a time to the grid.
func (in *pipelineInstance) roundDown(x float64) float64 { return math.Floor(x/in.grid) * in.grid }
func (in *pipelineInstance) roundUp(x float64) float64   { return math.Ceil(x/in.grid) * in.grid }

// readStage reads stage s. Its layers run one after another. While F_ℓ or B_ℓ runs, the inputs of the layers of
// the stage up to ℓ are in memory.
func (in *pipelineInstance) readStage(s int) {
	x, f, b := in.view, s, 2*in.n-1-s
	from, to := in.stages[s].From, in.stages[s].To
	stored, forward, backward := 0.0, 0.0, 0.0
	for l := from; l <= to; l++ {
		stored += x.Kept[l]
		forward = max(forward, stored+x.OwnF[l])
		backward = max(backward, stored+x.OwnB[l])
		in.d[f] += in.roundDown(x.UF[l] / in.time)
		in.d[b] += in.roundDown(x.UB[l] / in.time)
	}
	in.weight[s] = (x.Weights[to] - x.Weights[from-1]) / in.size
	in.stored[s] = stored / in.size
	in.run[f] = forward / in.size
	in.run[b] = (backward - stored) / in.size // the inputs of the stage count as stored
	in.out[f] = x.A[to] / in.size
	in.out[b] = x.D[from-1] / in.size
}

// stage returns the stage of task t.
func (in *pipelineInstance) stage(t int) int { return min(t, 2*in.n-1-t) }

// name returns the name of task t as in the thesis: "F_2" of single layers, "F_2..4" of stages.
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

// late returns a constant K that exceeds the difference of any two times of a pattern, given its maximum period.
// In (6.14) this is the period plus two communications, one of which is not sent.
func (in *pipelineInstance) late(longest float64) float64 {
	most := 0.0
	for t := range in.d {
		most = math.Max(most, math.Max(in.d[t], in.comm[t]))
	}
	return longest + 2*most
}
