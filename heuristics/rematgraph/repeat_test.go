package rematgraph

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// blocky draws a step of so many equal blocks of so many forwards, each with a backward that
// reads the gradient before it and some of the forwards of its block, and writes the
// gradient of a weight now and then. Times differ from block to block.
func blocky(r *rand.Rand, blocks, nodes int) *training.Graph {
	g := &training.Graph{Name: fmt.Sprintf("%d blocks of %d", blocks, nodes)}
	add := func(phase string, bytes float64, result bool, reads ...int) int {
		s := len(g.Storages)
		g.Storages = append(g.Storages, training.Storage{ID: fmt.Sprint("s", s), Bytes: bytes, Kind: training.Value, Result: result})
		g.Nodes = append(g.Nodes, training.Node{
			ID: fmt.Sprint("n", s), Phase: phase, Time: float64(1 + r.IntN(4)), Reads: reads, Writes: []int{s},
			Once: phase != training.Forward,
		})
		return s
	}
	var bytes, weight [8]float64
	var other [8]int // what else a node reads: the node so many before it in its block
	for k := range nodes {
		bytes[k], other[k] = float64(1+r.IntN(4)), r.IntN(k+1)
		if r.IntN(3) == 0 {
			weight[k] = 1
		}
	}
	var forward []int
	x := add(training.Forward, 1+float64(r.IntN(3)), false)
	for range blocks {
		for k := range nodes {
			reads := []int{x}
			if other[k] > 0 {
				reads = append(reads, x-other[k])
			}
			x = add(training.Forward, bytes[k], false, reads...)
			forward = append(forward, x)
		}
	}
	d := add(training.Loss, 1, false, x)
	for at := len(forward) - 1; at >= 0; at-- {
		if k := at % nodes; weight[k] > 0 {
			add(training.Backward, weight[k], true, d, forward[at])
			d = add(training.Backward, bytes[k], false, d, forward[at])
		} else {
			d = add(training.Backward, bytes[k], false, d, forward[at])
		}
	}
	return g
}

// Blocks that repeat are found, and the plan of a step with fewer of them, unrolled, is never
// better than the optimum of small steps, and often it.
func TestRepeatExhaustive(t *testing.T) {
	r := testfile.Random(t, 21, 1)
	plans, optimal := 0, 0
	for range testfile.Cases(40) {
		g := blocky(r, fewestBlocks, 1)
		if g.Len() > 2*fewestBlocks+2 {
			continue // gradients of weights: twice as many nodes
		}
		v := view(t, g)
		if Repeat(v) == nil {
			t.Fatalf("%s: no blocks are found", g.Name)
		}
		low, high := Range(v)
		for m := low; m <= high; m += max(1, math.Floor((high-low)/4)) {
			best, err := optimum(g, m)
			if err != nil {
				t.Fatal(err)
			}
			p, err := RepeatSearch(context.Background(), v, platform.Platform{Memory: m}, 1, 100)
			if errors.Is(err, plan.ErrNoPlan) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			plans++
			switch time := verified(t, g, p); {
			case time < best*(1-plan.Tolerance):
				t.Fatalf("%s in %v: %v s, the optimum is %v", g.Name, m, time, best)
			case time <= best*(1+plan.Tolerance):
				optimal++
			}
		}
	}
	t.Logf("%d plans, %d optimal", plans, optimal)
	if plans < testfile.Cases(120) || optimal < plans*8/10 {
		t.Errorf("%d plans, %d optimal", plans, optimal)
	}
}

// Deep steps are shortened to as many blocks as there are classes, whatever a block is, and
// what comes of those, before anything is repaired, fits in about the memory that it is for.
func TestRepeatDeep(t *testing.T) {
	r := testfile.Random(t, 21, 2)
	ctx := context.Background()
	for range testfile.Cases(20) {
		blocks, nodes := 24+r.IntN(20), 1+r.IntN(4)
		g := blocky(r, blocks, nodes)
		v := view(t, g)
		x := Repeat(v)
		if x == nil || x.runs[0].count < blocks-1 {
			t.Fatalf("%s: %+v", g.Name, x)
		}
		if most := (mostClasses + 2) * v.N / blocks; x.Short.N > most {
			t.Errorf("%s: %d of %d nodes", g.Name, x.Short.N, v.N)
		}
		low, high := Range(v)
		memory := math.Floor(low + (high-low)*(0.3+0.6*r.Float64()))
		p, err := RepeatSearch(ctx, v, platform.Platform{Memory: memory}, 1, 200)
		if err != nil {
			t.Fatalf("%s in %v of %v to %v: %v", g.Name, memory, low, high, err)
		}
		time := verified(t, g, p)
		if bound := v.TimeBound(memory).Seconds; time < bound {
			t.Errorf("%s: %v s, below the bound of %v", g.Name, time, bound)
		}
		short, _ := x.memory(memory)
		s := SearchStageLimits(ctx, x.Short, everywhere(x.Short, math.Floor(short)), 1, 100)
		if s == nil {
			t.Fatalf("%s: nothing fits in %v of %v blocks", g.Name, short, mostClasses)
		}
		if peak, _, _ := x.Unroll(s).Peak(); math.Abs(peak-memory) > (high-low)/4 {
			t.Errorf("%s: unrolled it takes %v of %v, of %v to %v", g.Name, peak, memory, low, high)
		}
	}
}

// Steps in which nothing repeats, or something is not like the rest, are told.
func TestRepeatRefuses(t *testing.T) {
	r := testfile.Random(t, 21, 3)
	change := map[string]func(g *training.Graph){
		"few blocks":      func(g *training.Graph) { *g = *blocky(r, fewestBlocks-1, 2) },
		"a longer way":    func(g *training.Graph) { g.Nodes[10].Reads[0] = 4 },
		"another size":    func(g *training.Graph) { g.Storages[11].Bytes = 99 },
		"read at the end": func(g *training.Graph) { n := &g.Nodes[len(g.Nodes)-1]; n.Reads = append(n.Reads, 7) },
	}
	for name, make := range change {
		g := blocky(r, fewestBlocks+1, 2)
		g.Nodes[len(g.Nodes)-1].Phase = training.Backward
		make(g)
		if x := Repeat(view(t, g)); x != nil {
			t.Errorf("%s: %+v", name, x.runs)
		}
		_, err := RepeatSearch(context.Background(), view(t, g), platform.Platform{Memory: 1e9}, 1, 10)
		if !errors.Is(err, plan.ErrNoPlan) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
