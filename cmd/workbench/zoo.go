package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/atomicfile"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/zoo"
)

func newZoo(s streams) *cli.Command {
	return &cli.Command{
		Name:        "zoo",
		Usage:       "built-in networks: list, show, export",
		Subcommands: []*cli.Command{newZooList(s), newZooShow(s), newZooExport(s)},
	}
}

func newZooList(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:  "list",
		Usage: "list the built-in networks and their parameters",
		Flags: o.flags(),
		Action: o.action(s, 0, 0, "zoo list", func(c *cli.Context, _ []string) error {
			entries := zoo.List()
			if o.json() {
				return render.Document(s.out, "workbench.network/v1", entries)
			}
			t := render.Table(s.out, table.Row{"network", "what it is", "parameters and defaults"})
			for _, e := range entries {
				var params []string
				for _, p := range e.Parameters {
					params = append(params, p.Name+"="+p.Default)
				}
				t.AppendRow(table.Row{e.Name, render.Wrap(e.Description, 48), render.Wrap(strings.Join(params, " "), 44)})
			}
			t.Render()
			fmt.Fprintf(s.out, "\nUse one as an instance: workbench solve '%s%s?%s=%s'\n", zoo.Scheme, entries[0].Name,
				entries[0].Parameters[0].Name, entries[0].Parameters[0].Default)
			return nil
		}),
	}
}

// zooInstance reads NAME[?…], with or without the scheme.
func zooInstance(name string) (*solve.Instance, error) {
	return solve.Load(zoo.Scheme+strings.TrimPrefix(name, zoo.Scheme), nil)
}

func newZooShow(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:      "show",
		Usage:     "print the layers of a built-in network; with as=graph the nodes of its training step",
		ArgsUsage: "NAME[?batch=8&…]",
		Flags:     o.flags(),
		Action: o.action(s, 1, 1, "zoo show NAME[?batch=8&…]", func(c *cli.Context, a []string) error {
			net, err := zooInstance(a[0])
			if err != nil {
				return err
			}
			if o.json() {
				return net.Write(s.out)
			}
			render.Outline(s.out, net.Instance, catalog.OutlineOf(net))
			return nil
		}),
	}
}

func newZooExport(s streams) *cli.Command {
	o := &common{}
	var out string
	return &cli.Command{
		Name:      "export",
		Usage:     "write a built-in network as a chain file; with as=graph or as=join as one of these",
		ArgsUsage: "NAME[?batch=8&…]",
		Flags:     append([]cli.Flag{stringFlag("output", "output, o", &out, "", "write to `FILE` instead of standard output")}, o.flags()...),
		Action: o.action(s, 1, 1, "zoo export NAME[?batch=8&…] [--output FILE]", func(c *cli.Context, a []string) error {
			net, err := zooInstance(a[0])
			if err != nil {
				return err
			}
			return emit(s, out, net.Write)
		}),
	}
}

// emit writes to the named file, or to standard output if there is no name.
func emit(s streams, name string, write func(io.Writer) error) error {
	return atomicfile.Write(cmp.Or(name, atomicfile.Standard), s.out, write)
}
