// Package strategy runs every way to fit a training step into the memory of GPUs and ranks the verified plans by
// step time. The strategies are keeping everything, common practice, recomputation, offloading of activations,
// both together, offloading of weights, and pipelines over several GPUs.
package strategy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Strategy is one way to fit a training step into memory: a method of a problem.
type Strategy struct {
	Name      string
	Allow     string                // the word of --allow that admits it, "" for references
	Problem   func() *solve.Problem // nil: the layout of a pipeline
	Method    string                // "": the problem's default for the instance
	Kinds     []string              // of supported instances
	Weights   bool                  // moves weights, for states that do not fit
	Placement string                // of the stages of a pipeline on its GPUs
}

// The words of --allow, in the order in which help lists them.
const (
	Recompute = "recompute"
	Offload   = "offload"
	Weights   = "weights"
	Pipeline  = "pipeline"
)

// Words returns the values of --allow.
func Words() []string { return []string{Recompute, Offload, Weights, Pipeline} }

// All returns the strategies in the order in which ties are ranked: the simplest first.
func All() []Strategy {
	chains, steps, graphs := []string{chain.Kind}, []string{training.Kind}, []string{graph.Kind, training.Kind}
	every := slices.Concat(chains, graphs)
	return append([]Strategy{
		{Name: "keep everything", Problem: method.Remat, Method: "store-all", Kinds: every},
		{Name: "checkpoint per block", Problem: method.Remat, Method: "per-layer", Kinds: chains},
		{Name: "checkpoint per segment", Problem: method.Remat, Method: "periodic", Kinds: chains},
		{Name: "PyTorch min-cut partitioner", Problem: method.Remat, Method: "min-cut", Kinds: steps},
		{Name: "PyTorch memory budget", Problem: method.Remat, Method: "knapsack-dp", Kinds: steps},
		{Name: "recompute", Allow: Recompute, Problem: method.Remat, Kinds: every},
		{Name: "offload activations", Allow: Offload, Problem: method.ActivationOffload, Kinds: chains},
		{Name: "recompute and offload", Allow: Recompute + "," + Offload, Problem: method.RematOffload, Kinds: slices.Concat(chains, steps)},
		{Name: "offload weights", Allow: Weights, Problem: method.WeightOffload, Kinds: chains, Weights: true},
	}, pipelines()...)
}

// allowed reports whether all words that a strategy needs are allowed.
func (s *Strategy) allowed(words []string) bool {
	for word := range strings.SplitSeq(s.Allow, ",") {
		if word != "" && !slices.Contains(words, word) {
			return false
		}
	}
	return true
}

// Options configure the target. Sizes are in bytes.
type Options struct {
	// Setting holds the limits and the link. Its Platform.Memory is for activations unless GPU is given.
	Setting solve.Setting
	// GPU is the memory of the whole device, including a Reserve for driver and allocator; 0: not given.
	GPU, Reserve float64
	Optimizer    solve.Optimizer
	Allow        []string
	GPUs         GPUs // the zero value is one
}

// Row is the result of one strategy. Step times are in seconds, sizes in bytes.
type Row struct {
	Strategy string       `json:"strategy"`
	Problem  string       `json:"problem"`
	Method   string       `json:"method"`
	Status   solve.Status `json:"status"`
	StepTime *float64     `json:"step_time"`
	// Slowdown is the relative increase of the step time over that of keeping everything.
	Slowdown *float64 `json:"slowdown"`
	Peak     *float64 `json:"peak_memory"`
	// Memory is the limit of the plan: for activations or, where weights move, for everything.
	Memory float64 `json:"memory"`
	// Bound is the best lower bound on the step time among plans of this strategy's problem.
	Bound     *solve.Bound  `json:"bound"`
	Gap       *float64      `json:"gap"`
	Error     string        `json:"error,omitempty"`
	Result    *solve.Result `json:"-"`
	problem   *solve.Problem
	placement string
}

// MovesWeights reports whether the plans of a row offload weights.
func (row *Row) MovesWeights() bool { return row.Problem == method.WeightOffload().Name }

// Write writes the plan of a row that has one.
func (row *Row) Write(w io.Writer) error { return row.Result.Plan.Write(w) }

// Ranking is the ranked list of strategies for a training step that does not fit.
type Ranking struct {
	Instance plan.InstanceRef `json:"instance"`
	// Activations is the peak of activations when everything is kept. State is resident in addition: weights,
	// gradients, optimizer state, inputs.
	Activations float64 `json:"activations"`
	State       float64 `json:"state"`
	// Device is the GPU whose times the instance has, as it says; "": it does not say.
	Device string `json:"device,omitempty"`
	// Budget is the division of a whole GPU; nil: the memory of activations was given.
	Budget *solve.Budget `json:"budget,omitempty"`
	// Memory remains for activations; not positive if the state does not fit.
	Memory    float64 `json:"memory"`
	Bandwidth float64 `json:"bandwidth"`
	// GPUs run a step of MicroBatches times the instance; 0: one GPU, which runs it once.
	GPUs         int `json:"gpus,omitempty"`
	MicroBatches int `json:"micro_batches,omitempty"`
	// Compute is the step time of keeping everything with unlimited memory.
	Compute float64 `json:"compute"`
	Rows    []Row   `json:"strategies"` // plans by step time, then those without one
	// Bound is a lower bound on the step time of every plan of the strategies that ran, without those that move
	// weights; nil: none is known.
	Bound *solve.Bound `json:"bound"`
	// Minimum is the smallest memory of activations for which a plan is known. Where nothing fits, ProvedMinimum
	// is the smallest that no proof excludes, and LargestBatch the largest batch that is known to fit; 0 if
	// unknown.
	Minimum       float64 `json:"minimum"`
	ProvedMinimum float64 `json:"proved_minimum,omitempty"`
	LargestBatch  int     `json:"largest_batch,omitempty"`
}

// Best returns the fastest row that has a plan, nil if none has.
func (r *Ranking) Best() *Row {
	if len(r.Rows) > 0 && r.Rows[0].StepTime != nil {
		return &r.Rows[0]
	}
	return nil
}

// Rank runs the strategies that apply to an instance concurrently, each with the whole time limit. A strategy
// without a result at the end of the limit becomes a row without a plan. The error is the user's (it wraps
// solve.ErrInput), or says that a verified plan is better than a bound, so that the bound is wrong.
func Rank(ctx context.Context, in *solve.Instance, o Options) (*Ranking, error) {
	r := &Ranking{Instance: in.Ref(), Bandwidth: o.Setting.Platform.Bandwidth, Compute: o.reference(in), Memory: o.Setting.Platform.Memory}
	if o.GPUs.N > 1 {
		r.GPUs, r.MicroBatches = o.GPUs.N, o.GPUs.MicroBatches
	}
	r.Device = device(in)
	remat := method.Remat().InBytes()
	if err := remat.Accepts(in); err != nil {
		return nil, solve.InputError(fmt.Errorf("plan supports %s, but %s is a %s: workbench solve supports every kind",
			solve.KindWords(remat.Takes), in.Name, solve.KindWord(in.Kind())))
	}
	if o.GPUs.N > 1 && in.Chain() == nil {
		return nil, solve.InputError(fmt.Errorf("pipelines over --gpus are cut from chains, but %s is a %s", in.Name, solve.KindWord(in.Kind())))
	}
	if o.GPU <= 0 && !(o.Setting.Platform.Memory > 0) {
		return nil, solve.InputError(fmt.Errorf("plan of %s: the memory must be positive; give it with --memory or --gpu", in.Name))
	}
	if o.GPU > 0 {
		b, err := remat.Budget(in, o.GPU, o.Reserve, o.Optimizer)
		if b == nil {
			return nil, err
		}
		r.Budget, r.Memory, r.State = b, b.Memory, b.Resident()-b.Reserve
	} else {
		r.State = remat.Resident(in)
	}
	var ranges sync.WaitGroup
	ranges.Go(func() { o.setRange(ctx, copyOf(in), r) })
	rows, err := o.run(ctx, in, r.Memory)
	ranges.Wait()
	if err != nil {
		return nil, err
	}
	r.Rows = rows
	sortRows(r.Rows)
	if r.Best() == nil && r.Memory > 0 && r.GPUs == 0 {
		r.ProvedMinimum = r.provedMinimum(in)
		if r.Budget != nil {
			r.LargestBatch = remat.LargestBatch(in, r.Budget)
		}
	}
	return r, r.setBound()
}

// device returns the GPU of an instance's times, as "H100-80GB, analytic".
func device(in *solve.Instance) string {
	var source map[string]any
	switch x := in.Instance.(type) {
	case *chain.Chain:
		source = x.Source
	case *graph.Graph:
		source = x.Source
	case *training.Graph:
		source = x.Source
	}
	name, _ := source["device"].(string)
	if kind, ok := source["kind"].(string); ok && name != "" {
		name += ", " + kind
	}
	return name
}

// setRange sets Activations and Minimum, within half of the time limit.
func (o *Options) setRange(ctx context.Context, in *solve.Instance, r *Ranking) {
	remat, both := method.Remat().InBytes(), method.RematOffload().InBytes()
	r.Minimum, r.Activations = remat.RangeWithin(ctx, in, o.Setting, false)
	if o.Setting.Platform.Bandwidth > platform.NoLink && both.Accepts(in) == nil {
		low, _ := both.RangeWithin(ctx, in, o.Setting, false)
		r.Minimum = min(r.Minimum, low)
	}
}

// copyOf returns an instance without cached values, since the cache is not for concurrent use.
func copyOf(in *solve.Instance) *solve.Instance {
	return &solve.Instance{Instance: in.Instance, Name: in.Name, SHA256: in.SHA256, Source: in.Source}
}

// run runs the strategies that apply with the given memory for activations and returns a row for each, in their
// order.
func (o *Options) run(ctx context.Context, in *solve.Instance, memory float64) ([]Row, error) {
	var list []Strategy
	for _, s := range All() {
		if o.applies(&s, in, memory) {
			list = append(list, s)
		}
	}
	rows, answers := make([]Row, len(list)), make(chan answer, len(list))
	for k, s := range list {
		row := o.unanswered(&s, in, memory)
		rows[k] = row
		go func() { answers <- answer{k, o.try(ctx, row, copyOf(in))} }()
	}
	collect(rows, answers, o.Setting.Time)
	for _, row := range rows {
		if err := row.Result.Err; row.Status == solve.Failed && !errors.Is(err, solve.ErrInput) {
			return nil, fmt.Errorf("%s: %w", row.Strategy, err)
		}
	}
	return rows, nil
}

// applies reports whether a strategy is for an instance with the given memory for activations.
func (o *Options) applies(s *Strategy, in *solve.Instance, memory float64) bool {
	switch {
	case !slices.Contains(s.Kinds, in.Kind()) || !s.allowed(o.Allow):
		return false
	case s.Problem == nil:
		return o.GPUs.N > 1
	}
	return s.Weights == (memory <= 0) && (s.Problem().Bandwidth == "" || o.Setting.Platform.Bandwidth > platform.NoLink)
}

// answer is the row of the k-th strategy.
type answer struct {
	k   int
	row Row
}

// A method stops a twentieth of the limit early. Its result, which is then replayed, may arrive up to a twentieth
// late.
const grace = 20

// collect receives the results that arrive within a limit, 0 being none.
func collect(rows []Row, answers <-chan answer, limit time.Duration) {
	var over <-chan time.Time
	if limit > 0 {
		over = time.After(limit + limit/grace + 50*time.Millisecond)
	}
	for range rows {
		select {
		case a := <-answers:
			rows[a.k] = a.row
		case <-over:
			return
		}
	}
}

// unanswered returns the row of a strategy before it has run.
func (o *Options) unanswered(s *Strategy, in *solve.Instance, memory float64) Row {
	row := Row{
		Strategy: s.Name, Problem: "layout", Method: s.Method, Memory: memory, placement: s.Placement, Status: solve.Limit,
		Error: "no answer within the time limit",
	}
	if s.Problem != nil {
		row.problem = s.Problem().InBytes()
		row.Problem = row.problem.Name
	}
	if row.Method == "" {
		row.Method = catalog.DefaultMethod(row.problem, in)
	}
	if (s.Weights || s.Problem == nil) && o.GPU > 0 { // the plan contains weights, gradients and activations
		row.Memory = o.GPU - o.Reserve
	}
	row.Result = &solve.Result{Err: fmt.Errorf("%s: %w: %s", s.Name, plan.ErrNoPlan, row.Error)}
	return row
}

// try runs one strategy on an instance of its own.
func (o *Options) try(ctx context.Context, row Row, in *solve.Instance) Row {
	if row.problem == nil {
		return o.layouts(ctx, row, in)
	}
	set := o.Setting
	set.Platform.Memory = row.Memory
	set.Time -= set.Time / grace
	if row.problem.Bandwidth == "" {
		set.Platform.Bandwidth = 0
	}
	m, err := catalog.FindMethod(row.problem, row.Method)
	if err == nil {
		set.Platform.Model, err = row.problem.Count(in, "")
	}
	if err != nil { // the table names existing methods: a test checks it
		row.Status, row.Error, row.Result = solve.Failed, err.Error(), &solve.Result{Err: err}
		return row
	}
	row.setResult(solve.Run(ctx, row.problem, m, in, set), in.Compute())
	if o.GPUs.N > 1 {
		o.replicate(&row, in)
	}
	return row
}

// setResult copies what a row shows of a result.
func (row *Row) setResult(x *solve.Result, compute float64) {
	row.Result, row.Status, row.Bound, row.Gap, row.Error = x, x.Status, x.Bound, x.Gap, x.Error
	if x.Status == solve.Failed || x.Makespan == nil {
		return
	}
	row.set(*x.Makespan, *x.PeakMemory, compute)
}

// set sets the values of a plan; compute is the step time of keeping everything.
func (row *Row) set(step, peak, compute float64) {
	slowdown := step/compute - 1
	if math.Abs(slowdown) < solve.Exactness {
		slowdown = 0
	}
	row.StepTime, row.Slowdown, row.Peak = &step, &slowdown, &peak
	if row.Bound != nil {
		gap := platform.Gap(step, row.Bound.Value)
		row.Gap = &gap
	}
}

// sortRows sorts rows with plans first, by step time. The sort is stable, so that the simpler strategy wins a tie.
func sortRows(rows []Row) {
	value := func(r Row) float64 {
		if r.StepTime == nil {
			return math.Inf(1)
		}
		return *r.StepTime
	}
	slices.SortStableFunc(rows, func(a, b Row) int {
		x, y := value(a), value(b)
		if x == y || math.Abs(x-y) <= solve.Exactness*min(x, y) {
			return 0
		}
		return cmp.Compare(x, y)
	})
}

// mostComputations exceeds the number of computations of any instance: it bounds the rounding errors in the sum of
// their times.
const mostComputations = 1 << 22

// setBound sets Bound to the smallest of the bounds of the problems that ran: each applies to every plan of its
// problem, and an infeasible problem needs none. Where a problem ran without a bound, its bound is the sum of the
// computations, which every strategy runs at least once.
func (r *Ranking) setBound() error {
	best, empty := map[string]*solve.Bound{}, map[string]bool{}
	compute := proof.BySearch(plan.RoundDown(r.Compute, mostComputations), "the sum of the computations")
	for k := range r.Rows {
		row := &r.Rows[k]
		refused := row.Status == solve.Failed // bad input: it did not run
		if row.MovesWeights() || refused {
			continue
		}
		of := row.Problem + row.placement // each placement has its own plans
		empty[of] = empty[of] || row.Status == solve.Infeasible
		b := row.Bound
		if b == nil {
			b = &compute
		}
		if known := best[of]; known == nil || b.Value > known.Value {
			best[of] = b
		}
	}
	for name, b := range best {
		if !empty[name] && (r.Bound == nil || b.Value < r.Bound.Value) {
			r.Bound = b
		}
	}
	first := r.Best()
	if first != nil && r.Bound != nil && platform.Excess(*first.StepTime, r.Bound.Value) < -solve.Exactness &&
		!first.MovesWeights() {
		return fmt.Errorf("%s: the verified plan (%v s) is better than the bound of %s (%v s): the bound is wrong", first.Strategy,
			*first.StepTime, r.Bound.By, r.Bound.Value)
	}
	return nil
}

// Err returns nil if there is a plan. Otherwise it is solve.ErrInput where the state alone does not fit,
// plan.Infeasible where every strategy proves infeasibility, else plan.ErrNoPlan.
func (r *Ranking) Err() error {
	if r.Best() != nil {
		return nil
	}
	if r.Memory <= 0 && r.GPUs == 0 {
		return solve.InputError(fmt.Errorf("the state of %s alone does not fit: %s of weights, gradients, optimizer state and inputs, %s "+
			"more than the %s of the GPU that are usable; shard it (FSDP, ZeRO), use an optimizer with less state, or more GPUs (--gpus)",
			r.Instance.Name, platform.FormatBytes(r.State), platform.FormatBytes(-r.Memory), platform.FormatBytes(r.Budget.GPU-r.Budget.Reserve)))
	}
	for _, row := range r.Rows {
		if row.Status != solve.Infeasible && !row.reference() {
			if r.GPUs > 0 {
				return fmt.Errorf("%w of these strategies within the limits: %s: %s", plan.ErrNoPlan, row.Strategy, row.Error)
			}
			return fmt.Errorf("%w of these strategies within the limits: a plan is known from %s of activations on", plan.ErrNoPlan,
				platform.FormatBytes(r.Minimum))
		}
	}
	given := r.Memory
	if r.Budget != nil {
		given = r.Budget.GPU - r.Budget.Reserve
	}
	return &plan.Infeasible{Problem: "plan", Given: given, Why: "every strategy proves it"}
}

// provedMinimum returns the smallest of the memories that the strategies prove to be needed, in bytes; 0 if one of
// them proves none.
func (r *Ranking) provedMinimum(in *solve.Instance) float64 {
	least := math.Inf(1)
	for _, row := range r.Rows {
		if row.reference() {
			continue
		}
		proved, ok := errors.AsType[*plan.Infeasible](row.Result.Err)
		if !ok || proved.Memory <= 0 {
			return 0
		}
		least = min(least, in.Unit().Bytes(proved.Memory))
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

// reference reports whether a row is common practice, whose failure proves nothing.
func (row *Row) reference() bool {
	return slices.ContainsFunc(All(), func(s Strategy) bool { return s.Name == row.Strategy && s.Allow == "" })
}
