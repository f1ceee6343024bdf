package torchcsv_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/heuristics/flush"
	optimum "workbench/model/exhaustive/flush"
	"workbench/model/importer/torchcsv"
	"workbench/model/periodic"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/flush"
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
				if err := asPyTorch(b.String(), v.Stages, v.Jobs); err != nil {
					t.Errorf("%s, %s: %v\n%s", placement, name, err, b.String())
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

// asPyTorch does with a schedule what PyTorch does when it loads one: torch/distributed/pipelining/schedules.py of the main
// branch at 00722e6, read, not run. The cells are those of _Action.from_str; _validate_schedule wants F before
// B or I, I before W, a stage on one rank, and for all micro-batches F and either B or both I and W; and
// _add_send_recv goes through the ranks, again and again, and takes what has its input, until nothing is left.
func asPyTorch(text string, stages, batches int) error {
	cell := regexp.MustCompile(`^(\d+)(F|I|B|W)(\d+)$`)
	type action struct{ stage, kind, batch string }
	var ranks [][]action
	rankOf, done := map[string]int{}, map[action]bool{}
	for rank, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		var row []action
		for step, x := range strings.Split(line, ",") {
			m := cell.FindStringSubmatch(x)
			if m == nil {
				return fmt.Errorf("rank %d, step %d: %q is no action", rank, step, x)
			}
			a := action{m[1], m[2], m[3]}
			if before := map[string]string{"B": "F", "I": "F", "W": "I"}[a.kind]; before != "" && !done[action{a.stage, before, a.batch}] {
				return fmt.Errorf("rank %d, step %d: %s comes before %s", rank, step, x, before)
			}
			if other, ok := rankOf[a.stage]; ok && other != rank {
				return fmt.Errorf("stage %s is on ranks %d and %d", a.stage, other, rank)
			}
			rankOf[a.stage], done[a] = rank, true
			row = append(row, a)
		}
		ranks = append(ranks, row)
	}
	for s := range stages {
		count := map[string]int{}
		for a := range done {
			if a.stage == strconv.Itoa(s) {
				count[a.kind]++
			}
		}
		if count["F"] != batches || count["I"] != count["W"] || count["B"]+count["I"] != batches {
			return fmt.Errorf("stage %d has %v of %d micro-batches", s, count, batches)
		}
	}
	clear(done)
	for progress, left := true, len(ranks); left > 0; {
		if !progress {
			return errors.New("malformed compute schedule, can't schedule sends and receives")
		}
		progress, left = false, 0
		for rank, row := range ranks {
			if len(row) == 0 {
				continue
			}
			left++
			a := row[0]
			stage, err := strconv.Atoi(a.stage)
			if err != nil {
				return err
			}
			before, after := strconv.Itoa(stage-1), strconv.Itoa(stage+1)
			switch {
			case a.kind == "F" && stage > 0 && !done[action{before, "F", a.batch}]:
				continue
			case (a.kind == "I" || a.kind == "B") && stage < stages-1 && !done[action{after, "I", a.batch}] && !done[action{after, "B", a.batch}]:
				continue
			}
			done[a], ranks[rank], progress = true, row[1:], true
		}
	}
	return nil
}

// What PyTorch refuses is refused by the reading of it that the schedules are held against.
func TestAsPyTorch(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0F0,0B0\n1F0,1I0,1W0\n":             "",
		"0F0,0B0\n1F0,1B0,1W0\n":             "1W0 comes before I",
		"0B0,0F0\n1F0,1B0\n":                 "0B0 comes before F",
		"0F0,0B0\n1F0,1I0\n":                 "stage 1 has",
		"0F0,1F0\n0B0,1B0\n":                 "on ranks",
		"0F0,0B0\n1F0,1B\n":                  "no action",
		"1F0,1B0\n0F0,0B0\n":                 "",
		"0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n": "malformed",
	} {
		batches := 1 + strings.Count(text, "0F1")
		if err := asPyTorch(text, 2, batches); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, not %q", text, err, want)
		}
	}
}
