package pipeline

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"workbench/model/importer"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/zoo"
)

// PipeDream's own periods of its straight pipeline, where its profiles are
// there to be read.
func TestPartitionOfPipeDream(t *testing.T) {
	t.Parallel()
	c := profiled(t, "vgg16")
	for _, x := range []struct {
		processors      int
		bandwidth, want float64
	}{{4, 10e9, 0.23559}, {8, 10e9, 0.23559}, {4, 1e9, 0.411041792}} {
		_, period, err := Partition(c, platform.Platform{Memory: 1, Bandwidth: x.bandwidth, Processors: x.processors})
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(period-x.want) > 1e-9*x.want {
			t.Errorf("P = %d, β = %v: %.9g, want %v", x.processors, x.bandwidth, period, x.want)
		}
	}
}

// profiled reads one of PipeDream's profiles as a chain.
func profiled(t *testing.T, name string) *chain.Chain {
	t.Helper()
	file := testfile.Shared(t, "pipedream/"+name+"/graph.txt")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := importer.PipeDream(data, file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The partition is the best over all contiguous ones.
func TestPartitionExhaustively(t *testing.T) {
	t.Parallel()
	eachSmall(t, func(c *chain.Chain, p platform.Platform) {
		in, err := readInstance(c, p, Options{})
		if err != nil {
			t.Fatal(err)
		}
		best := math.Inf(1)
		for mask := range 1 << (in.N - 1) {
			load, from, stages := 0.0, 1, 0
			for l := 1; l <= in.N; l++ {
				if l == in.N || mask>>(l-1)&1 == 1 {
					load = max(load, in.Time(from, l))
					if l < in.N {
						load = max(load, 2*in.A[l]/p.Bandwidth)
					}
					from = l + 1
					stages++
				}
			}
			if stages <= in.Procs {
				best = min(best, load)
			}
		}
		if _, got := in.partition(0); math.Abs(got-best) > 1e-9*best {
			t.Fatalf("%v, best %v: %+v, %+v", got, best, c.Layers, p)
		}
	})
}

// OneFOneBStar finds the best of all contiguous allocations, KPeriodic for each
// k as well.
func TestContiguousExhaustively(t *testing.T) {
	t.Parallel()
	fits := 0
	eachSmall(t, func(c *chain.Chain, p platform.Platform) {
		for _, model := range models {
			in, err := readInstance(c, p, Options{Model: model})
			if err != nil {
				t.Fatal(err)
			}
			for cancel := range 3 {
				best := math.Inf(1)
				for mask := range 1 << (in.N - 1) {
					var ends []int
					for l := 1; l <= in.N; l++ {
						if l == in.N || mask>>(l-1)&1 == 1 {
							ends = append(ends, l)
						}
					}
					if len(ends) > in.Procs {
						continue
					}
					stages := fromEnds(ends)
					items := in.Items(stages)
					// All sums of consecutive items.
					group := make([]int, len(items))
					for i := range items {
						sum := 0.0
						for j := i; j >= 0; j-- {
							sum += items[j].Time()
							if groups(items, sum, group); sum >= longest(items) && sum < best && in.fits(items, group, cancel) {
								best = sum
							}
						}
					}
				}
				s := in.bestContiguous(cancel)
				switch {
				case s == nil && !math.IsInf(best, 1):
					t.Fatalf("%s, cancel %d: none, but %v: %+v, %+v", model, cancel, best, c.Layers, p)
				case s != nil && math.Abs(s.Period-best) > 1e-9*best:
					t.Fatalf("%s, cancel %d: %v, best %v: %+v, %+v", model, cancel, s.Period, best, c.Layers, p)
				case s != nil:
					fits++
				}
			}
		}
	})
	if fits < testfile.Cases(100) {
		t.Errorf("only %d fit", fits)
	}
}

func denseNet(tb testing.TB) *chain.Chain {
	c, err := zoo.Chain("densenet121", zoo.Params{"image": "1000", "batch": "8"})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func BenchmarkPartition300(b *testing.B) {
	c := &chain.Chain{Name: "300"}
	for k := range 300 {
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(1 + k*7%13), BackwardTime: float64(1 + k*5%11),
			Activation: float64(1 + k*3%17), Gradient: 1,
		})
	}
	for b.Loop() {
		if _, _, err := Partition(c, platform.Platform{Memory: 1, Bandwidth: 1, Processors: 8}); err != nil {
			b.Fatal(err)
		}
	}
}

// denseNetOn is the platform of [004] 7.3.1.
var denseNetOn = platform.Platform{Memory: 8 << 30, Bandwidth: 12e9, Processors: 8, WeightCopies: 3}

func BenchmarkOneFOneBStarOn(b *testing.B) {
	c := denseNet(b)
	stages, _, err := Partition(c, denseNetOn)
	if err != nil {
		b.Fatal(err)
	}
	in, err := newInstance(c, denseNetOn, Options{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		in.smallest(stages, in.Items(stages), 0)
	}
}

func BenchmarkOneFOneBStar(b *testing.B) {
	c := denseNet(b)
	for b.Loop() {
		if _, err := OneFOneBStar(c, denseNetOn, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkMadPipeAllocation(b *testing.B) {
	c := denseNet(b)
	for name, g := range map[string]Grid{"paper": PaperGrid, "fine": FineGrid} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, period, err := MadPipeAllocation(c, denseNetOn, g, Options{})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(period, "T̂")
			}
		})
	}
}

func BenchmarkMethods(b *testing.B) {
	c := denseNet(b)
	for name, method := range methods {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if p, err := method(c, denseNetOn, Options{}); err == nil {
					b.ReportMetric(p.Claims.Makespan, "T/k")
				}
			}
		})
	}
}

func BenchmarkBounds(b *testing.B) {
	c := denseNet(b)
	for b.Loop() {
		if _, err := boundsOf(c, denseNetOn, Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

// The program over contiguous allocations finds one at a period exactly where
// one of all of them fits with the groups of 1F1B*.
func TestContiguousAtEveryPeriod(t *testing.T) {
	t.Parallel()
	yes, no := 0, 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 13))
		c, p := randomChain(r, 3+r.IntN(4), false), randomPlatform(r)
		p.Bandwidth = 0.5 + r.Float64()
		in, err := readInstance(c, p, Options{Model: models[seed%2]})
		if err != nil {
			t.Fatal(err)
		}
		d := newContiguous(in, 0)
		for range 10 {
			period := in.Latest() * (0.2 + 0.6*r.Float64())
			exists := false
			for mask := range 1 << (in.N - 1) {
				var ends []int
				for l := 1; l <= in.N; l++ {
					if l == in.N || mask>>(l-1)&1 == 1 {
						ends = append(ends, l)
					}
				}
				if len(ends) > in.Procs {
					continue
				}
				items := in.Items(fromEnds(ends))
				group := make([]int, len(items))
				groups(items, period, group)
				exists = exists || longest(items) <= period && in.fits(items, group, 0)
			}
			if found := d.allocationAt(period) != nil; found != exists {
				t.Fatalf("seed %d, T = %v: found %v, exists %v", seed, period, found, exists)
			}
			if exists {
				yes++
			} else {
				no++
			}
		}
	}
	if yes < 500 || no < 500 {
		t.Errorf("%d with, %d without", yes, no)
	}
}
