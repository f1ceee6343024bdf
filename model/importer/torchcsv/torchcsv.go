// Package torchcsv writes and reads synchronous pipeline schedules in the CSV format of
// torch.distributed.pipelining: one row per rank, cells such as 0F0 (stage 0, forward, micro-batch 0).
// B is the full backward; I and W are its parts for the input and for the weights. Stages and micro-batches are
// numbered from 0. Before PyTorch 2.6 B also named the part for the input; Read accepts that, Write never does it.
package torchcsv

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// ErrFormat is wrapped by the errors of this package.
var ErrFormat = errors.New("not a schedule of torch.distributed.pipelining")

// Write writes the operations of a plan of a synchronous pipeline, one row per GPU in the order in which the plan lists them, in which
// they run. A W that
// directly follows the I of its stage and micro-batch is written with it as one B, which is cheaper in PyTorch than the
// two. O(operations).
func Write(w io.Writer, p *plan.Plan) error {
	if !slices.ContainsFunc(p.Ops, func(o plan.Op) bool { return o.Stage > 0 }) {
		return fmt.Errorf("%w: a plan of %s has no stages and micro-batches; those of synchronous pipelines have", ErrFormat, p.Problem)
	}
	type part struct{ stage, batch int }
	split := map[part]bool{}
	for k := range p.Ops {
		if o := &p.Ops[k]; o.Op == plan.OpW {
			split[part{o.Stage, o.MicroBatch}] = true
		}
	}
	rows := make([][]*plan.Op, p.Platform.Processors)
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Op == plan.OpO || o.Op == plan.OpP {
			return fmt.Errorf("%w: ops[%d], %s, copies to or from the host, and these schedules have F, B and W only", ErrFormat, k, o)
		}
		g, err := strconv.Atoi(strings.TrimPrefix(o.Resource, "gpu"))
		if err != nil || g < 0 || g >= len(rows) {
			return fmt.Errorf("%w: ops[%d], %s, is on %q; there are %d GPUs", ErrFormat, k, o, o.Resource, len(rows))
		}
		rows[g] = append(rows[g], o)
	}
	out := csv.NewWriter(w)
	for _, ops := range rows {
		cells := make([]string, 0, len(ops))
		for i := 0; i < len(ops); i++ {
			o, kind := ops[i], ops[i].Op
			if kind == plan.OpB && split[part{o.Stage, o.MicroBatch}] {
				kind = "I"
				if i+1 < len(ops) && ops[i+1].Op == plan.OpW && ops[i+1].Stage == o.Stage && ops[i+1].MicroBatch == o.MicroBatch {
					kind = plan.OpB
				}
			}
			cells = append(cells, fmt.Sprintf("%d%s%d", o.Stage-1, kind, o.MicroBatch-1))
			if kind == plan.OpB && split[part{o.Stage, o.MicroBatch}] {
				i++ // its W
			}
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// An Action is one computation of a cell.
type Action struct {
	Stage      int
	Op         string // F, B, I or W
	MicroBatch int
}

// String returns the action as a cell has it.
func (a Action) String() string { return fmt.Sprintf("%d%s%d", a.Stage, a.Op, a.MicroBatch) }

// A Schedule has the computations of each rank, in order. Rank r is line r+1 of the file.
type Schedule [][]Action

// The action types of torch.distributed.pipelining 2.15 (schedules.py, _ComputationType): computations need a
// micro-batch, collectives of FSDP have none or one, and an overlapped pair has two computations.
var (
	cell  = regexp.MustCompile(`^(\d{1,9})(F|B|I|W)(\d{1,9})$`)
	moves = regexp.MustCompile(`^\d{1,9}(?:(?:SEND_F|RECV_F|SEND_B|RECV_B|WAIT_SEND_F|WAIT_SEND_B)\d{1,9}|` +
		`(?:UNSHARD|RESHARD|REDUCE_GRAD|WAIT_REDUCE_GRAD)\d{0,9})$`)
	overlap = regexp.MustCompile(`^\((.*)\)OVERLAP_F_B$`)
)

// Read reads a schedule. Empty cells, in which a rank waits, and communication take no place in the order of
// computations and are skipped. The two parts of an OVERLAP_F_B run one after the other. Name is for errors, which
// name the line and the cell that cannot be read. O(size of the file).
func Read(r io.Reader, name string) (Schedule, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read: %w", name, err)
	}
	c := csv.NewReader(bytes.NewReader(data))
	c.FieldsPerRecord, c.TrimLeadingSpace = -1, true
	rows, err := c.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	s := make(Schedule, len(rows))
	for rank, cells := range rows {
		for i, text := range cells {
			text = strings.TrimSpace(text)
			parts := []string{text}
			if m := overlap.FindStringSubmatch(text); m != nil {
				parts = strings.Split(m[1], ";")
			} else if text == "" || moves.MatchString(text) {
				continue
			}
			for _, part := range parts {
				m := cell.FindStringSubmatch(strings.TrimSpace(part))
				if m == nil {
					return nil, fmt.Errorf("%w: %s:%d: cell %d is %q; it is stage, action and micro-batch, as 0F0: F, B, I, W, "+
						"a communication such as 0SEND_F0 or 0UNSHARD, or (0F1;1B0)OVERLAP_F_B", ErrFormat, name, rank+1, i+1, text)
				}
				stage, _ := strconv.Atoi(m[1]) // nine digits
				batch, _ := strconv.Atoi(m[3])
				s[rank] = append(s[rank], Action{stage, m[2], batch})
			}
		}
	}
	return s, nil
}

// Plan returns the schedule as a plan for a partition, timed again for the least span, with its peak memory as the
// limit. Stages may be on any ranks. A full backward of a stage whose backward is split is I and W in one: the stage before
// gets its gradient when both have ended. Micro-batches are alike, so the plan numbers them in the order in which each stage
// takes them; the schedule itself must run in the order that it has. The error names the line on which the schedule does not fit
// the partition. Its cost is that of [flush.Instance.Schedule].
func (s Schedule) Plan(in *stages.Partition, name string) (*plan.Plan, error) {
	s = s.shifted()
	p := platform.Platform{Memory: math.Inf(1), Processors: len(s)}
	for _, actions := range s {
		for _, a := range actions {
			p.MicroBatches = max(p.MicroBatches, a.MicroBatch+1)
		}
	}
	fail := func(err error) (*plan.Plan, error) { return nil, fmt.Errorf("%w: %s%w", ErrFormat, name, err) }
	ranks, err := s.ranks(len(in.Stages))
	if err != nil {
		return fail(err)
	}
	if err := s.complete(in, p.MicroBatches, ranks); err != nil {
		return fail(err)
	}
	if err := s.runs(len(in.Stages)); err != nil {
		return fail(err)
	}
	p.Placement = placement(ranks, len(s))
	v, err := flush.New(in, p)
	if err != nil {
		return fail(fmt.Errorf(": %w", err))
	}
	order, parts := s.order(v)
	if !v.Fused {
		v.Fused, v.Separate = true, parts
	}
	timed, err := v.Schedule(order)
	if err != nil {
		return fail(fmt.Errorf(": %w", err))
	}
	made := v.Plan("torch-csv", timed)
	made.Platform.Memory = made.Claims.PeakMemory
	return made, nil
}

// shifted returns s with the forwards of a stage numbered from 0 on where they are from 1 and its backwards from 0: so Schedule1F1B
// of PyTorch 2.15 prints those of its last stage. Micro-batches are alike.
func (s Schedule) shifted() Schedule {
	first := map[int][2]int{}
	for _, actions := range s {
		for _, a := range actions {
			numbers, seen := first[a.Stage]
			if !seen {
				numbers = [2]int{math.MaxInt, math.MaxInt}
			}
			kind := 1
			if a.Op == "F" {
				kind = 0
			}
			numbers[kind] = min(numbers[kind], a.MicroBatch)
			first[a.Stage] = numbers
		}
	}
	made := make(Schedule, len(s))
	for rank, actions := range s {
		made[rank] = slices.Clone(actions)
		for i := range made[rank] {
			if a := &made[rank][i]; a.Op == "F" && first[a.Stage] == [2]int{1, 0} {
				a.MicroBatch--
			}
		}
	}
	return made
}

// placement names the map from stages to ranks, or lists it if it has no name.
func placement(ranks []int, gpus int) string {
	straight, interleaved, v := len(ranks) == gpus, len(ranks)%gpus == 0, len(ranks) == 2*gpus
	for stage, rank := range ranks {
		straight = straight && rank == stage
		interleaved = interleaved && rank == stage%gpus
		v = v && rank == min(stage, 2*gpus-1-stage)
	}
	switch {
	case straight:
		return plan.Straight
	case interleaved:
		return plan.Interleaved
	case v:
		return plan.VShaped
	}
	return plan.WriteRanks(ranks)
}

// ranks returns the rank of each stage.
func (s Schedule) ranks(stages int) ([]int, error) {
	ranks := slices.Repeat([]int{-1}, stages)
	for rank, actions := range s {
		if len(actions) == 0 {
			return nil, fmt.Errorf(":%d: rank %d computes nothing; each rank has at least one stage", rank+1, rank)
		}
		for _, a := range actions {
			switch {
			case a.Stage >= stages:
				return nil, fmt.Errorf(":%d: %s: there is no stage %d; the %d stages of the instance are numbered from 0", rank+1, a, a.Stage, stages)
			case ranks[a.Stage] >= 0 && ranks[a.Stage] != rank:
				return nil, fmt.Errorf(":%d: %s: stage %d is on rank %d, too; a stage is on one rank", rank+1, a, a.Stage, ranks[a.Stage])
			}
			ranks[a.Stage] = rank
		}
	}
	if k := slices.Index(ranks, -1); k >= 0 {
		return nil, fmt.Errorf(": no rank has stage %d; the instance has stages 0 to %d", k, stages-1)
	}
	return ranks, nil
}

// complete checks that each stage computes each micro-batch forward and backward once, as B, as I and then W, or, as before
// PyTorch 2.6, as B and then W.
func (s Schedule) complete(in *stages.Partition, jobs int, ranks []int) error {
	if jobs > stages.MostMicroBatches {
		return fmt.Errorf(": %d micro-batches; there are from 1 to %d", jobs, stages.MostMicroBatches)
	}
	seen := map[Action]bool{}
	for rank, actions := range s {
		for _, a := range actions {
			wrong := ""
			switch f, b, i := (Action{a.Stage, "F", a.MicroBatch}), (Action{a.Stage, "B", a.MicroBatch}), (Action{a.Stage, "I", a.MicroBatch}); {
			case seen[a]:
				wrong = "is given twice"
			case a.Op != "F" && !seen[f]:
				wrong = "comes before its F"
			case a.Op == "B" && seen[i] || a.Op == "I" && seen[b]:
				wrong = "comes after another backward of the same micro-batch"
			case a.Op == "W" && !seen[i] && !seen[b]:
				wrong = "comes before its I"
			case (a.Op == "W" || a.Op == "I") && !in.Stages[a.Stage].Split():
				wrong = "is a part of a backward, and the instance does not split that of this stage (weight_time is 0)"
			}
			if wrong != "" {
				return fmt.Errorf(":%d: %s %s", rank+1, a, wrong)
			}
			seen[a] = true
		}
	}
	for stage, rank := range ranks {
		for j := range jobs {
			f, b, i, w := Action{stage, "F", j}, Action{stage, "B", j}, Action{stage, "I", j}, Action{stage, "W", j}
			for _, x := range []struct {
				missing bool
				what    Action
			}{{!seen[f], f}, {!seen[b] && !seen[i], b}, {seen[i] && !seen[w], w}} {
				if x.missing {
					return fmt.Errorf(":%d: %s is missing", rank+1, x.what)
				}
			}
		}
	}
	return nil
}

// runs checks that no ranks wait for each other: each takes its cells in order, when what they need has been computed.
func (s Schedule) runs(stages int) error {
	done, next := map[Action]bool{}, make([]int, len(s))
	ready := func(a Action) bool {
		switch {
		case a.Op == "F" && a.Stage > 0:
			return done[Action{a.Stage - 1, "F", a.MicroBatch}]
		case (a.Op == "B" || a.Op == "I") && a.Stage < stages-1:
			return done[Action{a.Stage + 1, "B", a.MicroBatch}] || done[Action{a.Stage + 1, "I", a.MicroBatch}]
		}
		return true
	}
	for moved := true; moved; {
		moved = false
		for rank, actions := range s {
			for ; next[rank] < len(actions) && ready(actions[next[rank]]); next[rank]++ {
				done[actions[next[rank]]], moved = true, true
			}
		}
	}
	for rank, actions := range s {
		if next[rank] < len(actions) {
			return fmt.Errorf(":%d: %s waits forever: the ranks wait for each other", rank+1, actions[next[rank]])
		}
	}
	return nil
}

// order returns the sequence of each GPU, in which a full backward of a stage whose backward is split is its two parts, and
// which of these parts are cells of their own.
func (s Schedule) order(v *flush.Instance) (o flush.Order, parts map[[2]int]bool) {
	apart := map[[2]int]bool{}
	for _, actions := range s {
		for _, a := range actions {
			if a.Op == "W" {
				apart[[2]int{a.Stage, a.MicroBatch}] = true
			}
		}
	}
	o, parts = make(flush.Order, v.GPUs), map[[2]int]bool{}
	count := make([]int, v.Stages) // of backwards
	for rank, actions := range s {
		for _, a := range actions {
			switch a.Op {
			case "F":
				o[rank] = append(o[rank], flush.OperationOf(a.Stage, flush.F))
			case "W":
				o[rank] = append(o[rank], flush.OperationOf(a.Stage, flush.W))
			default:
				b := flush.OperationOf(a.Stage, flush.B)
				o[rank] = append(o[rank], b)
				if v.Split[a.Stage] && !apart[[2]int{a.Stage, a.MicroBatch}] {
					o[rank] = append(o[rank], b+1)
				} else {
					parts[[2]int{int(b), count[a.Stage]}] = true
				}
				count[a.Stage]++
			}
		}
	}
	return o, parts
}
