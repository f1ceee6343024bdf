package pipeline_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify/pipeline"
)

// drawPattern draws a chain, an allocation and a valid pattern of it, with
// times and sizes that are small integers, 0 included: operations anywhere in
// the period, each as late a mini-batch as it can be or some earlier one.
func drawPattern(t *rapid.T) (*chain.Chain, *plan.Plan) {
	small := func(label string) float64 { return float64(rapid.IntRange(0, 3).Draw(t, label)) }
	n := rapid.IntRange(1, 4).Draw(t, "layers")
	c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: small("a_0"), Gradient: small("delta_0")}}
	for range n {
		a := small("a")
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: small("uF"), BackwardTime: small("uB"), Activation: a, Saved: a, Gradient: small("delta"), Weight: small("W"),
		})
	}
	processors := rapid.IntRange(1, 3).Draw(t, "processors")
	p := plan.New(plan.Pipeline, "drawn", c, platform.Platform{
		Processors: processors, Bandwidth: rapid.SampledFrom([]float64{1, 0.5}).Draw(t, "beta"),
		WeightCopies: rapid.IntRange(0, 3).Draw(t, "C"),
	})
	p.K = rapid.IntRange(0, 3).Draw(t, "k")
	p.MemoryModel = rapid.SampledFrom([]string{"", plan.StageModel, plan.TaskModel}).Draw(t, "model")
	owner := make([]int, n+1)
	for l := 1; l <= n; l++ {
		owner[l] = rapid.IntRange(0, processors-1).Draw(t, "owner")
		if s := len(p.Allocation) - 1; s >= 0 && p.Allocation[s].Processor == owner[l] && rapid.Bool().Draw(t, "same stage") {
			p.Allocation[s].To = l
			continue
		}
		p.Allocation = append(p.Allocation, plan.Stage{Processor: owner[l], From: l, To: l})
	}

	// The way of a mini-batch, and what each resource has to do.
	type leg struct {
		op       plan.Op
		duration float64
	}
	var route []leg
	send := func(kind string, l int, size float64) {
		if i, j := min(owner[l], owner[l+1]), max(owner[l], owner[l+1]); i != j {
			route = append(route, leg{plan.Op{Op: kind, Layer: l, Resource: fmt.Sprintf("link%d-%d", i, j)}, size / p.Platform.Bandwidth})
		}
	}
	for l := 1; l <= n; l++ {
		route = append(route, leg{plan.Op{Op: "F", Layer: l, Resource: fmt.Sprintf("gpu%d", owner[l])}, c.Layers[l-1].ForwardTime})
		if l < n {
			send("CF", l, c.Layers[l-1].Activation)
		}
	}
	for l := n; l >= 1; l-- {
		route = append(route, leg{plan.Op{Op: "B", Layer: l, Resource: fmt.Sprintf("gpu%d", owner[l])}, c.Layers[l-1].BackwardTime})
		if l > 1 {
			send("CB", l-1, c.Layers[l-2].Gradient)
		}
	}
	k := max(1, p.K)
	var resources []string
	load := map[string]float64{}
	period := 1.0
	for _, x := range route {
		if !slices.Contains(resources, x.op.Resource) {
			resources = append(resources, x.op.Resource)
		}
		load[x.op.Resource] += float64(k) * x.duration
		period = max(period, load[x.op.Resource])
	}
	period += small("slack")
	p.Period = &period

	// Where each is in the period.
	starts := make([][]float64, len(route))
	for _, r := range resources {
		var work []int
		for i := range route {
			if route[i].op.Resource == r {
				work = append(work, slices.Repeat([]int{i}, k)...)
			}
		}
		work = rapid.Permutation(work).Draw(t, "order")
		at := float64(rapid.IntRange(0, int(period)-1).Draw(t, "rotation"))
		idle := period - load[r]
		for _, i := range work {
			gap := float64(rapid.IntRange(0, int(idle)).Draw(t, "gap"))
			idle -= gap
			at += gap
			s := at
			for s >= period {
				s -= period
			}
			starts[i] = append(starts[i], s)
			at += route[i].duration
		}
	}

	// Which mini-batch, from B_1 back: mini-batch m is in the instance m + ahead
	// of each operation, counted in time.
	next := make([]float64, k) // when mini-batch m must have arrived
	for i := len(route) - 1; i >= 0; i-- {
		slices.Sort(starts[i])
		x := route[i]
		at := func(instance int) float64 {
			period, rest := floorDiv(instance, k)
			return float64(period)**p.Period + starts[i][rest]
		}
		ahead := 0
		if i < len(route)-1 {
			for ahead = 20 * k; slices.ContainsFunc(seq(k), func(m int) bool { return at(m+ahead)+x.duration > next[m] }); ahead-- {
			}
			if rapid.IntRange(0, 3).Draw(t, "earlier") == 0 {
				ahead -= rapid.IntRange(1, 2*k).Draw(t, "by")
			}
		}
		for m := range k {
			next[m] = at(m + ahead)
			turn, rest := floorDiv(m+ahead, k)
			o := x.op
			o.Start, o.Shift = starts[i][rest], m-turn*k
			if i < len(route)-1 && rapid.IntRange(0, 3).Draw(t, "moved") == 0 {
				by := rapid.IntRange(-2, 2).Draw(t, "periods")
				o.Start, o.Shift = o.Start+float64(by)*period, o.Shift+by*k
			}
			o.End = o.Start + x.duration
			p.Ops = append(p.Ops, o)
		}
	}
	p.Ops = rapid.Permutation(p.Ops).Draw(t, "listed")
	firstBackward(p)
	p.Platform.Memory = float64(rapid.IntRange(0, 40).Draw(t, "memory"))
	return c, p
}

// firstBackward moves shifts so that the B_1 that starts first has shift 0.
func firstBackward(p *plan.Plan) {
	first := -1
	for k, o := range p.Ops {
		if o.Op == "B" && o.Layer == 1 && (first < 0 || o.Start < p.Ops[first].Start) {
			first = k
		}
	}
	by := p.Ops[first].Shift
	for k := range p.Ops {
		p.Ops[k].Shift -= by
	}
}

func floorDiv(a, b int) (quotient, rest int) {
	quotient, rest = a/b, a%b
	if rest < 0 {
		quotient, rest = quotient-1, rest+b
	}
	return quotient, rest
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// A pattern that is valid by construction is, apart from its memory, and does
// what its execution does.
func TestPatternsAgainstExecution(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPattern(t)
		r := mustVerify(t, c, p)
		for _, v := range r.Violations {
			if v.Rule != plan.RuleMemory {
				t.Fatalf("%+v in %+v", v, p)
			}
		}
		compareUnrolled(t, c, p, r)
	})
}

// A pattern with a change is valid if its execution is.
func TestPatternMutants(t *testing.T) {
	valid := 0
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPattern(t)
		p.Platform.Memory = 1000
		for range rapid.IntRange(1, 2).Draw(t, "changes") {
			k := rapid.IntRange(0, len(p.Ops)-1).Draw(t, "op")
			o := &p.Ops[k]
			by := rapid.SampledFrom([]float64{-1, -0.5, 0.5, 1}).Draw(t, "by")
			switch rapid.IntRange(0, 8).Draw(t, "change") {
			case 0, 1, 2:
				o.Start, o.End = o.Start+by, o.End+by
			case 3:
				o.Shift += rapid.IntRange(-2, 2).Draw(t, "shift")
			case 4:
				o.End = o.Start + max(0, o.End-o.Start+by)
			case 5:
				o.Resource = p.Ops[rapid.IntRange(0, len(p.Ops)-1).Draw(t, "from")].Resource
			case 6:
				p.Ops = append(p.Ops, *o)
			case 7:
				p.Ops = slices.Delete(p.Ops, k, k+1)
			case 8:
				*p.Period = max(0.5, *p.Period+by)
			}
			if len(p.Ops) == 0 {
				return
			}
		}
		r, err := pipeline.Verify(c, p)
		if err != nil {
			return // k is more than the operations that are left
		}
		u, err := pipeline.Unroll(c, p, 0)
		if r.Valid() != (err == nil && len(u.Broken) == 0) {
			t.Fatalf("verified: %+v\nunrolled: %v %+v\n%+v", r.Violations, err, u, p)
		}
		if r.Valid() {
			valid++
			compareUnrolled(t, c, p, r)
		}
	})
	if valid == 0 {
		t.Error("no mutant is valid")
	}
}

// Scaled times and sizes, moved periods and rotated patterns change nothing.
func TestPatternMetamorphic(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPattern(t)
		want := mustVerify(t, c, p)
		const times, sizes = 1e-3, 1 << 20
		for i := range c.Layers {
			l := &c.Layers[i]
			l.ForwardTime, l.BackwardTime = l.ForwardTime*times, l.BackwardTime*times
			l.Activation, l.Saved, l.Gradient, l.Weight = l.Activation*sizes, l.Saved*sizes, l.Gradient*sizes, l.Weight*sizes
		}
		c.Input.Activation, c.Input.Gradient = c.Input.Activation*sizes, c.Input.Gradient*sizes
		p.Platform.Memory, p.Platform.Bandwidth = p.Platform.Memory*sizes, p.Platform.Bandwidth*sizes/times
		*p.Period *= times
		by := rapid.Float64Range(-1, 1).Draw(t, "rotation")
		for k := range p.Ops {
			o := &p.Ops[k]
			o.Start, o.End = o.Start*times+by, o.End*times+by
		}
		got := mustVerify(t, c, p)
		if got.Valid() != want.Valid() || !slices.Equal(got.Pattern.NCA, want.Pattern.NCA) {
			t.Fatalf("%+v\n%+v", want, got)
		}
		for i := range got.Pattern.TaskMemory {
			if got.Pattern.TaskMemory[i] != sizes*want.Pattern.TaskMemory[i] || got.Pattern.StageMemory[i] != sizes*want.Pattern.StageMemory[i] {
				t.Fatalf("%+v\n%+v", want.Pattern, got.Pattern)
			}
		}
	})
}

// Nothing panics, whatever the plan.
func TestPatternGarbage(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPattern(t)
		whole := rapid.OneOf(rapid.Int(), rapid.IntRange(-3, 5))
		number := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-5, 5))
		for range 3 {
			o := &p.Ops[rapid.IntRange(0, len(p.Ops)-1).Draw(t, "op")]
			switch rapid.IntRange(0, 8).Draw(t, "change") {
			case 0:
				o.Shift = whole.Draw(t, "shift")
			case 1:
				o.Start = number.Draw(t, "start")
			case 2:
				o.End = number.Draw(t, "end")
			case 3:
				o.Layer = whole.Draw(t, "layer")
			case 4:
				p.Allocation[0] = plan.Stage{Processor: whole.Draw(t, "processor"), From: whole.Draw(t, "from"), To: whole.Draw(t, "to")}
			case 5:
				p.K = whole.Draw(t, "k")
			case 6:
				*p.Period = number.Draw(t, "period")
			case 7:
				p.Platform.Bandwidth = number.Draw(t, "beta")
			case 8:
				o.Resource = rapid.SampledFrom([]string{"", "gpu", "gpu7", "link0-0", "gpu01"}).Draw(t, "resource")
			}
		}
		r, err := pipeline.Verify(c, p)
		u, executed := pipeline.Unroll(c, p, 0)
		if err == nil && r.Valid() && (executed != nil || len(u.Broken) > 0) {
			t.Fatalf("valid, but %v %+v", executed, u)
		}
	})
}

func BenchmarkVerifyPattern(b *testing.B) {
	const n = 300
	c := &chain.Chain{Name: "long"}
	p := plan.New(plan.Pipeline, "by hand", c, platform.Platform{Memory: 1e9, Processors: 8, Bandwidth: 1, WeightCopies: 3})
	period := 2.0 * n
	p.Period = &period
	for i := range 8 {
		p.Allocation = append(p.Allocation, plan.Stage{Processor: i, From: i*n/8 + 1, To: (i + 1) * n / 8})
	}
	at := 0.0
	for l := range 2 * n {
		kind, layer := "F", l+1
		if l >= n {
			kind, layer = "B", 2*n-l
		} else {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 0, Saved: 0, Weight: 1})
		}
		i := 0
		for p.Allocation[i].To < layer {
			i++
		}
		p.Ops = append(p.Ops, patternOp(kind, layer, fmt.Sprintf("gpu%d", i), at, at+1, 0))
		at++
		if kind == "F" && layer == p.Allocation[i].To && i < 7 {
			p.Ops = append(p.Ops, patternOp("CF", layer, fmt.Sprintf("link%d-%d", i, i+1), at, at, 0))
		}
		if kind == "B" && layer == p.Allocation[i].From && i > 0 {
			p.Ops = append(p.Ops, patternOp("CB", layer-1, fmt.Sprintf("link%d-%d", i-1, i), at, at, 0))
		}
	}
	if r, err := pipeline.Verify(c, p); err != nil || !r.Valid() {
		b.Fatal(err, r)
	}
	for b.Loop() {
		if _, err := pipeline.Verify(c, p); err != nil {
			b.Fatal(err)
		}
	}
}
