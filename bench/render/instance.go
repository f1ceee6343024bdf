package render

import (
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"

	"workbench/bench/solve/catalog"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Instance prints what an instance is made of: layers, nodes or branches.
func Instance(w io.Writer, in plan.Instance) {
	switch made := in.(type) {
	case *graph.Graph:
		nodes(w, made)
	case *join.Join:
		branches(w, made)
	case *chain.Chain:
		layers(w, made)
	default:
		fmt.Fprintf(w, "%s: %s, %s a step, computing once %s\n", in.Title(), in.Size(), platform.Count(in.Batch(), "sample"),
			platform.FormatSeconds(in.TotalTime()))
	}
}

// Outline prints what an instance is made of, and the memory range of every problem that
// it is for.
func Outline(w io.Writer, in plan.Instance, o *catalog.Outline) {
	if _, isGraph := in.(*training.Graph); isGraph && o.Step != nil {
		step(w, o)
	} else {
		Instance(w, in)
	}
	fmt.Fprintln(w)
	for _, r := range o.Ranges {
		if p, err := catalog.FindProblem(r.Problem); err == nil {
			fmt.Fprintf(w, "memory of %s: M_low %s, M_high %s\n", p.Name, Memory(p, r.Least), Memory(p, r.Most))
			if r.Holds != "" {
				fmt.Fprintf(w, "  M_low: %s\n", r.Holds)
			}
		}
	}
}

// mostHeld is how many storages are listed of those that a peak is made of.
const mostHeld = 10

// step prints a training step: phases, storages, and what holds the peak.
func step(w io.Writer, o *catalog.Outline) {
	x := o.Step
	fmt.Fprintf(w, "%s: %s, %s a step, computing once %s\n\n", o.Instance.Name, platform.Count(x.Nodes, "node"),
		platform.Count(o.Samples, "sample"), platform.FormatSeconds(o.Compute))
	t := Table(w, table.Row{"phase", "nodes", "time"}, 2, 3)
	for _, p := range x.Phases {
		t.AppendRow(table.Row{p.Phase, p.Nodes, platform.FormatSeconds(p.Time)})
	}
	t.Render()
	fmt.Fprintln(w)
	t = Table(w, table.Row{"storages", "number", "size", "resident"}, 2, 3, 4)
	for _, k := range x.Kinds {
		t.AppendRow(table.Row{k.Kind, k.Storages, platform.FormatBytes(k.Bytes), platform.FormatBytes(k.Resident)})
	}
	t.Render()
	fmt.Fprintf(w, "\nkeeping everything peaks at %s, beside what is resident, at %s: workspace %s and %s\n", platform.FormatBytes(x.Peak),
		x.PeakNode, platform.FormatBytes(x.Workspace), platform.Count(len(x.Held), "storage"))
	t = Table(w, table.Row{"held at the peak", "kind", "size", "share", "made by"}, 3, 4)
	for _, h := range x.Held[:min(len(x.Held), mostHeld)] {
		t.AppendRow(table.Row{h.Storage, h.Kind, platform.FormatBytes(h.Bytes), Percent(h.Bytes / x.Peak), h.Writer})
	}
	t.Render()
	if n := len(x.Held) - mostHeld; n > 0 {
		fmt.Fprintf(w, "… and %d smaller ones\n", n)
	}
}

// layers prints the layers of a chain, runs of equal ones once.
func layers(w io.Writer, c *chain.Chain) {
	t := Table(w, table.Row{"layer", "name", "forward", "backward", "activation", "saved", "weight"}, 3, 4, 5, 6, 7)
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
	t.AppendFooter(table.Row{
		"", platform.Count(c.Len(), "layer"), "", platform.FormatSeconds(c.TotalTime()), "", platform.FormatBytes(saved),
		platform.FormatBytes(weight),
	})
	fmt.Fprintf(w, "%s: %s a step, input %s\n\n", c.Name, platform.Count(c.Samples, "sample"), platform.FormatBytes(c.Input.Activation))
	t.Render()
}

// nodes prints the nodes of a graph.
func nodes(w io.Writer, g *graph.Graph) {
	t := Table(w, table.Row{"node", "kind", "time", "memory", "overhead", "weight", "reads"}, 3, 4, 5, 6)
	pred, _ := g.Adjacency()
	for i := range g.Nodes {
		n := &g.Nodes[i]
		var reads []string
		for _, p := range pred[i] {
			reads = append(reads, g.Nodes[p].ID)
		}
		t.AppendRow(table.Row{
			n.ID, n.Kind, platform.FormatSeconds(n.Time), platform.FormatBytes(n.Memory),
			platform.FormatBytes(n.Overhead), platform.FormatBytes(n.Weight), Wrap(strings.Join(reads, ", "), 60),
		})
	}
	fmt.Fprintf(w, "%s: %s, %s, %s a step, input %s, computing once %s\n\n", g.Name, platform.Count(g.Len(), "node"),
		platform.Count(len(g.Edges), "edge"), platform.Count(g.Samples, "sample"),
		platform.FormatBytes(g.Input), platform.FormatSeconds(g.TotalTime()))
	t.Render()
}

// branches prints the branches of a join.
func branches(w io.Writer, j *join.Join) {
	fmt.Fprintf(w, "%s: %s, computing once %g\n\n", j.Name, platform.Count(j.K(), "branch"), j.TotalTime())
	t := Table(w, table.Row{"branch", "layers", "keeps its gradient"}, 2)
	for b, l := range j.Branches {
		t.AppendRow(table.Row{b + 1, l, j.Keep[b]})
	}
	t.Render()
}

// sameCosts reports whether two layers differ at most in their names.
func sameCosts(a, b chain.Layer) bool {
	a.Name = b.Name
	return reflect.DeepEqual(a, b)
}
