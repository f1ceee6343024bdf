package graph

import (
	"encoding/json"
	"fmt"
	"io"

	"workbench/model/linear"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// file and fileNode mirror the format. Nil fields take their defaults or, if
// they have none, are missing; "omitempty" keeps null out of them. Ids are
// texts or whole numbers.
type file struct {
	Format  string              `json:"format"`
	Name    string              `json:"name"`
	Samples int                 `json:"samples,omitempty"`
	Input   strictjson.Size     `json:"input"`
	Nodes   []fileNode          `json:"nodes"`
	Edges   [][]json.RawMessage `json:"edges"`
	Source  map[string]any      `json:"source,omitempty"`
}

type fileNode struct {
	ID       json.RawMessage  `json:"id,omitempty"`
	Name     string           `json:"name"`
	Kind     *string          `json:"kind,omitempty"`
	Time     *float64         `json:"time,omitempty"`
	Memory   *strictjson.Size `json:"memory,omitempty"`
	Overhead strictjson.Size  `json:"overhead"`
	Weight   strictjson.Size  `json:"weight"`
}

// Read reads a graph/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Graph, error) {
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes, (*file).graph)
}

// graph fills in the defaults, takes sizes in units, finds the nodes that edges
// name, and validates both.
func (f *file) graph(extra []strictjson.Extra, unit platform.Unit) (*Graph, error) {
	units := func(x strictjson.Size) float64 { return unit.FromBytes(float64(x)) }
	g := &Graph{
		Name: f.Name, Samples: f.Samples, Input: units(f.Input), Source: f.Source, Extra: extra, Unit: unit,
		Nodes: make([]Node, len(f.Nodes)),
	}
	names := strictjson.NewNames("nodes", "node", len(f.Nodes))
	for v := range f.Nodes {
		n := &f.Nodes[v]
		id, err := names.Read(v, n.ID)
		switch {
		case err != nil:
			return nil, err
		case n.Time == nil:
			return nil, strictjson.Wrong(fmt.Sprintf("nodes[%d]", v), "time is missing; node %q needs a cost", id)
		case n.Memory == nil:
			return nil, strictjson.Wrong(fmt.Sprintf("nodes[%d]", v), "memory is missing; node %q needs a size", id)
		}
		g.Nodes[v] = Node{
			ID: id, Name: n.Name, Kind: Forward, Time: *n.Time, Memory: units(*n.Memory), Overhead: units(n.Overhead),
			Weight: units(n.Weight),
		}
		if n.Kind != nil {
			g.Nodes[v].Kind = *n.Kind
		}
	}
	if err := g.validateNodes(); err != nil {
		return nil, err
	}
	switch {
	case f.Edges == nil:
		return nil, strictjson.Wrong("edges", "missing; it lists [from, to], and is [] if no node reads another")
	case len(f.Edges) > 0:
		g.Edges = make([]Edge, len(f.Edges))
	}
	for k, e := range f.Edges {
		if len(e) != 2 {
			return nil, strictjson.Wrong(fmt.Sprintf("edges[%d]", k), "%d ids where two are needed, [from, to]", len(e))
		}
		for end, at := range [...]*int{&g.Edges[k].From, &g.Edges[k].To} {
			var err error
			if *at, err = names.Find(fmt.Sprintf("edges[%d][%d]", k, end), e[end]); err != nil {
				return nil, err
			}
		}
	}
	return g, g.validateEdges()
}

// Validate checks that there is a node, that ids differ, that every number is
// finite and not negative, that sizes are whole numbers of units whose sums are
// exact ([platform.MaxTotal]), and that edges lead from earlier nodes to later
// ones. The error is a *strictjson.FieldError; of a graph with a cycle it names the cycle.
// O(nodes + edges).
func (g *Graph) Validate() error {
	if err := g.validateNodes(); err != nil {
		return err
	}
	return g.validateEdges()
}

func (g *Graph) validateNodes() error {
	switch {
	case len(g.Nodes) == 0:
		return strictjson.Wrong("nodes", "a graph needs at least one node")
	case g.Samples < 0:
		return strictjson.Wrong("samples", "%d is negative; leave it out if it is unknown", g.Samples)
	}
	seen := strictjson.NewNames("nodes", "node", len(g.Nodes))
	for v := range g.Nodes {
		if err := seen.Add(v, g.Nodes[v].ID); err != nil {
			return err
		}
		if err := g.Nodes[v].validate(v); err != nil {
			return err
		}
	}
	return strictjson.CheckSizes(g.Sizes(), "nodes", g.Unit)
}

func (n *Node) validate(v int) error {
	if n.Kind != Forward && n.Kind != Loss && n.Kind != Backward {
		return strictjson.Wrong(fmt.Sprintf("nodes[%d].kind", v), "%q is unknown; node %q is %q, %q or %q", n.Kind, n.ID, Forward, Loss, Backward)
	}
	return strictjson.CheckTime("nodes", v, "time", n.Time)
}

func (g *Graph) validateEdges() error {
	backwards := -1 // the first edge that leads to an earlier node
	for k, e := range g.Edges {
		switch {
		case e.From < 0 || e.From >= len(g.Nodes) || e.To < 0 || e.To >= len(g.Nodes):
			return strictjson.Wrong(fmt.Sprintf("edges[%d]", k), "leads from node %d to node %d; there are nodes 0 to %d", e.From, e.To,
				len(g.Nodes)-1)
		case e.From == e.To:
			return strictjson.Wrong(fmt.Sprintf("edges[%d]", k), "node %q reads itself", g.Nodes[e.From].ID)
		case e.From > e.To && backwards < 0:
			backwards = k
		}
	}
	if backwards < 0 {
		return nil
	}
	_, succ := g.Adjacency()
	if cycle := linear.Cycle(succ); cycle != nil {
		return strictjson.Wrong("edges", "the graph has a cycle: %s", g.path(cycle))
	}
	e := g.Edges[backwards]
	from, to := g.Nodes[e.From].ID, g.Nodes[e.To].ID
	return strictjson.Wrong(fmt.Sprintf("edges[%d]", backwards),
		"the edge from %q to %q goes backwards; nodes must be listed in a topological order, %q before %q", from, to, from, to)
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0, if g
// is valid.
func (g *Graph) canonical() (*file, error) {
	if err := g.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", strictjson.Title(Format, g.Name), err)
	}
	bytes := func(x float64) strictjson.Size { return strictjson.Bytes(g.Unit, x) }
	f := &file{
		Format: Format, Name: g.Name, Samples: g.Samples, Input: bytes(g.Input),
		Nodes: make([]fileNode, len(g.Nodes)), Edges: make([][]json.RawMessage, len(g.Edges)),
	}
	ids := strictjson.IDs(len(g.Nodes), func(v int) string { return g.Nodes[v].ID })
	for v := range g.Nodes {
		n := &g.Nodes[v]
		time, memory := n.Time+0.0, bytes(n.Memory)
		f.Nodes[v] = fileNode{
			ID: ids[v], Name: n.Name, Kind: &n.Kind, Time: &time, Memory: &memory, Overhead: bytes(n.Overhead),
			Weight: bytes(n.Weight),
		}
	}
	ends := make([]json.RawMessage, 2*len(g.Edges))
	for k, e := range g.Edges {
		f.Edges[k] = ends[2*k : 2*k+2 : 2*k+2]
		f.Edges[k][0], f.Edges[k][1] = ids[e.From], ids[e.To]
	}
	return f, nil
}

// Write writes g as a graph/v1 document, a line for each node and edge, with
// every default spelt out; ids as numbers if all of them are. g must be valid.
func (g *Graph) Write(w io.Writer) error {
	f, err := g.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, g.Extra)
	out.Count("samples", f.Samples)
	out.Member("input", f.Input)
	out.List("nodes", len(f.Nodes), func(v int) { out.Object(&f.Nodes[v]) })
	out.List("edges", len(f.Edges), func(k int) { out.Value(f.Edges[k]) })
	return out.Close(g.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. The edges count in their order. g must be valid.
func (g *Graph) Digest() (string, error) {
	return strictjson.Digest(g.canonical())
}
