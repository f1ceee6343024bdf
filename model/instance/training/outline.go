package training

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// Outline is a training step at a glance. Times are in seconds, sizes in bytes.
type Outline struct {
	Nodes  int         `json:"nodes"`
	Phases []PhasePart `json:"phases"` // those that there are, in the order of a step
	Kinds  []KindPart  `json:"kinds"`  // of storages, by their first one
	// Peak is the most memory of running the nodes in the file's order, each storage
	// kept until nothing reads it any more; PeakNode is where, Held what is on the
	// device then, the largest first, and Workspace what the node takes beside it.
	// Resident storages are counted apart.
	Peak      float64       `json:"peak"`
	PeakNode  string        `json:"peak_node"`
	Workspace float64       `json:"workspace"`
	Held      []HeldStorage `json:"held"`
}

// PhasePart is one phase.
type PhasePart struct {
	Phase string  `json:"phase"`
	Nodes int     `json:"nodes"`
	Time  float64 `json:"time"`
}

// KindPart is the storages of one kind.
type KindPart struct {
	Kind     string  `json:"kind"`
	Storages int     `json:"storages"`
	Bytes    float64 `json:"bytes"`
	Resident float64 `json:"resident"` // of these bytes
}

// HeldStorage is one that the peak is made of.
type HeldStorage struct {
	Storage string  `json:"storage"`
	Kind    string  `json:"kind"`
	Bytes   float64 `json:"bytes"`
	Writer  string  `json:"writer"` // the node that makes it
}

// Outline sums up a valid graph. O(nodes + reads + writes + storages·log(storages)).
func (g *Graph) Outline() *Outline {
	o := &Outline{Nodes: g.Len(), Phases: []PhasePart{}, Kinds: []KindPart{}, Held: []HeldStorage{}}
	for _, phase := range []string{Forward, Loss, Backward, Optimizer} {
		p := PhasePart{Phase: phase}
		for v := range g.Nodes {
			if g.Nodes[v].Phase == phase {
				p.Nodes, p.Time = p.Nodes+1, p.Time+g.Nodes[v].Time
			}
		}
		if p.Nodes > 0 {
			o.Phases = append(o.Phases, p)
		}
	}
	for s := range g.Storages {
		x := &g.Storages[s]
		i := slices.IndexFunc(o.Kinds, func(k KindPart) bool { return k.Kind == x.Kind })
		if i < 0 {
			i = len(o.Kinds)
			o.Kinds = append(o.Kinds, KindPart{Kind: x.Kind})
		}
		o.Kinds[i].Storages++
		o.Kinds[i].Bytes += g.Unit.Bytes(x.Bytes)
		if x.Resident {
			o.Kinds[i].Resident += g.Unit.Bytes(x.Bytes)
		}
	}
	g.peak(o)
	return o
}

// peak runs the nodes in their order and fills in what the peak is made of.
func (g *Graph) peak(o *Outline) {
	last := g.lastUse()
	here := make([]bool, len(g.Storages))
	used, most, at := g.Input, -1.0, 0
	ends := make([][]int, g.Len()) // storages that nothing needs after a node
	for s := range last {
		if last[s] >= 0 && last[s] < g.Len() {
			ends[last[s]] = append(ends[last[s]], s)
		}
	}
	var then []bool
	for v := range g.Nodes {
		for _, s := range g.Nodes[v].Writes {
			here[s] = true
			used += g.Storages[s].Bytes
		}
		if m := used + g.Nodes[v].Workspace; m > most {
			most, at, then = m, v, slices.Clone(here)
		}
		for _, s := range ends[v] {
			here[s] = false
			used -= g.Storages[s].Bytes
		}
	}
	if g.Len() == 0 {
		return
	}
	o.Peak, o.PeakNode, o.Workspace = g.Unit.Bytes(most), g.Nodes[at].ID, g.Unit.Bytes(g.Nodes[at].Workspace)
	writer := g.Writers()
	for s := range then {
		if x := &g.Storages[s]; then[s] {
			o.Held = append(o.Held, HeldStorage{x.ID, x.Kind, g.Unit.Bytes(x.Bytes), g.Nodes[writer[s]].ID})
		}
	}
	slices.SortStableFunc(o.Held, func(a, b HeldStorage) int { return cmp.Compare(b.Bytes, a.Bytes) })
}

// lastUse is for each storage that a node writes the last node that needs it, the
// number of nodes for results, and -1 for resident ones.
func (g *Graph) lastUse() []int {
	last := g.Writers()
	for v := range g.Nodes {
		for _, s := range g.Nodes[v].Reads {
			if last[s] >= 0 {
				last[s] = max(last[s], v)
			}
		}
	}
	for s := range last {
		if g.Storages[s].Result && last[s] >= 0 {
			last[s] = g.Len()
		}
	}
	return last
}

// WriteDOT writes the graph for Graphviz: a box for each node, an edge from the writer
// of a storage to each node that reads it, as wide as the storage is large; resident
// storages are left out.
func (g *Graph) WriteDOT(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "digraph %s {\n  node [shape=box, style=filled, fontsize=10];\n", strconv.Quote(g.Name))
	colours := map[string]string{Forward: "#56b4e9", Loss: "#d55e00", Backward: "#e69f00", Optimizer: "#cc79a7"}
	for v := range g.Nodes {
		n := &g.Nodes[v]
		fmt.Fprintf(out, "  %d [label=%s, fillcolor=%q];\n", v, strconv.Quote(fmt.Sprintf("%s\n%.4g ms", n.ID, 1e3*n.Time)), colours[n.Phase])
	}
	most := 1.0
	for s := range g.Storages {
		most = max(most, g.Storages[s].Bytes)
	}
	writer := g.Writers()
	for v := range g.Nodes {
		for _, s := range g.Nodes[v].Reads {
			if x := &g.Storages[s]; writer[s] >= 0 {
				fmt.Fprintf(out, "  %d -> %d [tooltip=%s, penwidth=%.2f];\n", writer[s], v,
					strconv.Quote(fmt.Sprintf("%s: %.15g bytes", x.ID, g.Unit.Bytes(x.Bytes))), 0.5+3*x.Bytes/most)
			}
		}
	}
	fmt.Fprintln(out, "}")
	return out.Flush()
}
