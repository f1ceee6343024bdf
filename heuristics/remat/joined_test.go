package remat

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	model "workbench/model/remat"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// drawLong draws a chain of up to so many layers in which everything that takes memory does.
func drawLong(t *rapid.T, most int) *chain.Chain {
	c := &chain.Chain{Name: "drawn", Layers: make([]chain.Layer, rapid.IntRange(2, most).Draw(t, "layers"))}
	size := func(name string) float64 { return float64(rapid.IntRange(0, 9).Draw(t, name)) }
	c.Input = chain.Input{Activation: size("a0"), Gradient: size("d0")}
	for l := range c.Layers {
		x := &c.Layers[l]
		x.Name = fmt.Sprint(l)
		x.ForwardTime, x.BackwardTime = size("uF"), size("uB")
		x.Activation, x.Gradient, x.ForwardOverhead, x.BackwardOverhead = size("a"), size("d"), size("oF"), size("oB")
		x.Saved = x.Activation + size("saved")
		x.CheckpointOverhead = x.ForwardOverhead + size("oC")
		x.Settle()
	}
	return c
}

// Plans of blocks are valid, take no more memory than the blocks say, and are as fast as
// theirs; in blocks of one layer they are as fast as the persistent optimum, and never faster.
func TestJoined(t *testing.T) {
	fit, slower := 0, 0
	testfile.Property(t, func(t *rapid.T) {
		c := drawLong(t, 20)
		low, high := Range(c)
		p := platform.Platform{Memory: low + float64(rapid.IntRange(0, 8).Draw(t, "part"))/8*(high-low)}
		best, none := Persistent(t.Context(), c, p)
		for _, blocks := range []int{0, 2, rapid.IntRange(2, 20).Draw(t, "blocks"), c.Len()} {
			x, err := Joined(t.Context(), c, p, blocks)
			if errors.As(err, new(*plan.Infeasible)) {
				t.Fatalf("%d blocks: %v in the least memory and above", blocks, err)
			}
			if err != nil && !errors.Is(err, plan.ErrNoPlan) || err == nil && none != nil {
				t.Fatalf("%d blocks: %v, and of layers %v", blocks, err, none)
			}
			if blocks == c.Len() && (err == nil) != (none == nil) {
				t.Fatalf("a block a layer: %v, and of layers %v", err, none)
			}
			if err != nil {
				continue
			}
			fit++
			report, err := verify.On(c, x)
			if err != nil || !report.Valid() {
				t.Fatalf("%d blocks: %v, %v", blocks, err, report)
			}
			if x.Claims.Makespan < best.Claims.Makespan || blocks == c.Len() && x.Claims.Makespan != best.Claims.Makespan {
				t.Fatalf("%d blocks of %d layers: %g s, of layers %g s", blocks, c.Len(), x.Claims.Makespan, best.Claims.Makespan)
			}
			if x.Claims.Makespan > best.Claims.Makespan {
				slower++
			}
			v := model.Of(c)
			y, err := Persistent(t.Context(), joinedChain(v, c, blockEnds(v, blocks)), p)
			if err != nil || x.Claims.PeakMemory > y.Claims.PeakMemory || x.Claims.Makespan != y.Claims.Makespan {
				t.Fatalf("%d blocks: %g s in %g, as blocks %+v, %v", blocks, x.Claims.Makespan, x.Claims.PeakMemory, y.Claims, err)
			}
		}
	})
	if fit < testfile.Cases(100) || slower < testfile.Cases(20) {
		t.Errorf("%d plans, %d slower than those of layers", fit, slower)
	}
}

// 600 layers in 100 blocks compute less again than checkpoint_sequential's segments.
func TestJoinedOnALongChain(t *testing.T) {
	c := &chain.Chain{Name: "long", Layers: make([]chain.Layer, 600)}
	r := testfile.Random(t, 22, 1)
	once := 0.0
	for l := range c.Layers {
		x := &c.Layers[l]
		x.ForwardTime, x.BackwardTime = float64(1+r.IntN(100)), float64(1+r.IntN(200))
		x.Activation = float64(1 + r.IntN(1000))
		x.Gradient, x.Saved = x.Activation, x.Activation+float64(r.IntN(2000))
		once += x.ForwardTime + x.BackwardTime
	}
	high := storeAll(model.Of(c)).Peak
	for _, part := range []float64{0.1, 0.3, 0.6} {
		p := platform.Platform{Memory: part * high}
		x, err := Joined(t.Context(), c, p, 100)
		if err != nil {
			t.Fatal(err)
		}
		y, err := Periodic(t.Context(), c, p)
		if err != nil {
			t.Fatal(err)
		}
		if again := x.Claims.Makespan - once; again > 0.99*(y.Claims.Makespan-once) {
			t.Errorf("%g of the memory: %g s again, periodic %g s", part, again, y.Claims.Makespan-once)
		}
		t.Logf("%g of the memory: %g s again, periodic %g s", part, x.Claims.Makespan-once, y.Claims.Makespan-once)
	}
}
