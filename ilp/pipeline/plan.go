package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/cycleratio"
	"workbench/model/milp"
	"workbench/model/plan"
	view "workbench/model/problem/pipeline"
)

// pipelinePattern is the combinatorial part of a 1-periodic pattern: allocation, orders and shifts, without times.
type pipelinePattern struct {
	in    *pipelineInstance
	owner []int // processor of stage s
	// order holds the tasks of each processor in the order of its period, and sends the communications of each
	// link: t stands for the communication that follows task t.
	order, sends [][]int
	links        [][2]int // the processors of each link in sends
	// toComm[t] is the number of periods between task t and the communication that follows it, fromComm[t] that
	// between the communication and t+1. Where nothing is sent, only fromComm is used.
	toComm, fromComm []int
}

func (q *pipelinePattern) ownerOf(t int) int { return q.owner[q.in.stage(t)] }

func (q *pipelinePattern) cut(t int) bool { return q.ownerOf(t) != q.ownerOf(t+1) }

// plan times the pattern and returns it as a plan.
func (q *pipelinePattern) plan(method string) (*plan.Plan, error) {
	period, start, err := q.retime()
	if err != nil {
		return nil, err
	}
	in := q.in
	stages := slices.Clone(in.stages)
	for s := range stages {
		stages[s].Processor = q.owner[s]
	}
	p := &view.Pattern{Period: period, K: 1, Stages: stages, Items: in.view.Items(stages)}
	// Absolute times of one mini-batch, in the order of tasks: the forwards, then the backwards in reverse order
	// of the layers.
	var times []float64
	turns := 0
	for t := range 2 * in.n {
		times = append(times, start[t]+float64(turns)*period)
		if t == 2*in.n-1 {
			break
		}
		if q.cut(t) {
			turns += q.toComm[t]
			times = append(times, start[2*in.n+t]+float64(turns)*period)
		}
		turns += q.fromComm[t]
	}
	p.F, p.B = times[:len(p.Items):len(p.Items)], times[len(p.Items):]
	slices.Reverse(p.B)
	return p.Plan(in.view, method), nil
}

// sending and computing return durations in seconds.
func (q *pipelinePattern) sending(t int) float64 {
	return q.in.out[t] * q.in.size / q.in.platform.Bandwidth
}

func (q *pipelinePattern) computing(t int) float64 {
	s := q.in.stages[q.in.stage(t)]
	sum := 0.0
	for l := s.From; l <= s.To; l++ {
		if t < q.in.n {
			sum += q.in.view.UF[l]
		} else {
			sum += q.in.view.UB[l]
		}
	}
	return sum
}

// retime returns the minimum period of the decisions and start times in seconds: of task t at index t, of the
// communication that follows it at 2n+t. It lowers the shifts to the minimum that these times need.
func (q *pipelinePattern) retime() (float64, []float64, error) {
	n := q.in.n
	wait := make([]float64, 4*n)
	for t := range 2 * n {
		wait[t] = q.computing(t)
	}
	var ps []cycleratio.Precedence
	least := 0.0
	cycle := func(events []int) {
		load := 0.0
		for i, e := range events {
			load += wait[e]
			next, turns := i+1, 0
			if next == len(events) {
				next, turns = 0, 1
			}
			ps = append(ps, cycleratio.Precedence{From: e, To: events[next], Wait: wait[e], Turns: turns})
		}
		least = max(least, load)
	}
	for _, o := range q.order {
		cycle(o)
	}
	for _, o := range q.sends {
		events := make([]int, len(o))
		for i, t := range o {
			events[i] = 2*n + t
			wait[2*n+t] = q.sending(t)
		}
		cycle(events)
	}
	for t := range 2*n - 1 {
		if q.cut(t) {
			ps = append(ps,
				cycleratio.Precedence{From: t, To: 2*n + t, Wait: wait[t], Turns: q.toComm[t]},
				cycleratio.Precedence{From: 2*n + t, To: t + 1, Wait: wait[2*n+t], Turns: q.fromComm[t]})
		} else {
			ps = append(ps, cycleratio.Precedence{From: t, To: t + 1, Wait: wait[t], Turns: q.fromComm[t]})
		}
	}
	period, start, err := cycleratio.Least(4*n, ps, least)
	if err != nil {
		return 0, nil, err
	}
	// Shifts are never negative. A task that waits for a period or more does so because of the order of the
	// decisions, whose stored inputs the peak counts.
	need := func(from, to int) int {
		return max(0, int(math.Ceil((start[from]+wait[from]-start[to])/period-plan.Tolerance)))
	}
	for t := range 2*n - 1 {
		if q.cut(t) {
			q.toComm[t] = min(q.toComm[t], need(t, 2*n+t))
			q.fromComm[t] = min(q.fromComm[t], need(2*n+t, t+1))
			continue
		}
		turns := need(t, t+1)
		if o := q.order[q.ownerOf(t)]; slices.Index(o, t+1) < slices.Index(o, t) {
			turns = max(turns, 1) // precedes it in the order, perhaps at the same time
		}
		q.fromComm[t] = min(q.fromComm[t], turns)
	}
	return period, start, nil
}

// later returns the number of periods between tasks t and t+1 of one mini-batch.
func (q *pipelinePattern) later(t int) int {
	if q.cut(t) {
		return q.toComm[t] + q.fromComm[t]
	}
	return q.fromComm[t]
}

// patternIO converts solutions of an ILP to patterns and back.
type patternIO struct{ *pipelineILP }

// plan returns the plan of a solution.
func (f patternIO) plan(x []float64) (*plan.Plan, error) {
	q := f.pattern(x)
	p, err := q.plan(f.m.Name())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.m.Name(), err)
	}
	return p, nil
}

func (f patternIO) pattern(x []float64) *pipelinePattern {
	n := f.n
	on := func(v milp.Var) bool { return x[v.Index()] > 0.5 }
	q := &pipelinePattern{in: f.pipelineInstance, owner: make([]int, n), toComm: make([]int, 2*n), fromComm: make([]int, 2*n)}
	next := 0
	for s := range n {
		q.owner[s] = next
		for r := range s {
			if on(f.z.pair(r, s)) {
				q.owner[s] = q.owner[r]
				break
			}
		}
		if q.owner[s] == next {
			next++
		}
		if p := f.stages[s].Processor; p >= 0 {
			q.owner[s] = p
			next = max(next, p+1)
		}
	}
	q.order = make([][]int, max(next, f.platform.Processors))
	for t := range 2 * n {
		i := q.ownerOf(t)
		q.order[i] = append(q.order[i], t)
	}
	for _, o := range q.order {
		slices.SortStableFunc(o, func(t, u int) int {
			return f.earlier(x, f.w.At, o, t) - f.earlier(x, f.w.At, o, u)
		})
	}
	q.findLinks()
	for _, o := range q.sends {
		slices.SortStableFunc(o, func(t, u int) int {
			return f.earlier(x, f.wt.At, o, t) - f.earlier(x, f.wt.At, o, u)
		})
	}
	count := func(vs ...milp.Var) (sum int) {
		for _, v := range vs {
			if on(v) {
				sum++
			}
		}
		return sum
	}
	for t := range 2*n - 1 {
		q.toComm[t] = count(f.v.At(t), f.v2.At(t))
		q.fromComm[t] = count(f.vt.At(t), f.vt2.At(t))
		if !q.cut(t) {
			q.fromComm[t] += q.toComm[t]
			q.toComm[t] = 0
		}
	}
	return q
}

// findLinks lists the communications of each link, in the order of tasks.
func (q *pipelinePattern) findLinks() {
	for t := range 2*q.in.n - 1 {
		if !q.cut(t) {
			continue
		}
		a, b := q.ownerOf(t), q.ownerOf(t+1)
		link := [2]int{min(a, b), max(a, b)}
		i := slices.Index(q.links, link)
		if i < 0 {
			i = len(q.links)
			q.links, q.sends = append(q.links, link), append(q.sends, nil)
		}
		q.sends[i] = append(q.sends[i], t)
	}
}

// earlier returns the number of the tasks that precede t.
func (f patternIO) earlier(x []float64, before func(t, u int) milp.Var, tasks []int, t int) (sum int) {
	for _, u := range tasks {
		if u != t && x[before(u, t).Index()] > 0.5 {
			sum++
		}
	}
	return sum
}

// start returns the values of the columns for a 1-periodic pattern.
func (f patternIO) start(p *plan.Plan) ([]float64, error) {
	q, period, tau, comm, err := f.readPattern(p)
	if err != nil {
		return nil, err
	}
	x := make([]float64, f.m.NumCols())
	set := func(v milp.Var, value float64) { x[v.Index()] = value }
	yes := func(v milp.Var, is bool) {
		if is {
			set(v, 1)
		}
	}
	n := f.n
	set(f.period, period/f.time)
	seen := map[int]bool{}
	for t := range 2 * n {
		set(f.tau.At(t), tau[t]/f.time)
		if t < f.hosts {
			yes(f.f.At(t), !seen[q.ownerOf(t)])
			seen[q.ownerOf(t)] = true
		}
		for u := range t {
			yes(f.z.pair(u, t), q.ownerOf(u) == q.ownerOf(t))
		}
	}
	before := func(at func(t, u int) milp.Var, lists [][]int) {
		for _, o := range lists {
			for i, t := range o {
				for _, u := range o[i+1:] {
					set(at(t, u), 1)
				}
			}
		}
	}
	before(f.w.At, q.order)
	before(f.wt.At, q.sends)
	for _, o := range q.sends {
		for i, t := range o {
			for _, u := range o[i+1:] {
				set(f.zt.pair(t, u), 1)
			}
		}
	}
	for t := range 2*n - 1 {
		set(f.comT.At(t), comm[t]/f.time)
		yes(f.v.At(t), q.toComm[t] >= 1)
		yes(f.v2.At(t), q.toComm[t] >= 2)
		yes(f.vt.At(t), q.fromComm[t] >= 1)
		yes(f.vt2.At(t), q.fromComm[t] >= 2)
	}
	f.startMemory(x, q)
	for _, row := range f.carries {
		setCarries(f.m, row, x)
	}
	return x, nil
}

// startMemory sets the memory columns to those of the pattern.
func (f patternIO) startMemory(x []float64, q *pipelinePattern) {
	n := f.n
	flight := make([]float64, n)
	for s := range n {
		for m := s; m <= 2*n-2-s; m++ {
			flight[s] += float64(q.toComm[m] + q.fromComm[m])
		}
	}
	rows, coms := f.b.Dims()
	for t := range rows {
		for u := range coms {
			if (q.ownerOf(t) == q.ownerOf(u)) != (q.ownerOf(t) == q.ownerOf(u+1)) {
				x[f.b.At(t, u).Index()] = 1
			}
		}
	}
	for t := range rows {
		for s := range n {
			if q.ownerOf(t) != q.owner[s] {
				continue
			}
			if f.model == plan.StageModel {
				x[f.nca.At(t, s).Index()] = flight[s] + x[f.w.At(s, 2*n-1-s).Index()]
			} else {
				x[f.sigma.At(t, s).Index()] = flight[s]
			}
		}
	}
	if f.model == plan.StageModel {
		return
	}
	for t := range 2 * n {
		for u := range 2*n - 1 {
			if t != u && t != u+1 {
				x[f.o.At(t, u).Index()] = max(0, x[f.w.At(u, t).Index()]+x[f.w.At(t, u+1).Index()]+x[f.w.At(u+1, u).Index()]-1)
			}
		}
	}
}

// readPattern reads a plan with one mini-batch per period. It returns the decisions, the period and the start
// times in seconds, shifted such that (6.17) to (6.19) hold.
func (f patternIO) readPattern(p *plan.Plan) (q *pipelinePattern, period float64, tau, comm []float64, err error) {
	fail := func(format string, args ...any) (*pipelinePattern, float64, []float64, []float64, error) {
		return nil, 0, nil, nil, fmt.Errorf("%w: "+format, append([]any{formulation.ErrStart}, args...)...)
	}
	n := f.n
	switch {
	case p == nil:
		return fail("there is none")
	case p.Problem != plan.Pipeline:
		return fail("it is a plan of %q", p.Problem)
	case p.K > 1:
		return fail("it processes %d mini-batches a period, the model one", p.K)
	case p.Period == nil || !(*p.Period > 0):
		return fail("it has no period")
	}
	period = *p.Period
	q = &pipelinePattern{in: f.pipelineInstance, owner: make([]int, n), toComm: make([]int, 2*n), fromComm: make([]int, 2*n)}
	if err := f.readOwners(q, p); err != nil {
		return nil, 0, nil, nil, err
	}
	tau, comm = make([]float64, 2*n), make([]float64, 2*n)
	place := make([]int, 2*n) // position in the plan
	for i := range tau {
		tau[i], comm[i], place[i] = math.NaN(), math.NaN(), -1
	}
	for k := range p.Ops {
		o := &p.Ops[k]
		for s, x := range f.stages {
			switch {
			case o.Op == plan.OpF && o.Layer == x.From:
				tau[s], place[s] = o.Start, k
			case o.Op == plan.OpB && o.Layer == x.To:
				tau[2*n-1-s], place[2*n-1-s] = o.Start, k
			case o.Op == plan.OpCF && o.Layer == x.To && s < n-1:
				comm[s] = o.Start
			case o.Op == plan.OpCB && o.Layer == x.From-1:
				comm[2*n-1-s] = o.Start
			}
		}
	}
	for t := range tau {
		if math.IsNaN(tau[t]) || t < 2*n-1 && q.cut(t) && math.IsNaN(comm[t]) {
			return fail("%s or what it sends is missing", f.name(t))
		}
	}
	f.normalise(q, period, tau, comm)
	f.readOrders(q, period, tau, comm, place)
	return q, period, tau, comm, nil
}

// readOwners reads the processors of the stages.
func (f patternIO) readOwners(q *pipelinePattern, p *plan.Plan) error {
	for s := range q.owner {
		q.owner[s] = -1
		for _, x := range p.Allocation {
			if x.From <= f.stages[s].From && f.stages[s].To <= x.To {
				q.owner[s] = x.Processor
			}
		}
		if q.owner[s] < 0 || q.owner[s] >= f.platform.Processors {
			return fmt.Errorf("%w: layers %d to %d are on no processor", formulation.ErrStart, f.stages[s].From, f.stages[s].To)
		}
		if fixed := f.stages[s].Processor; fixed >= 0 && fixed != q.owner[s] {
			return fmt.Errorf("%w: layer %d is on processor %d, not %d", formulation.ErrStart, f.stages[s].From, q.owner[s], fixed)
		}
	}
	return nil
}

// readOrders derives the orders on processors and links from the start times. place is the position of a task in
// the plan, which breaks ties.
func (f patternIO) readOrders(q *pipelinePattern, period float64, tau, comm []float64, place []int) {
	q.order = make([][]int, f.platform.Processors)
	for t := range 2 * f.n {
		i := q.ownerOf(t)
		q.order[i] = append(q.order[i], t)
	}
	for _, o := range q.order {
		slices.SortStableFunc(o, func(t, u int) int {
			switch {
			case math.Abs(tau[t]-tau[u]) > plan.Tolerance*period:
				return cmp.Compare(tau[t], tau[u])
			case (f.d[t] > 0) != (f.d[u] > 0):
				return cmp.Compare(f.d[t], f.d[u])
			}
			return place[t] - place[u]
		})
	}
	for _, o := range q.order {
		for i, t := range o {
			// A tie in the opposite order: t+1 comes before t, so it belongs to the next period.
			if t < 2*f.n-1 && slices.Contains(o[:i], t+1) && q.later(t) == 0 {
				q.fromComm[t] = 1
			}
		}
	}
	q.findLinks()
	for _, o := range q.sends {
		slices.SortStableFunc(o, func(t, u int) int {
			if math.Abs(comm[t]-comm[u]) > plan.Tolerance*period {
				return cmp.Compare(comm[t], comm[u])
			}
			return cmp.Compare(f.comm[t], f.comm[u])
		})
	}
}

// normalise shifts start times by multiples of the period such that ends lie in (0,T] and T_1 starts at 0, and
// sets the minimum shifts.
func (f patternIO) normalise(q *pipelinePattern, period float64, tau, comm []float64) {
	const tiny = plan.Tolerance
	origin := tau[0]
	into := func(start, d float64) float64 {
		end := math.Mod(start-origin+d, period)
		if end < 0 {
			end += period
		}
		if d > tiny*period && end < tiny*period {
			end = period
		}
		if d <= tiny*period && end > (1-tiny)*period {
			end = 0
		}
		return end - d
	}
	for t := range tau {
		tau[t] = into(tau[t], f.d[t]*f.time)
	}
	tau[0] = 0
	turns := func(end, start float64) int {
		return max(0, int(math.Ceil((end-start)/period-tiny)))
	}
	for t := range 2*f.n - 1 {
		end := tau[t] + f.d[t]*f.time
		d := 0.0
		if q.cut(t) {
			d = q.sending(t)
			comm[t] = into(comm[t], d)
		} else {
			comm[t] = end
		}
		q.toComm[t] = turns(end, comm[t])
		q.fromComm[t] = turns(comm[t]+d, tau[t+1])
	}
}
