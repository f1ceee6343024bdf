package torchcsv_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/heuristics/flush"
	optimum "workbench/model/exhaustive/flush"
	view "workbench/model/flush"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/torchcsv"
)

// What is written of a plan is read back as its operations, GPU by GPU, in order.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		in := optimum.RandomStages(r, 2+2*r.IntN(2), true)
		v, err := view.New(in, platform.Platform{Memory: 1000, MicroBatches: 1 + r.IntN(6), Placement: [...]string{plan.Straight, plan.VShaped, plan.Interleaved}[r.IntN(3)]})
		if err != nil {
			t.Fatal(err)
		}
		s, err := v.Schedule(flush.List(t.Context(), v))
		if err != nil {
			t.Fatal(err)
		}
		p := v.Plan("list", s)
		var b bytes.Buffer
		if err := torchcsv.Write(&b, p); err != nil {
			t.Fatal(err)
		}
		got, err := torchcsv.Read(&b, "schedule.csv")
		if err != nil || len(got) != v.GPUs {
			t.Fatal(err, got)
		}
		want := make(torchcsv.Schedule, v.GPUs)
		for _, o := range p.Ops {
			g := v.GPU[o.Stage-1]
			want[g] = append(want[g], torchcsv.Action{Stage: o.Stage - 1, Op: o.Op, MicroBatch: o.MicroBatch - 1})
		}
		for g := range want {
			if !slices.Equal(got[g], want[g]) {
				t.Fatalf("gpu%d: read %v, written %v", g, got[g], want[g])
			}
		}
		q, err := got.Plan(in, "schedule.csv")
		if err != nil {
			t.Fatal(err)
		}
		if again, ok := v.OrderOf(q); !ok || !cmp.Equal(again, s.Order) || q.Claims.PeakMemory != p.Claims.PeakMemory {
			t.Fatalf("read as %v, written %v", again, s.Order)
		}
		if len(got[0]) > 1 { // one operation less is no schedule
			got[0] = got[0][1:]
			if _, err := got.Plan(in, "schedule.csv"); !errors.Is(err, torchcsv.ErrFormat) {
				t.Fatalf("without its first operation: %v", err)
			}
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	s, err := torchcsv.Read(strings.NewReader("0F0, 0F1,0I0,,0W0\n1F0,1B0\n"), "x.csv")
	if err != nil || len(s) != 2 || len(s[0]) != 4 || s[0][2] != (torchcsv.Action{Stage: 0, Op: "B", MicroBatch: 0}) {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{"0F", "F0", "0X0", "0F0;0F1", "-1F0", "0F0,\"", "0F99999999999"} {
		if _, err := torchcsv.Read(strings.NewReader(text), "x.csv"); !errors.Is(err, torchcsv.ErrFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if err := torchcsv.Write(&bytes.Buffer{}, &plan.Plan{Problem: plan.Remat}); !errors.Is(err, torchcsv.ErrFormat) {
		t.Errorf("a plan of remat: %v", err)
	}
}
