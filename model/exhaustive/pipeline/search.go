// Package pipeline finds optimal patterns of tiny asynchronous pipelines by exhaustive search.
package pipeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	verifypipeline "workbench/model/verify/pipeline"
)

// Closeness is how near, relative to itself, a period of [Search] and
// [SearchAllocation] is to the least one. Where all times are small whole numbers,
// and so periods fractions of small denominators, it is the least one.
const Closeness = 1e-6

// Search returns the smallest period of a 1-periodic pattern of c on
// m.Processors over all allocations, contiguous or not, within m.Memory by the
// memory model, and a pattern with it; see [SearchAllocation]. Processors are alike:
// they are numbered by their first layers. Five layers on three processors take
// some milliseconds, eight about half a second.
func Search(c *chain.Chain, m platform.Platform, model string, limit int) (float64, *plan.Plan, error) {
	if err := checkPipeline(c, m, model, 1); err != nil {
		return 0, nil, err
	}
	best, within := math.Inf(1), limit
	var found *plan.Plan
	owner := make([]int, c.Len())
	// Each layer is on a processor used before or on the next one.
	var place func(l, used int) error
	place = func(l, used int) error {
		if l < len(owner) {
			for i := range min(used+1, m.Processors) {
				owner[l] = i
				if err := place(l+1, max(used, i+1)); err != nil {
					return err
				}
			}
			return nil
		}
		s := newPatterns(c, m, stagesOf(owner), slices.Clone(owner), model, 1, within)
		q := s.least(best)
		within = s.limit
		if s.limit < 0 {
			return fmt.Errorf("%w: more than %d", exhaustive.ErrLimit, limit)
		}
		if q != nil {
			found = s.plan(q)
			best = *found.Period
		}
		return nil
	}
	if err := place(0, 0); err != nil {
		return 0, nil, err
	}
	if found == nil {
		return 0, nil, exhaustive.ErrInfeasible
	}
	return best, found, nil
}

// SearchAllocation returns the smallest T/k of a k-periodic pattern of an allocation
// and a pattern with it. It searches among all of them: for each two operations
// that share a resource, by how many mini-batches the one is ahead of the other
// ([patterns]). The least period of what has been decided bounds from below,
// and so does the memory. limit is the most decisions; beyond it the error
// wraps [exhaustive.ErrLimit], and [exhaustive.ErrInfeasible] where no pattern fits.
func SearchAllocation(c *chain.Chain, m platform.Platform, allocation []plan.Stage, model string, k, limit int,
) (float64, *plan.Plan, error) {
	if err := checkPipeline(c, m, model, k); err != nil {
		return 0, nil, err
	}
	owner := slices.Repeat([]int{-1}, c.Len())
	for _, s := range allocation {
		for l := s.From; l <= s.To; l++ {
			if l < 1 || l > c.Len() || owner[l-1] >= 0 || s.Processor < 0 || s.Processor >= m.Processors {
				return 0, nil, fmt.Errorf("allocation: layer %d is not there, there twice, or on no processor", l)
			}
			owner[l-1] = s.Processor
		}
	}
	if l := slices.Index(owner, -1); l >= 0 {
		return 0, nil, fmt.Errorf("allocation: layer %d is on no processor", l+1)
	}
	s := newPatterns(c, m, allocation, owner, model, k, limit)
	q := s.least(math.Inf(1))
	switch {
	case s.limit < 0:
		return 0, nil, fmt.Errorf("%w: more than %d", exhaustive.ErrLimit, limit)
	case q == nil:
		return 0, nil, exhaustive.ErrInfeasible
	}
	p := s.plan(q)
	return *p.Period / float64(k), p, nil
}

func checkPipeline(c *chain.Chain, m platform.Platform, model string, k int) error {
	if err := c.Validate(); err != nil {
		return err
	}
	switch {
	case c.TotalTime() == 0:
		return fmt.Errorf("no layer takes time: there is no least period")
	case m.Processors < 1:
		return fmt.Errorf("there are %d processors; there must be one", m.Processors)
	case !(m.Bandwidth > 0):
		return fmt.Errorf("bandwidth is %g; it must be positive", m.Bandwidth)
	case k < 1:
		return fmt.Errorf("k is %d; it must be positive", k)
	case model != plan.StageModel && model != plan.TaskModel:
		return fmt.Errorf("memory model is %q; there are %q and %q", model, plan.StageModel, plan.TaskModel)
	}
	return nil
}

// stagesOf returns the stages of an allocation: layers in a row on a processor.
func stagesOf(owner []int) []plan.Stage {
	var stages []plan.Stage
	for l, i := range owner {
		if s := len(stages) - 1; s >= 0 && stages[s].Processor == i {
			stages[s].To = l + 1
		} else {
			stages = append(stages, plan.Stage{Processor: i, From: l + 1, To: l + 1})
		}
	}
	return stages
}

// patterns are the k-periodic patterns of an allocation.
//
// Let x_i be when task i runs for the r-th of k mini-batches; it runs again
// every T. Two tasks i and j of one resource are apart if and only if for a
// whole number q_ij
//
//	x_i + d_i + q_ij·T ≤ x_j  and  x_j + d_j ≤ x_i + (q_ij+1)·T:
//
// the last i before j is of q_ij periods later. So q_ji = -(q_ij + 1). Given
// all q, x exists if no cycle of these inequalities and of the dependencies
// x_i + d_i ≤ x_j has a sum above 0: T is at least Σd / -Σq of each cycle. The
// q also tell what is stored while each task runs: a_{ℓ-1} of as many
// mini-batches as q_F,i - q_B,i. All this is more of less T: a pattern of one
// period can be stretched to every longer one.
//
// Nothing is lost by two assumptions. The mini-batches pass each task in their
// order, for which one of them is at a task at a time is all that counts. And
// a task follows the one before it within 2T (within T if k = 1): else the
// rest of the way could be one mini-batch earlier, and less would be stored.
type patterns struct {
	chain      *chain.Chain
	platform   platform.Platform
	allocation []plan.Stage
	model      string
	owner      []int
	k          int
	limit      int // decisions left; negative: too few

	steps []pipelineStep
	n     int       // tasks: step s of mini-batch r is s·k + r
	d     []float64 // their durations
	pairs [][2]int  // tasks that share a resource, but for those of one step
	fixed []float64 // bytes stored on each processor all the time

	period float64   // T that is being tried
	levels []float64 // D by level of the search: x_j - x_i ≥ D[i·n+j]
	eta    float64   // see try
}

// A pipelineStep is one operation on the way of a mini-batch.
type pipelineStep struct {
	op       string
	layer    int
	resource string
	gpu      int // of a computation, else -1
	duration float64
	in, out  float64 // bytes; of a computation
	over     float64 // bytes, while it runs
	kept     float64 // a_{ℓ-1}
	partner  int     // of F_ℓ the step B_ℓ and of B_ℓ F_ℓ
	waits    bool    // the next step is on this processor, too
}

func newPatterns(c *chain.Chain, m platform.Platform, allocation []plan.Stage, owner []int, model string, k, limit int) *patterns {
	s := &patterns{chain: c, platform: m, allocation: allocation, model: model, owner: owner, k: k, limit: limit}
	n := c.Len()
	c = c.Count(m.Model)
	s.fixed = make([]float64, m.Processors)
	send := func(op string, l int, size float64) {
		i, j := owner[l-1], owner[l]
		if i == j {
			return
		}
		s.fixed[i] += size
		s.fixed[j] += size
		s.steps = append(s.steps, pipelineStep{
			op: op, layer: l, resource: fmt.Sprintf("link%d-%d", min(i, j), max(i, j)), gpu: -1,
			duration: size / m.Bandwidth,
		})
	}
	compute := func(op string, l int, duration, in, out float64) {
		over, backward := c.Overheads(l)
		if op == plan.OpB {
			over = backward
		}
		s.steps = append(s.steps, pipelineStep{
			op: op, layer: l, resource: fmt.Sprintf("gpu%d", owner[l-1]), gpu: owner[l-1],
			duration: duration, in: in, out: out, over: over, kept: c.KeptBy(l),
		})
	}
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		s.fixed[owner[l-1]] += float64(m.WeightCopies) * x.Weight
		compute(plan.OpF, l, x.ForwardTime, c.KeptBy(l), c.A(l))
		if l < n {
			send(plan.OpCF, l, c.A(l))
		}
	}
	for l := n; l >= 1; l-- {
		compute(plan.OpB, l, c.Layers[l-1].BackwardTime, c.Delta(l), c.Delta(l-1))
		if l > 1 {
			send(plan.OpCB, l-1, c.Delta(l-1))
		}
	}
	s.connect()
	return s
}

// connect finds partners and pairs.
func (s *patterns) connect() {
	for i := range s.steps {
		x := &s.steps[i]
		x.waits = i+1 < len(s.steps) && x.gpu >= 0 && x.gpu == s.steps[i+1].gpu
		for j := range s.steps {
			if y := &s.steps[j]; x.gpu >= 0 && y.gpu >= 0 && x.layer == y.layer && i != j {
				x.partner = j
			}
		}
		for range s.k {
			s.d = append(s.d, x.duration)
		}
	}
	s.n = len(s.d)
	for i := range s.n {
		for j := i + 1; j < s.n; j++ {
			if i/s.k != j/s.k && s.steps[i/s.k].resource == s.steps[j/s.k].resource {
				s.pairs = append(s.pairs, [2]int{i, j})
			}
		}
	}
}

// An edge says that x_to ≥ x_from + d_from + q·T.
type edge struct{ from, to, q int }

// given returns the edges that all patterns have: each task once a period, the
// dependencies, and the mini-batches in their order.
func (s *patterns) given() []edge {
	var edges []edge
	for i := range s.n {
		step, r := i/s.k, i%s.k
		if step+1 < len(s.steps) {
			edges = append(edges, edge{i, i + s.k, 0})
		}
		if r+1 < s.k {
			edges = append(edges, edge{i, i + 1, 0})
		} else {
			edges = append(edges, edge{i, step * s.k, -1}) // for k = 1 the task itself
		}
	}
	return edges
}

// least returns the q of a pattern of the smallest period below the given one,
// or nil if there is none. It halves the interval in which the period lies.
func (s *patterns) least(below float64) []int {
	load := map[string]float64{}
	low, total := 0.0, 0.0 // no period is below low
	for _, x := range s.steps {
		load[x.resource] += float64(s.k) * x.duration
		low = max(low, load[x.resource])
		total += float64(s.k) * x.duration
	}
	var best []int
	high := below
	// One mini-batch after the other: what needs more memory than this needs
	// more than there is.
	if first := 2 * total; first < high {
		if best = s.try(first); best == nil {
			return nil
		}
		high = s.periodOf(best)
	}
	for target := low * (1 + Closeness/2); high > low*(1+Closeness) && s.limit >= 0; {
		if q := s.try(target); q != nil {
			best, high = q, s.periodOf(q)
		} else {
			low = target
		}
		target = (low + high) / 2
		if high-low < 1e-3*high { // mostly there is nothing in between
			target = max(target, high*(1-Closeness/2))
		}
	}
	if s.limit < 0 {
		return nil
	}
	return best
}

// try returns the q of a pattern of at most that period, or nil.
//
// Tasks of no time must not go in circles at one instant, so each takes a
// little: eta, so little that it changes no period by its closeness.
func (s *patterns) try(period float64) []int {
	s.period, s.eta = period, 1e-10*period
	s.levels = append(s.levels[:0], slices.Repeat([]float64{math.Inf(-1)}, s.n*s.n)...)
	for i := range s.n {
		s.levels[i*s.n+i] = 0
	}
	within := 1.0
	if s.k > 1 {
		within = 2
	}
	for i := s.k; i < s.n; i++ {
		// x_{i-k} ≥ x_i - d_{i-k} - within·T.
		s.tighten(0, i, i-s.k, -s.d[i-s.k]-within*period-float64(s.n)*s.eta)
	}
	for _, e := range s.given() {
		if !s.tighten(0, e.from, e.to, s.d[e.from]+s.eta+float64(e.q)*period) {
			return nil
		}
	}
	q := make([]int, s.n*s.n)
	if !s.decide(0, q) {
		return nil
	}
	return q
}

// tighten adds x_j ≥ x_i + w to D of a level and reports whether no cycle is
// above 0. O(n²).
func (s *patterns) tighten(level, i, j int, w float64) bool {
	n := s.n
	D := s.levels[level*n*n : (level+1)*n*n]
	if w <= D[i*n+j] {
		return true
	}
	if i == j {
		return w <= 1e-12*s.period
	}
	for a := range n {
		from := D[a*n+i] + w
		if math.IsInf(from, -1) {
			continue
		}
		for b := range n {
			if x := from + D[j*n+b]; x > D[a*n+b] {
				D[a*n+b] = x
			}
		}
	}
	for a := range n {
		if D[a*n+a] > 1e-12*s.period {
			return false
		}
	}
	return true
}

// between returns the least and the largest q_ij by D.
func (s *patterns) between(D []float64, i, j int) (least, most int) {
	if i == j {
		return -1, -1 // the last before this one
	}
	const rounding = 1e-11
	least = int(math.Ceil((D[i*s.n+j]+s.d[j]+s.eta)/s.period - 1 - rounding))
	most = int(math.Floor((-D[j*s.n+i]-s.d[i]-s.eta)/s.period + rounding))
	return least, most
}

// decide completes the decisions of a level in all ways until one fits.
func (s *patterns) decide(level int, q []int) bool {
	if s.limit--; s.limit < 0 {
		return false
	}
	n := s.n
	D := s.levels[level*n*n : (level+1)*n*n]
	next, fewest := -1, math.MaxInt
	for p, pair := range s.pairs {
		least, most := s.between(D, pair[0], pair[1])
		switch {
		case least > most:
			return false
		case least == most:
			// Decided, if D says so much.
			w := s.d[pair[0]] + s.eta + float64(least)*s.period
			v := s.d[pair[1]] + s.eta - float64(least+1)*s.period
			if !s.tighten(level, pair[0], pair[1], w) || !s.tighten(level, pair[1], pair[0], v) {
				return false
			}
		case most-least < fewest:
			next, fewest = p, most-least
		}
	}
	if !s.fits(D) {
		return false
	}
	if next < 0 {
		for _, pair := range s.pairs {
			q[pair[0]*n+pair[1]], _ = s.between(D, pair[0], pair[1])
		}
		return true
	}
	i, j := s.pairs[next][0], s.pairs[next][1]
	least, most := s.between(D, i, j)
	for x := least; x <= most; x++ {
		s.levels = append(s.levels[:(level+1)*n*n], s.levels[level*n*n:(level+1)*n*n]...)
		if s.tighten(level+1, i, j, s.d[i]+s.eta+float64(x)*s.period) &&
			s.tighten(level+1, j, i, s.d[j]+s.eta-float64(x+1)*s.period) &&
			s.decide(level+1, q) {
			return true
		}
		if s.limit < 0 {
			return false
		}
	}
	return false
}

// fits reports whether what is decided leaves the memory within its limit; when
// all is decided, whether the pattern fits.
func (s *patterns) fits(D []float64) bool {
	limit := s.platform.Memory
	// ahead is the least number of mini-batches that have run step a, but not
	// step b, when task i starts.
	ahead := func(a, b, i int) int {
		sum := 0
		for r := range s.k {
			least, _ := s.between(D, a*s.k+r, i)
			_, most := s.between(D, b*s.k+r, i)
			sum += least - most
		}
		return sum
	}
	stage := slices.Clone(s.fixed)
	for i := range s.steps {
		x := &s.steps[i]
		if x.gpu < 0 {
			continue
		}
		if x.op == plan.OpF {
			nca := 1
			for r := range s.k {
				nca = max(nca, ahead(i, x.partner, i*s.k+r)+1)
			}
			stage[x.gpu] += float64(nca) * x.kept
		}
		if s.model != plan.TaskModel {
			continue
		}
		for r := range s.k {
			if !platform.Fits(s.during(i, i*s.k+r, ahead), limit) {
				return false
			}
		}
	}
	return s.model == plan.TaskModel || platform.Fits(slices.Max(stage), limit)
}

// during returns what is stored at least while task i, of a step, runs.
func (s *patterns) during(step, i int, ahead func(a, b, i int) int) float64 {
	x := &s.steps[step]
	bytes := s.fixed[x.gpu] + x.in + x.out + x.over
	for j := range s.steps {
		y := &s.steps[j]
		if y.gpu != x.gpu {
			continue
		}
		if y.op == plan.OpF {
			bytes += float64(max(0, ahead(j, y.partner, i))) * y.kept
		}
		if y.waits {
			waiting := ahead(j, j+1, i)
			if j+1 == step {
				waiting-- // it is the input of i
			}
			bytes += float64(max(0, waiting)) * y.out
		}
	}
	return bytes
}

// edges returns all that q says.
func (s *patterns) edges(q []int) []edge {
	edges := s.given()
	for _, p := range s.pairs {
		x := q[p[0]*s.n+p[1]]
		edges = append(edges, edge{p[0], p[1], x}, edge{p[1], p[0], -(x + 1)})
	}
	return edges
}

// periodOf returns the least period for q: the largest Σd / -Σq of a cycle.
func (s *patterns) periodOf(q []int) float64 {
	edges := s.edges(q)
	T := 0.0
	for {
		_, cycle := s.times(edges, T)
		if cycle == nil {
			return T
		}
		d, h := 0.0, 0
		for _, e := range cycle {
			d += s.d[edges[e].from]
			h -= edges[e].q
		}
		T = d / float64(h)
	}
}

// times returns x for period T (Bellman and Ford), or the edges of a cycle
// above 0.
func (s *patterns) times(edges []edge, T float64) (x []float64, cycle []int) {
	x = make([]float64, s.n)
	by := slices.Repeat([]int{-1}, s.n)
	last := -1
	for range s.n + 1 {
		last = -1
		for e, y := range edges {
			if t := x[y.from] + s.d[y.from] + float64(y.q)*T; t > x[y.to]+1e-12*max(T, s.d[y.from], math.Abs(t)) {
				x[y.to], by[y.to], last = t, e, y.to
			}
		}
		if last < 0 {
			return x, nil
		}
	}
	for range s.n {
		last = edges[by[last]].from
	}
	for at := last; ; {
		cycle = append(cycle, by[at])
		at = edges[by[at]].from
		if at == last {
			return nil, cycle
		}
	}
}

// plan returns the pattern of q at its least period.
func (s *patterns) plan(q []int) *plan.Plan {
	T := s.periodOf(q)
	x, _ := s.times(s.edges(q), T)
	p := plan.New(plan.Pipeline, "exhaustive", s.chain, s.platform)
	p.Period, p.Allocation, p.MemoryModel = &T, s.allocation, s.model
	if s.k > 1 {
		p.K = s.k
	}
	// By resource, then in order of time: simultaneous ones as q has them.
	turns := make([]int, s.n)
	order := make([]int, s.n)
	for i := range x {
		order[i] = i
		turns[i] = int(math.Floor(x[i]/T + plan.Tolerance))
	}
	start := func(i int) float64 { return x[i] - float64(turns[i])*T }
	slices.SortStableFunc(order, func(i, j int) int {
		if c := cmp.Compare(s.steps[i/s.k].resource, s.steps[j/s.k].resource); c != 0 {
			return c
		}
		if a, b := start(i), start(j); math.Abs(a-b) > plan.Tolerance*T {
			return cmp.Compare(a, b)
		}
		if i/s.k == j/s.k {
			return 0
		}
		// The runs of i and j in period 0 are of mini-batches -turns.
		later := turns[j] - turns[i]
		if i < j && q[i*s.n+j] >= later || i > j && -(q[j*s.n+i]+1) >= later {
			return -1
		}
		return 1
	})
	first := -1 // the first B_1
	for _, i := range order {
		if i/s.k == len(s.steps)-1 && (first < 0 || start(i) < start(first)) {
			first = i
		}
	}
	shift := func(i int) int { return i%s.k - turns[i]*s.k }
	for _, i := range order {
		y := &s.steps[i/s.k]
		p.Ops = append(p.Ops, plan.Op{
			Op: y.op, Layer: y.layer, Resource: y.resource,
			Start: start(i), End: start(i) + y.duration, Shift: shift(i) - shift(first),
		})
	}
	p.Claims.Makespan = T / float64(s.k)
	if r, err := verifypipeline.Verify(s.chain, p); err == nil {
		p.Claims.PeakMemory = r.PeakMemory
	}
	return p
}
