package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Unrolled is a pattern executed for mini-batches 0, 1, …, one after another,
// with nothing before the first and nothing after the last.
type Unrolled struct {
	Minibatches int
	Runs        []Run   // in order of start
	Period      float64 // T/k as found: from the end of a mini-batch to that of the k-th after it, over k
	// Peaks of each processor in bytes, by both models, and NCA_ℓ at ℓ-1, as
	// [plan.PatternReport] has them if there were enough mini-batches to fill the
	// pipeline.
	StageMemory, TaskMemory []float64
	NCA                     []int
	Broken                  []string // rules, in sentences; empty: none
}

// A Run is one execution of an operation.
type Run struct {
	Op         int // index in Plan.Ops
	Minibatch  int
	Start, End float64
}

// mostRuns is how many executions Unroll is ready for.
const mostRuns = 1 << 22

// Unroll executes p, a pattern, for so many mini-batches; 0: for as many as it
// takes until the memory of later ones can only repeat. It is the check of
// [VerifyPipeline] and shares with it only what tells a plan that cannot be
// read: it forgets that there is a period and follows what is computed, sent
// and stored for each mini-batch.
//
// The error wraps [plan.ErrUnreadable] where operations are missing, or there are
// more than can be followed. O(n log n + n·m) for n runs, m at one instant.
func Unroll(c *chain.Chain, p *plan.Plan, minibatches int) (*Unrolled, error) {
	u, err := newUnrolling(c, p)
	if err != nil {
		return nil, err
	}
	if minibatches <= 0 {
		minibatches = u.enough()
	}
	if minibatches > mostRuns/len(u.route) {
		return nil, fmt.Errorf("%w: %d mini-batches of %d operations are too many to follow", plan.ErrUnreadable, minibatches, len(u.route))
	}
	u.run(minibatches)
	u.checkLanes()
	for g := range u.out.TaskMemory {
		u.store(g)
	}
	u.judge()
	return u.out, nil
}

// unrolling is the state of an execution.
type unrolling struct {
	chain *chain.Chain
	plan  *plan.Plan
	k     int
	T     float64
	eps   float64
	gpu   []int // of layer ℓ, at ℓ
	route []leg
	out   *Unrolled
	lanes []string    // resources in the order of the route
	runs  [][]laneRun // by lane
}

// A leg is what happens to each mini-batch at one point of its way.
type leg struct {
	kind  string
	layer int
	lane  int
	takes float64
	ops   []int // the operation for mini-batches m with m mod k = index
}

// laneRun is a run on its lane.
type laneRun struct {
	Run
	leg int
}

func newUnrolling(c *chain.Chain, p *plan.Plan) (*unrolling, error) {
	// What cannot be read at all, VerifyPattern refuses in the same words.
	if _, err := readPattern(c, p); err != nil {
		return nil, err
	}
	p = p.Converted(c.Unit)
	u := &unrolling{chain: c, plan: p, k: max(1, p.K), T: *p.Period, out: &Unrolled{}}
	u.eps = plan.Tolerance * u.T
	n := c.Len()
	u.gpu = slices.Repeat([]int{-1}, n+1)
	for _, s := range p.Allocation {
		for l := max(1, s.From); l <= min(n, s.To); l++ {
			if u.gpu[l] >= 0 || s.Processor < 0 || s.Processor >= p.Platform.Processors {
				return nil, fmt.Errorf("%w: the allocation of layer %d is not clear", plan.ErrUnreadable, l)
			}
			u.gpu[l] = s.Processor
		}
		if s.From < 1 || s.To > n || s.From > s.To {
			return nil, fmt.Errorf("%w: a stage has layers %d to %d", plan.ErrUnreadable, s.From, s.To)
		}
	}
	for l := 1; l <= n; l++ {
		if u.gpu[l] < 0 {
			return nil, fmt.Errorf("%w: layer %d is on no processor", plan.ErrUnreadable, l)
		}
	}
	u.out.StageMemory = make([]float64, p.Platform.Processors)
	u.out.TaskMemory = make([]float64, p.Platform.Processors)
	u.out.NCA = make([]int, n)
	u.plot()
	return u, u.assign()
}

// plot lays out the route of a mini-batch.
func (u *unrolling) plot() {
	n, beta := u.chain.Len(), u.plan.Platform.Bandwidth
	for g := range u.out.TaskMemory {
		u.lanes = append(u.lanes, "gpu"+strconv.Itoa(g))
	}
	wire := func(kind string, l int, size float64) {
		i, j := min(u.gpu[l], u.gpu[l+1]), max(u.gpu[l], u.gpu[l+1])
		if i == j {
			return
		}
		name := "link" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
		lane := slices.Index(u.lanes, name)
		if lane < 0 {
			lane = len(u.lanes)
			u.lanes = append(u.lanes, name)
		}
		u.route = append(u.route, leg{kind: kind, layer: l, lane: lane, takes: size / beta})
	}
	for i := range n {
		x := &u.chain.Layers[i]
		u.route = append(u.route, leg{kind: plan.OpF, layer: i + 1, lane: u.gpu[i+1], takes: x.ForwardTime})
		if i+1 < n {
			wire(plan.OpCF, i+1, x.Activation)
		}
	}
	for i := n - 1; i >= 0; i-- {
		x := &u.chain.Layers[i]
		u.route = append(u.route, leg{kind: plan.OpB, layer: i + 1, lane: u.gpu[i+1], takes: x.BackwardTime})
		if i > 0 {
			wire(plan.OpCB, i, u.chain.Layers[i-1].Gradient)
		}
	}
	u.runs = make([][]laneRun, len(u.lanes))
}

// assign finds which operation serves which mini-batches.
func (u *unrolling) assign() error {
	for i := range u.route {
		u.route[i].ops = slices.Repeat([]int{-1}, u.k)
	}
	for o := range u.plan.Ops {
		x := &u.plan.Ops[o]
		i := slices.IndexFunc(u.route, func(l leg) bool { return l.kind == x.Op && l.layer == x.Layer })
		if i < 0 {
			return fmt.Errorf("%w: no mini-batch passes %s", plan.ErrUnreadable, x)
		}
		if !plan.Finite(x.Start) || !plan.Finite(x.End) {
			return fmt.Errorf("%w: %s runs from %g to %g", plan.ErrUnreadable, x, x.Start, x.End)
		}
		m := x.Shift % u.k
		if m < 0 {
			m += u.k
		}
		at := &u.route[i].ops[m]
		if *at >= 0 {
			return fmt.Errorf("%w: two operations %s for mini-batch %d", plan.ErrUnreadable, x, m)
		}
		*at = o
		if x.Tensor != "" || x.Node != "" || x.Branch != 0 {
			u.broken("%s has what no operation of a pattern has", x)
		}
		if x.Resource != u.lanes[u.route[i].lane] {
			u.broken("%s is on %q, not on %q", x, x.Resource, u.lanes[u.route[i].lane])
		}
		if d := x.End - x.Start; math.Abs(d-u.route[i].takes) > u.eps {
			u.broken("%s takes %g s, not %g s", x, d, u.route[i].takes)
		}
	}
	for i := range u.route {
		if m := slices.Index(u.route[i].ops, -1); m >= 0 {
			return fmt.Errorf("%w: no %s_%d for mini-batch %d", plan.ErrUnreadable, u.route[i].kind, u.route[i].layer, m)
		}
	}
	first := u.route[len(u.route)-1].ops[0]
	for _, o := range u.route[len(u.route)-1].ops {
		a, b := &u.plan.Ops[o], &u.plan.Ops[first]
		if a.Start < b.Start || a.Start == b.Start && o < first {
			first = o
		}
	}
	if u.plan.Ops[first].Shift != 0 {
		u.broken("the first B_1 has shift %d", u.plan.Ops[first].Shift)
	}
	return nil
}

// at returns when mini-batch m starts on a leg: in period (m-h)/k.
func (u *unrolling) at(i, m int) (op int, start float64) {
	op = u.route[i].ops[m%u.k]
	x := &u.plan.Ops[op]
	return op, x.Start + float64((m-x.Shift)/u.k)*u.T
}

// enough returns how many mini-batches fill the pipeline and go on for two
// periods more.
func (u *unrolling) enough() int {
	first, last := math.Inf(1), math.Inf(-1)
	for i := range u.route {
		for m := range u.k {
			_, start := u.at(i, m)
			first, last = min(first, start), max(last, start+u.route[i].takes)
		}
	}
	periods := math.Ceil((last - first) / u.T)
	return u.k * int(min(periods+3, mostRuns))
}

// run sends the mini-batches down the route.
func (u *unrolling) run(n int) {
	u.out.Minibatches = n
	ends := make([]float64, n)
	for m := range n {
		free := math.Inf(-1)
		for i := range u.route {
			op, start := u.at(i, m)
			x := &u.plan.Ops[op]
			if start < free-u.eps {
				u.broken("mini-batch %d: %s starts %g s too early", m, x, free-start)
			}
			free = start + (x.End - x.Start)
			r := Run{Op: op, Minibatch: m, Start: start, End: free}
			u.out.Runs = append(u.out.Runs, r)
			u.runs[u.route[i].lane] = append(u.runs[u.route[i].lane], laneRun{Run: r, leg: i})
		}
		ends[m] = free
	}
	slices.SortStableFunc(u.out.Runs, func(a, b Run) int { return cmp.Compare(a.Start, b.Start) })
	if n > u.k {
		u.out.Period = (ends[n-1] - ends[n-1-u.k]) / float64(u.k)
	}
}

// checkLanes checks that nothing runs at the same time on one lane.
func (u *unrolling) checkLanes() {
	for lane, runs := range u.runs {
		slices.SortStableFunc(runs, func(a, b laneRun) int {
			return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
		})
		for i := 1; i < len(runs); i++ {
			if a, b := &runs[i-1], &runs[i]; b.Start < a.End-u.eps && b.End > a.Start+u.eps {
				u.broken("%s: %s of mini-batch %d while %s of mini-batch %d runs", u.lanes[lane], &u.plan.Ops[b.Op], b.Minibatch, &u.plan.Ops[a.Op],
					a.Minibatch)
			}
		}
	}
}

// store follows what GPU g stores from run to run.
func (u *unrolling) store(g int) {
	c := u.chain
	a := func(l int) float64 {
		if l == 0 {
			return c.Input.Activation
		}
		return c.Layers[l-1].Activation
	}
	d := func(l int) float64 {
		if l == 0 {
			return c.Input.Gradient
		}
		return c.Layers[l-1].Gradient
	}
	always := 0.0
	for l := 1; l <= c.Len(); l++ {
		if u.gpu[l] != g {
			continue
		}
		always += float64(u.plan.Platform.WeightCopies) * c.Layers[l-1].Weight
		if l > 1 && u.gpu[l-1] != g {
			always += a(l-1) + d(l-1)
		}
		if l < c.Len() && u.gpu[l+1] != g {
			always += a(l) + d(l)
		}
	}
	type thing struct{ leg, minibatch int } // an output that the next leg reads
	waiting := map[thing]bool{}
	inFlight := make([]int, c.Len()+1)
	held := 0.0
	for _, r := range u.inOrder(u.runs[g]) {
		x := u.route[r.leg]
		in, out := a(x.layer-1), a(x.layer)
		if x.kind == plan.OpB {
			in, out = d(x.layer), d(x.layer-1)
		}
		if before := (thing{r.leg - 1, r.Minibatch}); waiting[before] {
			delete(waiting, before)
			if x.kind == plan.OpB && x.layer == c.Len() {
				held -= a(x.layer)
			} else {
				held -= in
			}
		}
		u.out.TaskMemory[g] = max(u.out.TaskMemory[g], always+held+in+out)
		if x.kind == plan.OpF {
			held += a(x.layer - 1)
			inFlight[x.layer]++
			u.out.NCA[x.layer-1] = max(u.out.NCA[x.layer-1], inFlight[x.layer])
		} else {
			held -= a(x.layer - 1)
			inFlight[x.layer]--
		}
		if r.leg+1 < len(u.route) && u.route[r.leg+1].lane == g {
			waiting[thing{r.leg, r.Minibatch}] = true
			held += out
		}
	}
	for l := 1; l <= c.Len(); l++ {
		if u.gpu[l] == g {
			u.out.StageMemory[g] += float64(u.out.NCA[l-1]) * a(l-1)
		}
	}
	u.out.StageMemory[g] += always
	if len(u.runs[g]) == 0 {
		u.out.TaskMemory[g] = 0
	}
}

// inOrder returns the runs of a GPU, sorted by start, in the order in which
// they happen: of simultaneous ones those without duration first, by their
// place in the plan, but never ahead of what they wait for.
func (u *unrolling) inOrder(runs []laneRun) []laneRun {
	left := slices.Clone(runs)
	order := make([]laneRun, 0, len(runs))
	for len(left) > 0 {
		now := 1 // how many start now
		for now < len(left) && left[now].Start-left[now-1].Start <= u.eps {
			now++
		}
		pick := -1
		for i := range now {
			if left[i].End-left[i].Start > u.eps {
				continue
			}
			blocked := slices.ContainsFunc(left[:now], func(r laneRun) bool {
				return r.Minibatch == left[i].Minibatch && r.leg < left[i].leg
			})
			if !blocked && (pick < 0 || left[i].Op < left[pick].Op) {
				pick = i
			}
		}
		if pick < 0 {
			pick = 0
		}
		order = append(order, left[pick])
		copy(left[1:pick+1], left[:pick])
		left[0] = order[len(order)-1]
		left = left[1:]
	}
	return order
}

// judge compares the peaks with the limit.
func (u *unrolling) judge() {
	peaks := u.out.TaskMemory
	if u.plan.MemoryModel == plan.StageModel {
		peaks = u.out.StageMemory
	}
	limit := u.plan.Platform.Memory
	for g, peak := range peaks {
		if !platform.Fits(peak, limit) {
			u.broken("gpu%d needs %s of %s", g, u.plan.Size(peak), u.plan.Size(limit))
		}
	}
}

func (u *unrolling) broken(format string, args ...any) {
	u.out.Broken = append(u.out.Broken, fmt.Sprintf(format, args...))
}
