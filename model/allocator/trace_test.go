package allocator

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	optimumactivationoffload "workbench/model/exhaustive/activationoffload"
	optimumjoin "workbench/model/exhaustive/join"
	optimumpipeline "workbench/model/exhaustive/pipeline"
	optimumremat "workbench/model/exhaustive/remat"
	optimumrematgraph "workbench/model/exhaustive/rematgraph"
	optimumrematoffload "workbench/model/exhaustive/rematoffload"
	optimumswap "workbench/model/exhaustive/swap"
	optimumweightoffload "workbench/model/exhaustive/weightoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// checkTrace holds that blocks are taken before they are given back, each once,
// in order of time.
func checkTrace(t *testing.T, trace *Trace) {
	t.Helper()
	state := make([]int8, len(trace.Blocks))
	last := math.Inf(-1)
	for _, e := range trace.Events {
		want := int8(0)
		if e.Free {
			want = 1
		}
		if state[e.Block] != want {
			t.Fatalf("%s is in state %d at %v", &trace.Blocks[e.Block], state[e.Block], e)
		}
		state[e.Block]++
		if e.Time < last-1e-6*math.Abs(last) {
			t.Fatalf("%v comes after time %g", e, last)
		}
		last = max(last, e.Time)
	}
	for b, s := range state {
		if s == 0 || trace.Blocks[b].Size < 1 {
			t.Fatalf("%s of %d bytes is never taken", &trace.Blocks[b], trace.Blocks[b].Size)
		}
	}
}

// checkPeak holds the trace of a plan against the verifier.
func checkPeak(t *testing.T, in plan.Instance, p *plan.Plan) {
	t.Helper()
	r, err := verify.Replay(in, p)
	if err != nil || !r.Valid() {
		t.Fatalf("%v %v", err, r)
	}
	traces, err := tracesOf(in, p, 1)
	if err != nil {
		t.Fatal(err)
	}
	peaks := []float64{r.PeakMemory}
	if r.Pattern != nil {
		peaks = r.Pattern.TaskMemory
	}
	if len(peaks) != len(traces) {
		t.Fatalf("%d traces for %d devices", len(traces), len(peaks))
	}
	for i, trace := range traces {
		checkTrace(t, trace)
		if got := float64(trace.Peak()); got != peaks[i] {
			t.Fatalf("%s device %d: the trace needs %g, the verifier says %g\n%+v", p.Problem, i, got, peaks[i], p.Ops)
		}
	}
}

// Whatever is planned, the trace needs what the verifier counts.
func TestTracesNeedWhatIsCounted(t *testing.T) {
	const limit = 1 << 16
	r := rand.New(rand.NewPCG(7, 11))
	tried := map[string]int{}
	check := func(in plan.Instance, p *plan.Plan, err error) {
		t.Helper()
		if err == nil && p != nil {
			p.Instance = plan.InstanceRef{}
			checkPeak(t, in, p)
			tried[p.Problem+" "+in.Kind()]++
		}
	}
	for range testfile.Cases(400) {
		c := random.Chain(r, 1+r.IntN(5))
		_, p, err := optimumremat.Search(c, float64(2+r.IntN(15)), limit)
		check(c, p, err)

		g := random.Graph(r, 1+r.IntN(4))
		_, p, err = optimumrematgraph.Search(g, float64(2+r.IntN(12)), limit)
		check(g, p, err)

		j := random.Join(r, 1+r.IntN(3), r.IntN(6))
		_, p, err = optimumjoin.Search(j, 2+r.IntN(9), limit)
		check(j, p, err)

		c, memory, bandwidth := random.Offload(r, 1+r.IntN(4))
		_, p, err = optimumactivationoffload.Search(c, memory, bandwidth, limit)
		check(c, p, err)
		c, memory, bandwidth = random.Offload(r, 1+r.IntN(3))
		_, p, err = optimumrematoffload.Search(c, memory, bandwidth, limit)
		check(c, p, err)

		s, memory, bandwidth := random.Swap(r, 4, 5)
		_, p, err = optimumswap.Search(s, memory, bandwidth, 1, limit)
		check(s, p, err)

		c = random.Chain(r, 1+r.IntN(4))
		for i := range c.Layers { // what takes no time holds memory for no time
			c.Layers[i].Weight = float64(r.IntN(4))
			c.Layers[i].ForwardTime++
			c.Layers[i].BackwardTime++
		}
		m := platform.Platform{Memory: float64(5 + r.IntN(40)), Bandwidth: 1, Processors: 1 + r.IntN(3), WeightCopies: r.IntN(3)}
		_, p, err = optimumpipeline.Search(c, m, plan.TaskModel, 1<<12)
		check(c, p, err)
	}
	for range 60 {
		c := random.Chain(r, 1+r.IntN(2))
		for i := range c.Layers {
			c.Layers[i].Weight = float64(r.IntN(3))
			c.Layers[i].ForwardTime++
			c.Layers[i].BackwardTime++
		}
		_, p, err := optimumweightoffload.Search(c, platform.Platform{Memory: float64(4 + r.IntN(10)), Bandwidth: 1}, 1<<18)
		check(c, p, err)
	}
	for problem, least := range map[string]int{
		"remat chain": 150, "remat graph": 150, "join join": 150, "activation-offload chain": 150,
		"remat-offload chain": 150, "pipeline chain": 150, "swap functions": 150, "weight-offload chain": 20,
	} {
		if tried[problem] < testfile.Cases(least) {
			t.Errorf("%s: %d plans tried, %d wanted", problem, tried[problem], least)
		}
	}
}

func twoLayers() *chain.Chain {
	c := &chain.Chain{Name: "two", Layers: make([]chain.Layer, 2), Unit: 1}
	c.Input.Activation = 15
	for i := range c.Layers {
		c.Layers[i] = chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 20, Saved: 30, Gradient: 0, ForwardOverhead: 40}
	}
	return c
}

func storeAll(memory float64) *plan.Plan {
	p := plan.New(plan.Remat, "test", twoLayers(), platform.Platform{Memory: 10 * memory})
	for k, o := range []plan.Op{{Op: plan.OpFAll, Layer: 1}, {Op: plan.OpFAll, Layer: 2}, {Op: plan.OpB, Layer: 2}, {Op: plan.OpB, Layer: 1}} {
		o.Start, o.End = float64(k), float64(k+1)
		p.Ops = append(p.Ops, o)
	}
	return p
}

func TestTraceByHand(t *testing.T) {
	traces, err := tracesOf(twoLayers(), storeAll(100), 1)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range traces[0].Events {
		sign := "+"
		if e.Free {
			sign = "-"
		}
		got = append(got, sign+traces[0].Blocks[e.Block].String())
	}
	want := "+a_0 +abar_1 +overhead of 1 -overhead of 1 +abar_2 +overhead of 2 -overhead of 2 -abar_2 -abar_1 -a_0"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("events\n%s, want\n%s", s, want)
	}
	if a := traces[0].Blocks[0].Size; a != 2 {
		t.Errorf("1.5 bytes are %d", a)
	}
}

func TestPlansThatAreRefused(t *testing.T) {
	if _, err := tracesOf(twoLayers(), storeAll(5), 1); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "memory") {
		t.Errorf("a plan over the limit: %v", err)
	}
	if _, err := tracesOf(twoLayers(), nil, 1); err == nil {
		t.Error("no plan, no error")
	}
	c := twoLayers()
	c.Layers[1].Saved = 1e18
	if _, err := tracesOf(c, storeAll(1e30), 1); err == nil || !strings.Contains(err.Error(), "all sizes together") {
		t.Errorf("a block too large: %v", err)
	}
}
