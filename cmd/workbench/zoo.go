package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench"
	"workbench/model/chain"
	"workbench/model/platform"
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
		Usage: "the built-in networks and their parameters",
		Flags: o.flags(),
		Action: func(c *cli.Context) error {
			if _, err := args(c, 0, 0, "zoo list"); err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			entries := zoo.List()
			if o.json() {
				return writeJSON(s.out, entries)
			}
			t := newTable(s.out, table.Row{"network", "what it is", "parameters and defaults"})
			for _, e := range entries {
				var params []string
				for _, p := range e.Parameters {
					params = append(params, p.Name+"="+p.Default)
				}
				t.AppendRow(table.Row{e.Name, wrap(e.Description, 48), wrap(strings.Join(params, " "), 44)})
			}
			t.Render()
			fmt.Fprintf(s.out, "\nUse one as an instance: workbench solve '%s%s?%s=%s'\n", zoo.Scheme, entries[0].Name, entries[0].Parameters[0].Name, entries[0].Parameters[0].Default)
			return nil
		},
	}
}

// zooChain reads NAME[?…], with or without the scheme.
func zooChain(name string) (*chain.Chain, error) {
	c, err := zoo.Load(zoo.Scheme + strings.TrimPrefix(name, zoo.Scheme))
	return c, bench.InputError(err)
}

func newZooShow(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:      "show",
		Usage:     "the layers of a built-in network",
		ArgsUsage: "NAME[?batch=8&…]",
		Flags:     o.flags(),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "zoo show NAME[?batch=8&…]")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			net, err := zooChain(a[0])
			if err != nil {
				return err
			}
			if o.json() {
				return net.Write(s.out)
			}
			showChain(s.out, net)
			return nil
		},
	}
}

// showChain prints the layers of a chain, runs of equal ones once.
func showChain(w io.Writer, c *chain.Chain) {
	t := newTable(w, table.Row{"layer", "name", "forward", "backward", "activation", "saved", "weight"}, 3, 4, 5, 6, 7)
	var weight, saved float64
	for i := 0; i < len(c.Layers); {
		l, j := c.Layers[i], i+1
		for j < len(c.Layers) && sameCosts(l, c.Layers[j]) {
			j++
		}
		number := fmt.Sprint(i + 1)
		if j > i+1 {
			number = fmt.Sprintf("%d–%d", i+1, j)
		}
		t.AppendRow(table.Row{
			number, l.Name, platform.FormatSeconds(l.ForwardTime), platform.FormatSeconds(l.BackwardTime),
			platform.FormatBytes(l.Activation), platform.FormatBytes(l.Saved), platform.FormatBytes(l.Weight),
		})
		weight, saved = weight+float64(j-i)*l.Weight, saved+float64(j-i)*l.Saved
		i = j
	}
	t.AppendFooter(table.Row{"", fmt.Sprintf("%d layers", c.Len()), "", platform.FormatSeconds(c.TotalTime()), "", platform.FormatBytes(saved), platform.FormatBytes(weight)})
	fmt.Fprintf(w, "%s: %d samples a step, input %s\n\n", c.Name, c.Samples, platform.FormatBytes(c.Input.Activation))
	t.Render()
}

// sameCosts reports whether two layers differ at most in their names.
func sameCosts(a, b chain.Layer) bool {
	a.Name = b.Name
	return a == b
}

func newZooExport(s streams) *cli.Command {
	o := &common{}
	var out string
	return &cli.Command{
		Name:      "export",
		Usage:     "write a built-in network as a chain file",
		ArgsUsage: "NAME[?batch=8&…]",
		Flags:     append([]cli.Flag{&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "write to `FILE` instead of standard output", Destination: &out, Category: "output"}}, o.flags()...),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "zoo export NAME[?batch=8&…] [--output FILE]")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			net, err := zooChain(a[0])
			if err != nil {
				return err
			}
			return emit(s, out, net.Write)
		},
	}
}

// emit writes to the named file, or to standard output if there is no name.
func emit(s streams, name string, write func(io.Writer) error) error {
	if name == "" || name == "-" {
		return write(s.out)
	}
	return writeFile(name, write)
}
