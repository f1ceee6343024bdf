package main

import (
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/sweep/results"
	"workbench/model/platform"
)

func newBenchStatus(s streams) *cli.Command {
	o := &common{}
	var count int
	var metrics string
	return &cli.Command{
		Name:      "status",
		Usage:     "list the last nights in a folder, a line each, with changes from the previous night",
		ArgsUsage: "NIGHTS",
		Description: "NIGHTS has a folder a night, as nightly.sh makes them. Status 1: one of the nights\n" +
			"listed is worse than the previous one; 6: none is, but tasks failed or have no row yet.",
		Flags: append([]cli.Flag{
			intFlag("input", "last", &count, 7, "`N` nights"),
			stringFlag("output", "prometheus", &metrics, "", "write the last night to `FILE` for Prometheus's textfile collector"),
		}, o.flags()...),
		Action: o.action(s, 1, 1, "bench status NIGHTS [--last N] [--prometheus FILE]", func(_ *cli.Context, a []string) error {
			if count < 1 {
				return usagef("--last %d: at least 1 is needed", count)
			}
			nights, err := nightsIn(a[0])
			if err != nil {
				return err
			}
			list := results.StatusOf(nights, count, results.Defaults())
			if metrics != "" {
				write := func(w io.Writer) error { return results.WritePrometheus(w, list[len(list)-1]) }
				if err := atomicfile.Write(metrics, s.out, write); err != nil {
					return err
				}
			}
			err = o.print(s.out, "", map[string]any{"format": results.StatusFormat, "nights": list},
				func(w io.Writer) { results.WriteStatus(w, list) })
			if err != nil {
				return err
			}
			return statusOf(list)
		}),
	}
}

// statusOf is the worst of the nights as an exit status.
func statusOf(nights []results.NightStatus) error {
	worst := exitOK
	for _, n := range nights {
		switch {
		case n.Regressed():
			return &exitError{exitInternal}
		case n.Failed+n.Missing > 0:
			worst = exitTasksFailed
		}
	}
	if worst != exitOK {
		return &exitError{worst}
	}
	return nil
}

// nightsIn returns the nights in a folder, one at least.
func nightsIn(dir string) ([]results.Source, error) {
	nights, err := results.Nights(dir)
	if err == nil && len(nights) == 0 {
		err = solve.InputError(fmt.Errorf("%s has no folder of a sweep with rows", dir))
	}
	return nights, err
}

func newBenchPrune(s streams) *cli.Command {
	var keep int
	var dry, quiet bool
	return &cli.Command{
		Name:      "prune",
		Usage:     "remove the oldest nights of a folder",
		ArgsUsage: "NIGHTS",
		Flags: []cli.Flag{
			intFlag("input", "keep", &keep, 30, "keep the last `N` nights"),
			boolFlag("input", "dry-run", &dry, "print which nights would be removed, and remove none"),
			boolFlag("output", "quiet, q", &quiet, "do not print what was removed"),
		},
		Action: withArgs(1, 1, "bench prune NIGHTS --keep N", func(c *cli.Context, a []string) error {
			if keep < 1 {
				return usagef("--keep %d: at least 1 is needed", keep)
			}
			nights, err := nightsIn(a[0])
			if err != nil {
				return err
			}
			removed, err := results.Prune(nights, keep, dry)
			if !quiet {
				for _, folder := range removed {
					fmt.Fprintln(s.out, folder)
				}
				word := "removed"
				if dry {
					word = "would be removed"
				}
				fmt.Fprintf(s.out, "%s: %d of %s %s\n", a[0], len(removed), platform.Count(len(nights), "night"), word)
			}
			return err
		}),
	}
}
