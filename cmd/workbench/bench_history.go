package main

import (
	"io"

	"github.com/urfave/cli/v2"

	nights "workbench/bench/compare"
	"workbench/bench/history"
	"workbench/bench/outfile"
	"workbench/bench/render"
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
		Action: o.action(s, 2, 1<<20, "bench history FOLDER FOLDER… [--html FILE.html]", func(c *cli.Context, a []string) error {
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
			render.History(s.out, h, all)
			return nil
		}),
	}
}
