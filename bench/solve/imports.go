package solve

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"workbench/model/importer/torchcsv"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/plan"
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

// ExportLifetimes writes an instance of lifetimes as minimalloc reads it
// ([lifetimes.Lifetimes.WriteCSV]). That format has sizes and alignments in whole bytes, and nothing
// else of an instance: others, and sizes with decimals, are refused. O(buffers).
func ExportLifetimes(w io.Writer, in plan.Instance) error {
	l, ok := in.(*lifetimes.Lifetimes)
	switch {
	case !ok:
		return fmt.Errorf("%s: a %s, and minimalloc takes lifetimes; workbench place PLAN --output FILE makes those of a plan", in.Title(), in.Kind())
	case l.Unit.PerByte() != 1:
		return fmt.Errorf("%s: sizes have decimals, and minimalloc takes whole bytes", l.Name)
	}
	return l.WriteCSV(w, nil)
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
