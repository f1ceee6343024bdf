// Package torchcsv writes and reads orders of pipelines that flush as
// torch.distributed.pipelining has its schedules: CSV with a row for each rank and in its
// cells operations such as 0F0, stage 0, forward, micro-batch 0. B is the backward, or I
// its part for the input and W that for the weights. Stages and micro-batches are numbered from 0. Before
// PyTorch 2.6 the part for the input was called B, too; that is read, and not written: a W behind a B is refused there now.
package torchcsv

import (
	"bytes"
	"cmp"
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

// Write writes the operations of a plan of plan.Flush, a row for each GPU, in the order
// in which they run. O(operations·log operations).
func Write(w io.Writer, p *plan.Plan) error {
	if p.Problem != plan.Flush {
		return fmt.Errorf("%w: a plan of %s; only those of %s have stages and micro-batches", ErrFormat, p.Problem, plan.Flush)
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
		slices.SortStableFunc(ops, func(a, b *plan.Op) int { return cmp.Compare(a.Start, b.Start) })
		cells := make([]string, len(ops))
		for i, o := range ops {
			kind := o.Op
			if kind == plan.OpB && split[part{o.Stage, o.MicroBatch}] {
				kind = "I"
			}
			cells[i] = fmt.Sprintf("%d%s%d", o.Stage-1, kind, o.MicroBatch-1)
		}
		if err := out.Write(cells); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// An Action is a cell.
type Action struct {
	Stage      int
	Op         string // plan.OpF, plan.OpB or plan.OpW
	MicroBatch int
}

// A Schedule has the actions of each rank.
type Schedule [][]Action

var cell = regexp.MustCompile(`^(\d{1,9})(F|B|I|W)(\d{1,9})$`)

// Read reads a schedule; empty cells, in which a rank waits, are passed over. Name is for
// errors. O(size of the file).
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
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			m := cell.FindStringSubmatch(text)
			if m == nil {
				return nil, fmt.Errorf("%w: %s:%d: cell %d is %q; it is stage, F, B, I or W, and micro-batch, as 0F0", ErrFormat, name, rank+1, i+1, text)
			}
			stage, _ := strconv.Atoi(m[1]) // nine digits
			batch, _ := strconv.Atoi(m[3])
			s[rank] = append(s[rank], Action{stage, strings.Replace(m[2], "I", plan.OpB, 1), batch})
		}
	}
	return s, nil
}

// Plan returns the schedule as a plan for a partition, timed anew for the least span, in
// as much memory as it takes. The error says in what the schedule is none for the partition: its stages are
// not where a placement of workbench has them, or micro-batches do not come in their order.
// Its cost is that of [flush.Instance.Schedule].
func (s Schedule) Plan(in *stages.Partition, name string) (*plan.Plan, error) {
	p := platform.Platform{Memory: math.Inf(1), Processors: len(s)}
	for _, actions := range s {
		for _, a := range actions {
			p.MicroBatches = max(p.MicroBatches, a.MicroBatch+1)
		}
	}
	var wrong error
	for _, p.Placement = range []string{plan.Straight, plan.Interleaved, plan.VShaped} {
		v, err := flush.New(in, p)
		if err != nil {
			wrong = cmp.Or(wrong, err)
			continue
		}
		order, err := s.order(v)
		if err != nil {
			wrong = err
			continue
		}
		timed, err := v.Schedule(order)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
		}
		made := v.Plan("torch-csv", timed)
		made.Platform.Memory = made.Claims.PeakMemory
		return made, nil
	}
	return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, wrong)
}

// order returns the words of the GPUs.
func (s Schedule) order(v *flush.Instance) (flush.Order, error) {
	o, next := make(flush.Order, v.GPUs), map[flush.Letter]int{}
	for rank, actions := range s {
		for _, a := range actions {
			if a.Stage >= v.Stages || v.GPU[a.Stage] != rank {
				return nil, fmt.Errorf("stage %d is on rank %d; there are %d stages, placed %s", a.Stage, rank, v.Stages, v.Platform.Placement)
			}
			l := flush.On(a.Stage, slices.Index([]string{plan.OpF, plan.OpB, plan.OpW}, a.Op))
			if a.MicroBatch != next[l] {
				return nil, fmt.Errorf("stage %d has %s of micro-batch %d when that of %d is next", a.Stage, a.Op, a.MicroBatch, next[l])
			}
			next[l]++
			o[rank] = append(o[rank], l)
		}
	}
	if !v.Complete(o) {
		return nil, fmt.Errorf("an operation of some stage and micro-batch is missing or too much: each of the %d stages has an F and a B of each of the %d micro-batches, and a W if its backward is split", v.Stages, v.Jobs)
	}
	return o, nil
}
