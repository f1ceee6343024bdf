package verify_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/rematoffload"
)

// The rules of offloading a second time, for whole times: everything is looked
// up again at every instant, nothing is kept up to date.

// A simulation replays a plan second by second.
type simulation struct {
	c          *chain.Chain
	p          *plan.Plan
	activation bool

	here, host, sent map[string]bool // names "a 1", "abar 1", "delta 1"; sent: goes when nobody uses it
	sending, coming  map[string]int
	running, been    map[int]bool // been: in an instant
	later            map[int]bool // offloads put off to the end of their instant
	uses, willUse    map[int][]string
	began            map[string]bool
	done             map[string]bool // computations, "F 1", "B 1"

	broken       []string
	peak, inPart float64
}

func (s *simulation) blame(k int, rule string) {
	s.broken = append(s.broken, fmt.Sprintf("%d %s", k, rule))
}

func (s *simulation) abar(l int) string {
	if l == 0 {
		return "a 0"
	}
	return "abar " + strconv.Itoa(l)
}

// nameParts splits a name.
func nameParts(name string) (kind string, l int) {
	kind, number, _ := strings.Cut(name, " ")
	l, _ = strconv.Atoi(number)
	return kind, l
}

func (s *simulation) size(name string) float64 {
	kind, l := nameParts(name)
	switch {
	case l == 0 && kind == "delta":
		return s.c.Input.Gradient
	case l == 0:
		return s.c.Input.Activation
	case kind == "delta":
		return s.c.Layers[l-1].Gradient
	case kind == "abar":
		return s.c.Layers[l-1].Saved
	}
	return s.c.Layers[l-1].Activation
}

// moved is the tensor of a transfer or discard.
func (s *simulation) moved(o plan.Op) string {
	if o.Layer == 0 {
		return "a 0"
	}
	return o.Tensor + " " + strconv.Itoa(o.Layer)
}

func isDevice(o plan.Op) bool   { return o.Op != plan.OpO && o.Op != plan.OpP }
func isComputed(o plan.Op) bool { return isDevice(o) && o.Op != plan.OpD }

// made is what a computation adds.
func (s *simulation) made(o plan.Op) string {
	switch o.Op {
	case plan.OpFAll:
		return s.abar(o.Layer)
	case plan.OpB:
		return fmt.Sprintf("delta %d", o.Layer-1)
	}
	return fmt.Sprintf("a %d", o.Layer)
}

func (s *simulation) overhead(o plan.Op) float64 {
	if o.Op == plan.OpB {
		return s.c.Layers[o.Layer-1].BackwardOverhead
	}
	return s.c.Layers[o.Layer-1].Overhead(o.Op == plan.OpFAll)
}

// simulateOffload replays p up to a time: a first time to learn who uses what.
func simulateOffload(c *chain.Chain, p *plan.Plan, until float64) *simulation {
	return simulateKnowing(c, p, until, simulateKnowing(c, p, until, nil).uses)
}

func simulateKnowing(c *chain.Chain, p *plan.Plan, until float64, uses map[int][]string) *simulation {
	s := &simulation{
		c: c, p: p, activation: p.Problem == plan.ActivationOffload, willUse: uses,
		here: map[string]bool{"a 0": true}, host: map[string]bool{}, sent: map[string]bool{},
		sending: map[string]int{}, coming: map[string]int{}, running: map[int]bool{}, been: map[int]bool{}, later: map[int]bool{},
		uses:  map[int][]string{},
		began: map[string]bool{}, done: map[string]bool{}, peak: c.Input.Activation, inPart: c.Input.Activation,
	}
	if s.peak > p.Platform.Memory {
		s.blame(-1, plan.RuleMemory)
	}
	first, last := 0.0, 0.0
	for k, o := range p.Ops {
		first, last = min(first, o.Start), max(last, o.End)
		if o.Start < 0 {
			s.blame(k, plan.RuleTime)
		}
		if o.End-o.Start != lengthOf(c, p.Platform.Bandwidth, o) {
			s.blame(k, plan.RuleDuration)
		}
		s.checkNeighbours(k)
	}
	for t := first; t <= min(last, until); t++ {
		s.instant(t)
	}
	for l := c.Len(); l >= 1; l-- {
		if !s.began[fmt.Sprintf("B %d", l)] {
			s.blame(-1, plan.RuleMissingBackward)
		}
	}
	slices.Sort(s.broken)
	return s
}

// checkNeighbours compares operation k with every other one.
func (s *simulation) checkNeighbours(k int) {
	o := s.p.Ops[k]
	order, overlap, link := false, false, false
	for j, x := range s.p.Ops {
		switch {
		case j == k || isDevice(x) != isDevice(o):
		case isDevice(o) && j < k:
			order = order || x.Start > o.Start
			overlap = overlap || x.End > o.Start
		case !isDevice(o) && s.size(s.moved(o)) > 0 && s.size(s.moved(x)) > 0 && (x.Start < o.Start || x.Start == o.Start && j < k):
			link = link || x.End > o.Start
		}
	}
	switch {
	case order:
		s.blame(k, plan.RuleOrder)
	case overlap:
		s.blame(k, plan.RuleOverlap)
	case link:
		s.blame(k, plan.RuleLinkOverlap)
	}
}

func (s *simulation) instant(t float64) {
	s.look(-1, t) // what has come until now
	for k, o := range s.p.Ops {
		if o.End == t && o.Start < t {
			s.finish(k)
		}
	}
	for _, late := range []bool{false, true} {
		for k, o := range s.p.Ops {
			if o.Start != t || o.Op == plan.OpP && o.End > t || late != s.later[k] || s.been[k] || s.running[k] {
				continue
			}
			if o.Op == plan.OpO && !late && !s.here[s.moved(o)] {
				s.later[k] = true
				continue
			}
			s.begin(k, t)
			if o.End == t {
				s.finish(k)
				s.been[k] = true
			}
		}
	}
	for k, o := range s.p.Ops {
		if o.Op == plan.OpP && o.Start == t && o.End > t {
			s.begin(k, t)
		}
	}
}

// look counts the memory in use; k is what has just started, -1: nothing.
func (s *simulation) look(k int, t float64) {
	whole, parts := 0.0, 0.0
	add := func(x float64) { whole, parts = whole+x, parts+x }
	for name, here := range s.here {
		if here {
			add(s.size(name))
		}
	}
	for j, o := range s.p.Ops {
		if !s.running[j] || o.Start == o.End && j != k || o.Start > t {
			continue
		}
		if isComputed(o) {
			add(s.size(s.made(o)) + s.overhead(o))
		}
		if o.Start == o.End {
			continue
		}
		x := s.size(s.moved(o))
		done := (t - o.Start) / (o.End - o.Start)
		switch o.Op {
		case plan.OpP:
			whole += x
			parts += x * done
		case plan.OpO:
			if s.here[s.moved(o)] && !s.needed(o, t, k) {
				parts -= x * done
			}
		}
	}
	s.inPart = max(s.inPart, parts)
	if k < 0 {
		return
	}
	s.peak = max(s.peak, whole)
	if whole > s.p.Platform.Memory {
		s.blame(k, plan.RuleMemory)
	}
}

// needed reports whether something that starts before the offload o ends, and
// ends after t, uses its tensor. At the start of operation k that may be one of
// no time, this one or one after it; right before anything happens at t (k is
// -1), one that ends at t.
func (s *simulation) needed(o plan.Op, t float64, k int) bool {
	name := s.moved(o)
	for j, x := range s.p.Ops {
		if !isComputed(x) || x.End < t || x.End == t && k >= 0 && (x.Start < t || j < k) {
			continue
		}
		if s.activation && x.Op == plan.OpFAll && name == s.abar(x.Layer-1) ||
			x.Start < o.End && x.End > o.Start && slices.Contains(s.willUse[j], name) {
			return true
		}
	}
	return false
}

func (s *simulation) begin(k int, t float64) {
	o := s.p.Ops[k]
	s.running[k] = true
	name := s.moved(o)
	switch o.Op {
	case plan.OpO:
		if !s.here[name] {
			s.blame(k, plan.RuleNotStored)
		}
		s.sending[name]++
		return
	case plan.OpP:
		if !s.host[name] {
			s.blame(k, plan.RuleHostAbsent)
		}
		if s.size(name) > 0 && (s.here[name] || s.coming[name] > 0) {
			s.blame(k, plan.RulePrefetch)
		}
		s.coming[name]++
		if s.size(name) > 0 {
			s.look(k, t)
		}
		return
	case plan.OpD:
		switch {
		case !s.here[name]:
			s.blame(k, plan.RuleNotStored)
		case s.size(name) > 0 && (s.sending[name] > 0 || s.sent[name]):
			s.blame(k, plan.RuleDiscardUsed)
		}
		s.here[name], s.sent[name] = false, false
		return
	}
	id := fmt.Sprintf("%s %d", o.Op[:1], o.Layer)
	if s.began[id] && (o.Op == plan.OpB || s.activation) {
		s.blame(k, plan.RuleTwice)
		delete(s.running, k)
		s.been[k] = true
		return
	}
	s.began[id] = true
	if o.Op == plan.OpB {
		delta := fmt.Sprintf("delta %d", o.Layer)
		if o.Layer == s.c.Len() {
			s.here[delta] = true
		}
		for _, x := range []string{delta, s.abar(o.Layer)} {
			if !s.here[x] {
				s.blame(k, plan.RuleMissingInput)
			} else {
				s.uses[k] = append(s.uses[k], x)
			}
		}
	}
	a, abar := fmt.Sprintf("a %d", o.Layer-1), s.abar(o.Layer-1)
	free := func(x string) bool { return s.here[x] && s.sending[x] == 0 && !s.sent[x] }
	switch {
	case free(a), s.here[a] && o.Op == plan.OpFNone:
		s.uses[k] = append(s.uses[k], a)
	case o.Op == plan.OpFNone:
		s.blame(k, plan.RuleMissingInput)
	case free(abar):
		s.uses[k] = append(s.uses[k], abar)
	case s.here[a]:
		s.uses[k] = append(s.uses[k], a)
	case s.here[abar]:
		s.uses[k] = append(s.uses[k], abar)
	default:
		s.blame(k, plan.RuleMissingInput)
	}
	s.look(k, t)
}

// inUse reports whether a computation that runs uses a tensor, or one that the
// tensor has to wait for.
func (s *simulation) inUse(name string) bool {
	for k, names := range s.uses {
		if s.running[k] && slices.Contains(names, name) {
			return true
		}
	}
	if s.activation {
		for l := 1; l <= s.c.Len(); l++ {
			if name == s.abar(l-1) && !s.done[fmt.Sprintf("F %d", l)] {
				return true
			}
		}
	}
	return false
}

func (s *simulation) finish(k int) {
	o := s.p.Ops[k]
	if !s.running[k] {
		return
	}
	delete(s.running, k)
	name := s.moved(o)
	switch o.Op {
	case plan.OpO:
		s.host[name] = true
		s.sending[name]--
		if s.size(name) > 0 && s.here[name] {
			s.sent[name] = true
		}
	case plan.OpP:
		s.coming[name]--
		s.here[name] = true
	case plan.OpD:
	default:
		if o.Op == plan.OpB {
			s.done[fmt.Sprintf("B %d", o.Layer)] = true
		} else {
			s.done[fmt.Sprintf("F %d", o.Layer)] = true
		}
		s.here[s.made(o)] = true
		a := fmt.Sprintf("a %d", o.Layer-1)
		var taken []string
		switch {
		case o.Op == plan.OpB:
			taken = []string{fmt.Sprintf("delta %d", o.Layer), s.abar(o.Layer), a}
		case o.Op == plan.OpFNone:
			taken = []string{a}
		}
		for _, x := range taken {
			if s.sending[x] == 0 || s.size(x) == 0 {
				s.here[x], s.sent[x] = false, false
			}
		}
	}
	for x := range s.sent {
		if s.sent[x] && s.sending[x] == 0 && !s.inUse(x) {
			s.here[x], s.sent[x] = false, false
		}
	}
}

// drawOffloadChain draws a chain with small whole numbers; every other one has
// computations that take no time.
func drawOffloadChain(t *rapid.T) *chain.Chain {
	least := rapid.IntRange(0, 1).Draw(t, "least time")
	number := func(label string, least, most int) float64 {
		return float64(rapid.IntRange(least, most).Draw(t, label))
	}
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: number("a", 0, 3), Gradient: number("δ", 0, 2)}}
	for range rapid.IntRange(1, 4).Draw(t, "layers") {
		a := number("a", 0, 3)
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: number("uF", least, 3), BackwardTime: number("uB", least, 3),
			Activation: a, Saved: a + number("ā", 0, 2), Gradient: number("δ", 0, 2),
			ForwardOverhead: number("oF", 0, 2), BackwardOverhead: number("oB", 0, 2),
		})
	}
	return c
}

// A walker draws a valid plan, operation by operation.
type walker struct {
	t    *rapid.T
	p    *plan.Plan
	c    *chain.Chain
	free float64 // when the link is
}

// drawOffloadPlan draws a plan that keeps all rules, in just the memory that it
// needs: a walk with offloads thrown in, and what has to come back.
func drawOffloadPlan(t *rapid.T, problem string) (*chain.Chain, *plan.Plan) {
	c := drawOffloadChain(t)
	w := &walker{t: t, c: c, p: plan.New(problem, "walk", c, platform.Platform{Memory: 1e6, Bandwidth: 1})}
	n := c.Len()
	now := 0.0
	run := func(kind string, l int) {
		o := plan.Op{Op: kind, Layer: l, Start: now}
		now += lengthOf(c, 1, o)
		o.End = now
		w.p.Ops = append(w.p.Ops, o)
	}
	// Where things are at the time of the walk, by the simulation.
	state := func() *simulation {
		q := *w.p
		q.Ops = slices.DeleteFunc(slices.Clone(w.p.Ops), func(o plan.Op) bool { return o.Start > now })
		return simulateOffload(c, &q, now)
	}
	move := func(kind, tensor string, l int) {
		o := plan.Op{Op: kind, Tensor: tensor, Layer: l, Start: max(now, w.free)}
		o.End = o.Start + lengthOf(c, 1, o)
		if o.End > o.Start {
			w.free = o.End
		}
		w.p.Ops = append(w.p.Ops, o)
		now = max(now, o.Start)
	}
	tensorOf := func(name string) (tensor string, l int) {
		tensor, l = nameParts(name)
		if problem == plan.ActivationOffload {
			tensor = plan.TensorAbar
		}
		return tensor, l
	}
	wait := func() { now = max(now, w.free) }
	// get makes one of the names usable.
	var get func(name string)
	get = func(name string) {
		s := state()
		if s.here[name] && (s.sending[name] == 0 && !s.sent[name] || rapid.Bool().Draw(t, "use it while it goes")) {
			return
		}
		wait()
		if s = state(); s.here[name] {
			return
		}
		if s.host[name] {
			tensor, l := tensorOf(name)
			move(plan.OpP, tensor, l)
			wait()
			return
		}
		kind, l := nameParts(name)
		in := fmt.Sprintf("a %d", l-1)
		if abar := s.abar(l - 1); s.here[abar] || !s.here[in] && s.host[abar] {
			in = abar
		}
		get(in)
		if kind == "abar" {
			run(plan.OpFAll, l)
		} else {
			run(plan.OpFCk, l)
		}
	}
	chance := func(label string, in int) bool { return rapid.IntRange(1, in).Draw(t, label) == 1 }
	mess := func() {
		s := state()
		if chance("offload", 2) && w.free <= now {
			var names []string
			for name, here := range s.here {
				if kind, l := tensorOf(name); here && name[0] == 'a' && !s.sent[name] && s.sending[name] == 0 &&
					(kind != plan.TensorAbar || problem == plan.RematOffload || l < n) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			if len(names) > 0 {
				kind, l := tensorOf(rapid.SampledFrom(names).Draw(t, "what"))
				move(plan.OpO, kind, l)
			}
		}
		if chance("wait", 4) {
			wait()
		}
		s = state()
		if chance("prefetch", 3) && w.free <= now {
			var names []string
			for name, host := range s.host {
				if host && !s.here[name] {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			if len(names) > 0 {
				kind, l := tensorOf(rapid.SampledFrom(names).Draw(t, "what"))
				move(plan.OpP, kind, l)
			}
		}
		s = state()
		if problem == plan.RematOffload && chance("discard", 4) {
			var names []string
			for name, here := range s.here {
				if here && name[0] == 'a' && !s.sent[name] && s.sending[name] == 0 && (name != "a 0" || s.host[name]) {
					names = append(names, name)
				}
			}
			slices.Sort(names)
			if len(names) > 0 {
				kind, l := tensorOf(rapid.SampledFrom(names).Draw(t, "what"))
				w.p.Ops = append(w.p.Ops, plan.Op{Op: plan.OpD, Tensor: kind, Layer: l, Start: now, End: now})
			}
		}
		if chance("idle", 6) {
			now++
		}
	}
	s := &simulation{}
	for l := 1; l <= n; l++ {
		kind := plan.OpFAll
		if problem == plan.RematOffload && l < n {
			kind = rapid.SampledFrom([]string{plan.OpFAll, plan.OpFCk, plan.OpFNone}).Draw(t, "forward")
		}
		in := fmt.Sprintf("a %d", l-1)
		if x := state(); kind == plan.OpFNone && (!x.here[in] || l == 1 && !x.host[in]) {
			kind = plan.OpFCk
		} else if kind != plan.OpFNone && (problem == plan.ActivationOffload || !x.here[in] && x.here[s.abar(l-1)]) {
			in = s.abar(l - 1)
		}
		get(in)
		run(kind, l)
		mess()
	}
	for l := n; l >= 1; l-- {
		for {
			get(s.abar(l))
			in := fmt.Sprintf("a %d", l-1)
			if problem == plan.ActivationOffload {
				in = s.abar(l - 1)
			} else if x := state(); x.here[s.abar(l-1)] || x.host[s.abar(l-1)] {
				in = s.abar(l - 1)
			}
			get(in)
			if x := state(); x.here[in] && x.here[s.abar(l)] {
				break
			}
		}
		run(plan.OpB, l)
		if l > 1 {
			mess()
		}
	}
	r, err := rematoffload.Verify(c, w.p)
	if err != nil {
		t.Fatal(err)
	}
	w.p.Platform.Memory = r.PeakMemory
	return c, w.p
}

func rulesOf(r *plan.Report) []string {
	var s []string
	for _, v := range r.Violations {
		s = append(s, fmt.Sprintf("%d %s", v.Op, v.Rule))
	}
	slices.Sort(s)
	return s
}

func makespanOf(p *plan.Plan) (end float64) {
	for _, o := range p.Ops {
		if isComputed(o) {
			end = max(end, o.End)
		}
	}
	return end
}

// compareOffload holds the verifiers against the simulation.
func compareOffload(t *rapid.T, c *chain.Chain, p *plan.Plan) *plan.Report {
	t.Helper()
	s := simulateOffload(c, p, math.Inf(1))
	r, err := verify.Replay(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if got := rulesOf(r); !slices.Equal(got, s.broken) {
		t.Fatalf("verifier %q\nsimulation %q\n%+v\n%+v\nmemory %g\n%s", got, s.broken, r.Violations, c, p.Platform.Memory, listing(p))
	}
	if r.PeakMemory != s.peak || r.Makespan != makespanOf(p) {
		t.Fatalf("peak %g at %g, simulated %g; makespan %g\n%+v\n%s", r.PeakMemory, r.PeakTime, s.peak, r.Makespan, c, listing(p))
	}
	f, err := rematoffload.VerifyFractional(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if f.PeakMemory > r.PeakMemory*(1+1e-12) {
		t.Fatalf("in parts %g, whole %g", f.PeakMemory, r.PeakMemory)
	}
	if r.Valid() && (!f.Valid() || math.Abs(f.PeakMemory-s.inPart) > 1e-9) {
		t.Fatalf("in parts: peak %g at %g, simulated %g: %+v\n%+v\n%s", f.PeakMemory, f.PeakTime, s.inPart, f.Violations, c, listing(p))
	}
	checkOffloadProfile(t, c, p, r)
	return r
}

// checkOffloadProfile compares the memory profile with the report. In broken plans
// there may be more at an instant than before and after it.
func checkOffloadProfile(t *rapid.T, c *chain.Chain, p *plan.Plan, r *plan.Report) {
	t.Helper()
	steps, err := verify.Profile(c, p)
	if err != nil {
		t.Fatal(err)
	}
	peak := c.Input.Activation
	for i, s := range steps {
		peak = max(peak, s.During.Total())
		if s.End < s.Start || i > 0 && s.Start != steps[i-1].End {
			t.Fatalf("step %d: %+v after %+v", i, s, steps[max(0, i-1)])
		}
	}
	if peak > r.PeakMemory || r.Valid() && peak < r.PeakMemory {
		t.Fatalf("peak %g in the profile, %g in the report\n%+v\n%s", peak, r.PeakMemory, c, listing(p))
	}
}

func listing(p *plan.Plan) string {
	s := ""
	for k := range p.Ops {
		o := &p.Ops[k]
		s += fmt.Sprintf("%3d %-10s %g..%g\n", k, o, o.Start, o.End)
	}
	return s
}

func TestOffloadAgainstSimulation(t *testing.T) {
	for _, problem := range []string{plan.ActivationOffload, plan.RematOffload} {
		t.Run(problem, func(t *testing.T) {
			valid, invalid := 0, 0
			testfile.Property(t, func(t *rapid.T) {
				c, p := drawOffloadPlan(t, problem)
				if r := compareOffload(t, c, p); !r.Valid() {
					t.Fatalf("the walk breaks rules: %+v\n%+v\n%s", r.Violations, c, listing(p))
				}
				for range rapid.IntRange(0, 20).Draw(t, "mutants") {
					q := *p
					q.Ops = slices.Clone(p.Ops)
					for range rapid.IntRange(1, 3).Draw(t, "mutations") {
						drawOffloadMutation(t, c, &q)
					}
					if compareOffload(t, c, &q).Valid() {
						valid++
					} else {
						invalid++
					}
				}
			})
			t.Logf("%d valid and %d invalid mutants", valid, invalid)
			if valid < 5 || invalid < 50 {
				t.Error("too few of one kind")
			}
		})
	}
}

// drawOffloadMutation changes one thing.
func drawOffloadMutation(t *rapid.T, c *chain.Chain, p *plan.Plan) {
	k := rapid.IntRange(0, len(p.Ops)-1).Draw(t, "op")
	switch rapid.IntRange(0, 6).Draw(t, "mutation") {
	case 0:
		if len(p.Ops) > 1 {
			p.Ops = slices.Delete(p.Ops, k, k+1)
		}
	case 1:
		p.Ops = slices.Insert(p.Ops, k, p.Ops[k])
	case 2:
		p.Platform.Memory = max(0, p.Platform.Memory-1)
	case 3:
		j := rapid.IntRange(0, len(p.Ops)-1).Draw(t, "other")
		p.Ops[j], p.Ops[k] = p.Ops[k], p.Ops[j]
	case 4: // a transfer more
		o := plan.Op{
			Op: rapid.SampledFrom([]string{plan.OpO, plan.OpP}).Draw(t, "kind"), Tensor: plan.TensorAbar,
			Layer: rapid.IntRange(0, c.Len()-1).Draw(t, "layer"), Start: p.Ops[k].Start,
		}
		if p.Problem == plan.RematOffload && (o.Layer == 0 || rapid.Bool().Draw(t, "a")) {
			o.Tensor = plan.TensorA
		}
		o.End = o.Start + lengthOf(c, 1, o)
		p.Ops = slices.Insert(p.Ops, k, o)
	default:
		by := float64(rapid.SampledFrom([]int{-2, -1, 1, 2}).Draw(t, "by"))
		p.Ops[k].Start += by
		p.Ops[k].End += by
	}
}

// The verdict does not depend on the units of time and bytes; more memory breaks
// nothing.
func TestOffloadUnits(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawOffloadPlan(t, rapid.SampledFrom([]string{plan.ActivationOffload, plan.RematOffload}).Draw(t, "problem"))
		for range rapid.IntRange(0, 3).Draw(t, "mutations") {
			drawOffloadMutation(t, c, p)
		}
		before := mustVerifyOn(t, c, p)
		if before.Makespan == 0 {
			t.Skip("then nothing but equal times is simultaneous")
		}
		seconds := rapid.SampledFrom([]float64{1e-3, 1.0 / 3, 7, 86400}).Draw(t, "seconds")
		bytes := rapid.SampledFrom([]float64{1, 3, 1 << 30}).Draw(t, "bytes")
		d, q := *c, *p
		q.Ops = slices.Clone(p.Ops)
		for k := range q.Ops {
			q.Ops[k].Start *= seconds
			q.Ops[k].End *= seconds
		}
		q.Platform.Memory *= bytes
		q.Platform.Bandwidth *= bytes / seconds
		d.Input.Activation *= bytes
		d.Input.Gradient *= bytes
		d.Layers = slices.Clone(c.Layers)
		for i := range d.Layers {
			l := &d.Layers[i]
			for _, x := range []*float64{&l.ForwardTime, &l.BackwardTime} {
				*x *= seconds
			}
			for _, x := range []*float64{&l.Activation, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.BackwardOverhead} {
				*x *= bytes
			}
		}
		after := mustVerifyOn(t, &d, &q)
		if a, b := rulesOf(before), rulesOf(after); !slices.Equal(a, b) {
			t.Fatalf("in other units %q, before %q\n%+v\n%s", b, a, c, listing(p))
		}
		if after.PeakMemory != bytes*before.PeakMemory {
			t.Fatalf("peak %g, before %g", after.PeakMemory, before.PeakMemory)
		}
		q.Platform.Memory *= 2
		if r := mustVerifyOn(t, &d, &q); before.Valid() && !r.Valid() {
			t.Fatalf("with more memory: %+v", r.Violations)
		}
	})
}

// FuzzOffload: whatever the numbers, the verifiers and what draws from them
// return.
func FuzzOffload(f *testing.F) { f.Fuzz(rapid.MakeFuzz(offloadAnything)) }

func TestOffloadAnything(t *testing.T) { testfile.Property(t, offloadAnything) }

func offloadAnything(t *rapid.T) {
	size := rapid.OneOf(rapid.SampledFrom([]float64{0, 1, 1e12}),
		rapid.Map(rapid.Int64Range(0, 1e13), func(n int64) float64 { return float64(n) }))
	time := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-20, 20),
		rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, 1e-320}))
	c := &chain.Chain{Input: chain.Input{Activation: size.Draw(t, "a_0"), Gradient: size.Draw(t, "δ_0")}}
	for range rapid.IntRange(0, 3).Draw(t, "layers") {
		a := size.Draw(t, "a")
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: size.Draw(t, "uF"), BackwardTime: size.Draw(t, "uB"), Activation: a, Saved: max(a, size.Draw(t, "ā")),
			Gradient: size.Draw(t, "δ"), ForwardOverhead: size.Draw(t, "oF"), BackwardOverhead: size.Draw(t, "oB"),
		})
	}
	p := plan.New(rapid.SampledFrom([]string{plan.ActivationOffload, plan.RematOffload}).Draw(t, "problem"), "any", c,
		platform.Platform{Memory: time.Draw(t, "memory"), Bandwidth: time.Draw(t, "bandwidth")})
	for range rapid.IntRange(0, 20).Draw(t, "ops") {
		p.Ops = append(p.Ops, plan.Op{
			Op: rapid.SampledFrom([]string{plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpO, plan.OpP, plan.OpD, "", "X"}).Draw(t,
				"op"),
			Tensor: rapid.SampledFrom([]string{"", plan.TensorA, plan.TensorAbar, plan.TensorAbar, plan.TensorW}).Draw(t, "tensor"),
			Layer:  rapid.IntRange(-1, 4).Draw(t, "layer"), Start: time.Draw(t, "start"), End: time.Draw(t, "end"),
		})
	}
	in := c
	r, err := verify.Replay(in, p)
	f, err2 := rematoffload.VerifyFractional(c, p)
	_, err3 := verify.Profile(in, p)
	s, err4 := verify.Summarize(in, p)
	for _, e := range []error{err2, err3, err4} {
		if (e == nil) != (err == nil) {
			t.Fatalf("%v, but %v", err, e)
		}
	}
	if (r == nil) == (err == nil) || (f == nil) == (err == nil) {
		t.Fatalf("reports %v, %v and error %v", r, f, err)
	}
	if err != nil {
		return
	}
	for _, v := range slices.Concat(r.Violations, f.Violations) {
		if v.Rule == "" || v.Detail == "" || v.Op < -1 || v.Op >= len(p.Ops) || math.IsNaN(v.Time) || math.IsInf(v.Time, 0) ||
			math.IsNaN(v.Amount) {
			t.Fatalf("violation %+v", v)
		}
	}
	if _, err := json.Marshal([]any{r, f, s}); err != nil && !math.IsInf(p.Platform.Memory, 0) {
		t.Fatalf("%v: %+v", err, s)
	}
	_ = s.String()
}
