package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/sweep/store"
	"workbench/model/platform"
)

// merged is what bench merge prints.
type merged struct {
	Sweep    string   `json:"sweep"`
	Folder   string   `json:"folder"`
	Tasks    int      `json:"tasks"`
	Rows     int      `json:"rows"`
	Added    int      `json:"added"`
	Repeated int      `json:"repeated"`
	Damaged  []string `json:"damaged"`
	Missing  []string `json:"missing"` // names of tasks without a row
}

func newBenchMerge(s streams) *cli.Command {
	o := &common{}
	var into string
	return &cli.Command{
		Name:        "merge",
		Usage:       "merge the folders of one sweep, such as those of its shards",
		ArgsUsage:   "FOLDER…",
		Description: "The folders are not changed. Tasks without a row are reported; workbench bench\nresume runs them.",
		Flags: append([]cli.Flag{
			stringFlag("sweep", "into", &into, "", "`FOLDER` that takes everything, new or one of the same sweep"),
		}, o.flags()...),
		Action: o.action(s, 1, 1<<16, "bench merge --into FOLDER FOLDER…", func(c *cli.Context, a []string) error {
			if into == "" {
				return usagef("bench merge: --into FOLDER is needed")
			}
			m, err := store.Merge(into, a)
			if err != nil {
				return err
			}
			return printMerged(s, o, into, m)
		}),
	}
}

func printMerged(s streams, o *common, into string, m *store.Merged) error {
	out := merged{
		Sweep: m.Sweep, Folder: into, Tasks: m.Tasks, Rows: m.Rows, Added: m.Added, Repeated: m.Repeated, Damaged: []string{},
		Missing: []string{},
	}
	for _, d := range m.Damaged {
		out.Damaged = append(out.Damaged, d.String())
		fmt.Fprintf(s.err, "workbench: %s; left out\n", render.OneLine(d.String()))
	}
	for i := range m.Missing {
		out.Missing = append(out.Missing, m.Missing[i].ID())
	}
	if o.json() {
		return render.Document(s.out, "workbench.merged/v1", out)
	}
	fmt.Fprintf(s.out, "%s: %s of %s in %s, %d of them new", m.Sweep, platform.Count(m.Rows, "row"), platform.Count(m.Tasks, "task"), into,
		m.Added)
	if m.Repeated > 0 {
		fmt.Fprintf(s.out, ", %d were there already", m.Repeated)
	}
	fmt.Fprintln(s.out)
	if n := len(m.Missing); n > 0 {
		fmt.Fprintf(s.out, "without a row: %s, the first %s: workbench bench resume %s does them\n", platform.Count(n, "task"), out.Missing[0],
			into)
	}
	return nil
}
