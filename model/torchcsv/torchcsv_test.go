package torchcsv_test

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/heuristics/flush"
	optimum "workbench/model/exhaustive/flush"
	view "workbench/model/flush"
	"workbench/model/periodic"
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

// The order that any method makes for any placement that it is for is read back as it was written, of a
// pipeline whose times are all different; the plan of it is valid, as long, and takes as much. One with
// copies to the host is refused.
func TestEveryMethodAndPlacement(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	made := map[string]int{}
	for _, placement := range []string{plan.Straight, plan.Interleaved, plan.VShaped} {
		for _, split := range []bool{true, false} {
			in := optimum.RandomStages(r, 4, split)
			for i := range in.Stages {
				s := &in.Stages[i]
				s.ForwardTime, s.BackwardTime, s.ForwardMemory = s.ForwardTime+r.Float64(), s.BackwardTime+r.Float64(), s.ForwardMemory+1
				s.BackwardMemory--
			}
			v, err := view.New(in, platform.Platform{Memory: 1000, MicroBatches: 8, Placement: placement})
			if err != nil {
				t.Fatal(err)
			}
			goal := flush.Goal{Bound: v.Bound().Value, Steps: 1000}
			for name, order := range map[string]view.Order{
				"gpipe": flush.GPipe(t.Context(), v), "1f1b": flush.OneFOneB(t.Context(), v), "1f1b-interleaved": flush.Interleaved(t.Context(), v),
				"zb-h1": flush.ZBH1(t.Context(), v), "zb-h2": flush.ZBH2(t.Context(), v), "zb-auto": flush.ZBAuto(t.Context(), v),
				"zb-v": flush.ZBV(t.Context(), v), "v-half": flush.VHalf(t.Context(), v), "v-min": flush.VMin(t.Context(), v),
				"list": flush.List(t.Context(), v), "modulo": flush.Modulo(1)(t.Context(), v), "search": flush.Improve(t.Context(), v, goal).Order,
			} {
				if order == nil {
					continue
				}
				s, err := v.Schedule(order)
				if err != nil {
					t.Fatal(err)
				}
				var b bytes.Buffer
				if err := torchcsv.Write(&b, v.Plan(name, s)); err != nil {
					t.Fatal(err)
				}
				read, err := torchcsv.Read(&b, name)
				if err != nil {
					t.Fatal(err)
				}
				p, err := read.Plan(in, name)
				if err != nil {
					t.Fatal(err)
				}
				report, err := periodic.VerifyFlush(in, p)
				if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 || math.Abs(report.Flush.Span-s.Span) > 1e-9*s.Span {
					t.Errorf("%s, %s: %v %+v, written with %v", placement, name, err, report, s.Span)
				}
				if again, ok := v.OrderOf(p); !ok || !cmp.Equal(again, order) {
					t.Errorf("%s, %s: read as %v, written %v", placement, name, again, order)
				}
				made[name]++
			}
			in.Stages[1].OffloadMemory, in.Stages[1].OffloadTime = 1, 1
			if v, err = view.New(in, v.Platform); err != nil {
				t.Fatal(err)
			}
			s, err := v.Schedule(flush.List(t.Context(), v))
			if err != nil {
				t.Fatal(err)
			}
			if err := torchcsv.Write(new(bytes.Buffer), v.Plan("list", s)); !errors.Is(err, torchcsv.ErrFormat) {
				t.Errorf("copies to the host: %v", err)
			}
		}
	}
	if len(made) != 12 || made["list"] != 6 || made["search"] != 6 || made["modulo"] != 6 || made["zb-v"] != 2 || made["1f1b-interleaved"] != 2 || made["1f1b"] != 2 {
		t.Errorf("orders that were written: %v", made)
	}
}
