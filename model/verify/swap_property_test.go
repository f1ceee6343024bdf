package verify_test

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	optimum "workbench/model/exhaustive/swap"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
	"workbench/model/verify/swap"
)

// swapRules states the rules of swapping a second time, for plans whose
// durations are right: what happens is put in order once, and each rule is a
// statement about places in that order.
type swapRules struct {
	s *functions.Sequence
	p *plan.Plan
	// places of the start and the end of each operation in the order; there are
	// so many
	start, end []int
	places     int
}

func newSwapRules(s *functions.Sequence, p *plan.Plan) *swapRules {
	r := &swapRules{s: s, p: p, start: make([]int, len(p.Ops)), end: make([]int, len(p.Ops))}
	type event struct {
		time  float64
		phase int
		op    int
		last  bool
	}
	var es []event
	for k, o := range p.Ops {
		switch {
		case o.Start == o.End: // in the order of the plan, after what ends
			es = append(es, event{o.Start, 1, k, false}, event{o.Start, 1, k, true})
		case o.Op == plan.OpIn:
			es = append(es, event{o.Start, 3, k, false}, event{o.End, 0, k, true})
		default:
			es = append(es, event{o.Start, 2, k, false}, event{o.End, 0, k, true})
		}
	}
	slices.SortStableFunc(es, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.phase, b.phase))
	})
	for i, e := range es {
		if e.last {
			r.end[e.op] = i
		} else {
			r.start[e.op] = i
		}
	}
	r.places = len(es)
	return r
}

// runs returns the operations that run functions that have v in a list.
func (r *swapRules) runs(v int, list func(*functions.Function) []int) (ops []int) {
	for k, o := range r.p.Ops {
		if o.Op == plan.OpRun && slices.Contains(list(&r.s.Functions[o.Function-1]), v) {
			ops = append(ops, k)
		}
	}
	return ops
}

func uses(f *functions.Function) []int { return f.Uses }

// moves returns the operations of a kind on v.
func (r *swapRules) moves(v int, kind string) (ops []int) {
	for k, o := range r.p.Ops {
		if o.Op == kind && o.Variable == r.s.Variables[v].ID {
			ops = append(ops, k)
		}
	}
	return ops
}

// across reports whether one of the operations runs at a place, started before
// and not ended.
func (r *swapRules) across(ops []int, at int) bool {
	return slices.ContainsFunc(ops, func(k int) bool { return r.start[k] < at && at < r.end[k] })
}

// maker is the first operation that uses v, if it makes v, else -1.
func (r *swapRules) maker(v int) int {
	if r.s.Variables[v].Initial != functions.Nowhere {
		return -1
	}
	return r.runs(v, uses)[0]
}

// death is the place after which v is not used any more.
func (r *swapRules) death(v int) int {
	all := r.runs(v, uses)
	return r.end[all[len(all)-1]]
}

// goings are the places at which v leaves the GPU; sent, for each that is by an
// out, where that ended.
func (r *swapRules) goings(v int) (at, sent []int) {
	all := r.runs(v, uses)
	for _, k := range r.moves(v, plan.OpOut) {
		to := r.end[k]
		for _, f := range all {
			if r.start[f] < to && to < r.end[f] {
				to = r.end[f]
			}
		}
		at, sent = append(at, to), append(sent, r.end[k])
	}
	for _, k := range r.moves(v, plan.OpDrop) {
		at, sent = append(at, r.start[k]), append(sent, r.start[k])
	}
	if outs := r.moves(v, plan.OpOut); !r.across(outs, r.death(v)) {
		at, sent = append(at, r.death(v)), append(sent, r.death(v))
	}
	return at, sent
}

// comings are the places at which v is there.
func (r *swapRules) comings(v int) (at []int) {
	if r.s.Variables[v].Initial == functions.Device {
		at = append(at, -1)
	}
	if k := r.maker(v); k >= 0 {
		at = append(at, r.start[k])
	}
	for _, k := range r.moves(v, plan.OpIn) {
		at = append(at, r.end[k])
	}
	return at
}

// latest returns the last of the places before one, -2 if there is none.
func latest(places []int, at int) int {
	best := -2
	for _, p := range places {
		if p < at {
			best = max(best, p)
		}
	}
	return best
}

// here reports whether v is on the GPU right before a place, usable whether it
// can be used by what starts there.
func (r *swapRules) here(v, at int) bool {
	goings, _ := r.goings(v)
	return latest(r.comings(v), at) > latest(goings, at)
}

func (r *swapRules) usable(v, at int) bool {
	goings, sent := r.goings(v)
	return latest(r.comings(v), at) > max(latest(goings, at), latest(sent, at))
}

// onHost reports whether the host holds the value of v right before a place.
func (r *swapRules) onHost(v, at int) bool {
	var copies []int
	if r.s.Variables[v].Initial == functions.Host {
		copies = append(copies, -1)
	}
	for _, k := range r.moves(v, plan.OpOut) {
		copies = append(copies, r.end[k])
	}
	var writes []int
	for _, k := range r.runs(v, (*functions.Function).Written) {
		writes = append(writes, r.start[k])
	}
	if k := r.maker(v); k >= 0 {
		writes = append(writes, r.start[k])
	}
	return at < r.death(v) && latest(copies, at) > latest(writes, at)
}

// valid reports whether all rules are kept, and the peak of memory.
func (r *swapRules) valid() (ok bool, peak float64) {
	ok = true
	must := func(x bool) { ok = ok && x }
	// Functions once each, in order, one at a time.
	next, before := 1, -1
	for k, o := range r.p.Ops {
		must(o.Start >= 0)
		if o.Op == plan.OpRun {
			must(o.Function == next && r.start[k] > before)
			next, before = next+1, r.end[k]
		}
	}
	must(next == r.s.Len()+1)
	if !ok {
		return false, 0
	}
	// Each link has one transfer at a time.
	for a, x := range r.p.Ops {
		for b, y := range r.p.Ops {
			if x.Op == y.Op && a != b && (x.Op == plan.OpIn || x.Op == plan.OpOut) {
				must(x.End <= y.Start || y.End <= x.Start)
			}
		}
	}
	memory := make([]float64, r.places+1)
	for v, x := range r.s.Variables {
		if x.Size == 0 {
			continue
		}
		ins, outs, all := r.moves(v, plan.OpIn), r.moves(v, plan.OpOut), r.runs(v, uses)
		writers := r.runs(v, (*functions.Function).Written)
		if k := r.maker(v); k >= 0 {
			writers = append(writers, k)
		}
		for _, k := range all {
			must(k == r.maker(v) || r.usable(v, r.start[k]))
		}
		for _, k := range ins {
			must(r.onHost(v, r.start[k]) && !r.here(v, r.start[k]) && !r.across(ins, r.start[k]))
		}
		for _, k := range outs {
			must(r.usable(v, r.start[k]))
			for _, f := range writers {
				must(r.end[f] < r.start[k] || r.end[k] < r.start[f])
			}
		}
		for _, k := range r.moves(v, plan.OpDrop) {
			at := r.start[k]
			must(r.usable(v, at) && r.onHost(v, at) && !r.across(all, at) && !r.across(outs, at))
		}
		for at := range memory {
			if r.here(v, at) || r.across(ins, at) || slices.ContainsFunc(ins, func(k int) bool { return r.start[k] == at-1 }) {
				memory[at] += x.Size
			}
		}
	}
	peak = slices.Max(memory)
	return ok && peak <= r.p.Platform.Memory, peak
}

// The verifier agrees with the second statement of the rules on optimal plans
// and on what becomes of them with a change or two.
func TestSwapAgainstRules(t *testing.T) {
	plans := max(2000, testfile.Cases(8000))
	sound, broken := 0, map[string]int{}
	for seed := range uint64(plans) {
		r := rand.New(rand.NewPCG(seed, 21))
		s, memory, bandwidth := random.Swap(r, 4, 4)
		_, p, err := optimum.Search(s, memory, bandwidth, 1, 1e6)
		if err != nil {
			continue
		}
		p.Claims = plan.Claims{}
		for range r.IntN(4) {
			change(r, s, p)
		}
		report, err := swap.Verify(s, p)
		if err != nil {
			t.Fatal(err)
		}
		ok, peak := newSwapRules(s, p).valid()
		if ok != report.Valid() || ok && peak != report.PeakMemory {
			t.Fatalf("seed %d: valid %t, peak %g; the verifier finds %g, %+v\n%+v\nmemory %g\n%+v", seed, ok, peak, report.PeakMemory,
				report.Violations, s, p.Platform.Memory, p.Ops)
		}
		if ok {
			sound++
		}
		for _, v := range report.Violations {
			broken[v.Rule]++
		}
	}
	t.Logf("%d valid; broken rules: %v", sound, broken)
	for _, rule := range []string{
		plan.RuleMemory, plan.RuleTime, plan.RuleOverlap, plan.RuleLinkOverlap, plan.RuleMissing, plan.RuleRepeated, plan.RuleMissingInput,
		plan.RuleNotStored, plan.RulePrefetch, plan.RuleHostAbsent, plan.RuleHostStale, plan.RuleDiscardUsed, plan.RuleOutWritten,
	} {
		if broken[rule] == 0 {
			t.Errorf("no plan breaks the rule %s", rule)
		}
	}
	if sound < plans/10 {
		t.Error("too few plans are valid")
	}
}

// change changes a plan: an operation starts sooner or later, alone or with all
// that start after it, one is left out, or one more is there, or there is less
// memory.
func change(r *rand.Rand, s *functions.Sequence, p *plan.Plan) {
	move := func(o *plan.Op, by float64) { o.Start, o.End = o.Start+by, o.End+by }
	k := r.IntN(len(p.Ops))
	switch by := float64(1 + r.IntN(2)); r.IntN(6) {
	case 0:
		move(&p.Ops[k], by)
	case 1:
		move(&p.Ops[k], -by)
	case 2:
		from := p.Ops[k].Start
		for i := range p.Ops {
			if p.Ops[i].Start >= from {
				move(&p.Ops[i], by)
			}
		}
	case 3:
		if len(p.Ops) > 1 {
			p.Ops = slices.Delete(p.Ops, k, k+1)
		}
	case 4:
		v := &s.Variables[r.IntN(len(s.Variables))]
		o := plan.Op{Op: []string{plan.OpIn, plan.OpOut, plan.OpDrop}[r.IntN(3)], Variable: v.ID, Start: p.Ops[k].Start}
		if r.IntN(2) == 0 {
			o.Start = p.Ops[k].End
		}
		if o.End = o.Start; o.Op != plan.OpDrop {
			o.End += v.Size / p.Platform.Bandwidth
		}
		if r.IntN(8) == 0 {
			o = p.Ops[k]
		}
		p.Ops = slices.Insert(p.Ops, r.IntN(len(p.Ops)+1), o)
	case 5:
		p.Platform.Memory = max(0, p.Platform.Memory-by/2)
	}
}

// A plan in other units, with its transfers written in another order, or on
// variables in another order, is the same plan.
func TestSwapOtherUnits(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 22))
		s, memory, bandwidth := random.Swap(r, 5, 5)
		_, p, err := optimum.Search(s, memory, bandwidth, 1, 1e6)
		if err != nil {
			return
		}
		p.Claims = plan.Claims{}
		for range rapid.IntRange(0, 2).Draw(t, "changes") {
			change(r, s, p)
		}
		want, err := swap.Verify(s, p)
		if err != nil {
			t.Fatal(err)
		}
		// Transfers first, from the last to the first, but what takes no time
		// where it was.
		seconds, bytes := rapid.SampledFrom([]float64{1, 0.1, 1e-6, 3}).Draw(t, "seconds"),
			rapid.SampledFrom([]float64{1, 1e9, 3}).Draw(t, "bytes")
		q := *p
		q.Ops = nil
		for _, o := range slices.Backward(p.Ops) {
			if o.Start < o.End && o.Op != plan.OpRun {
				q.Ops = append(q.Ops, o)
			}
		}
		for _, o := range p.Ops {
			if o.Start == o.End || o.Op == plan.OpRun {
				q.Ops = append(q.Ops, o)
			}
		}
		for k := range q.Ops {
			q.Ops[k].Start *= seconds
			q.Ops[k].End *= seconds
		}
		q.Platform.Memory, q.Platform.Bandwidth = memory*bytes, bandwidth*bytes/seconds
		if p.Platform.Memory != memory {
			q.Platform.Memory = p.Platform.Memory * bytes
		}
		scaled := *s
		m := len(s.Variables)
		scaled.Variables, scaled.Functions = slices.Clone(s.Variables), slices.Clone(s.Functions)
		for v := range scaled.Variables {
			scaled.Variables[v] = s.Variables[m-1-v]
			scaled.Variables[v].Size *= bytes
		}
		other := func(list []int) []int {
			mirrored := make([]int, len(list))
			for i, v := range list {
				mirrored[i] = m - 1 - v
			}
			return mirrored
		}
		for i := range scaled.Functions {
			f := &scaled.Functions[i]
			f.Time *= seconds
			f.Uses, f.Writes = other(f.Uses), other(f.Writes)
		}
		got, err := swap.Verify(&scaled, &q)
		if err != nil {
			t.Fatal(err)
		}
		// What follows from a broken rule may depend on the order in the plan.
		if got.Valid() != want.Valid() {
			t.Fatalf("%+v, want %+v", got.Violations, want.Violations)
		}
		if !near(got.Makespan, want.Makespan*seconds) || want.Valid() && got.PeakMemory != want.PeakMemory*bytes {
			t.Fatalf("makespan %g, peak %g; want %g, %g", got.Makespan, got.PeakMemory, want.Makespan*seconds, want.PeakMemory*bytes)
		}
	})
}

func near(a, b float64) bool { return a-b <= 1e-9*max(a, b) && b-a <= 1e-9*max(a, b) }

// What is taken and given back adds up to the memory in use, in order of time,
// and each variable is there at most once in a valid plan, and not at the end.
func TestSwapAllocations(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 23))
		s, memory, bandwidth := random.Swap(r, 5, 5)
		_, p, err := optimum.Search(s, memory, bandwidth, 1, 1e6)
		if err != nil {
			return
		}
		events, err := swap.Allocations(s, p)
		if err != nil {
			t.Fatal(err)
		}
		taken := make([]bool, len(s.Variables))
		use, peak, before := 0.0, 0.0, 0.0
		for _, e := range events {
			if taken[e.Variable] != e.Free || e.Time < before || s.Variables[e.Variable].Size == 0 {
				t.Fatalf("%+v of %+v", e, events)
			}
			taken[e.Variable], before = !e.Free, e.Time
			if use += s.Variables[e.Variable].Size; e.Free {
				use -= 2 * s.Variables[e.Variable].Size
			}
			peak = max(peak, use)
		}
		if peak != p.Claims.PeakMemory || slices.Contains(taken, true) {
			t.Fatalf("peak %g, want %g; %v is left of %+v", peak, p.Claims.PeakMemory, taken, events)
		}
	})
}

// Whatever stands in a plan, the replay ends with a report.
func FuzzVerifySwap(f *testing.F) {
	f.Add([]byte("1aaqwe2zxv..~~00"), 8.0, 1.0)
	f.Add([]byte{0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3}, 0.0, 0.5)
	f.Fuzz(func(t *testing.T, data []byte, memory, bandwidth float64) {
		s, p := fourFunctions()
		p.Ops = nil
		p.Platform.Memory, p.Platform.Bandwidth = memory, bandwidth
		for len(data) >= 3 {
			o := plan.Op{Op: []string{plan.OpRun, plan.OpIn, plan.OpOut, plan.OpDrop}[data[0]%4], Start: float64(data[1]) / 4}
			o.End = o.Start + float64(data[2]%16)/2
			if o.Op == plan.OpRun {
				o.Function = int(data[0] / 4 % 6)
			} else {
				o.Variable = []string{"x", "y", "w", "z", "q"}[data[0]/4%5]
			}
			p.Ops = append(p.Ops, o)
			data = data[3:]
		}
		r, err := swap.Verify(s, p)
		if err != nil {
			return
		}
		for _, v := range r.Violations {
			if v.Detail == "" || v.Op >= len(p.Ops) {
				t.Errorf("%+v", v)
			}
		}
		if _, err := verify.Summarize(s, p); err != nil {
			t.Error(err)
		}
		if _, err := verify.Profile(s, p); err != nil {
			t.Error(err)
		}
	})
}

// 5,000 functions, 20,000 variables: weights that are read twice, activations
// that go and come.
func BenchmarkVerifySwap(b *testing.B) {
	s, p := manyFunctions(2500)
	for b.Loop() {
		if r, err := swap.Verify(s, p); err != nil || !r.Valid() {
			b.Fatal(err, r.Violations[:1])
		}
	}
	b.ReportMetric(float64(len(p.Ops)), "ops")
}

// manyFunctions is a step of n layers, two functions and eight variables each, and
// a plan in which four of the eight go and come.
func manyFunctions(n int) (*functions.Sequence, *plan.Plan) {
	b := functions.NewBuilder("many")
	x := make([][8]int, n)
	for i := range x {
		for j := range x[i] {
			x[i][j] = b.Variable(string(rune('a'+j)), 1, functions.Nowhere)
		}
	}
	for i := range n {
		b.Function("", functions.Forward, 4)
		b.Writes(x[i][:]...)
	}
	for i := n - 1; i >= 0; i-- {
		b.Function("", functions.Backward, 4)
		b.Reads(x[i][:]...)
	}
	s := b.End()
	for v := range s.Variables {
		s.Variables[v].ID = string(rune('a'+v%8)) + strconv.Itoa(v/8)
	}
	p := plan.New(plan.Swap, "by hand", s, platform.Platform{Memory: float64(4*n + 16), Bandwidth: 1})
	for i := range n {
		start := float64(4 * i)
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpRun, Function: i + 1, Start: start, End: start + 4})
		for j := range 4 {
			at := start + 4 + float64(j)
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpOut, Variable: s.Variables[8*i+j].ID, Start: at, End: at + 1})
		}
	}
	turn := float64(4*n) + 8
	for i := n - 1; i >= 0; i-- {
		start := turn + float64(4*(n-1-i))
		for j := range 4 {
			at := start - 4 + float64(j)
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpIn, Variable: s.Variables[8*i+j].ID, Start: at, End: at + 1})
		}
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpRun, Function: 2*n - i, Start: start, End: start + 4})
	}
	return s, p
}
