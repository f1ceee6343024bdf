package pipeline

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	view "workbench/model/problem/pipeline"
	verifypipeline "workbench/model/verify/pipeline"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// fast is a bandwidth at which communications take next to no time.
const fast = 1e15

// onePerStage puts every layer on a processor of its own.
func onePerStage(n int) []plan.Stage {
	var s []plan.Stage
	for l := 1; l <= n; l++ {
		s = append(s, plan.Stage{Processor: l - 1, From: l, To: l})
	}
	return s
}

// leastNCA returns, for one layer a stage and no communications, the least NCA
// of each layer over all 1-periodic patterns of integer period T: over all
// places of the operations in the period. Each mini-batch then goes from one to
// the next as soon as possible, which is best for all layers at once.
func leastNCA(f, b []int, period int) []int {
	n := len(f)
	least := make([]int, n)
	for i := range least {
		least[i] = math.MaxInt
	}
	startF, startB := make([]int, n), make([]int, n)
	after := func(x, t int) int { // the first time ≥ t at place x
		return t + ((x-t)%period+period)%period
	}
	var place func(i int)
	place = func(i int) {
		if i == n {
			t := startF[0]
			abs := make([]int, n)
			for i := range n {
				t = after(startF[i], t)
				abs[i] = t
				t += f[i]
			}
			nca := make([]int, n)
			for i := n - 1; i >= 0; i-- {
				t = after(startB[i], t)
				nca[i] = (t-abs[i]-f[i])/period + 1
				t += b[i]
			}
			for i := range nca {
				least[i] = min(least[i], nca[i])
			}
			return
		}
		for startF[i] = range period {
			if i == 0 && startF[i] > 0 {
				break
			}
			for x := f[i]; x+b[i] <= period; x++ {
				startB[i] = startF[i] + x
				place(i + 1)
			}
		}
	}
	place(0)
	return least
}

// Theorem 15: with one layer a stage, 1F1B*(T) has the least NCA of every layer.
func TestTheorem15(t *testing.T) {
	t.Parallel()
	cases := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 15))
		n := 1 + r.IntN(3)
		c := &chain.Chain{Name: "theorem15"}
		f, b, longest, sum := make([]int, n), make([]int, n), 0, 0
		for i := range n {
			f[i], b[i] = 1+r.IntN(3), 1+r.IntN(3)
			longest, sum = max(longest, f[i]+b[i]), sum+f[i]+b[i]
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: float64(f[i]), BackwardTime: float64(b[i])})
		}
		m := platform.Platform{Memory: 1, Bandwidth: 1, Processors: n}
		for period := longest; period <= min(sum, 9); period++ {
			p, err := OneFOneBStarAt(c, m, onePerStage(n), float64(period), Options{})
			if err != nil {
				t.Fatal(err)
			}
			rep, err := verifypipeline.Verify(c, p)
			if err != nil || !rep.Valid() {
				t.Fatal(err, rep.Violations)
			}
			cases++
			for i, want := range leastNCA(f, b, period) {
				if rep.Pattern.NCA[i] != want {
					t.Fatalf("f %v, b %v, T = %d: NCA of layer %d is %d, least %d", f, b, period, i+1, rep.Pattern.NCA[i], want)
				}
			}
		}
	}
	if cases < 100 {
		t.Errorf("only %d cases", cases)
	}
}

// Theorem 16: the family in which k-periodic patterns of period 2(1+1/k) fit
// and no j-periodic one with j < k is as good. Theorem 16 knows no buffers: each
// stage here has 4 bytes more for them, the first and the last have 2 more of
// weights instead of a second cut.
func TestTheorem16(t *testing.T) {
	t.Parallel()
	for k := 1; k <= 5; k++ {
		c := &chain.Chain{Name: "theorem16", Input: chain.Input{Activation: 1, Gradient: 1}}
		for l := 1; l <= k+1; l++ {
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1,
				Weight: float64(max(1, l-1)),
			})
		}
		c.Layers[0].Weight += 2
		c.Layers[k].Weight += 2
		m := platform.Platform{Memory: float64(k + 1 + 4), Bandwidth: fast, Processors: k + 1, WeightCopies: 1}
		o := Options{Model: plan.StageModel}
		p, err := KPeriodic(c, m, o)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := verified(t, c, p), 2*(1+1/float64(k)); math.Abs(got-want) > 1e-9 || p.K != k {
			t.Errorf("k = %d: %d-periodic with period %v, want %v", k, p.K, got, want)
		}
		for j := 1; j < k; j++ {
			p, err := KPeriodicOn(c, m, onePerStage(k+1), j, o)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := verified(t, c, p), 2*(1+1/float64(j)); math.Abs(got-want) > 1e-9 {
				t.Errorf("k = %d: j = %d has period %v, want %v", k, j, got, want)
			}
		}
	}
}

// Theorem 17: the chain C_k, on which contiguous allocations take 2 - 1/k times
// the best period, which is k; k ≥ 2 (for k = 1 there are -2 layers of cost ε).
func TestTheorem17(t *testing.T) {
	t.Parallel()
	for k := 2; k <= 4; k++ {
		eps := 1 / float64(2*k+1)
		c := &chain.Chain{Name: "theorem17"}
		var special, whole, less []int // layers of cost ε; of k; of k-1
		one := 0
		layer := func(u float64) int {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: u / 2, BackwardTime: u / 2})
			return len(c.Layers)
		}
		for range k {
			whole = append(whole, layer(float64(k)))
			special = append(special, layer(eps))
			less = append(less, layer(float64(k-1)))
			special = append(special, layer(eps))
		}
		whole = append(whole, layer(float64(k)))
		for range (k-2)*(2*k+1) + 1 {
			special = append(special, layer(eps))
		}
		one = layer(1)
		owner := make([]int, len(c.Layers)+1)
		for i, l := range whole {
			owner[l] = i
		}
		for i, l := range less {
			owner[l] = k + 1 + i
		}
		owner[one] = 2 * k
		for i, l := range special {
			owner[l] = k + 1 + i/(2*k+1)
		}
		var allocation []plan.Stage
		for l := 1; l < len(owner); l++ {
			allocation = append(allocation, plan.Stage{Processor: owner[l], From: l, To: l})
		}
		m := platform.Platform{Memory: 1, Bandwidth: 1, Processors: 2*k + 1}
		p, err := Schedule(c, m, view.Merged(allocation), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, p); math.Abs(got-float64(k)) > 1e-9 {
			t.Errorf("k = %d: period %v", k, got)
		}
		p, err = OneFOneBStar(c, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, p); got < float64(2*k-1)-1e-9 {
			t.Errorf("k = %d: contiguous period %v", k, got)
		}
	}
}

// Lemma 10: three layers that only fit when the first and the last share a
// processor.
func TestLemma10(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Name: "lemma10"}
	for _, w := range []float64{1, 2, 1} {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Weight: w})
	}
	m := platform.Platform{Memory: 2, Bandwidth: 1, Processors: 2, WeightCopies: 1}
	for _, model := range models {
		o := Options{Model: model}
		if _, err := OneFOneBStar(c, m, o); !errors.Is(err, plan.ErrNoPlan) {
			t.Errorf("1f1b-star: %v", err)
		}
		p, err := MadPipe(c, m, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, p); got != 4 {
			t.Errorf("madpipe: period %v", got)
		}
	}
}

// Theorem 18: a contiguous allocation takes k-1 times as long as another.
func TestTheorem18(t *testing.T) {
	t.Parallel()
	for k := 3; k <= 5; k++ {
		c := &chain.Chain{Name: "theorem18"}
		memory := float64(k)
		layer := func(u, w float64) {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: u / 2, BackwardTime: u / 2, Weight: w})
		}
		for range k {
			layer(1, memory-1)
		}
		layer(float64(k), memory)
		for range k {
			layer(float64(k-1), 1)
		}
		m := platform.Platform{Memory: memory, Bandwidth: 1, Processors: k + 2, WeightCopies: 1}
		allocation := onePerStage(k + 1)
		for l := range k {
			allocation = append(allocation, plan.Stage{Processor: l, From: k + 2 + l, To: k + 2 + l})
		}
		p, err := Schedule(c, m, allocation, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, p); got != float64(k) {
			t.Errorf("k = %d: period %v", k, got)
		}
		p, err = OneFOneBStar(c, m, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := verified(t, c, p); got != float64(k*(k-1)) {
			t.Errorf("k = %d: contiguous period %v", k, got)
		}
	}
}

// Inside stages 1F1B* is not optimal: its period is 6 where the layers of a
// stage apart allow 4.
func TestLayersInsideStages(t *testing.T) {
	t.Parallel()
	c := &chain.Chain{Name: "inside", Input: chain.Input{Activation: 1}}
	for range 3 {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1})
	}
	allocation := []plan.Stage{{Processor: 0, From: 1, To: 2}, {Processor: 1, From: 3, To: 3}}
	// Buffers take 1 on each side; activations have 3.
	m := platform.Platform{Memory: 4, Bandwidth: fast, Processors: 2}
	o := Options{Model: plan.StageModel}
	p, err := OneFOneBStarOn(c, m, allocation, o)
	if err != nil {
		t.Fatal(err)
	}
	if got := verified(t, c, p); math.Abs(got-6) > 1e-9 {
		t.Errorf("1f1b-star: period %v", got)
	}
	if p, err = Schedule(c, m, allocation, o); err != nil {
		t.Fatal(err)
	}
	if got := verified(t, c, p); math.Abs(got-4) > 1e-9 {
		t.Errorf("schedule: period %v", got)
	}
}
