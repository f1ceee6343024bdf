package weightoffload

import (
	"context"
	"fmt"
	"math"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testfile"
)

// row is a row of [001] Table 1.
type row struct {
	net          string
	depth, batch int
	compute      float64 // Σu, ms
	l2l          float64 // duration of L2L, ms
	move         float64 // |w|/β at 12 GB/s, ms
}

var table1 = []row{
	{"GPT-2", 74, 64, 47421, 52707, 35.95},
	{"GPT-2", 56, 64, 35553, 39542, 35.95},
	{"GPT-2", 38, 64, 23694, 26387, 35.95},
	{"GPT-2", 74, 32, 23697, 28983, 35.95},
	{"GPT-2", 56, 32, 17762, 21751, 35.95},
	{"GPT-2", 38, 32, 11840, 14533, 35.95},
	{"GPT-2", 74, 16, 11612, 16898, 35.95},
	{"GPT-2", 56, 16, 8697, 12686, 35.95},
	{"GPT-2", 38, 16, 5794, 8487, 35.95},
	{"Bert", 144, 64, 34486, 38379, 13.6},
	{"Bert", 96, 64, 22965, 25577, 13.6},
	{"Bert", 144, 32, 17443, 21336, 13.6},
	{"Bert", 96, 32, 11617, 14230, 13.6},
	{"Bert", 144, 16, 9090, 12983, 13.6},
	{"Bert", 96, 16, 6058, 8670, 13.6},
}

func (r row) String() string { return fmt.Sprintf("%s-%d-%d", r.net, r.depth, r.batch) }

// chain returns a chain like the one of the row: equal layers but for the
// first and the last, which are nearly free.
func (r row) chain() *chain.Chain {
	c := &chain.Chain{Name: r.String()}
	u := r.compute / 1e3 / (float64(r.depth-2) + 0.02)
	for i := range r.depth {
		t := u
		if i == 0 || i == r.depth-1 {
			t = u / 100
		}
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: t / 4, BackwardTime: t * 3 / 4,
			Activation: 20e6 * float64(r.batch) / 16, Weight: math.Round(r.move / 1e3 * 12e9),
		})
	}
	return c
}

// device returns a platform with the given share of the range of memory.
func (r row) device(share, bandwidth float64) platform.Platform {
	low, high := weightoffload.FromChain(r.chain()).Range()
	return platform.Platform{Memory: math.Floor(low + share*(high-low)), Bandwidth: bandwidth}
}

func TestL2LReproducesTable1(t *testing.T) {
	for _, r := range table1 {
		c := r.chain()
		got, err := L2L(c, r.device(0.3, 12e9))
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		if ms := *got.Period * 1e3; math.Abs(ms/r.l2l-1) > 0.005 {
			t.Errorf("%v: L2L takes %.0f ms, the paper says %.0f", r, ms, r.l2l)
		}
	}
}

// The idle time of Greedy in the paper is 2 to 4 transfers (GPT-2), 1 to 7
// (Bert).
func TestGreedyReproducesTable1(t *testing.T) {
	for _, r := range table1 {
		c := r.chain()
		for _, share := range testfile.Few(1, 0.1, 0.25, 0.6) {
			p := r.device(share, 12e9)
			got, err := Greedy(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			verify(t, c, got)
			if idle := (*got.Period*1e3 - r.compute) / r.move; idle > 7 {
				t.Errorf("%v, %.0f %% memory: greedy is idle for %.1f transfers", r, 100*share, idle)
			}
			star, err := GreedyNoDiscount(t.Context(), c, p)
			if err != nil {
				t.Fatal(err)
			}
			verify(t, c, star)
			if *star.Period < *got.Period*(1-1e-9) {
				t.Errorf("%v, %.0f %% memory: %g without discount, %g with", r, 100*share, *star.Period, *got.Period)
			}
		}
	}
}

func TestSearchReachesBoundOnTable1(t *testing.T) {
	testfile.Long(t)
	for _, r := range table1 {
		if r.depth > 80 {
			continue // the benchmark runs them
		}
		c := r.chain()
		got, err := Search(context.Background(), c, r.device(0.1, 12e9), Options{})
		if err != nil {
			t.Fatal(err)
		}
		verify(t, c, got)
		if *got.Period > c.TotalTime()*(1+1e-9) {
			t.Errorf("%v: %g s, without idle time %g s", r, *got.Period, c.TotalTime())
		}
	}
}

// BenchmarkGreedy holds the promise of 50 ms for 128 layers.
func BenchmarkGreedy(b *testing.B) {
	for _, depth := range []int{32, 64, 128, 256} {
		r := row{net: "GPT-2", depth: depth, batch: 16, compute: 157 * float64(depth), move: 35.95}
		b.Run(fmt.Sprintf("L=%d", depth), func(b *testing.B) {
			c, p := r.chain(), r.device(0.1, 12e9)
			for b.Loop() {
				if _, err := Greedy(b.Context(), c, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSearch reports the gap between plan and bound in percent, on Table 1
// and on the bandwidth sweep of Fig. 4.
func BenchmarkSearch(b *testing.B) {
	run := func(r row, share, bandwidth float64) {
		b.Run(fmt.Sprintf("%v/memory=%.0f%%/GBps=%g", r, 100*share, bandwidth/1e9), func(b *testing.B) {
			c, p := r.chain(), r.device(share, bandwidth)
			in, err := weightoffload.New(c, p)
			if err != nil {
				b.Fatal(err)
			}
			bounds := in.Bounds()
			for b.Loop() {
				got, err := Search(context.Background(), c, p, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(100*(*got.Period/bounds[0].Value-1), "gap%")
				b.ReportMetric(100*(bounds[0].Value/c.TotalTime()-1), "bound%")
			}
		})
	}
	for _, share := range []float64{0.1, 0.25, 0.6} {
		for _, r := range table1 {
			run(r, share, 12e9)
		}
		for _, r := range table1[:9] {
			for _, bandwidth := range []float64{0.5e9, 1e9, 2e9, 4e9, 8e9} {
				run(r, share, bandwidth)
			}
		}
	}
}

// BenchmarkBounds times the bounds alone.
func BenchmarkBounds(b *testing.B) {
	r := table1[9]
	c, p := r.chain(), r.device(0.1, 12e9)
	in, err := weightoffload.New(c, p)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in.Bounds()
	}
}
