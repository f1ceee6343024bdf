package weightoffload_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/testfile"
	"workbench/model/verify"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

// drawNetwork draws a chain of up to four layers with small integers, and
// positive durations if timed.
func drawNetwork(t *rapid.T, timed bool) *chain.Chain {
	least := 0
	if timed {
		least = 1
	}
	number := func(from int) float64 { return float64(rapid.IntRange(from, 3).Draw(t, "n")) }
	layers := make([][4]float64, rapid.IntRange(1, 4).Draw(t, "layers"))
	for i := range layers {
		layers[i] = [4]float64{number(least), number(least), number(0), number(0)}
	}
	return plantest.Network(number(0), layers...)
}

// drawSerial draws a plan in which transfers and computations never overlap:
// for each layer it draws whether its weight is away between its backward and
// its forward, and between its forward and its backward.
func drawSerial(t *rapid.T, c *chain.Chain) *plan.Plan {
	n := c.Len()
	var ops []plan.Op
	now := 0.0
	run := func(kind string, i int, d float64) {
		ops = append(ops, plantest.Op(kind, i+1, now, now+d))
		now += d
	}
	type choice struct{ low, high bool } // away after the backward, after the forward
	away := make([]choice, n)
	for i := range away {
		if c.Layers[i].Weight > 0 {
			away[i] = choice{rapid.Bool().Draw(t, "low"), rapid.Bool().Draw(t, "high")}
		}
	}
	for i := n - 1; i >= 0; i-- {
		l := &c.Layers[i]
		if away[i].high {
			run("P", i, l.Weight)
		}
		run("B", i, l.BackwardTime)
		if away[i].low {
			run("O", i, l.Weight)
			run("D", i, 0)
		}
	}
	for i := range n {
		l := &c.Layers[i]
		if away[i].low {
			run("P", i, l.Weight)
		}
		run("F", i, l.ForwardTime)
		if away[i].high {
			if !away[i].low {
				run("O", i, l.Weight)
			}
			run("D", i, 0)
		}
	}
	period := now + float64(rapid.IntRange(0, 2).Draw(t, "idle"))
	return plantest.Cyclic(1000, max(1, period), ops...)
}

// A serial plan breaks no rule, its peak is exactly the memory it needs, and
// needs at least what each computation does.
func TestSerialPlans(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c := drawNetwork(t, false)
		p := drawSerial(t, c)
		r := mustVerify(t, c, p)
		if !r.Valid() {
			t.Fatalf("%+v\n%+v", r.Violations, p.Ops)
		}
		act := c.Input.Activation
		for i, l := range c.Layers {
			act += l.Activation
			if r.PeakMemory < act+2*l.Weight {
				t.Fatalf("peak %g, B_%d needs %g", r.PeakMemory, i+1, act+2*l.Weight)
			}
		}
		if r.PeakMemory == 0 {
			return
		}
		p.Platform.Memory = r.PeakMemory
		if r := mustVerify(t, c, p); !r.Valid() {
			t.Fatalf("with its peak as memory: %+v", r.Violations)
		}
		p.Platform.Memory = math.Nextafter(r.PeakMemory, 0)
		if r := mustVerify(t, c, p); !slices.ContainsFunc(r.Violations, func(v plan.Violation) bool { return v.Rule == plan.RuleMemory }) {
			t.Fatalf("with less than its peak as memory: %+v", r.Violations)
		}
	})
}

// drawMutation changes one thing of p by an integer amount.
func drawMutation(t *rapid.T, c *chain.Chain, p *plan.Plan) {
	k := rapid.IntRange(0, len(p.Ops)-1).Draw(t, "op")
	switch rapid.IntRange(0, 9).Draw(t, "mutation") {
	case 0:
		period := max(1, *p.Period+float64(rapid.SampledFrom([]int{-1, 1}).Draw(t, "period")))
		p.Period = &period
	case 1:
		p.Platform.Memory = float64(rapid.IntRange(1, 20).Draw(t, "memory"))
	case 2:
		p.Ops = slices.Delete(p.Ops, k, k+1)
	case 3:
		kind := rapid.SampledFrom([]string{"F", "B", "P", "O", "D"}).Draw(t, "kind")
		i := rapid.IntRange(1, c.Len()).Draw(t, "layer")
		start := float64(rapid.IntRange(0, int(*p.Period)-1).Draw(t, "start"))
		l := &c.Layers[i-1]
		o := plantest.Op(kind, i, start, start+map[string]float64{"F": l.ForwardTime, "B": l.BackwardTime, "P": l.Weight, "O": l.Weight}[kind])
		if kind != "F" && kind != "B" {
			o.Tensor = plan.TensorW
		}
		p.Ops = append(p.Ops, o)
	default: // most often
		by := float64(rapid.SampledFrom([]int{-3, -2, -1, 1, 2, 3}).Draw(t, "by"))
		p.Ops[k].Start += by
		p.Ops[k].End += by
	}
}

// On integer times and positive durations the verifier agrees with a naive
// simulation, on valid plans, on broken ones and on those that a walk over
// valid ones reaches.
func TestAgainstSimulation(t *testing.T) {
	valid, invalid := 0, 0
	property := func(t *rapid.T) {
		c := drawNetwork(t, true)
		p := drawSerial(t, c)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			q := *p
			q.Ops = slices.Clone(p.Ops)
			drawMutation(t, c, &q)
			why := simulate(c, &q)
			r := mustVerify(t, c, &q)
			if r.Valid() != (why == "") {
				t.Fatalf("simulation: %q, verifier: %+v\nchain %+v\nperiod %g memory %g\n%+v", why, r.Violations, c, *q.Period, q.Platform.Memory,
					q.Ops)
			}
			if r.Valid() {
				valid++
			} else {
				invalid++
			}
			if r.Valid() && len(q.Ops) > 0 || rapid.IntRange(0, 19).Draw(t, "keep") == 0 && len(q.Ops) > 0 {
				p = &q
			}
		}
	}
	// With -short rapid draws a fifth of the cases.
	for round := 0; round < 50 && (valid < 100 || invalid < 100); round++ {
		testfile.Property(t, property)
	}
	if valid < 100 || invalid < 100 {
		t.Errorf("%d valid and %d invalid plans", valid, invalid)
	}
	t.Logf("%d valid and %d invalid plans", valid, invalid)
}

// simulate replays p unit by unit and returns the first rule that it breaks,
// "" for none. All times must be integers and durations of computations
// positive. A first period settles the state that the second starts from.
func simulate(c *chain.Chain, p *plan.Plan) string {
	period, n := int(*p.Period), c.Len()
	starts := make([][]int, period) // operations by start
	ends := make([][]int, period)
	long := func(o *plan.Op) int { return int(o.End - o.Start) }
	at := func(t float64) int { return ((int(t) % period) + period) % period }
	for k := range p.Ops {
		o := &p.Ops[k]
		if long(o) > period {
			return "longer than the period"
		}
		starts[at(o.Start)] = append(starts[at(o.Start)], k)
		ends[at(o.End)] = append(ends[at(o.End)], k)
	}
	var (
		here    = make([]bool, n)
		coming  = make([]int, n)
		host    = make([]bool, n)
		leaving = make([]int, n) // uploads running
		running = make(map[int]bool)
		next    = 0
		last    = -1 // layer of the last computation started
	)
	for i := range here {
		here[i] = true
	}
	kind := func(kind string) (ops []int) {
		for k := range running {
			if p.Ops[k].Op == kind {
				ops = append(ops, k)
			}
		}
		return ops
	}
	busy := func(i int, kinds ...string) bool {
		for k := range running {
			if p.Ops[k].Layer == i+1 && slices.Contains(kinds, p.Ops[k].Op) {
				return true
			}
		}
		return false
	}
	expected := func(j int) (string, int) {
		if j < n {
			return "B", n - 1 - j
		}
		return "F", j - n
	}
	started := make([]int, 2*n)
	for t := range 3 * period {
		check := t >= 2*period
		var wrong string
		blame := func(s string) {
			if check && wrong == "" {
				wrong = s
			}
		}
		if t == 2*period { // by now every operation started twice
			clear(started)
		}
		now := t % period
		weightless := func(i int) bool { return c.Layers[i].Weight == 0 }
		for _, k := range ends[now] {
			o := &p.Ops[k]
			i := o.Layer - 1
			if !running[k] { // it started before time 0, or takes no time
				continue
			}
			delete(running, k)
			switch o.Op {
			case "P":
				here[i] = true
				coming[i]--
			case "O":
				leaving[i]--
				host[i] = true
			}
		}
		for _, k := range starts[now] {
			o := &p.Ops[k]
			i := o.Layer - 1
			if o.Op == "D" && !weightless(i) {
				if !here[i] || !host[i] || busy(i, "F", "B", "O") {
					blame("discard")
				}
				here[i] = false
			}
		}
		for _, k := range starts[now] {
			o := &p.Ops[k]
			i := o.Layer - 1
			if o.Op != "F" && o.Op != "B" {
				continue
			}
			if len(kind("F"))+len(kind("B")) > 0 {
				blame("two computations")
			}
			want, layer := expected(next)
			if o.Op == want && layer == i {
				next = (next + 1) % (2 * n)
			} else {
				blame("order")
				for j := range 2 * n { // go on from here
					if w, l := expected(j); w == o.Op && l == i {
						next = (j + 1) % (2 * n)
					}
				}
			}
			if !here[i] && !weightless(i) {
				blame("weight")
			}
			if o.Op == "B" {
				host[i] = false
				if leaving[i] > 0 {
					blame("upload in backward")
				}
			}
			last = i
			j := n + i
			if o.Op == "B" {
				j = n - 1 - i
			}
			started[j]++
			running[k] = true
		}
		for _, k := range starts[now] {
			o := &p.Ops[k]
			i := o.Layer - 1
			if weightless(i) {
				continue
			}
			switch o.Op {
			case "O":
				if len(kind("O")) > 0 {
					blame("two uploads")
				}
				if !here[i] || busy(i, "B") {
					blame("upload")
				}
				leaving[i]++
				running[k] = true
			case "P":
				if len(kind("P")) > 0 {
					blame("two prefetches")
				}
				if here[i] || coming[i] > 0 {
					blame("prefetch of a weight that is there")
				}
				coming[i]++
				running[k] = true
			}
		}
		if last >= 0 {
			use := c.Input.Activation
			for i := range n {
				if i <= last {
					use += c.Layers[i].Activation
				}
				if here[i] || coming[i] > 0 {
					use += c.Layers[i].Weight
				}
			}
			for _, k := range kind("B") {
				use += c.Layers[p.Ops[k].Layer-1].Weight
			}
			if use > p.Platform.Memory {
				blame("memory")
			}
		}
		if wrong != "" {
			return wrong
		}
	}
	for _, s := range started {
		if s != 1 {
			return "not once"
		}
	}
	return ""
}

// The verdict does not depend on where time 0 is, nor on the units of time and
// bytes; more memory breaks nothing.
func TestMetamorphic(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c := drawNetwork(t, false)
		p := drawSerial(t, c)
		for range rapid.IntRange(0, 4).Draw(t, "steps") {
			if len(p.Ops) > 0 {
				drawMutation(t, c, p)
			}
		}
		before := mustVerify(t, c, p)

		same := func(what string, r *plan.Report, times, bytes float64) {
			t.Helper()
			if r.PeakMemory != bytes*before.PeakMemory {
				t.Fatalf("%s: peak %g, before %g", what, r.PeakMemory, before.PeakMemory)
			}
			rules := func(r *plan.Report) []string {
				var s []string
				for _, v := range r.Violations {
					s = append(s, v.Rule)
				}
				slices.Sort(s)
				return slices.Compact(s)
			}
			if a, b := rules(before), rules(r); !slices.Equal(a, b) {
				t.Fatalf("%s: %q, before %q\n%+v %g\n%+v", what, b, a, c, *p.Period, p.Ops)
			}
		}

		q := *p
		q.Ops = slices.Clone(p.Ops)
		rotate(&q, rapid.Float64Range(-30, 30).Draw(t, "rotation"))
		same("rotated", mustVerify(t, c, &q), 1, 1)

		// A unit of time that is no power of two rounds every time.
		seconds := rapid.SampledFrom([]float64{1e-3, 1.0 / 3, 7, 86400}).Draw(t, "seconds")
		bytes := rapid.SampledFrom([]float64{1, 3, 1 << 30}).Draw(t, "bytes")
		q = *p
		q.Ops = slices.Clone(p.Ops)
		for k := range q.Ops {
			q.Ops[k].Start *= seconds
			q.Ops[k].End *= seconds
		}
		period := *p.Period * seconds
		q.Period = &period
		q.Platform.Memory *= bytes
		q.Platform.Bandwidth *= bytes / seconds
		d := *c
		d.Input.Activation *= bytes
		d.Layers = slices.Clone(c.Layers)
		for i := range d.Layers {
			l := &d.Layers[i]
			l.ForwardTime *= seconds
			l.BackwardTime *= seconds
			l.Activation *= bytes
			l.Weight *= bytes
		}
		same("in other units", mustVerify(t, &d, &q), seconds, bytes)

		q = *p
		q.Platform.Memory *= 2
		if r := mustVerify(t, c, &q); before.Valid() && !r.Valid() {
			t.Fatalf("with more memory: %+v", r.Violations)
		}
	})
}

// FuzzVerify: whatever the numbers, the verifier and what draws from it return,
// and say something about a period's time.
func FuzzVerify(f *testing.F) { f.Fuzz(rapid.MakeFuzz(verifyAnything)) }

func TestVerifyAnything(t *testing.T) { testfile.Property(t, verifyAnything) }

func verifyAnything(t *rapid.T) {
	size := rapid.OneOf(rapid.Float64Range(0, math.MaxFloat64), rapid.Float64Range(0, 10), rapid.SampledFrom([]float64{0, 1, 1e-320, 1e300}))
	time := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-20, 20),
		rapid.SampledFrom([]float64{0, 1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 1e-320}))
	layers := make([][4]float64, rapid.IntRange(0, 3).Draw(t, "layers"))
	for i := range layers {
		layers[i] = [4]float64{size.Draw(t, "forward"), size.Draw(t, "backward"), size.Draw(t, "activation"), size.Draw(t, "weight")}
	}
	c := plantest.Network(size.Draw(t, "input"), layers...)
	var ops []plan.Op
	for range rapid.IntRange(0, 20).Draw(t, "ops") {
		ops = append(ops, plantest.Op(rapid.SampledFrom([]string{"F", "B", "P", "O", "D", "", "X"}).Draw(t, "op"),
			rapid.IntRange(-1, 4).Draw(t, "layer"), time.Draw(t, "start"), time.Draw(t, "end")))
	}
	p := plantest.Cyclic(time.Draw(t, "memory"), time.Draw(t, "period"), ops...)
	p.Platform.Bandwidth = time.Draw(t, "bandwidth")

	r, err := verify.Replay(c, p)
	if (r == nil) == (err == nil) {
		t.Fatalf("report %v and error %v", r, err)
	}
	_, errProfile := verifyweightoffload.Profile(c, p)
	_, errResidencies := verifyweightoffload.Residencies(c, p)
	if (errProfile == nil) != (err == nil) || (errResidencies == nil) != (err == nil) {
		t.Fatalf("verify: %v, profile: %v, residencies: %v", err, errProfile, errResidencies)
	}
	if err != nil {
		return
	}
	for _, v := range r.Violations {
		if v.Rule == "" || v.Detail == "" || v.Op >= len(p.Ops) || !(v.Time >= 0 && v.Time < *p.Period) {
			t.Fatalf("violation %+v", v)
		}
	}
}

// One replay of a plan that moves every weight twice.
func BenchmarkVerify(b *testing.B) {
	for _, n := range []int{38, 128, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			layers := make([][4]float64, n)
			for i := range layers {
				layers[i] = [4]float64{1, 2, 1, 1}
			}
			c := plantest.Network(1, layers...)
			var ops []plan.Op
			now := 0.0
			for j := range 2 * n {
				kind, i, d := "B", n-j, 2.0
				if j >= n {
					kind, i, d = "F", j-n+1, 1
				}
				ops = append(ops, plantest.Op("P", i, now, now+1), plantest.Op(kind, i, now+1, now+1+d), plantest.Op("O", i, now+1+d, now+2+d),
					plantest.Op("D", i, now+2+d, now+2+d))
				now += 2 + d
			}
			p := plantest.Cyclic(1e9, now, ops...)
			if r := mustVerify(b, c, p); !r.Valid() {
				b.Fatal(r.Violations)
			}
			b.ReportAllocs()
			for b.Loop() {
				mustVerify(b, c, p)
			}
		})
	}
}
