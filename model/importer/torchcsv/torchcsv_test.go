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
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/flush"
	"workbench/model/testcase/random"
	verifyflush "workbench/model/verify/flush"
)

// What is written of a plan is read back as its operations, GPU by GPU, in order.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 1))
	for range 100 {
		in := random.Stages(r, 2+2*r.IntN(2), true)
		v, err := view.New(in, platform.Platform{
			Memory: 1000, MicroBatches: 1 + r.IntN(6),
			Placement: [...]string{plan.Straight, plan.VShaped, plan.Interleaved}[r.IntN(3)],
		})
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
			g, op := v.GPU[o.Stage-1], o.Op
			if op == plan.OpB && v.Split[o.Stage-1] {
				op = "I"
			}
			a := torchcsv.Action{Stage: o.Stage - 1, Op: op, MicroBatch: o.MicroBatch - 1}
			if k := len(want[g]) - 1; op == plan.OpW && want[g][k] == (torchcsv.Action{Stage: a.Stage, Op: "I", MicroBatch: a.MicroBatch}) {
				want[g][k].Op = plan.OpB // the two at once
				continue
			}
			want[g] = append(want[g], a)
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
	if err != nil || len(s) != 2 || len(s[0]) != 4 || s[0][2] != (torchcsv.Action{Stage: 0, Op: "I", MicroBatch: 0}) {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{
		"0F", "F0", "0X0", "0F0;0F1", "-1F0", "0F0,\"", "0F99999999999", "0SEND_F", "(0F0;1B0",
		"(0F0;1X0)OVERLAP_F_B", "0SEND_X1",
	} {
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
			in := random.Stages(r, 4, split)
			in.Runtime = stages.Torch
			for i := range in.Stages {
				s := &in.Stages[i]
				s.ForwardTime, s.BackwardTime, s.ForwardMemory = s.ForwardTime+r.Float64(), s.BackwardTime+r.Float64(), s.ForwardMemory+1
				s.BackwardMemory--
				if split { // gradients for W, kept from B on
					more := float64(r.IntN(30))
					s.BackwardMemory, s.WeightMemory = s.BackwardMemory+more, s.WeightMemory-more
				}
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
				report, err := verifyflush.Verify(in, p)
				if err != nil || !report.Valid() || len(report.ClaimErrors) > 0 || math.Abs(report.Flush.Span-s.Span) > 1e-9*s.Span {
					t.Errorf("%s, %s: %v %+v, written with %v", placement, name, err, report, s.Span)
				}
				if again, ok := v.OrderOf(p); !ok || !cmp.Equal(again, order) {
					t.Errorf("%s, %s: read as %v, written %v", placement, name, again, order)
				}
				made[name]++
			}
			in.Runtime, in.Stages[1].OffloadMemory, in.Stages[1].OffloadTime = "", 1, 1
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
	if len(made) != 12 || made["list"] != 6 || made["search"] != 6 || made["modulo"] != 6 || made["zb-v"] != 2 ||
		made["1f1b-interleaved"] != 2 || made["1f1b"] != 2 {
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

// stagesOf returns n stages with F and the backward of one duration each, W apart if weight is above 0.
func stagesOf(n int, backward, weight float64) *stages.Partition {
	in := &stages.Partition{Name: "equal"}
	for range n {
		s := stages.Stage{ForwardTime: 1, BackwardTime: backward, WeightTime: weight, ForwardMemory: 2, BackwardMemory: -2}
		if weight > 0 {
			s.BackwardMemory, s.WeightMemory = -1, -1
		}
		in.Stages = append(in.Stages, s)
	}
	return in
}

// Every action type of torch.distributed.pipelining is read: communication takes no place in the order, an overlapped pair is its
// parts, backwards come in any order, stages are on any ranks, and a full backward of a split stage is I and W.
func TestActions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		in         *stages.Partition
		span       float64
		placement  string
	}{
		{
			"communication", "0UNSHARD,0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD,0RESHARD,0WAIT_REDUCE_GRAD\n" +
				"1UNSHARD,1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1,1REDUCE_GRAD,1RESHARD\n",
			stagesOf(2, 2, 0), 9, plan.Straight,
		},
		{
			"overlap", "0F0,0F1,0F2,3F0,3I0,3W0,(3F1;0B0)OVERLAP_F_B,(3F2;3B1)OVERLAP_F_B,3B2,0B1,0B2\n" +
				"1F0,1F1,2F0,1F2,2F1,2B0,(2F2;1B0)OVERLAP_F_B,2B1,1B1,2B2,1B2\n",
			stagesOf(4, 1, 1), 26, plan.VShaped,
		},
		{
			"reverse", "0F0,0F1,0F2,0F3,2F0,2F1,2F2,2F3,,,2B3,2B2,2B1,2B0,0B3,0B2,0B1,0B0\n" +
				"1F0,1F1,1F2,1F3,3F0,3F1,3F2,3F3,3B3,3B2,3B1,3B0,1B3,1B2,1B1,1B0\n",
			stagesOf(4, 2, 0), 27, plan.Interleaved,
		},
		{"ranks reversed", "1F0,1B0\n0F0,0B0\n", stagesOf(2, 2, 0), 6, "1,0"},
		{"three stages and one", "0F0,1F0,3F0,3B0,1B0,0B0\n2F0,2B0\n", stagesOf(4, 1, 0), 8, "0,0,1,0"},
		{"older names", "0F0,0B0,0W0\n1F0,1B0,1W0\n", stagesOf(2, 1, 1), 5, plan.Straight},
	} {
		s, err := torchcsv.Read(strings.NewReader(c.text), "x.csv")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		p, err := s.Plan(c.in, "x.csv")
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		r, err := verifyflush.Verify(c.in, p)
		if err != nil || !r.Valid() || r.Flush.Span != c.span || p.Platform.Placement != c.placement {
			t.Errorf("%s: %v, %+v, placement %s; want span %g on %s", c.name, err, r, p.Platform.Placement, c.span, c.placement)
		}
	}
}

// What does not fit the stages is refused with the line it is on.
func TestLines(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"0F0,0B0\n1F0,1B0,2F0\n":             "x.csv:2: 2F0: there is no stage 2",
		"0F0,0B0\n1F0\n":                     "x.csv:2: 1B0 is missing",
		"0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n": "x.csv:1: 0B0 waits forever",
		"0F0,0B0\n1B0,1F0\n":                 "x.csv:2: 1B0 comes before its F",
		"0F0,0B0,0F0\n1F0,1B0\n":             "x.csv:1: 0F0 is given twice",
		"0F0,0I0,0W0\n1F0,1B0\n":             "x.csv:1: 0I0 is a part of a backward",
		"0F0,1F0,0B0\n1B0\n":                 "x.csv:2: 1B0: stage 1 is on rank 0, too",
		"0F0,0B0\n0UNSHARD\n":                "x.csv:2: rank 1 computes nothing",
		"0F0,0B0\n":                          "x.csv: no rank has stage 1",
	} {
		s, err := torchcsv.Read(strings.NewReader(text), "x.csv")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Plan(stagesOf(2, 2, 0), "x.csv"); !errors.Is(err, torchcsv.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
}
