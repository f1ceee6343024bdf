package training

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// file, fileStorage and fileNode mirror the format. Nil fields take their
// defaults or, if they have none, are missing. Ids are texts or whole numbers.
type file struct {
	Format   string          `json:"format"`
	Name     string          `json:"name"`
	Samples  int             `json:"samples,omitempty"`
	Input    strictjson.Size `json:"input"`
	Storages []fileStorage   `json:"storages"`
	Nodes    []fileNode      `json:"nodes"`
	Source   map[string]any  `json:"source,omitempty"`
}

type fileStorage struct {
	ID       json.RawMessage  `json:"id,omitempty"`
	Bytes    *strictjson.Size `json:"bytes,omitempty"`
	Kind     *string          `json:"kind,omitempty"`
	Resident bool             `json:"resident"`
	Result   bool             `json:"result"`
	Offload  *bool            `json:"offload,omitempty"`
}

type fileNode struct {
	ID        json.RawMessage   `json:"id,omitempty"`
	Operation string            `json:"operation"`
	Phase     *string           `json:"phase,omitempty"`
	Time      *float64          `json:"time,omitempty"`
	Reads     []json.RawMessage `json:"reads"`
	Writes    []json.RawMessage `json:"writes"`
	Workspace strictjson.Size   `json:"workspace"`
	Mutates   []json.RawMessage `json:"mutates"`
	Recompute *bool             `json:"recompute,omitempty"`
	Random    bool              `json:"random"`
	Layer     json.RawMessage   `json:"layer,omitempty"`
}

// Read reads a graph/v2 document. Name is for errors, which say the file, the
// line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Graph, error) {
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes, (*file).graph)
}

// graph fills in the defaults, takes sizes in units, finds the storages that
// nodes name, and validates everything.
func (f *file) graph(extra []strictjson.Extra, unit platform.Unit) (*Graph, error) {
	units := func(x strictjson.Size) float64 { return unit.FromBytes(float64(x)) }
	switch {
	case f.Storages == nil:
		return nil, strictjson.Wrong("storages", "missing; it lists what nodes read and write")
	case f.Nodes == nil:
		return nil, strictjson.Wrong("nodes", "missing; a graph needs at least one node")
	}
	g := &Graph{
		Name: f.Name, Samples: f.Samples, Input: units(f.Input), Source: f.Source, Extra: extra, Unit: unit,
		Nodes: make([]Node, len(f.Nodes)),
	}
	if n := len(f.Storages); n > 0 {
		g.Storages = make([]Storage, n)
	}
	names := strictjson.NewNames("storages", "storage", len(f.Storages))
	for s := range f.Storages {
		x := &f.Storages[s]
		id, err := names.Read(s, x.ID)
		switch {
		case err != nil:
			return nil, err
		case x.Bytes == nil:
			return nil, strictjson.Wrong(fmt.Sprintf("storages[%d]", s), "bytes is missing; storage %q needs a size", id)
		}
		g.Storages[s] = Storage{
			ID: id, Bytes: units(*x.Bytes), Kind: or(x.Kind, Value),
			Resident: x.Resident, Result: x.Result, NoOffload: !or(x.Offload, true),
		}
	}
	if err := g.validateStorages(); err != nil {
		return nil, err // before nodes name them
	}
	for v := range f.Nodes {
		if err := f.Nodes[v].node(v, names, &g.Nodes[v]); err != nil {
			return nil, err
		}
		g.Nodes[v].Workspace = units(f.Nodes[v].Workspace)
	}
	return g, g.Validate()
}

// or returns what x points to, otherwise if there is nothing.
func or[T any](x *T, otherwise T) T {
	if x == nil {
		return otherwise
	}
	return *x
}

// node fills in node v, all but its workspace.
func (f *fileNode) node(v int, names *strictjson.Names, n *Node) error {
	path := fmt.Sprintf("nodes[%d]", v)
	id, err := strictjson.NewNames("nodes", "node", 1).Read(v, f.ID)
	switch {
	case err != nil:
		return err
	case f.Time == nil:
		return strictjson.Wrong(path, "time is missing; node %q needs a cost", id)
	}
	*n = Node{
		ID: id, Operation: f.Operation, Phase: or(f.Phase, Forward), Time: *f.Time,
		Once: !or(f.Recompute, true), Random: f.Random,
	}
	if f.Layer != nil {
		if n.Layer, err = strictjson.ReadID(f.Layer); err != nil {
			return strictjson.Wrong(path+".layer", "%v", err)
		}
		if n.Layer == "" {
			return strictjson.Wrong(path+".layer", "the id is empty; leave it out if node %q belongs to no layer", id)
		}
	}
	for k, list := range [...][]json.RawMessage{f.Reads, f.Writes, f.Mutates} {
		for i, raw := range list {
			s, err := names.Find(fmt.Sprintf("%s.%s[%d]", path, listNames[k], i), raw)
			if err != nil {
				return err
			}
			to := n.lists()[k]
			*to = append(*to, s)
		}
	}
	return nil
}

// lists are the lists of storages of a node, in the order of listNames.
func (n *Node) lists() [3]*[]int { return [...]*[]int{&n.Reads, &n.Writes, &n.Mutates} }

var listNames = [...]string{"reads", "writes", "mutates"}

// Validate checks that there is a node, that ids differ, that every number is
// finite and not negative, that sizes are whole numbers of units whose sums are
// exact ([platform.MaxTotal]), that a storage is resident or written by exactly
// one node, before all that read it, and that only resident ones are mutated.
// The error is a *strictjson.FieldError. O(nodes + storages + what nodes list).
func (g *Graph) Validate() error {
	switch {
	case len(g.Nodes) == 0:
		return strictjson.Wrong("nodes", "a graph needs at least one node")
	case g.Samples < 0:
		return strictjson.Wrong("samples", "%d is negative; leave it out if it is unknown", g.Samples)
	}
	if err := g.validateStorages(); err != nil {
		return err
	}
	if err := strictjson.CheckSizes(g.Sizes(), "storages", g.Unit); err != nil {
		return err
	}
	return g.validateNodes()
}

var (
	phases = []string{Forward, Loss, Backward, Optimizer}
	kinds  = []string{Value, Parameter, Gradient, OptimizerState, Buffer, Input, LossValue}
)

// oneOf is an error unless a value is one of those that there are.
func oneOf(path, value string, of []string) error {
	if slices.Contains(of, value) {
		return nil
	}
	return strictjson.Wrong(path, "%q is unknown; there are %s", value, strings.Join(of, ", "))
}

func (g *Graph) validateStorages() error {
	seen := strictjson.NewNames("storages", "storage", len(g.Storages))
	for s := range g.Storages {
		x, path := &g.Storages[s], fmt.Sprintf("storages[%d]", s)
		if err := seen.Add(s, x.ID); err != nil {
			return err
		}
		if err := oneOf(path+".kind", x.Kind, kinds); err != nil {
			return err
		}
		if x.Resident && x.Result {
			return strictjson.Wrong(path+".result", "storage %q is resident, so it is there at the end; leave out result", x.ID)
		}
	}
	return nil
}

func (g *Graph) validateNodes() error {
	seen := strictjson.NewNames("nodes", "node", len(g.Nodes))
	listed := make([]int, len(g.Storages)) // the last list that has it, counted from 1
	writer := make([]int, len(g.Storages)) // counted from 1
	lists := 0
	for v := range g.Nodes {
		n, path := &g.Nodes[v], fmt.Sprintf("nodes[%d]", v)
		if err := seen.Add(v, n.ID); err != nil {
			return err
		}
		if err := oneOf(path+".phase", n.Phase, phases); err != nil {
			return err
		}
		if err := strictjson.CheckSeconds(path+".time", n.Time); err != nil {
			return err
		}
		for k, list := range n.lists() {
			lists++
			for i, s := range *list {
				at := fmt.Sprintf("%s.%s[%d]", path, listNames[k], i)
				switch {
				case s < 0 || s >= len(g.Storages):
					return strictjson.Wrong(at, "there is no storage %d; they are 0 to %d", s, len(g.Storages)-1)
				case listed[s] == lists:
					return strictjson.Wrong(at, "storage %q stands twice in the list", g.Storages[s].ID)
				}
				listed[s] = lists
				if err := g.validateUse(at, k, v, s, writer); err != nil {
					return err
				}
			}
		}
	}
	for s := range g.Storages {
		if x := &g.Storages[s]; !x.Resident && writer[s] == 0 {
			return strictjson.Wrong(fmt.Sprintf("storages[%d]", s), "no node writes storage %q, and it is not resident", x.ID)
		}
	}
	return nil
}

// validateUse checks that node v may have storage s in its list k, and notes
// who writes it.
func (g *Graph) validateUse(at string, k, v, s int, writer []int) error {
	x, n := &g.Storages[s], &g.Nodes[v]
	switch listNames[k] {
	case "reads":
		if !x.Resident && writer[s] == 0 {
			return strictjson.Wrong(at, "node %q reads storage %q, which no earlier node writes; nodes must be listed in an order in which they "+
				"can run", n.ID, x.ID)
		}
	case "writes":
		switch {
		case x.Resident:
			return strictjson.Wrong(at, "storage %q is resident; what node %q changes of it belongs in mutates", x.ID, n.ID)
		case writer[s] != 0:
			return strictjson.Wrong(at, "storage %q is written by node %q already; a storage has one writer", x.ID, g.Nodes[writer[s]-1].ID)
		}
		writer[s] = v + 1
	case "mutates":
		if !x.Resident {
			return strictjson.Wrong(at, "storage %q is not resident; merge node %q with the one that writes it, or let it write a new one", x.ID,
				n.ID)
		}
	}
	return nil
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
		Storages: make([]fileStorage, len(g.Storages)), Nodes: make([]fileNode, len(g.Nodes)),
	}
	names := strictjson.IDs(len(g.Storages), func(s int) string { return g.Storages[s].ID })
	for s := range g.Storages {
		x := &g.Storages[s]
		size, offload := bytes(x.Bytes), !x.NoOffload
		f.Storages[s] = fileStorage{ID: names[s], Bytes: &size, Kind: &x.Kind, Resident: x.Resident, Result: x.Result, Offload: &offload}
	}
	list := func(of []int) []json.RawMessage {
		out := make([]json.RawMessage, len(of))
		for i, s := range of {
			out[i] = names[s]
		}
		return out
	}
	ids := strictjson.IDs(len(g.Nodes), func(v int) string { return g.Nodes[v].ID })
	for v := range g.Nodes {
		n := &g.Nodes[v]
		time, recompute := n.Time+0.0, !n.Once
		f.Nodes[v] = fileNode{
			ID: ids[v], Operation: n.Operation, Phase: &n.Phase, Time: &time, Reads: list(n.Reads), Writes: list(n.Writes),
			Workspace: bytes(n.Workspace), Mutates: list(n.Mutates), Recompute: &recompute, Random: n.Random,
		}
		if n.Layer != "" {
			f.Nodes[v].Layer = strictjson.IDs(1, func(int) string { return n.Layer })[0]
		}
	}
	return f, nil
}

// Write writes g as a graph/v2 document, a line for each storage and node, with
// every default spelt out; ids as numbers if all of them are. g must be valid.
func (g *Graph) Write(w io.Writer) error {
	f, err := g.canonical()
	if err != nil {
		return err
	}
	out := strictjson.NewWriter(w, f.Format, f.Name, g.Extra)
	out.Count("samples", f.Samples)
	out.Member("input", f.Input)
	out.List("storages", len(f.Storages), func(s int) { out.Object(&f.Storages[s]) })
	out.List("nodes", len(f.Nodes), func(v int) { out.Object(&f.Nodes[v]) })
	return out.Close(g.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest]. g must be valid.
func (g *Graph) Digest() (string, error) {
	return strictjson.Digest(g.canonical())
}
