package bench_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"workbench/bench"
	"workbench/model/allocator"
	"workbench/model/plan"
	"workbench/model/platform"
)

// networks are instances of every form.
var networks = map[bench.Form]string{
	bench.AChain: "zoo:resnet18",
	bench.AGraph: "zoo:vgg16?as=graph&image=64&batch=4",
	bench.AJoin:  "zoo:siamese?as=join",

	bench.AFunctions: "zoo:vgg16?as=functions&image=64&batch=4",
}

// The plans of every quick method, on networks: the replay requests at its peak
// what the verifier counts, no allocator reserves less than that, and a device
// of the size found is enough.
func TestFragmentationOfEveryMethod(t *testing.T) {
	const chunk, unit = 2 << 20, 1 << 20
	choices := []bench.AllocatorChoice{{}, {Chunk: chunk}, {Chunk: chunk, Mixed: true}}
	tried := 0
	for _, p := range bench.Problems() {
		for _, form := range p.Takes {
			spec, known := networks[form]
			if !known {
				continue
			}
			in, err := bench.Load(spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			setting := bench.Setting{
				Platform: platform.Platform{
					Memory:    bench.ResolveMemory(p, in, platform.MemorySpec{Percent: true, Value: 60}),
					Bandwidth: 12e9, Processors: 3, WeightCopies: 3,
				},
				Time: 20 * time.Second, Threads: 1,
			}
			size := 1.0
			if p.Slots {
				setting.Platform.Memory, size = math.Floor(setting.Platform.Memory), unit
			}
			for _, m := range bench.MethodsFor(p, in) {
				if m.Solver || m.Kind == bench.Relaxed || m.Unverified || strings.Contains(m.Name, "slots") {
					continue
				}
				if p.Name == plan.RematOffload && m.Name == "search" || m.Name == "optimum" || m.Name == "autoswap" {
					continue // slow, and their plans have the same operations
				}
				r := bench.Run(context.Background(), p, m, in, setting)
				if r.Plan == nil || r.Status == bench.Failed {
					continue
				}
				f, err := bench.Fragment(in, r.Plan, bench.FragmentationOptions{Allocators: choices, Capacity: allocator.Unlimited, Steps: 2, Unit: unit})
				if err != nil {
					t.Errorf("%s %s: %v", p.Name, m.Name, err)
					continue
				}
				tried++
				peak := 0.0
				for _, run := range f.Runs {
					peak = max(peak, float64(run.Requested))
					n := int64(run.Most)
					switch {
					case run.Failure != nil || f.Err() != nil:
						t.Errorf("%s %s: %s fails on an unlimited device", p.Name, m.Name, run.Allocator)
					case run.Requested > run.Used || run.Used > run.Reserved || run.Least > run.Reserved || run.Least < run.Requested:
						t.Errorf("%s %s: %s: %+v", p.Name, m.Name, run.Allocator, run)
					case strings.HasPrefix(run.Allocator, "virtual") && (run.External != 0 || n > 0 && run.Internal >= n*chunk):
						t.Errorf("%s %s: internal fragmentation %d of %d blocks, external %d", p.Name, m.Name, run.Internal, n, run.External)
					}
				}
				want := r.Report.PeakMemory * size
				if r.Report.Pattern != nil {
					want = 0
					for _, x := range r.Report.Pattern.TaskMemory {
						want = max(want, x)
					}
				}
				if math.Abs(peak-want) > 1e-9*want+float64(10*len(r.Plan.Ops)) { // sizes are rounded to bytes
					t.Errorf("%s %s: requests %.0f at most, the verifier counts %.0f", p.Name, m.Name, peak, want)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d plans tried", tried)
	}
}

func TestLargestBatch(t *testing.T) {
	p, m := find(t, plan.Remat, "store-all")
	b := &bench.Batcher{Problem: p, Network: "zoo:resnet18?batch=7&image=64", Capacity: 1 << 30, Setting: bench.Setting{Time: time.Minute}}
	virtual := bench.AllocatorChoice{Chunk: 2 << 20}
	x, err := b.Largest(context.Background(), m, virtual)
	if err != nil || !x.Fits || x.Batch < 2 {
		t.Fatalf("%+v %v", x, err)
	}
	if x.Reserved > 1<<30 || float64(x.Reserved) < x.PeakMemory || x.PeakMemory > x.Budget || x.Throughput <= 0 {
		t.Errorf("%+v", x)
	}
	more, err := b.At(context.Background(), m, virtual, x.Batch+1)
	if err != nil || more.Fits || more.Why == "" {
		t.Errorf("one sample more: %+v %v", more, err)
	}
	// A device of the size that the best fit needs at this batch holds it, and
	// one on which it reserves more than there is does not.
	best, err := b.Largest(context.Background(), m, bench.AllocatorChoice{})
	if err != nil || best.Batch > x.Batch {
		t.Errorf("best fit %+v, virtual %+v, %v", best, x, err)
	}
	small := &bench.Batcher{Problem: p, Network: b.Network, Capacity: 1 << 20, Setting: b.Setting}
	none, err := small.Largest(context.Background(), m, virtual)
	if err != nil || none.Fits || none.Batch != 0 {
		t.Errorf("%+v %v", none, err)
	}
	if err := bench.NoBatch([]*bench.BatchPoint{none}); !errors.Is(err, bench.ErrNoBatch) || !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("error %v", err)
	}
	if err := bench.NoBatch([]*bench.BatchPoint{none, x}); err != nil {
		t.Error(err)
	}
}

func TestWithBatch(t *testing.T) {
	for spec, want := range map[string]string{
		"zoo:vgg16":                           "zoo:vgg16?batch=5",
		"zoo:vgg16?batch=3":                   "zoo:vgg16?batch=5",
		"zoo:vgg16?as=graph&batch=3&image=64": "zoo:vgg16?as=graph&image=64&batch=5",
	} {
		if got, err := bench.WithBatch(spec, 5); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", spec, got, err, want)
		}
	}
	if _, err := bench.WithBatch("chain.json", 5); !errors.Is(err, bench.ErrInput) {
		t.Errorf("a file has a batch of its own: %v", err)
	}
}
