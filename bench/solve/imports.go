package solve

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"

	"workbench/model/importer/dsasolver"
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ImportLifetimes reads a file of minimalloc ([lifetimes.ReadCSV]); the instance is named after the file. Its
// offsets are pins, unless placed is set: then they are returned as a plan.
func ImportLifetimes(r io.Reader, file string, placed bool) (*lifetimes.Lifetimes, *plan.Plan, error) {
	var l *lifetimes.Lifetimes
	var offsets []float64
	var err error
	if placed {
		l, offsets, err = lifetimes.ReadPlacedCSV(r, file)
	} else {
		l, err = lifetimes.ReadCSV(r, file)
	}
	if err != nil {
		return nil, nil, err
	}
	l.Name = strings.TrimSuffix(filepath.Base(file), ".csv")
	l.Source = map[string]any{"kind": "import", "format": "minimalloc"}
	if !placed {
		return l, nil, nil
	}
	return l, placedElsewhere(l, csvOffsets(l, offsets)), nil
}

// csvOffsets returns offsets by id, without the missing ones.
func csvOffsets(l *lifetimes.Lifetimes, offsets []float64) (list []plan.Offset) {
	for i, at := range offsets {
		if !math.IsNaN(at) {
			list = append(list, plan.Offset{ID: l.Buffers[i].ID, Offset: at})
		}
	}
	return list
}

// placedElsewhere returns the plan of the given offsets in bytes. Its memory is that of the pools; a pool without
// a capacity takes what its offsets need.
func placedElsewhere(l *lifetimes.Lifetimes, offsets []plan.Offset) *plan.Plan {
	p := plan.New(plan.Placement, "elsewhere", l, platform.Platform{})
	p.Unit, p.Offsets = platform.Byte, offsets
	at := map[string]float64{}
	for _, o := range offsets {
		at[o.ID] = o.Offset
	}
	for k, pool := range l.PoolList() {
		memory := pool.Capacity
		if math.IsInf(memory, 1) {
			memory = 0
			for i := range l.Buffers {
				if b := &l.Buffers[i]; b.Pool == k {
					memory = max(memory, at[b.ID]+l.Unit.Bytes(b.Size))
				}
			}
		}
		p.Platform.Memory += memory
	}
	return p
}

// ForeignPlacement reads a placement of in that another program wrote: a CSV of minimalloc with offsets, whose
// buffers are those of in, or a solution of dsa-solver. It returns nil if the file is something else.
func ForeignPlacement(data []byte, name string, in plan.Instance) (*plan.Plan, error) {
	l, ok := in.(*lifetimes.Lifetimes)
	text := bytes.TrimLeft(data, "\ufeff \t\r\n")
	document := len(text) > 0 && text[0] == '{'
	if !ok || document && !bytes.Contains(text, []byte(`"placements"`)) {
		return nil, nil
	}
	if document {
		offsets, err := dsasolver.ReadSolution(data, name, l)
		if err != nil {
			return nil, err
		}
		return placedElsewhere(l, offsets), nil
	}
	other, offsets, err := lifetimes.ReadPlacedCSV(bytes.NewReader(data), name)
	if err != nil {
		return nil, err
	}
	known := map[string]*lifetimes.Buffer{}
	for i := range l.Buffers {
		known[l.Buffers[i].ID] = &l.Buffers[i]
	}
	for i := range other.Buffers {
		b := &other.Buffers[i]
		if x := known[b.ID]; x != nil && (x.Lower != b.Lower || x.Upper != b.Upper || l.Unit.Bytes(x.Size) != b.Size) {
			return nil, fmt.Errorf("%s: buffer %q lives [%d, %d) with %g bytes, in %s [%d, %d) with %g: the file is a placement of another instance",
				name, b.ID, b.Lower, b.Upper, b.Size, l.Name, x.Lower, x.Upper, l.Unit.Bytes(x.Size))
		}
	}
	return placedElsewhere(l, csvOffsets(other, offsets)), nil
}

// ExportLifetimes writes an instance of lifetimes in the format of minimalloc ([lifetimes.Lifetimes.WriteCSV]).
// The error names features that the format lacks. O(buffers).
func ExportLifetimes(w io.Writer, in plan.Instance) error {
	l, err := exported(in, "minimalloc")
	if err != nil {
		return err
	}
	if what := l.Unsupported(); what != "" {
		return fmt.Errorf("%s: %s", l.Name, what)
	}
	return l.WriteCSV(w, nil)
}

// ExportDSA writes an instance of lifetimes as a problem of dsa-solver.
func ExportDSA(w io.Writer, in plan.Instance) error {
	l, err := exported(in, "dsa-solver")
	if err != nil {
		return err
	}
	return dsasolver.Write(w, l)
}

func exported(in plan.Instance, to string) (*lifetimes.Lifetimes, error) {
	l, ok := in.(*lifetimes.Lifetimes)
	if !ok {
		return nil, fmt.Errorf("%s: a %s, but %s takes lifetimes; workbench place PLAN --output FILE writes those of a plan", in.Title(),
			in.Kind(), to)
	}
	return l, nil
}

// ImportSchedule reads a schedule of torch.distributed.pipelining ([torchcsv.Schedule.Plan])
// for the stages in another file.
func ImportSchedule(r io.Reader, file, stagesFile string) (*plan.Plan, error) {
	if stagesFile == "" {
		return nil, InputError(fmt.Errorf("--stages FILE is needed: the stages that the schedule is for, as workbench stages writes them"))
	}
	in, err := Load(stagesFile, nil)
	if err != nil {
		return nil, err
	}
	x, ok := in.Instance.(*stages.Partition)
	if !ok {
		return nil, InputError(fmt.Errorf("--stages %s: a %s, not the stages of a pipeline", stagesFile, in.Kind()))
	}
	schedule, err := torchcsv.Read(r, file)
	if err != nil {
		return nil, err
	}
	return schedule.Plan(x, file)
}
