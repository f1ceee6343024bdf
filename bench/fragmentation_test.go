package bench_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"workbench/bench"
	"workbench/model/allocator"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
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

// Memory that is given back late takes at least as much of a device, and there is
// none such in plans of other problems.
func TestLateFragmentation(t *testing.T) {
	p, m := find(t, plan.Swap, "window")
	in, err := bench.Load("zoo:resnet18?as=functions&image=64", nil)
	if err != nil {
		t.Fatal(err)
	}
	setting := bench.Setting{Platform: platform.Platform{Memory: bench.ResolveMemory(p, in, platform.MemorySpec{Percent: true, Value: 30}), Bandwidth: 12e9}}
	r := bench.Run(t.Context(), p, m, in, setting)
	if r.Plan == nil {
		t.Fatal(r.Err)
	}
	o := bench.FragmentationOptions{Allocators: []bench.AllocatorChoice{{}, {Chunk: 2 << 20}}, Capacity: allocator.Unlimited, Steps: 3}
	soon, err := bench.Fragment(in, r.Plan, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Late = true
	late, err := bench.Fragment(in, r.Plan, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, run := range late.Runs {
		if before := soon.Runs[i]; run.Requested < before.Requested || float64(run.Requested) > setting.Platform.Memory || run.Requests > before.Requests || run.AtPeak == before.AtPeak {
			t.Errorf("%s: %+v late, %+v at once, in %g", run.Allocator, run.Report, before.Report, setting.Platform.Memory)
		}
	}

	p, m = find(t, plan.Remat, "store-all")
	if in, err = bench.Load("zoo:resnet18?image=64", nil); err != nil {
		t.Fatal(err)
	}
	_, setting.Platform.Memory = p.Range(in)
	if r = bench.Run(t.Context(), p, m, in, setting); r.Plan == nil {
		t.Fatal(r.Err)
	}
	if _, err := bench.Fragment(in, r.Plan, o); !errors.Is(err, bench.ErrInput) || !strings.Contains(err.Error(), "late") {
		t.Errorf("error %v", err)
	}
}

// What is printed is of the schemas, which refuse what is not.
func TestFragmentationSchemas(t *testing.T) {
	p, m := find(t, plan.Remat, "store-all")
	in, err := bench.Load("zoo:resnet18?image=64", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, high := p.Range(in)
	r := bench.Run(t.Context(), p, m, in, bench.Setting{Platform: platform.Platform{Memory: high}})
	choices := []bench.AllocatorChoice{{}, {Chunk: 2 << 20, Mixed: true}}
	write := func(x any) string {
		t.Helper()
		s, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return string(s)
	}
	fragmentation := func(capacity int64) string {
		t.Helper()
		f, err := bench.Fragment(in, r.Plan, bench.FragmentationOptions{Allocators: choices, Capacity: capacity, Steps: 2})
		if err != nil {
			t.Fatal(err)
		}
		return write(f)
	}
	b := &bench.Batcher{Problem: p, Network: "zoo:resnet18?image=64", Capacity: 1 << 28}
	batches := func(sizes ...int) string {
		t.Helper()
		var points []*bench.BatchPoint
		for _, n := range sizes {
			x, err := b.At(t.Context(), m, choices[0], n)
			if err != nil {
				t.Fatal(err)
			}
			points = append(points, x)
		}
		return write(b.Batches(points))
	}
	fails := fragmentation(int64(high) + 1<<20)
	if !strings.Contains(fails, `"failure":{`) {
		t.Errorf("no failure in\n%s", fails)
	}
	for _, x := range []struct {
		schema, name, document string
		broken                 [][2]string
	}{
		{"fragmentation-v1.json", "all fit", fragmentation(allocator.Unlimited), [][2]string{
			{"fragmentation/v1", "fragmentation/v2"},
			{`"late":false,`, ""},
			{`"failure":null`, `"failure":false`},
			{`"steps":2`, `"steps":0`},
			{`"peak_used":`, `"used_peak":`},
		}},
		{"fragmentation-v1.json", "fails", fails, [][2]string{{`"fragmented":`, `"fragments":`}, {`"step":1`, `"step":0`}}},
		{"batches-v1.json", "some fit", batches(1, 64, 4096), [][2]string{
			{"batches/v1", "batches/v2"},
			{`"share":`, `"x-share":`},
			{`"batch":64`, `"batch":-64`},
			{`"points":[`, `"points":[1,`},
		}},
	} {
		validate := testfile.Schema(t, x.schema)
		if err := validate(x.document); err != nil {
			t.Errorf("%s: %v\n%s", x.name, err, x.document)
		}
		for _, change := range x.broken {
			s := strings.ReplaceAll(x.document, change[0], change[1])
			if s == x.document {
				t.Errorf("%s: %s does not occur in\n%s", x.name, change[0], s)
			}
			if validate(s) == nil {
				t.Errorf("%s: %s for %s is taken", x.name, change[1], change[0])
			}
		}
	}
}
