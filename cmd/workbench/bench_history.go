package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	nights "workbench/bench/compare"
	"workbench/bench/history"
	"workbench/bench/outfile"
	"workbench/bench/report/rows"
	"workbench/bench/words"
)

func newBenchHistory(s streams) *cli.Command {
	o := &common{}
	var page string
	var all bool
	return &cli.Command{
		Name:      "history",
		Usage:     "many sweeps side by side: what changed, since which night and version, and whether it still stands",
		ArgsUsage: "FOLDER FOLDER…",
		Description: "FOLDER is the folder of a sweep, or a file of rows; nights are put in the order of\n" +
			"their starts. The rules are those of bench compare.",
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "write all nights on one page, `FILE`.html", Destination: &page, Category: "output"},
			&cli.BoolFlag{Name: "all", Usage: "list every change, not the first 50 only", Destination: &all, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 2, 1<<20, "bench history FOLDER FOLDER… [--html FILE.html]")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			var sources []history.Source
			for _, folder := range a {
				n, err := readNight(folder)
				if err != nil {
					return err
				}
				sources = append(sources, history.Source{Folder: folder, Night: n})
			}
			h, err := history.New(sources, nights.Defaults())
			if err != nil {
				return err
			}
			if page != "" {
				if err := outfile.Write(page, s.out, func(w io.Writer) error { return h.WriteHTML(w, sources) }); err != nil {
					return err
				}
			}
			if o.json() {
				return writeJSON(s.out, h)
			}
			printHistory(s.out, h, all)
			return nil
		},
	}
}

func printHistory(w io.Writer, h *history.History, all bool) {
	t := words.Table(w, table.Row{"night", "begun", "folder", "version", "rows", "proved", "without a result"}, 1, 5, 6, 7)
	for k, n := range h.Nights {
		t.AppendRow(table.Row{k, n.Started.UTC().Format("2006-01-02 15:04"), n.Folder, listed(n.Versions), n.Rows, n.Proved, n.Failed})
	}
	t.Render()
	fmt.Fprintln(w)
	shown := h.Changes
	if !all {
		shown = shown[:min(len(shown), mostDifferences)]
	}
	if len(shown) > 0 {
		t = words.Table(w, table.Row{"what", "stands", "since", "problem", "method", "instance", "limits", "detail"})
		for i := range shown {
			c := &shown[i]
			state := "over"
			if c.Stands {
				state = "stands"
			}
			t.AppendRow(table.Row{
				c.Kind, state, fmt.Sprintf("night %d, %s", c.Night, listed(h.Nights[c.Night].Versions)),
				c.Task.Problem, c.Task.Method, c.Name, rows.Limits(&c.Task), words.Wrap(words.OneLine(c.Detail), 60),
			})
		}
		t.Render()
	}
	if n := len(h.Changes) - len(shown); n > 0 {
		fmt.Fprintf(w, "… and %d more: --all lists them\n", n)
	}
	if i := slices.IndexFunc(h.Changes, func(c history.Change) bool { return c.Stands && c.Regression }); i >= 0 {
		fmt.Fprintf(w, "%d regressions stand; the first again:\n  %s\n", h.Standing(), rows.Command(&h.Changes[i].Task))
		return
	}
	fmt.Fprintln(w, "no regression stands")
}

// listed writes versions for a table.
func listed(versions []string) string {
	if len(versions) == 0 || versions[0] == "" {
		return "unknown"
	}
	s := versions[0]
	for _, v := range versions[1:] {
		s += " and " + v
	}
	return s
}
