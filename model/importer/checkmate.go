package importer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
	training "workbench/model/instance/graph"
	"workbench/model/strictjson"
)

// CheckmateOptions says what Checkmate's graphs leave open.
type CheckmateOptions struct {
	// CostUnit of cost_cpu is "us", "ms" or "s"; empty: microseconds, the unit
	// of Checkmate's measured costs, with a warning.
	CostUnit string
}

// CheckmateGraph reads a training step of Checkmate: its class DFGraph written
// as JSON, field by field, for the project itself exchanges pickles:
//
//	json.dump({"v": g.v, "args": g.args, "backward_nodes": list(g.backward_nodes),
//	           "cost_cpu": g.cost_cpu, "cost_ram": g.cost_ram,
//	           "node_names": g.node_names,
//	           "cost_ram_parameters": g.cost_ram_parameters}, file)
//
// v are the nodes, whole numbers from 0 on. Args (or deps) maps a node to those
// it reads; edges (or edge_list), pairs [from, to], may stand in its place.
// Costs and names are objects by node, or lists in the order of v; without v,
// the nodes are those of cost_cpu. The loss is vloss, or else the node that is
// named loss. Backward are backward_nodes (also vbwd or vback) but the loss, or
// else the values of vfwd_map, or else all that are not in vfwd; the rest is
// forward. Other fields are passed over.
//
// Sizes are bytes of what a node writes, workspace included, as Checkmate has
// them. Twice cost_ram_parameters, for parameters and their gradients, is
// resident all the time.
func CheckmateGraph(data []byte, name string, o CheckmateOptions) (*training.Graph, []string, error) {
	switch {
	case strings.HasPrefix(string(data), npyMagic):
		return nil, nil, fmt.Errorf("%s: this is a NumPy table of costs, without a graph; it makes a chain together with a second file of sizes",
			name)
	case strings.HasPrefix(string(data), "\x80"):
		return nil, nil, fmt.Errorf("%s: this is a Python pickle, which only Python can read; write the fields of the DFGraph as JSON", name)
	}
	d := &checkmate{data: data, name: name}
	if err := strictjson.DecodeForeign(data, name, &d.file); err != nil {
		return nil, nil, err
	}
	g, err := d.graph(o)
	if err != nil {
		return nil, nil, err
	}
	return g, append(d.warnings, wholeBytes(g.Sizes())...), nil
}

// dfGraph mirrors Checkmate's DFGraph, old and new.
type dfGraph struct {
	V          []int            `json:"v"`
	Args       map[string][]int `json:"args"`
	Deps       map[string][]int `json:"deps"`
	Edges      [][]int          `json:"edges"`
	EdgeList   [][]int          `json:"edge_list"`
	VFwd       []int            `json:"vfwd"`
	VFwdMap    map[string]int   `json:"vfwd_map"`
	Backward   []int            `json:"backward_nodes"`
	VBwd       []int            `json:"vbwd"`
	VBack      []int            `json:"vback"`
	VLoss      *int             `json:"vloss"`
	CPU        any              `json:"cost_cpu"`
	RAM        any              `json:"cost_ram"`
	Names      any              `json:"node_names"`
	Parameters float64          `json:"cost_ram_parameters"`
}

// checkmate is a DFGraph on its way to a graph.
type checkmate struct {
	data     []byte
	name     string
	file     dfGraph
	warnings []string

	v     []int       // the nodes in the order of the file
	index map[int]int // of each in v
}

func (d *checkmate) warn(text string) { d.warnings = append(d.warnings, text) }

func (d *checkmate) fail(path, format string, args ...any) error {
	return &strictjson.Error{Name: d.name, Line: strictjson.Line(d.data, path), Path: path, Msg: fmt.Sprintf(format, args...)}
}

func (d *checkmate) graph(o CheckmateOptions) (*training.Graph, error) {
	perSecond, err := d.unit(o.CostUnit)
	if err != nil {
		return nil, err
	}
	if err := d.nodes(); err != nil {
		return nil, err
	}
	cpu, err := d.numbers("cost_cpu", d.file.CPU)
	if err != nil {
		return nil, err
	}
	ram, err := d.numbers("cost_ram", d.file.RAM)
	if err != nil {
		return nil, err
	}
	names, err := d.names()
	if err != nil {
		return nil, err
	}
	kinds, err := d.kinds(names)
	if err != nil {
		return nil, err
	}
	if !(d.file.Parameters >= 0) || math.IsInf(2*d.file.Parameters, 0) {
		return nil, d.fail("cost_ram_parameters", "%v is not a size", d.file.Parameters)
	}
	g := &training.Graph{Name: chainName(d.name), Input: 2 * d.file.Parameters, Nodes: make([]training.Node, len(d.v))}
	for i, v := range d.v {
		g.Nodes[i] = training.Node{ID: strconv.Itoa(v), Name: names[i], Kind: kinds[i], Time: cpu[i] / perSecond, Memory: ram[i]}
	}
	if g.Edges, err = d.edges(); err != nil {
		return nil, err
	}
	sorted := slices.IndexFunc(g.Edges, func(e training.Edge) bool { return e.From > e.To }) < 0
	if err := training.Sort(g); err != nil {
		return nil, strictjson.Locate(d.data, d.name, err)
	}
	if !sorted {
		d.warn("the nodes are not in a topological order; they are put into one")
	}
	g.Source = map[string]any{"kind": "foreign", "profiler": "checkmate", "nodes": float64(len(g.Nodes)), "edges": float64(len(g.Edges))}
	return g, nil
}

// unit returns how many units of cost are a second.
func (d *checkmate) unit(unit string) (float64, error) {
	if unit == "" {
		d.warn("costs are taken to be in microseconds; say so with the cost unit")
		unit = "us"
	}
	perSecond, ok := perSecond(unit)
	if !ok {
		return 0, fmt.Errorf("cost unit %q: us, ms or s is needed", unit)
	}
	return perSecond, nil
}

// perSecond returns how many of a unit of time are a second.
func perSecond(unit string) (float64, bool) {
	n, ok := map[string]float64{"us": 1e6, "ms": 1e3, "s": 1}[unit]
	return n, ok
}

// nodes finds out which there are.
func (d *checkmate) nodes() error {
	d.v = d.file.V
	path := "v"
	if d.v == nil {
		path = "cost_cpu"
		switch costs := d.file.CPU.(type) {
		case []any:
			for v := range costs {
				d.v = append(d.v, v)
			}
		case map[string]any:
			for key := range costs {
				v, ok := vertex(key)
				if !ok {
					return d.fail("cost_cpu."+key, "the name of a cost is the number of a node")
				}
				d.v = append(d.v, v)
			}
			slices.Sort(d.v)
		}
	}
	if len(d.v) == 0 {
		return d.fail("v", "there is no node")
	}
	d.index = make(map[int]int, len(d.v))
	for i, v := range d.v {
		if _, twice := d.index[v]; twice || v < 0 {
			return d.fail(fmt.Sprintf("%s[%d]", path, i), "nodes are distinct integers ≥ 0; %d is not", v)
		}
		d.index[v] = i
	}
	return nil
}

// vertex reads the number of a node as Python writes it.
func vertex(key string) (int, bool) {
	v, err := strconv.Atoi(key)
	return v, err == nil && v >= 0 && strconv.Itoa(v) == key
}

// each calls set with the value of every node in a field that is an object by
// node, or a list in the order of v, and the path of the value.
func (d *checkmate) each(field string, values any, set func(i int, x any, path string) error) error {
	switch values := values.(type) {
	case []any:
		if len(values) != len(d.v) {
			return d.fail(field, "there are %d for %d nodes", len(values), len(d.v))
		}
		for i, x := range values {
			if err := set(i, x, fmt.Sprintf("%s[%d]", field, i)); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range sortedKeys(values) {
			v, ok := vertex(key)
			i, known := d.index[v]
			if !ok || !known {
				return d.fail(field+"."+key, "there is no node %s", key)
			}
			if err := set(i, values[key], field+"."+key); err != nil {
				return err
			}
		}
	default:
		return d.fail(field, "an object by node, or a list, is needed")
	}
	return nil
}

// numbers reads a cost of every node.
func (d *checkmate) numbers(field string, values any) ([]float64, error) {
	if values == nil {
		return nil, d.fail(field, "it is missing; every node needs one")
	}
	out := make([]float64, len(d.v))
	for i := range out {
		out[i] = math.NaN()
	}
	err := d.each(field, values, func(i int, x any, path string) error {
		cost, ok := x.(float64)
		if !ok || !(cost >= 0) {
			return d.fail(path, "%v is not a number from 0 on", x)
		}
		out[i] = cost
		return nil
	})
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(out, math.IsNaN); i >= 0 {
		return nil, d.fail(field, "node %d has none", d.v[i])
	}
	return out, nil
}

// names reads the names of nodes, which may be missing.
func (d *checkmate) names() ([]string, error) {
	out := make([]string, len(d.v))
	if d.file.Names == nil {
		return out, nil
	}
	return out, d.each("node_names", d.file.Names, func(i int, x any, path string) error {
		name, ok := x.(string)
		if !ok {
			return d.fail(path, "%v is not a text", x)
		}
		out[i] = name
		return nil
	})
}

// kinds tells forward nodes, the loss and backward nodes apart.
func (d *checkmate) kinds(names []string) ([]string, error) {
	out := make([]string, len(d.v))
	for i := range out {
		out[i] = training.Forward
	}
	mark := func(field string, nodes []int, kind string) error {
		for k, v := range nodes {
			i, ok := d.index[v]
			if !ok {
				return d.fail(fmt.Sprintf("%s[%d]", field, k), "there is no node %d", v)
			}
			out[i] = kind
		}
		return nil
	}
	f := &d.file
	var err error
	switch {
	case f.Backward != nil:
		err = mark("backward_nodes", f.Backward, training.Backward)
	case f.VBwd != nil:
		err = mark("vbwd", f.VBwd, training.Backward)
	case f.VBack != nil:
		err = mark("vback", f.VBack, training.Backward)
	case f.VFwdMap != nil:
		for _, key := range sortedKeys(f.VFwdMap) {
			i, ok := d.index[f.VFwdMap[key]]
			if !ok {
				return nil, d.fail("vfwd_map."+key, "there is no node %d", f.VFwdMap[key])
			}
			out[i] = training.Backward
		}
	case f.VFwd != nil:
		for i := range out {
			out[i] = training.Backward
		}
		err = mark("vfwd", f.VFwd, training.Forward)
	default:
		d.warn("the file does not mark backward nodes; every node is treated as a forward node, which may be recomputed")
	}
	if err != nil {
		return nil, err
	}
	loss := slices.IndexFunc(names, func(s string) bool { return strings.EqualFold(s, "loss") })
	if f.VLoss != nil {
		var ok bool
		if loss, ok = d.index[*f.VLoss]; !ok {
			return nil, d.fail("vloss", "there is no node %d", *f.VLoss)
		}
	}
	if loss >= 0 {
		out[loss] = training.Loss
	} else {
		d.warn("there is no vloss and no node named loss, so that no node is the loss")
	}
	return out, nil
}

// edges reads the dependencies, each once, sorted by the node that reads.
func (d *checkmate) edges() (out []training.Edge, err error) {
	f := &d.file
	add := func(path string, from, to int) error {
		i, ok := d.index[from]
		j, ok2 := d.index[to]
		switch {
		case !ok:
			return d.fail(path, "there is no node %d", from)
		case !ok2:
			return d.fail(path, "there is no node %d", to)
		case i == j:
			return d.fail(path, "node %d reads itself", from)
		}
		out = append(out, training.Edge{From: i, To: j})
		return nil
	}
	given := 0
	for _, x := range []struct {
		field string
		args  map[string][]int
	}{{"args", f.Args}, {"deps", f.Deps}} {
		if x.args == nil {
			continue
		}
		given++
		for _, key := range sortedKeys(x.args) {
			to, ok := vertex(key)
			if !ok {
				return nil, d.fail(x.field+"."+key, "the name of a list is the number of a node")
			}
			for k, from := range x.args[key] {
				if err := add(fmt.Sprintf("%s.%s[%d]", x.field, key, k), from, to); err != nil {
					return nil, err
				}
			}
		}
	}
	for _, x := range []struct {
		field string
		pairs [][]int
	}{{"edges", f.Edges}, {"edge_list", f.EdgeList}} {
		if x.pairs == nil {
			continue
		}
		given++
		for k, e := range x.pairs {
			path := fmt.Sprintf("%s[%d]", x.field, k)
			if len(e) != 2 {
				return nil, d.fail(path, "%d nodes where two are needed, [from, to]", len(e))
			}
			if err := add(path, e[0], e[1]); err != nil {
				return nil, err
			}
		}
	}
	if given != 1 {
		return nil, d.fail("", "one of args, deps, edges and edge_list is needed to say what reads what; there are %d", given)
	}
	slices.SortFunc(out, func(a, b training.Edge) int {
		if a.To != b.To {
			return a.To - b.To
		}
		return a.From - b.From
	})
	return slices.Compact(out), nil
}

// sortedKeys returns the names of an object, numbers by size.
func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	})
	return keys
}

// CheckmateCosts reads a table of costs of Checkmate's profiler, a NumPy .npy
// file of shape (2, L): means and deviations in microseconds, or of shape (L)
// without the deviations. They are of n forward layers, of the loss if L is
// odd, and of the n backwards in the order in which they run, the last layer's
// first.
//
// The table knows no sizes. They come from a second file, a list in JSON or a
// one-dimensional .npy file: the bytes that each of the n layers writes, or
// those of the chain's input and then the layers'.
func CheckmateCosts(costs []byte, name string, sizes []byte, sizesName string) (*chain.Chain, []string, error) {
	means, err := checkmateMeans(costs, name)
	if err != nil {
		return nil, nil, err
	}
	n := len(means) / 2
	if sizes == nil {
		return nil, nil, fmt.Errorf("%s: a table of costs has no sizes; a second file is needed with the bytes that each of its %d forward "+
			"layers writes (a JSON list, or .npy)", name, n)
	}
	bytes, err := readSizes(sizes, sizesName)
	if err != nil {
		return nil, nil, err
	}
	c := &chain.Chain{Name: chainName(name), Layers: make([]chain.Layer, n)}
	var warnings []string
	switch len(bytes) {
	case n:
		warnings = append(warnings, fmt.Sprintf("%s has no size of the input; it is taken to be 0", sizesName))
	case n + 1:
		c.Input = chain.Input{Activation: bytes[0], Gradient: bytes[0]}
		bytes = bytes[1:]
	default:
		return nil, nil, fmt.Errorf("%s: %d sizes for the %d forward layers of %s; %d are needed, or %d with the input's first", sizesName,
			len(bytes), n, name, n, n+1)
	}
	for i := range c.Layers {
		c.Layers[i] = chain.Layer{
			Name:        fmt.Sprintf("layer%d", i+1),
			ForwardTime: means[i] / 1e6, BackwardTime: means[len(means)-1-i] / 1e6,
			Activation: bytes[i], Saved: bytes[i], Gradient: bytes[i],
		}
	}
	if len(means)%2 == 1 {
		c.Layers = append(c.Layers, chain.Layer{Name: "loss", ForwardTime: means[n] / 1e6})
	}
	c.Source = map[string]any{"kind": "measured", "profiler": "checkmate", "device": "not recorded", "batch": "not recorded"}
	return c, append(warnings, wholeBytes(c.Sizes())...), nil
}

// checkmateMeans reads the means of a table of costs.
func checkmateMeans(data []byte, name string) ([]float64, error) {
	a, err := readNPY(data, name)
	if err != nil {
		return nil, err
	}
	var means []float64
	switch {
	case len(a.shape) == 1:
		means = a.values
	case len(a.shape) == 2 && a.shape[0] == 2:
		means = a.values[:a.shape[1]]
	default:
		return nil, fmt.Errorf("%s: an array of shape %v; (2, L) is needed, means and deviations of L costs, or (L)", name, a.shape)
	}
	if len(means) < 2 {
		return nil, fmt.Errorf("%s: %d costs; one of a forward and one of a backward are needed at least", name, len(means))
	}
	for i, x := range means {
		if x < 0 {
			return nil, fmt.Errorf("%s: cost %d is %v; none can be negative", name, i, x)
		}
	}
	return means, nil
}

// readSizes reads a list of sizes.
func readSizes(data []byte, name string) ([]float64, error) {
	var bytes []float64
	if strings.HasPrefix(string(data), npyMagic) {
		a, err := readNPY(data, name)
		if err != nil {
			return nil, err
		}
		if len(a.shape) != 1 {
			return nil, fmt.Errorf("%s: an array of shape %v; sizes have one dimension", name, a.shape)
		}
		bytes = a.values
	} else if err := strictjson.Decode(data, name, &bytes); err != nil {
		return nil, err
	}
	for i, x := range bytes {
		if !(x >= 0) {
			return nil, fmt.Errorf("%s: size %d is %v; none can be negative", name, i, x)
		}
	}
	return bytes, nil
}
