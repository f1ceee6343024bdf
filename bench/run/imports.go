package run

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"workbench/model/lifetimes"
	"workbench/model/partition"
	"workbench/model/plan"
	"workbench/model/torchcsv"
)

// ImportLifetimes reads a file of minimalloc ([lifetimes.ReadCSV]); the instance has the
// name of the file.
func ImportLifetimes(r io.Reader, file string) (*lifetimes.Lifetimes, error) {
	l, err := lifetimes.ReadCSV(r, file)
	if err != nil {
		return nil, err
	}
	l.Name = strings.TrimSuffix(filepath.Base(file), ".csv")
	l.Source = map[string]any{"kind": "import", "format": "minimalloc"}
	return l, nil
}

// ImportSchedule reads a schedule of torch.distributed.pipelining ([torchcsv.Schedule.Plan])
// for the stages in another file.
func ImportSchedule(r io.Reader, file, stages string) (*plan.Plan, error) {
	if stages == "" {
		return nil, InputError(fmt.Errorf("--stages FILE is needed: the stages that the schedule is for, as workbench stages writes them"))
	}
	in, err := Load(stages, nil)
	if err != nil {
		return nil, err
	}
	x, ok := in.Instance.(*partition.Partition)
	if !ok {
		return nil, InputError(fmt.Errorf("--stages %s: a %s, not the stages of a pipeline", stages, in.Kind()))
	}
	schedule, err := torchcsv.Read(r, file)
	if err != nil {
		return nil, err
	}
	return schedule.Plan(x, file)
}
