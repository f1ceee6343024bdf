package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench"
	"workbench/model/chain"
	"workbench/model/nearest"
	"workbench/model/profile"
)

// importer is one foreign format.
type importer struct {
	name, what string
	read       func(r io.Reader, name, costUnit string) (*chain.Chain, []string, error)
}

var importers = []importer{
	{"pipedream", "graph.txt of the PipeDream profiler", func(r io.Reader, name, _ string) (*chain.Chain, []string, error) {
		return profile.PipeDream(r, name)
	}},
	{"dnn-partitioning", "JSON graphs of the dnn-partitioning data set", func(r io.Reader, name, unit string) (*chain.Chain, []string, error) {
		return profile.DNNPartitioning(r, name, profile.DNNOptions{CostUnit: unit})
	}},
}

func newImport(s streams) *cli.Command {
	o := &common{}
	var from, unit, out, name string
	var formats []string
	for _, i := range importers {
		formats = append(formats, i.name)
	}
	return &cli.Command{
		Name:        "import",
		Usage:       "turn a foreign profile into a chain file",
		ArgsUsage:   "FILE",
		Description: "Formats:\n" + describeImporters(),
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`FORMAT` of FILE: " + strings.Join(formats, " or "), Destination: &from, Category: "input"},
			&cli.StringFlag{Name: "cost-unit", Usage: "`UNIT` of edge costs in dnn-partitioning files, s or ms (default: told from their sizes, with a warning)", Destination: &unit, Category: "input"},
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the chain (default: from the file's)", Destination: &name, Category: "output"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &out, Category: "output"},
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "import --from FORMAT FILE")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			if from == "" {
				return usagef("import: --from is needed: %s", strings.Join(formats, " or "))
			}
			if unit != "" && unit != "s" && unit != "ms" {
				return usagef("--cost-unit %q: s or ms is needed", unit)
			}
			for _, i := range importers {
				if i.name == from {
					return importFile(s, o, i, a[0], unit, name, out)
				}
			}
			return usagef("unknown format %q: %s", from, nearest.Hint(from, formats))
		},
	}
}

func describeImporters() string {
	var b strings.Builder
	for _, i := range importers {
		fmt.Fprintf(&b, "  %-18s %s\n", i.name, i.what)
	}
	return strings.TrimRight(b.String(), "\n")
}

func importFile(s streams, o *common, i importer, file, unit, name, out string) error {
	in := s.in
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return usagef("%s cannot be read: %v", file, err)
		}
		defer f.Close()
		in = f
	}
	c, warnings, err := i.read(in, file, unit)
	if err != nil {
		return bench.InputError(err)
	}
	if !o.quiet {
		for _, w := range warnings {
			fmt.Fprintf(s.err, "workbench: warning: %s\n", oneLine(w))
		}
	}
	if name != "" {
		c.Name = name
	}
	return emit(s, out, c.Write)
}
