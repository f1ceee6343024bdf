package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/sweep/results"
)

func newBenchHistory(s streams) *cli.Command {
	o := &common{}
	var page string
	var all bool
	return &cli.Command{
		Name:      "history",
		Usage:     "compare many sweeps: what changed, since which night and version, and whether the change persists",
		ArgsUsage: "FOLDER FOLDER…",
		Description: "FOLDER is the folder of a sweep, or a file of rows; nights are put in the order of\n" +
			"their starts. The rules are those of bench compare; steps and slopes of methods are\n" +
			"fitted to all nights. Ends with status 1 while a regression persists.",
		Flags: append([]cli.Flag{
			stringFlag("output", "html", &page, "", "write all nights on one page, `FILE`.html"),
			boolFlag("output", "all", &all, "list every change, not the first 50 only"),
		}, o.flags()...),
		Action: o.action(s, 2, 1<<20, "bench history FOLDER FOLDER… [--html FILE.html]", func(c *cli.Context, a []string) error {
			var sources []results.Source
			for _, folder := range a {
				n, err := readNight(folder)
				if err != nil {
					return err
				}
				sources = append(sources, results.Source{Folder: folder, Night: n})
			}
			given := len(sources)
			if sources = results.SinceChange(sources); len(sources) < given {
				fmt.Fprintf(s.err, "workbench: the history begins with %s, which has no task in common with the night before\n", sources[0].Folder)
			}
			h, err := results.NewHistory(sources, results.Defaults())
			if err != nil {
				return err
			}
			if page != "" {
				if err := atomicfile.Write(page, s.out, func(w io.Writer) error { return h.WriteHTML(w, sources) }); err != nil {
					return err
				}
			}
			err = o.print(s.out, "", h, func(w io.Writer) { h.WriteText(w, all) })
			if err == nil && h.Standing() > 0 {
				return &exitError{exitInternal}
			}
			return err
		}),
	}
}
