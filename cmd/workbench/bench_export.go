package main

import (
	"bytes"
	"io"
	"slices"

	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/sweep/results"
	"workbench/model/nearest"
)

func newBenchExport(s streams) *cli.Command {
	var format, output string
	return &cli.Command{
		Name:      "export",
		Usage:     "export the rows of a sweep as CSV, Parquet, or in the Go benchmark format for benchstat",
		ArgsUsage: "SWEEP",
		Flags: []cli.Flag{
			stringFlag("output", "format", &format, "csv", "`FORMAT` of the output: csv, parquet or benchfmt"),
			stringFlag("output", "output, o", &output, "", "write to `FILE` instead of standard output"),
		},
		Action: withArgs(1, 1, "bench export SWEEP [--format FORMAT] [--output FILE]", func(c *cli.Context, a []string) error {
			if !slices.Contains(results.Formats, format) {
				return usagef("--format %q: %s", format, nearest.Hint(format, results.Formats))
			}
			night, err := readNight(a[0])
			if err != nil {
				return err
			}
			if output != "" {
				return atomicfile.Write(output, s.out, func(w io.Writer) error { return results.Write(w, night, format) })
			}
			var b bytes.Buffer // whole or not at all
			if err := results.Write(&b, night, format); err != nil {
				return err
			}
			_, err = s.out.Write(b.Bytes())
			return err
		}),
	}
}
