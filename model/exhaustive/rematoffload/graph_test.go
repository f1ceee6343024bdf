package rematoffload_test

import (
	"errors"
	"testing"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/rematgraph"
	"workbench/model/exhaustive/rematoffload"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	"workbench/model/verify/rematgraph"
)

// smallSearch is what is searched of a training step with a link.
const smallSearch = 1 << 14

// The plans of the search are valid and as fast as it says. Without a link they are as
// fast as those of rematerialization; a link never makes them slower, nor does more
// memory; and often enough both what moves and what runs again is needed.
func TestTrainingOffloadPlans(t *testing.T) {
	r := testfile.Random(t, 16, 9)
	moved, faster, less := 0, 0, 0
	for i := range testfile.Cases(300) {
		g := random.Training(r, 1+i%2)
		for v := range g.Nodes {
			g.Nodes[v].Time *= float64(1 + i%3)
		}
		least, err := optimum.LeastMemory(g, smallSearch)
		if err != nil {
			t.Fatal(err)
		}
		for memory := max(0, least-2); memory <= least+2; memory++ {
			alone, _, none := optimum.Search(g, memory, smallSearch)
			without, _, err := rematoffload.SearchGraph(g, memory, 0, smallSearch)
			if errors.Is(err, exhaustive.ErrLimit) {
				continue
			}
			if errors.Is(none, exhaustive.ErrInfeasible) != errors.Is(err, exhaustive.ErrInfeasible) || none == nil && without != alone {
				t.Fatalf("case %d, memory %v: %g s and %v without a link, %g s and %v without one to be had", i, memory, without, err, alone, none)
			}
			time, p, err := rematoffload.SearchGraph(g, memory, 1, smallSearch)
			switch {
			case errors.Is(err, exhaustive.ErrLimit), errors.Is(err, exhaustive.ErrInfeasible) && none != nil:
				continue
			case err != nil:
				t.Fatalf("case %d, memory %v: %v", i, memory, err)
			case none == nil && time > alone:
				t.Fatalf("case %d, memory %v: %g s with a link, %g without", i, memory, time, alone)
			case none != nil:
				less++
			case time < alone:
				faster++
			}
			report, err := rematgraph.Verify(g, p)
			if err != nil || !report.Valid() || report.Makespan != time || len(report.ClaimErrors) > 0 {
				t.Fatalf("case %d, memory %v: %g s, %+v, %v", i, memory, time, report, err)
			}
			for k := range p.Ops {
				if p.Ops[k].Op == plan.OpP {
					moved++
					break
				}
			}
		}
	}
	t.Logf("%d plans move, %d are faster for it, %d take less than rematerialization can", moved, faster, less)
	if moved < testfile.Cases(50) || faster < testfile.Cases(8) || less < testfile.Cases(30) {
		t.Errorf("%d plans move, %d are faster for it, %d take less than rematerialization can", moved, faster, less)
	}
}

// A link that is none moves nothing; one over which a value takes no whole second is refused.
func TestTrainingOffloadLinks(t *testing.T) {
	g := random.Training(testfile.Random(t, 3, 3), 2)
	g.Storages[len(g.Storages)-1].Bytes = 3
	least, err := optimum.LeastMemory(g, smallSearch)
	if err != nil {
		t.Fatal(err)
	}
	alone, _, err := optimum.Search(g, least, smallSearch)
	if err != nil {
		t.Fatal(err)
	}
	if time, _, err := rematoffload.SearchGraph(g, least, platform.NoLink, smallSearch); err != nil || time != alone {
		t.Errorf("%g s and %v without a link, %g s alone", time, err, alone)
	}
	for _, bandwidth := range []float64{platform.Unlimited, 2} {
		if _, _, err := rematoffload.SearchGraph(g, least, bandwidth, smallSearch); !errors.Is(err, exhaustive.ErrTooHard) {
			t.Errorf("at %g bytes/s: %v", bandwidth, err)
		}
	}
}
