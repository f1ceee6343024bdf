// Package layout has the methods that lay out a synchronous pipeline: its cuts, its recomputation,
// and the order of its GPUs.
package layout

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	heuristics "workbench/heuristics/flush"
	"workbench/model/problem/flush"
	"workbench/model/problem/layout"
)

// Goal says when a search is done.
type Goal struct {
	Bound float64 // no layout is better, seconds
	Seed  uint64
	Steps int // of the local search; 0: until ctx ends
	// OnProgress receives each better objective; it may be nil.
	OnProgress func(objective float64)
}

// Found is a layout with its schedule.
type Found struct {
	Layout    *layout.Layout
	View      *flush.Instance
	Order     flush.Order
	Objective float64
}

// view returns the stages of a layout on their GPUs.
func view(in *layout.Instance, x *layout.Layout) (*flush.Instance, error) {
	return flush.New(in.Partition(x), in.Platform)
}

// schedule returns the best of list scheduling and, with steps, of a short search for a layout; nil: nothing fits.
func schedule(ctx context.Context, in *layout.Instance, x *layout.Layout, steps int, seed uint64) *Found {
	v, err := view(in, x)
	if err != nil || v.Fits() != nil {
		return nil
	}
	g := heuristics.Goal{Bound: v.Bound().Value, Steps: max(1, steps), Seed: seed, Unproved: true}
	method := heuristics.Improve
	if steps > 0 && v.Ops() <= mostExact {
		method, g.Conflicts = heuristics.Exact, 2000
	}
	o := flush.Order(nil)
	if ctx.Err() != nil { // the time is up: the best list, not the first start
		o = heuristics.List(context.WithoutCancel(ctx), v)
	} else {
		o = method(ctx, v, g).Order
	}
	if o == nil {
		return nil
	}
	s, err := v.Schedule(o)
	if err != nil {
		return nil
	}
	return &Found{&layout.Layout{Ends: slices.Clone(x.Ends), Options: slices.Clone(x.Options)}, v, o, s.Objective}
}

// mostExact is for how many operations the schedules of the best layouts are searched in full.
const mostExact = 150

// better returns the better of two layouts, either of which may be nil.
func better(a, b *Found) *Found {
	if a == nil || b != nil && b.Objective < a.Objective*(1-1e-12) {
		return b
	}
	return a
}

// Uniform returns a layout with equal numbers of layers a stage, the first and the last layer of
// the chain counted as extra, and the same options on every stage, those with the minimum
// recomputation that fits: the default of training scripts.
func Uniform(ctx context.Context, in *layout.Instance, _ Goal) *Found {
	return even(ctx, in, 0)
}

// Hand counts the first and the last layer of the chain like any other, as Megatron-LM does with
// --account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split.
func Hand(ctx context.Context, in *layout.Instance, _ Goal) *Found {
	return even(ctx, in, 1)
}

// even cuts so that stages have equal numbers of layers, the first and the last counted so often.
func even(ctx context.Context, in *layout.Instance, ends int) *Found {
	n := len(in.Layers)
	count := make([]int, n+1)
	for i := range n {
		one := 1
		if (i == 0 || i == n-1) && n > in.Stages {
			one = ends
		}
		count[i+1] = count[i] + one
	}
	x := &layout.Layout{Ends: make([]int, in.Stages), Options: make([]int, n)}
	for k := range x.Ends {
		at := sortedAt(count, (k+1)*count[n], in.Stages)
		if k > 0 {
			at = max(at, x.Ends[k-1]+1)
		}
		x.Ends[k] = min(max(at, k+1), n-(in.Stages-1-k))
	}
	x.Ends[in.Stages-1] = n
	return fitting(ctx, in, x)
}

// sortedAt returns the first index at which parts·count is at least target.
func sortedAt(count []int, target, parts int) int {
	for i, c := range count {
		if c*parts >= target {
			return i
		}
	}
	return len(count) - 1
}

// fitting uses the same options on all stages: every layer its k-th, or its last if it has fewer,
// with the smallest k that fits.
func fitting(ctx context.Context, in *layout.Instance, x *layout.Layout) *Found {
	most := 0
	for i := range in.Layers {
		most = max(most, len(in.Layers[i].Options))
	}
	for k := range most {
		for i := range x.Options {
			x.Options[i] = min(k, len(in.Layers[i].Options)-1)
		}
		if f := schedule(ctx, in, x, 0, 0); f != nil {
			return f
		}
	}
	return nil
}

// Bottleneck takes the cut that attains the bound over all cuts, with options that fit: [layout.Instance.Balanced].
func Bottleneck(ctx context.Context, in *layout.Instance, _ Goal) *Found {
	ends := in.Balanced()
	if ends == nil {
		return nil
	}
	x := &layout.Layout{Ends: ends, Options: make([]int, len(in.Layers))}
	return better(repaired(ctx, in, x), fitting(ctx, in, x))
}

// repaired recomputes layers stage by stage, the most memory for a second first, until each stage has room for as many micro-batches as its
// place in the pipeline wants, or one.
func repaired(ctx context.Context, in *layout.Instance, x *layout.Layout) *Found {
	var found *Found
	for _, flight := range []float64{1, 0.5, 0.25, 0} {
		y := &layout.Layout{Ends: x.Ends, Options: slices.Clone(x.Options)}
		for g := range in.GPUs {
			relieve(in, y, g, flight)
		}
		found = better(found, schedule(ctx, in, y, 0, 0))
	}
	return found
}

// relieve changes options of the stages of a GPU until the fraction of the micro-batches fits that
// is in flight between a stage's forward and its backward.
func relieve(in *layout.Instance, x *layout.Layout, g int, flight float64) {
	for {
		need, weights, transient := 0.0, 0.0, 0.0
		best, rate := -1, -1.0
		to := 0
		from := 0
		for k := range x.Ends {
			from, to = to, x.Ends[k]
			if in.GPU(k) != g {
				continue
			}
			s := in.Sum(from, to, x.Options)
			n := max(1, math.Ceil(flight*float64(in.Stages-k)))
			need, weights, transient = need+min(n, float64(in.Jobs))*s.Held, weights+s.Weight, max(transient, s.Transient)
			for i := from; i < to; i++ {
				o := in.Layers[i].Options
				if j := x.Options[i] + 1; j < len(o) {
					saved, again := o[x.Options[i]].Held-o[j].Held, max(0, o[j].Again-o[x.Options[i]].Again)
					if r := n * saved / (again + 1e-9*(in.Layers[i].F+1e-300)); saved > 0 && r > rate {
						best, rate = i, r
					}
				}
			}
		}
		if need+weights+transient <= in.Platform.Memory || best < 0 {
			return
		}
		x.Options[best]++
	}
}

// LocalSearch changes one thing at a time, from the best of the other methods: a cut, all cuts from one on, an option of a
// layer, or an option that moves
// between stages. What is compared is list scheduling by the four rules that have won most often, all rules every 40th time. Changes that
// make it worse are taken with a probability that falls (simulated annealing). The best layouts are then searched in full.
// It ends with ctx, at the
// bound, or after its steps.
func LocalSearch(ctx context.Context, in *layout.Instance, g Goal) *Found {
	var found *Found
	report := func(f *Found) {
		if f != nil && (found == nil || f.Objective < found.Objective*(1-1e-12)) {
			if found = f; g.OnProgress != nil {
				g.OnProgress(f.Objective)
			}
		}
	}
	for _, m := range []func(context.Context, *layout.Instance, Goal) *Found{Bottleneck, Hand, Uniform} {
		if f := m(ctx, in, g); f != nil {
			report(f)
		}
		if found != nil && (ctx.Err() != nil || found.Objective <= g.Bound*(1+1e-9)) {
			return found
		}
	}
	if found == nil {
		return nil
	}
	s := newSearch(in, found, rand.New(rand.NewPCG(g.Seed, 29)))
	for round := 1; ctx.Err() == nil && found.Objective > g.Bound*(1+1e-9) && (g.Steps == 0 || round <= 4); round++ {
		full := max(1000, min(20_000, 20_000*800/found.View.Ops()))
		steps := max(1000, min(4000, 4000*800/found.View.Ops())) * round
		if g.Steps > 0 {
			steps = g.Steps / 4
		}
		s.run(ctx, found.Layout, steps, g.Bound)
		for _, x := range s.best {
			if ctx.Err() != nil && x.value >= found.Objective {
				break
			}
			if !contains(s.searched, x) {
				s.searched = append(s.searched, x)
				report(schedule(ctx, in, &x.layout, full, 0))
			}
		}
		if found.Objective > found.View.Bound().Value*(1+1e-9) { // its schedule may be the reason
			report(schedule(ctx, in, found.Layout, full*round, uint64(round)))
		}
		if _, timed := ctx.Deadline(); !timed && g.Steps == 0 {
			break
		}
	}
	return found
}

// search is a local search over layouts.
type search struct {
	in     *layout.Instance
	r      *rand.Rand
	lister *heuristics.Lister
	wins   []int // by rule
	at     candidate
	best   []candidate // of a run, distinct, the best first
	tries  int

	searched []candidate // in full
}

type candidate struct {
	layout layout.Layout
	value  float64
}

// mostBest is the number of layouts that are searched in full.
const mostBest = 5

func newSearch(in *layout.Instance, from *Found, r *rand.Rand) *search {
	l := heuristics.NewLister(from.View)
	return &search{in: in, r: r, lister: l, wins: make([]int, l.Rules())}
}

// measure returns the mean of the objective by list scheduling and of a bound on all schedules, between which the best schedule is;
// +Inf where nothing fits or the bound alone is above most. Search comes close to the bound of few operations, where lists mislead by some
// percent.
func (s *search) measure(x *layout.Layout, most float64) float64 {
	v, err := view(s.in, x)
	if err != nil || v.Fits() != nil {
		return math.Inf(1)
	}
	bound := flush.Quick(v)
	if bound > most {
		return math.Inf(1)
	}
	rules := make([]int, len(s.wins))
	for k := range rules {
		rules[k] = k
	}
	if s.tries++; s.tries > 20 && s.tries%40 != 0 {
		slices.SortStableFunc(rules, func(a, b int) int { return s.wins[b] - s.wins[a] })
		rules = rules[:4]
	}
	value, rule := s.lister.Objective(v, rules, 0)
	if rule >= 0 {
		s.wins[rule]++
	}
	return (value + bound) / 2
}

// contains reports whether a list has a layout with these cuts and this value: equal layers with each other's options, most often.
func contains(list []candidate, x candidate) bool {
	return slices.ContainsFunc(list, func(y candidate) bool {
		return slices.Equal(x.layout.Ends, y.layout.Ends) && math.Abs(x.value-y.value) <= 1e-9*y.value
	})
}

// keep notes a layout among the best.
func (s *search) keep(x candidate) {
	if contains(s.best, x) {
		return
	}
	x.layout = layout.Layout{Ends: slices.Clone(x.layout.Ends), Options: slices.Clone(x.layout.Options)}
	s.best = append(s.best, x)
	slices.SortStableFunc(s.best, func(a, b candidate) int {
		if a.value < b.value {
			return -1
		}
		if a.value > b.value {
			return 1
		}
		return 0
	})
	s.best = s.best[:min(len(s.best), mostBest)]
}

// run anneals from a layout on and leaves the best in s.best.
func (s *search) run(ctx context.Context, from *layout.Layout, steps int, bound float64) {
	s.at.layout = layout.Layout{Ends: slices.Clone(from.Ends), Options: slices.Clone(from.Options)}
	s.at.value, s.best = s.measure(&s.at.layout, math.Inf(1)), nil
	s.keep(s.at)
	const hottest = 3e-3
	for k := 0; k < steps && s.best[0].value > bound*(1+1e-9) && (k%16 != 0 || ctx.Err() == nil); k++ {
		x := candidate{layout: layout.Layout{Ends: slices.Clone(s.at.layout.Ends), Options: slices.Clone(s.at.layout.Options)}}
		if !s.change(&x.layout) || s.hopeless(&x.layout) {
			continue
		}
		heat := hottest * math.Pow(1e-2, float64(k)/float64(steps))
		accepted := s.at.value * (1 - heat*math.Log(1-s.r.Float64()))
		if x.value = s.measure(&x.layout, accepted); x.value <= accepted {
			s.at = x
			if x.value < s.best[len(s.best)-1].value || len(s.best) < mostBest {
				s.keep(x)
			}
		}
	}
}

// hopeless reports whether a GPU computes so long that the layout is no better than the best by far.
func (s *search) hopeless(x *layout.Layout) bool {
	load := make([]float64, s.in.GPUs)
	from := 0
	for k, to := range x.Ends {
		sum := s.in.Sum(from, to, x.Options)
		load[s.in.GPU(k)] += float64(s.in.Jobs) * (sum.F + sum.I + sum.W)
		from = to
	}
	return slices.Max(load) > s.best[0].value*1.02
}

// change makes a random move; false: it changes nothing.
func (s *search) change(x *layout.Layout) bool {
	cuts := len(x.Ends) - 1
	shift := func(k, by int) bool {
		low := 1
		if k > 0 {
			low = x.Ends[k-1] + 1
		}
		to := x.Ends[k] + by
		if to < low || to >= x.Ends[k+1] {
			return false
		}
		x.Ends[k] = to
		return true
	}
	by := 1 - 2*s.r.IntN(2)
	if s.r.IntN(8) == 0 {
		by *= 2
	}
	switch kind := s.r.IntN(8); {
	case cuts > 0 && kind < 3:
		k := s.r.IntN(cuts)
		ok := shift(k, by)
		if kind == 2 {
			ok = shift(s.r.IntN(cuts), -by) || ok
		}
		if ok && kind == 1 {
			s.refit(x, s.in.GPU(k))
			s.refit(x, s.in.GPU(k+1))
		}
		return ok
	case cuts > 1 && kind == 3:
		from := s.r.IntN(cuts)
		to := from + 1 + s.r.IntN(cuts-from)
		ok := false
		for i := range to - from {
			k := from + i
			if by > 0 {
				k = to - 1 - i
			}
			ok = shift(k, by) || ok
		}
		return ok
	case kind == 4:
		s.refit(x, s.r.IntN(s.in.GPUs))
		return true
	case kind < 7:
		ok := s.option(x, 1-2*s.r.IntN(2))
		if kind == 6 {
			ok = s.option(x, 1-2*s.r.IntN(2)) || ok
		}
		return ok
	}
	a := s.option(x, 1)
	return s.option(x, -1) || a
}

// refit chooses the options of a GPU anew, for some number of micro-batches that shall fit.
func (s *search) refit(x *layout.Layout, g int) {
	from := 0
	for k, to := range x.Ends {
		if s.in.GPU(k) == g {
			clear(x.Options[from:to])
		}
		from = to
	}
	relieve(s.in, x, g, 0.2+2.3*s.r.Float64())
}

// option gives a layer of a random stage another option.
func (s *search) option(x *layout.Layout, by int) bool {
	k, from := s.r.IntN(len(x.Ends)), 0
	if k > 0 {
		from = x.Ends[k-1]
	}
	for range 4 { // layers of the stage
		i := from + s.r.IntN(x.Ends[k]-from)
		if to := x.Options[i] + by; to >= 0 && to < len(s.in.Layers[i].Options) {
			x.Options[i] = to
			return true
		}
	}
	return false
}
