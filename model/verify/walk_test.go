package verify_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// The rules a second time, as tables of names: what an operation needs, takes
// and makes. Random walks that keep them are valid plans; mutants of these
// break the same rules by the tables as by the verifiers.

// An effect is what an operation does to the names that are stored.
type effect struct {
	needs    [][]string // one of each
	takes    []string   // as far as they are there
	makes    []string
	overhead float64
	duration float64
	once     string // the name under which it runs at most once
	drop     bool
}

// A world is an instance with its rules.
type world struct {
	in      plan.Instance
	fixed   float64
	size    func(name string) float64
	start   []string
	counted bool // a name may be stored several times, and memory is as in joins
	ops     []plan.Op
	effect  func(plan.Op) effect
	// fatal reports whether after this operation no end can be reached.
	fatal func(plan.Op, *state) bool
	// finish ends a walk; it adds operations by add.
	finish func(s *state, add func(plan.Op))
	// missing returns the rules broken at the end.
	missing func(*state) []string
}

// A state is what is stored and what has run.
type state struct {
	stored map[string]int
	ran    map[string]bool
}

func (w *world) newState() *state {
	s := &state{stored: map[string]int{}, ran: map[string]bool{}}
	for _, name := range w.start {
		s.stored[name]++
	}
	return s
}

func (w *world) memory(s *state) float64 {
	m := w.fixed
	for name, n := range s.stored {
		m += float64(n) * w.size(name)
	}
	return m
}

// lacking returns how many needs of e are not stored.
func (s *state) lacking(e effect) int {
	n := 0
	for _, choice := range e.needs {
		if !slices.ContainsFunc(choice, func(name string) bool { return s.stored[name] > 0 }) {
			n++
		}
	}
	return n
}

func (w *world) apply(s *state, e effect) {
	for _, name := range e.takes {
		s.stored[name] = max(0, s.stored[name]-1)
	}
	for _, name := range e.makes {
		s.stored[name]++
		if !w.counted {
			s.stored[name] = 1
		}
	}
	if e.once != "" {
		s.ran[e.once] = true
	}
}

// An outcome is what the tables say of a plan.
type outcome struct {
	broken         []string // "op rule"
	peak, makespan float64
}

func (w *world) replay(ops []plan.Op) outcome {
	s := w.newState()
	out := outcome{peak: w.memory(s)}
	for k, o := range ops {
		e := w.effect(o)
		out.makespan += e.duration
		if e.once != "" && s.ran[e.once] {
			out.broken = append(out.broken, fmt.Sprintf("%d %s", k, plan.RuleTwice))
			continue
		}
		rule := plan.RuleMissingInput
		if e.drop {
			rule = plan.RuleNotStored
		}
		for range s.lacking(e) {
			out.broken = append(out.broken, fmt.Sprintf("%d %s", k, rule))
		}
		during := w.memory(s)
		if w.counted {
			w.apply(s, e)
			during = max(during, w.memory(s))
		} else if !e.drop {
			for _, name := range e.makes {
				during += w.size(name)
			}
			during += e.overhead
			w.apply(s, e)
		} else {
			w.apply(s, e)
		}
		out.peak = max(out.peak, during)
	}
	for _, rule := range w.missing(s) {
		out.broken = append(out.broken, "-1 "+rule)
	}
	slices.Sort(out.broken)
	return out
}

// walk draws a valid plan: steps that keep the rules, then the way to the end.
func (w *world) walk(t *rapid.T) []plan.Op {
	s := w.newState()
	var ops []plan.Op
	add := func(o plan.Op) {
		w.apply(s, w.effect(o))
		ops = append(ops, o)
	}
	for range rapid.IntRange(0, 30).Draw(t, "steps") {
		var legal []plan.Op
		for _, o := range w.ops {
			if e := w.effect(o); s.lacking(e) == 0 && (e.once == "" || !s.ran[e.once]) && !w.fatal(o, s) {
				legal = append(legal, o)
			}
		}
		if len(legal) == 0 {
			break
		}
		add(legal[rapid.IntRange(0, len(legal)-1).Draw(t, "step")])
	}
	w.finish(s, add)
	return ops
}

func (w *world) plan(ops []plan.Op, memory float64) *plan.Plan {
	p := &plan.Plan{Problem: plan.Remat, Platform: platform.Platform{Memory: memory}, Ops: slices.Clone(ops)}
	if w.in.Kind() == join.Kind {
		p.Problem = plan.Join
	}
	retime(p, func(o plan.Op) float64 { return w.effect(o).duration })
	return p
}

// size draws small whole numbers, so that sums are exact and ties happen.
func smallSize(t *rapid.T, label string) float64 { return float64(rapid.IntRange(0, 4).Draw(t, label)) }

func drawChainWorld(t *rapid.T) *world {
	n := rapid.IntRange(1, 4).Draw(t, "layers")
	c := &chain.Chain{Input: chain.Input{Activation: smallSize(t, "a"), Gradient: smallSize(t, "δ")}}
	for range n {
		a := smallSize(t, "a")
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: smallSize(t, "uF"), BackwardTime: smallSize(t, "uB"),
			Activation: a, Saved: a + smallSize(t, "ā-a"), Gradient: smallSize(t, "δ"),
			ForwardOverhead: smallSize(t, "oF"), BackwardOverhead: smallSize(t, "oB"),
		})
	}
	name := func(kind string, l int) string { return fmt.Sprint(kind, l) }
	sizes := map[string]float64{"a0": c.Input.Activation, "δ0": c.Input.Gradient}
	w := &world{in: c, start: []string{"a0", name("δ", n)}, size: func(name string) float64 { return sizes[name] }}
	for l := 1; l <= n; l++ {
		x := &c.Layers[l-1]
		sizes[name("a", l)], sizes[name("ā", l)], sizes[name("δ", l)] = x.Activation, x.Saved, x.Gradient
		for _, kind := range []string{plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB} {
			w.ops = append(w.ops, plan.Op{Op: kind, Layer: l})
		}
		w.ops = append(w.ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Layer: l}, plan.Op{Op: plan.OpD, Tensor: plan.TensorAbar, Layer: l})
	}
	w.ops = append(w.ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Layer: 0})
	w.effect = func(o plan.Op) effect {
		l := o.Layer
		if o.Op == plan.OpD {
			tensor := map[string]string{plan.TensorA: "a", plan.TensorAbar: "ā"}[o.Tensor]
			return effect{needs: [][]string{{name(tensor, l)}}, takes: []string{name(tensor, l)}, drop: true}
		}
		x := &c.Layers[l-1]
		input := []string{name("a", l-1), name("ā", l-1)}
		e := effect{needs: [][]string{input}, overhead: x.ForwardOverhead, duration: x.ForwardTime}
		switch o.Op {
		case plan.OpFAll:
			e.makes = []string{name("ā", l)}
		case plan.OpFCk:
			e.makes = []string{name("a", l)}
		case plan.OpFNone:
			e.needs, e.takes, e.makes = [][]string{input[:1]}, input[:1], []string{name("a", l)}
		case plan.OpB:
			e = effect{
				needs: [][]string{input, {name("ā", l)}, {name("δ", l)}},
				takes: []string{input[0], name("ā", l), name("δ", l)}, makes: []string{name("δ", l-1)},
				overhead: x.BackwardOverhead, duration: x.BackwardTime, once: name("B", l),
			}
		}
		return e
	}
	w.fatal = func(o plan.Op, s *state) bool {
		return !s.ran["B1"] && (o.Op == plan.OpFNone && o.Layer == 1 || o.Op == plan.OpD && o.Tensor == plan.TensorA && o.Layer == 0)
	}
	w.finish = func(s *state, add func(plan.Op)) {
		for l := n; l >= 1; l-- {
			if s.ran[name("B", l)] {
				continue
			}
			for i := 1; i <= l; i++ {
				add(plan.Op{Op: plan.OpFAll, Layer: i})
			}
			add(plan.Op{Op: plan.OpB, Layer: l})
		}
	}
	w.missing = func(s *state) (rules []string) {
		for l := range n {
			if !s.ran[name("B", l+1)] {
				rules = append(rules, plan.RuleMissingBackward)
			}
		}
		return rules
	}
	return w
}

func drawGraphWorld(t *rapid.T) *world {
	forwards := rapid.IntRange(1, 4).Draw(t, "forwards")
	n := forwards + 1 + rapid.IntRange(0, 3).Draw(t, "backwards")
	g := &graph.Graph{Input: smallSize(t, "input")}
	index := map[string]int{}
	for v := range n {
		kind := graph.Backward
		switch {
		case v < forwards:
			kind = graph.Forward
		case v == forwards:
			kind = graph.Loss
		}
		id := fmt.Sprint("v", v)
		index[id] = v
		g.Nodes = append(g.Nodes, graph.Node{
			ID: id, Kind: kind,
			Time: smallSize(t, "time"), Memory: smallSize(t, "memory"), Overhead: smallSize(t, "overhead"),
		})
		for u := range v {
			if rapid.Bool().Draw(t, "edge") {
				g.Edges = append(g.Edges, graph.Edge{From: u, To: v})
			}
		}
	}
	pred, succ := g.Adjacency()
	w := &world{in: g, fixed: g.Input, size: func(id string) float64 { return g.Nodes[index[id]].Memory }}
	for v := range n {
		w.ops = append(w.ops, plan.Op{Op: plan.OpC, Node: g.Nodes[v].ID}, plan.Op{Op: plan.OpD, Node: g.Nodes[v].ID})
	}
	w.effect = func(o plan.Op) effect {
		x := &g.Nodes[index[o.Node]]
		if o.Op == plan.OpD {
			return effect{needs: [][]string{{o.Node}}, takes: []string{o.Node}, drop: true}
		}
		e := effect{makes: []string{o.Node}, overhead: x.Overhead, duration: x.Time}
		for _, u := range pred[index[o.Node]] {
			e.needs = append(e.needs, []string{g.Nodes[u].ID})
		}
		if x.Kind != graph.Forward {
			e.once = o.Node
		}
		return e
	}
	w.fatal = func(o plan.Op, s *state) bool {
		v := index[o.Node]
		return o.Op == plan.OpD && v >= forwards && slices.ContainsFunc(succ[v], func(u int) bool { return !s.ran[g.Nodes[u].ID] })
	}
	w.finish = func(s *state, add func(plan.Op)) {
		for v := range n {
			if v < forwards || !s.ran[g.Nodes[v].ID] {
				add(plan.Op{Op: plan.OpC, Node: g.Nodes[v].ID})
			}
		}
	}
	// Forwards without a computation are for neverRun to find.
	w.missing = func(s *state) (rules []string) {
		for v := forwards; v < n; v++ {
			switch {
			case s.ran[g.Nodes[v].ID]:
			case v == forwards:
				rules = append(rules, plan.RuleMissing)
			default:
				rules = append(rules, plan.RuleMissingBackward)
			}
		}
		return rules
	}
	return w
}

func drawJoinWorld(t *rapid.T) *world {
	j := &join.Join{ForwardTime: smallSize(t, "uF"), BackwardTime: smallSize(t, "uB"), LossTime: smallSize(t, "uL")}
	w := &world{in: j, size: func(string) float64 { return 1 }, counted: true}
	name := func(kind string, branch, l int) string { return fmt.Sprint(kind, branch, ",", l) }
	loss := effect{once: "LOSS"}
	for b := 1; b <= rapid.IntRange(1, 3).Draw(t, "branches"); b++ {
		n := rapid.IntRange(0, 3).Draw(t, "length")
		j.Branches, j.Keep = append(j.Branches, n), append(j.Keep, rapid.Bool().Draw(t, "keep"))
		w.start = append(w.start, name("a", b, 0))
		loss.needs = append(loss.needs, []string{name("a", b, n)})
		loss.takes, loss.makes = append(loss.takes, name("a", b, n)), append(loss.makes, name("δ", b, n))
		w.ops = append(w.ops, plan.Op{Op: plan.OpD, Tensor: plan.TensorDelta, Branch: b})
		for l := 0; l <= n; l++ {
			w.ops = append(w.ops, plan.Op{Op: plan.OpS, Branch: b, Layer: l}, plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Branch: b, Layer: l})
			if l > 0 {
				w.ops = append(w.ops, plan.Op{Op: plan.OpF, Branch: b, Layer: l}, plan.Op{Op: plan.OpB, Branch: b, Layer: l})
			}
		}
	}
	loss.duration = j.LossTime
	w.ops = append(w.ops, plan.Op{Op: plan.OpLoss})
	w.effect = func(o plan.Op) effect {
		b, l := o.Branch, o.Layer
		one := func(names ...string) effect {
			e := effect{takes: names}
			for _, name := range names {
				e.needs = append(e.needs, []string{name})
			}
			return e
		}
		var e effect
		switch o.Op {
		case plan.OpF:
			e = one(name("a", b, l-1))
			e.makes, e.duration = []string{name("a", b, l)}, j.ForwardTime
		case plan.OpB:
			e = one(name("δ", b, l), name("a", b, l-1))
			e.makes, e.duration, e.once = []string{name("δ", b, l-1)}, j.BackwardTime, name("B", b, l)
		case plan.OpS:
			e = effect{needs: [][]string{{name("a", b, l)}}, makes: []string{name("a", b, l)}}
		case plan.OpD:
			e = one(name(map[string]string{plan.TensorA: "a", plan.TensorDelta: "δ"}[o.Tensor], b, l))
			e.drop = true
		case plan.OpLoss:
			e = loss
		}
		return e
	}
	// a_0 is needed up to B_1, or up to the loss on a branch without layers.
	w.fatal = func(o plan.Op, s *state) bool {
		b := o.Branch
		switch {
		case o.Op == plan.OpD && o.Tensor == plan.TensorDelta:
			return j.Keep[b-1]
		case o.Op == plan.OpD && o.Layer == 0, o.Op == plan.OpF && o.Layer == 1:
			done := s.ran["LOSS"]
			if j.Branches[b-1] > 0 {
				done = s.ran[name("B", b, 1)]
			}
			return !done && s.stored[name("a", b, 0)] == 1
		}
		return false
	}
	w.finish = func(s *state, add func(plan.Op)) {
		reach := func(b, l int) {
			for i := 1; i <= l && s.stored[name("a", b, l)] == 0; i++ {
				if i == 1 {
					add(plan.Op{Op: plan.OpS, Branch: b})
				}
				add(plan.Op{Op: plan.OpF, Branch: b, Layer: i})
			}
		}
		if !s.ran["LOSS"] {
			for b, n := range j.Branches {
				reach(b+1, n)
			}
			add(plan.Op{Op: plan.OpLoss})
		}
		for i, n := range j.Branches {
			b := i + 1
			for l := n; l >= 1; l-- {
				if !s.ran[name("B", b, l)] {
					reach(b, l-1)
					add(plan.Op{Op: plan.OpB, Branch: b, Layer: l})
				}
			}
			for l := 0; l <= n; l++ {
				for s.stored[name("a", b, l)] > 0 {
					add(plan.Op{Op: plan.OpD, Tensor: plan.TensorA, Branch: b, Layer: l})
				}
			}
			if !j.Keep[i] && s.stored[name("δ", b, 0)] > 0 {
				add(plan.Op{Op: plan.OpD, Tensor: plan.TensorDelta, Branch: b})
			}
		}
	}
	w.missing = func(s *state) (rules []string) {
		if !s.ran["LOSS"] {
			rules = append(rules, plan.RuleMissing)
		}
		for i, n := range j.Branches {
			for l := 1; l <= n; l++ {
				if !s.ran[name("B", i+1, l)] {
					rules = append(rules, plan.RuleMissingBackward)
				}
			}
		}
		if len(rules) > 0 {
			return rules
		}
		for i, n := range j.Branches {
			if j.Keep[i] && s.stored[name("δ", i+1, 0)] == 0 {
				rules = append(rules, plan.RuleMissingOutput)
			}
			for l := 0; l <= n; l++ {
				if s.stored[name("a", i+1, l)] > 0 {
					rules = append(rules, plan.RuleLeftOver)
				}
				if s.stored[name("δ", i+1, l)] > 0 && (l > 0 || !j.Keep[i]) {
					rules = append(rules, plan.RuleLeftOver)
				}
			}
		}
		return rules
	}
	return w
}

var worlds = map[string]func(*rapid.T) *world{"chain": drawChainWorld, "graph": drawGraphWorld, "join": drawJoinWorld}

// Walks are valid, in exactly the memory and time that the tables say.
func TestWalks(t *testing.T) {
	for name, draw := range worlds {
		t.Run(name, func(t *testing.T) {
			testfile.Property(t, func(t *rapid.T) {
				w := draw(t)
				ops := w.walk(t)
				want := w.replay(ops)
				p := w.plan(ops, max(want.peak, 0.5))
				p.Claims = plan.Claims{Makespan: want.makespan, PeakMemory: want.peak}
				r := mustVerifyOn(t, w.in, p)
				if !r.Valid() || r.Makespan != want.makespan || r.PeakMemory != want.peak || len(r.ClaimErrors) > 0 {
					t.Fatalf("makespan %g, peak %g; tables %+v\n%+v %v", r.Makespan, r.PeakMemory, want, r.Violations, r.ClaimErrors)
				}
				if r.PeakOp >= 0 && r.PeakTime != p.Ops[r.PeakOp].Start {
					t.Fatalf("peak at %g with operation %d", r.PeakTime, r.PeakOp)
				}
				checkProfile(t, w, p, r)
				if want.peak < 1 {
					return
				}
				p.Platform.Memory = want.peak - 0.5
				r = mustVerifyOn(t, w.in, p)
				if r.Valid() {
					t.Fatal("valid below its peak")
				}
				for _, v := range r.Violations {
					if v.Rule != plan.RuleMemory || v.Amount > 0.5 {
						t.Fatalf("below the peak: %+v", v)
					}
				}
			})
		})
	}
}

// checkProfile compares the memory profile of a valid plan with its report.
func checkProfile(t *rapid.T, w *world, p *plan.Plan, r *plan.Report) {
	steps, err := verify.Profile(w.in, p)
	if err != nil || len(steps) != len(p.Ops) {
		t.Fatalf("%d steps of %d operations: %v", len(steps), len(p.Ops), err)
	}
	s := w.newState()
	peak := w.memory(s)
	for k, x := range steps {
		if x.Op != k || x.Start != p.Ops[k].Start || x.End != p.Ops[k].End {
			t.Fatalf("step %d: %+v", k, x)
		}
		before := w.memory(s)
		w.apply(s, w.effect(p.Ops[k]))
		after := w.memory(s)
		if x.After.Total() != after || x.During.Total() < max(before, after) || x.After.Overhead != 0 {
			t.Fatalf("step %d, from %g to %g: %+v", k, before, after, x)
		}
		peak = max(peak, x.During.Total())
	}
	if peak != r.PeakMemory {
		t.Fatalf("peak %g in the profile, %g in the report", peak, r.PeakMemory)
	}
}

// Mutants of walks break the rules that the tables say, and no others.
func TestMutants(t *testing.T) {
	for name, draw := range worlds {
		t.Run(name, func(t *testing.T) {
			testfile.Property(t, func(t *rapid.T) {
				w := draw(t)
				ops := w.walk(t)
				for range rapid.IntRange(1, 3).Draw(t, "mutations") {
					ops = mutate(t, ops, w.ops)
				}
				want := w.replay(ops)
				if g := plan.As[*graph.Graph](w.in); g != nil {
					want.broken = append(want.broken, neverRun(g, ops)...)
					slices.Sort(want.broken)
				}
				r := mustVerifyOn(t, w.in, w.plan(ops, math.Inf(1)))
				var got []string
				for _, v := range r.Violations {
					got = append(got, fmt.Sprintf("%d %s", v.Op, v.Rule))
				}
				slices.Sort(got)
				if diff := gocmp.Diff(want.broken, got); diff != "" {
					t.Fatalf("(-tables +verifier):\n%s%+v\n%+v", diff, ops, r.Violations)
				}
				if len(got) == 0 && (r.PeakMemory != want.peak || r.Makespan != want.makespan) {
					t.Fatalf("makespan %g, peak %g; tables %+v", r.Makespan, r.PeakMemory, want)
				}
				if !slices.IsSortedFunc(r.Violations, func(a, b plan.Violation) int { return cmp.Compare(a.Time, b.Time) }) {
					t.Fatalf("not in order of time: %+v", r.Violations)
				}
			})
		})
	}
}

// mutate drops, repeats, swaps, inserts or replaces an operation.
func mutate(t *rapid.T, ops, all []plan.Op) []plan.Op {
	ops = slices.Clone(ops)
	other := func() plan.Op { return all[rapid.IntRange(0, len(all)-1).Draw(t, "other")] }
	k := rapid.IntRange(0, max(0, len(ops)-1)).Draw(t, "at")
	switch kind := rapid.IntRange(0, 4).Draw(t, "mutation"); {
	case kind == 0 || len(ops) == 0:
		return slices.Insert(ops, k, other())
	case kind == 1:
		return slices.Delete(ops, k, k+1)
	case kind == 2:
		return slices.Insert(ops, k, ops[k])
	case kind == 3:
		ops[k] = other()
	case k > 0:
		ops[k-1], ops[k] = ops[k], ops[k-1]
	}
	return ops
}

// neverRun returns a broken rule for each forward node without computation.
func neverRun(g *graph.Graph, ops []plan.Op) (broken []string) {
	for v := range g.Nodes {
		n := &g.Nodes[v]
		if n.Kind == graph.Forward && !slices.ContainsFunc(ops, func(o plan.Op) bool { return o.Op == plan.OpC && o.Node == n.ID }) {
			broken = append(broken, "-1 "+plan.RuleMissing)
		}
	}
	return broken
}
