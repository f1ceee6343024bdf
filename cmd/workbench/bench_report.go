package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/sweep/results"
	"workbench/model/platform"
)

// reportOptions are the flags of bench report.
type reportOptions struct {
	quiet          bool
	output, folder string
	before         cli.StringSlice
	table          results.Table
}

const reportUsage = "bench report SWEEP [--output FILE.html] [--folder FOLDER] [--before SWEEP] [--table WHAT]"

func newBenchReport(s streams) *cli.Command {
	o := &reportOptions{}
	return &cli.Command{
		Name:      "report",
		Usage:     "report a sweep as one HTML page that needs no network; pictures and tables with --folder",
		ArgsUsage: "SWEEP",
		Description: "SWEEP is the folder of a sweep, or a file of rows. A sweep that is still running\n" +
			"may be reported: pending tasks are counted.",
		Flags: []cli.Flag{
			stringFlag("output", "output, o", &o.output, "", "write the page to `FILE`.html (default: report.html in the sweep's folder)"),
			stringFlag("output", "folder", &o.folder, "",
				"write the page, its figures as SVG and PNG, and all numbers as CSV into `FOLDER` instead"),
			&cli.StringSliceFlag{
				Name: "before", Usage: "compare with the earlier `SWEEP` on the page; given more than once, the latest is compared and all are " +
					"listed side by side", Destination: &o.before, Category: "input",
			},
			stringFlag("output", "table", &o.table.Cells, "",
				"print a table in Markdown instead, instances by methods; `WHAT` its cells say is one of: "+
					strings.Join(results.Tables(), ", ")),
			stringFlag("output", "by", &o.table.By, "",
				"with --table a line for all cases of the same `WHAT`: "+strings.Join(results.Groups(), ", ")),
			stringFlag("output", "over", &o.table.Over, "", "with --table ratio: over what `METHOD` has, instead of the best bound"),
			boolFlag("output", "quiet, q", &o.quiet, "do not print what was written"),
		},
		Action: withArgs(1, 1, reportUsage, func(c *cli.Context, a []string) error {
			if c.IsSet("output") && o.folder != "" {
				return usagef("--output %s and --folder %s: one of them is needed; the folder has the page, too", o.output, o.folder)
			}
			if o.table.Cells != "" && (c.IsSet("output") || o.folder != "" || c.IsSet("before")) {
				return usagef("--table %s goes to standard output, without --output, --folder or --before", o.table.Cells)
			}
			return benchReport(s, o, a[0])
		}),
	}
}

func benchReport(s streams, o *reportOptions, path string) error {
	night, err := readNight(path)
	if err != nil {
		return err
	}
	var earlier []*results.Night
	for _, folder := range o.before.Value() {
		old, err := readNight(folder)
		if err != nil {
			return err
		}
		earlier = append(earlier, old)
	}
	r, err := results.NewReportAfter(night, earlier, results.Defaults())
	if err != nil {
		return err
	}
	if o.table.Cells != "" {
		return r.WriteTable(s.out, o.table)
	}
	where := cmp.Or(o.folder, o.output)
	if where == "" {
		where = "report.html"
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			where = filepath.Join(path, where)
		}
	}
	if o.folder != "" {
		err = r.WriteFolder(o.folder)
	} else {
		err = atomicfile.Write(where, s.out, r.WriteHTML)
	}
	if err != nil {
		return err
	}
	if !o.quiet {
		fmt.Fprintf(s.out, "%s: %s", where, platform.Count(r.Rows, "run"))
		if r.NoPlan > 0 {
			fmt.Fprintf(s.out, ", %d without a plan", r.NoPlan)
		}
		fmt.Fprintf(s.out, ", %d failed", r.Failed)
		if r.Missing > 0 {
			fmt.Fprintf(s.out, ", %s not run", platform.Count(r.Missing, "task"))
		}
		if r.Damaged+r.Torn > 0 {
			fmt.Fprintf(s.out, ", %s damaged", platform.Count(r.Damaged+r.Torn, "line"))
		}
		if n := len(r.Contradictions); n > 0 {
			fmt.Fprintf(s.out, ", %s", platform.Count(n, "contradiction"))
		}
		if len(earlier) > 0 && r.Comparison == nil {
			fmt.Fprint(s.out, ", not compared: no task is in both nights")
		}
		fmt.Fprintln(s.out)
	}
	return nil
}

// readNight reads a sweep that has rows.
func readNight(path string) (*results.Night, error) {
	n, err := results.ReadNight(path)
	if err != nil {
		return nil, err
	}
	if len(n.Rows) == 0 && n.Damage != "" {
		return nil, solve.InputError(fmt.Errorf("%s has no row that can be used: %s; workbench bench resume redoes their tasks", path,
			n.Damage))
	}
	if len(n.Rows) == 0 {
		return nil, solve.InputError(fmt.Errorf("%s has no rows yet: workbench bench run or bench resume makes them", path))
	}
	return n, nil
}
