package fragmentation_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/bench/solve/fragmentation"
	"workbench/model/allocator"
	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

// networks are instances of every form.
var networks = map[string]string{
	chain.Kind: "zoo:resnet18",
	graph.Kind: "zoo:vgg16?as=graph&image=64&batch=4",
	join.Kind:  "zoo:siamese?as=join",

	functions.Kind: "zoo:vgg16?as=functions&image=64&batch=4",
}

// The plans of every quick method, on networks: the replay requests at its peak
// what the verifier counts, no allocator reserves less than that, and a device
// of the size found is enough.
func TestFragmentationOfEveryMethod(t *testing.T) {
	const chunk, unit = 2 << 20, 1 << 20
	choices := []fragmentation.AllocatorChoice{{}, {Chunk: chunk}, {Chunk: chunk, Mixed: true}}
	tried := 0
	for _, p := range catalog.Problems() {
		for _, form := range testfile.Few(1, p.Takes...) {
			spec, known := networks[form]
			if !known {
				continue
			}
			in, err := solve.Load(spec, nil)
			if err != nil {
				t.Fatal(err)
			}
			setting := solve.Setting{
				Platform: platform.Platform{
					Memory:    catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: 60}),
					Bandwidth: 12e9, Processors: 3, WeightCopies: 3,
				},
				Time: 20 * time.Second, Threads: 1,
			}
			size := 1.0
			if p.Slots {
				setting.Platform.Memory, size = math.Floor(setting.Platform.Memory), unit
			}
			for _, m := range catalog.MethodsFor(p, in) {
				if m.Solver || m.Kind == solve.Relaxed || m.Unverified || strings.Contains(m.Name, "slots") {
					continue
				}
				if p.Name == plan.RematOffload && m.Name == "search" || m.Name == "optimum" || m.Name == "autoswap" ||
					strings.HasPrefix(m.Name, "branch-and-bound-") {
					continue // slow, and their plans have the same operations
				}
				r := solve.Run(context.Background(), p, m, in, setting)
				if r.Plan == nil || r.Status == solve.Failed {
					continue
				}
				f, err := fragmentation.Fragment(t.Context(), p, in, r.Plan,
					fragmentation.FragmentationOptions{Allocators: choices, Capacity: allocator.Unlimited, Steps: 2, Unit: unit})
				if err != nil {
					t.Errorf("%s %s: %v", p.Name, m.Name, err)
					continue
				}
				tried++
				peak := 0.0
				for _, work := range f.Runs {
					peak = max(peak, float64(work.Requested))
					n := int64(work.Most)
					switch {
					case work.Failure != nil || f.Err() != nil:
						t.Errorf("%s %s: %s fails on an unlimited device", p.Name, m.Name, work.Allocator)
					case work.Requested > work.Used || work.Used > work.Reserved || work.Least > work.Reserved || work.Least < work.Requested:
						t.Errorf("%s %s: %s: %+v", p.Name, m.Name, work.Allocator, work)
					case strings.HasPrefix(work.Allocator, "virtual") && (work.External != 0 || n > 0 && work.Internal >= n*chunk):
						t.Errorf("%s %s: internal fragmentation %d of %d blocks, external %d", p.Name, m.Name, work.Internal, n, work.External)
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
	p, m := catalogtest.Find(t, plan.Remat, "store-all")
	b := &fragmentation.Batcher{
		Problem: p, Network: "zoo:resnet18?batch=7&image=64", Capacity: 1 << 30,
		Setting: solve.Setting{Time: time.Minute},
	}
	virtual := fragmentation.AllocatorChoice{Chunk: 2 << 20}
	x, err := b.Largest(context.Background(), m, virtual)
	if err != nil || !x.Fits || x.Batch < 2 {
		t.Fatalf("%+v %v", x, err)
	}
	if x.Reserved > 1<<30 || float64(x.Reserved) < x.PeakMemory || x.PeakMemory > x.Budget || x.Throughput <= 0 {
		t.Errorf("%+v", x)
	}
	more, err := b.Fastest(context.Background(), m, virtual, x.Batch+1)
	if err != nil || more.Fits || more.Why == "" {
		t.Errorf("one sample more: %+v %v", more, err)
	}
	// A device of the size that the best fit needs at this batch holds it, and
	// one on which it reserves more than there is does not.
	best, err := b.Largest(context.Background(), m, fragmentation.AllocatorChoice{})
	if err != nil || best.Batch > x.Batch {
		t.Errorf("best fit %+v, virtual %+v, %v", best, x, err)
	}
	small := &fragmentation.Batcher{Problem: p, Network: b.Network, Capacity: 1 << 20, Setting: b.Setting}
	none, err := small.Largest(context.Background(), m, virtual)
	if err != nil || none.Fits || none.Batch != 0 {
		t.Errorf("%+v %v", none, err)
	}
	if err := fragmentation.NoBatch([]*fragmentation.BatchPoint{none}); !errors.Is(err, fragmentation.ErrNoBatch) ||
		!errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("error %v", err)
	}
	if err := fragmentation.NoBatch([]*fragmentation.BatchPoint{none, x}); err != nil {
		t.Error(err)
	}
}

func TestWithBatch(t *testing.T) {
	for spec, want := range map[string]string{
		"zoo:vgg16":                           "zoo:vgg16?batch=5",
		"zoo:vgg16?batch=3":                   "zoo:vgg16?batch=5",
		"zoo:vgg16?as=graph&batch=3&image=64": "zoo:vgg16?as=graph&image=64&batch=5",
	} {
		if got, err := fragmentation.WithBatch(spec, 5); err != nil || got != want {
			t.Errorf("%s: %s %v, want %s", spec, got, err, want)
		}
	}
	if _, err := fragmentation.WithBatch("chain.json", 5); !errors.Is(err, solve.ErrInput) {
		t.Errorf("a file has a batch of its own: %v", err)
	}
}

// Memory that is given back late takes at least as much of a device, and there is
// none such in plans of other problems.
func TestLateFragmentation(t *testing.T) {
	p, m := catalogtest.Find(t, plan.Swap, "window")
	in, err := solve.Load("zoo:resnet18?as=functions&image=64", nil)
	if err != nil {
		t.Fatal(err)
	}
	setting := solve.Setting{Platform: platform.Platform{
		Memory:    catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: 30}),
		Bandwidth: 12e9,
	}}
	r := solve.Run(t.Context(), p, m, in, setting)
	if r.Plan == nil {
		t.Fatal(r.Err)
	}
	o := fragmentation.FragmentationOptions{
		Allocators: []fragmentation.AllocatorChoice{{}, {Chunk: 2 << 20}}, Capacity: allocator.Unlimited,
		Steps: 3,
	}
	soon, err := fragmentation.Fragment(t.Context(), p, in, r.Plan, o)
	if err != nil {
		t.Fatal(err)
	}
	o.Late = true
	late, err := fragmentation.Fragment(t.Context(), p, in, r.Plan, o)
	if err != nil {
		t.Fatal(err)
	}
	for i, work := range late.Runs {
		if before := soon.Runs[i]; work.Requested < before.Requested || float64(work.Requested) > setting.Platform.Memory ||
			work.Requests > before.Requests || work.AtPeak == before.AtPeak {
			t.Errorf("%s: %+v late, %+v at once, in %g", work.Allocator, work.Report, before.Report, setting.Platform.Memory)
		}
	}

	p, m = catalogtest.Find(t, plan.Remat, "store-all")
	if in, err = solve.Load("zoo:resnet18?image=64", nil); err != nil {
		t.Fatal(err)
	}
	_, setting.Platform.Memory = p.Range(in, solve.Setting{})
	if r = solve.Run(t.Context(), p, m, in, setting); r.Plan == nil {
		t.Fatal(r.Err)
	}
	if _, err := fragmentation.Fragment(t.Context(), p, in, r.Plan, o); !errors.Is(err, solve.ErrInput) ||
		!strings.Contains(err.Error(), "late") {
		t.Errorf("error %v", err)
	}
}

// What is printed is of the schemas, which refuse what is not.
func TestFragmentationSchemas(t *testing.T) {
	p, m := catalogtest.Find(t, plan.Remat, "store-all")
	in, err := solve.Load("zoo:resnet18?image=64", nil)
	if err != nil {
		t.Fatal(err)
	}
	_, high := p.Range(in, solve.Setting{})
	r := solve.Run(t.Context(), p, m, in, solve.Setting{Platform: platform.Platform{Memory: high}})
	choices := []fragmentation.AllocatorChoice{{}, {Chunk: 2 << 20, Mixed: true}}
	write := func(x any) string {
		t.Helper()
		s, err := json.Marshal(x)
		if err != nil {
			t.Fatal(err)
		}
		return string(s)
	}
	replayed := func(capacity int64) string {
		t.Helper()
		f, err := fragmentation.Fragment(t.Context(), p, in, r.Plan,
			fragmentation.FragmentationOptions{Allocators: choices, Capacity: capacity, Steps: 2})
		if err != nil {
			t.Fatal(err)
		}
		return write(f)
	}
	b := &fragmentation.Batcher{Problem: p, Network: "zoo:resnet18?image=64", Capacity: 1 << 28}
	batches := func(sizes ...int) string {
		t.Helper()
		var points []*fragmentation.BatchPoint
		for _, n := range sizes {
			x, err := b.Fastest(t.Context(), m, choices[0], n)
			if err != nil {
				t.Fatal(err)
			}
			points = append(points, x)
		}
		return write(b.Batches(points))
	}
	fails := replayed(int64(high) + 1<<20)
	if !strings.Contains(fails, `"failure":{`) {
		t.Errorf("no failure in\n%s", fails)
	}
	for _, x := range []struct {
		schema, name, document string
		broken                 [][2]string
	}{
		{"fragmentation-v1.json", "all fit", replayed(allocator.Unlimited), [][2]string{
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
