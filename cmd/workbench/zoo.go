package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/model/chain"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/plan"
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

// zooInstance reads NAME[?…], with or without the scheme.
func zooInstance(name string) (*run.Instance, error) {
	return run.Load(zoo.Scheme+strings.TrimPrefix(name, zoo.Scheme), nil)
}

func newZooShow(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:      "show",
		Usage:     "the layers of a built-in network; with as=graph the nodes of its training step",
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
			net, err := zooInstance(a[0])
			if err != nil {
				return err
			}
			switch {
			case o.json():
				return net.Write(s.out)
			case net.Graph != nil:
				showGraph(s.out, net.Graph)
			case net.Join != nil:
				showJoin(s.out, net.Join)
			default:
				showChain(s.out, net)
			}
			return nil
		},
	}
}

// showChain prints the layers of a chain, runs of equal ones once.
func showChain(w io.Writer, in *run.Instance) {
	c := in.Chain
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
	showRanges(w, in)
}

// showRanges prints the memory range of every problem the instance is for.
func showRanges(w io.Writer, in *run.Instance) {
	fmt.Fprintln(w)
	for _, p := range catalog.Problems() {
		if p.Accepts(in) == nil {
			low, high := p.Range(in)
			fmt.Fprintf(w, "memory of %s: M_low %s, M_high %s\n", p.Name, formatMemory(p, low), formatMemory(p, high))
		}
	}
}

// showGraph prints the nodes of a graph.
func showGraph(w io.Writer, g *graph.Graph) {
	t := newTable(w, table.Row{"node", "kind", "time", "memory", "overhead", "weight", "reads"}, 3, 4, 5, 6)
	pred, _ := g.Adjacency()
	for i := range g.Nodes {
		n := &g.Nodes[i]
		var reads []string
		for _, p := range pred[i] {
			reads = append(reads, g.Nodes[p].ID)
		}
		t.AppendRow(table.Row{
			n.ID, n.Kind, platform.FormatSeconds(n.Time), platform.FormatBytes(n.Memory),
			platform.FormatBytes(n.Overhead), platform.FormatBytes(n.Weight), wrap(strings.Join(reads, ", "), 60),
		})
	}
	fmt.Fprintf(w, "%s: %d nodes, %d edges, %d samples a step, input %s, computing once %s\n\n", g.Name, g.Len(), len(g.Edges), g.Samples,
		platform.FormatBytes(g.Input), platform.FormatSeconds(g.TotalTime()))
	t.Render()
	showRanges(w, &run.Instance{Instance: plan.Instance{Graph: g}})
}

// showJoin prints the branches of a join.
func showJoin(w io.Writer, j *join.Join) {
	fmt.Fprintf(w, "%s: %d branches, computing once %g\n\n", j.Name, j.K(), j.Span())
	t := newTable(w, table.Row{"branch", "layers", "keeps its gradient"}, 2)
	for b, l := range j.Branches {
		t.AppendRow(table.Row{b + 1, l, j.Keep[b]})
	}
	t.Render()
	showRanges(w, &run.Instance{Instance: plan.Instance{Join: j}})
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
		Usage:     "write a built-in network as a chain file; with as=graph or as=join as one of these",
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
			net, err := zooInstance(a[0])
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
