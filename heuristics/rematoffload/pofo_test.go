package rematoffload

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// randomPlatform has memory between the least and all.
func randomPlatform(r *rand.Rand, c *chain.Chain) platform.Platform {
	least, _ := view.Least(c)
	_, high := view.Range(c)
	p := platform.Platform{Memory: least + float64(r.IntN(int(max(0, high-least))+1))}
	p.Bandwidth = []float64{0.5, 1, 2, 4}[r.IntN(4)]
	return p
}

func TestPOFO(t *testing.T) {
	r := testfile.Random(t, 1, 2)
	ctx := context.Background()
	found := 0
	for range 3000 {
		c := random.Chain(r, 1+r.IntN(8))
		p := randomPlatform(r, c)
		_, out, err := POFOClaim(ctx, c, p, 1+r.IntN(30))
		if errors.Is(err, plan.ErrNoPlan) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		found++
		verified(t, c, out)
	}
	if found < 1000 {
		t.Errorf("%d plans", found)
	}
}

// No state that is followed costs less in the end than the bound on what follows
// it says: the bound of each state on the way to an end is at most what is left.
func TestRestIsALowerBound(t *testing.T) {
	r := testfile.Random(t, 23, 24)
	ctx := context.Background()
	states, tight := 0, 0
	for range 1500 {
		c := random.Chain(r, 2+r.IntN(6))
		p := randomPlatform(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		slots := max(1, int(p.Memory))
		d, err := newTails(ctx, in, slots, 0, math.Inf(1), tableLimit)
		if err != nil {
			t.Fatal(err)
		}
		rests := in.rests()
		f := &forwards{in: in, d: d, only: both, atMost: math.Inf(1), rests: rests, side: slots + 2, slot: in.slot(slots)}
		ends, err := f.run(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range ends {
			s, x, z := in.N, e.x, e.state
			for {
				states++
				left, bound := e.cost-z.cost, rests[s].bound(z.kept, in.Input(s, x), z.out, z.back, in.Bandwidth)
				if bound > left*(1+1e-9) {
					t.Fatalf("layer %d, %+v: bound %g, %g follows, in %g at %g\n%+v", s, z, bound, left, p.Memory, p.Bandwidth, c)
				}
				if bound > (rests[s].forward+rests[s].backward)*(1+1e-9) {
					tight++
				}
				if z.from < 0 {
					break
				}
				s, x, z = int(z.source), z.fromX, f.list(int(z.source), z.fromX)[z.from]
			}
		}
	}
	if states < 10000 || tight < states/10 {
		t.Errorf("%d states, more than the computations proved for %d", states, tight)
	}
}

// With the least memory for which there is a plan the sequences of a limit between
// two slots are those that the upper one has and the lower one lacks: of ResNet-50
// POFO needs them for any plan.
func TestPOFOInTheLeastMemory(t *testing.T) {
	c, err := zoo.Load("zoo:resnet50")
	if err != nil {
		t.Fatal(err)
	}
	least, _ := view.Least(c)
	out, err := POFO(context.Background(), c, platform.Platform{Memory: least, Bandwidth: 12e9}, 60)
	if err != nil {
		t.Fatal(err)
	}
	verified(t, c, out)
}
