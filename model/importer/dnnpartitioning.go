package importer

import (
	"fmt"
	"math"
	"strings"

	"workbench/model/instance/chain"
	training "workbench/model/instance/graph"
	"workbench/model/linear"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// DNNOptions says what dnn-partitioning files leave open.
type DNNOptions struct {
	// CostUnit of edges is "s" or "ms"; empty: whichever fits the edges'
	// sizes, with a warning. Costs serve to check sizes and to replace
	// missing ones.
	CostUnit string
}

// costRate is the bandwidth behind the costs of all published files, B/s.
const costRate = 1 << 31

// DNNPartitioning reads a JSON graph of the dnn-partitioning data set.
// Latencies (of the accelerator, "FPGA") are in milliseconds, sizes in bytes.
//
// There are two kinds of files. In layer graphs, whose nodes are all called
// node1, node2, … (node1grad backward), nodes that read nothing are inputs
// with the time of loading data, which is left out, and the size of a node is
// its output and its weights. In operator graphs, nodes that read nothing and
// take no time are weights of those that read them.
//
// Backward nodes are folded into the layer of the forward node of the same
// name or colour class.
func DNNPartitioning(data []byte, name string, o DNNOptions) (*chain.Chain, []string, error) {
	d, err := readDNN(data, name, o)
	if err != nil {
		return nil, nil, err
	}
	l, err := d.g.linearize()
	if err != nil {
		return nil, nil, err
	}
	d.fold(l.of, l.chain.Len()-1, func(layer int, time float64) { l.chain.Layers[layer].BackwardTime += time })
	l.chain.Source = d.source()
	return l.chain, append(d.g.warnings, wholeBytes(l.chain.Sizes())...), nil
}

// DNNPartitioningGraph reads the same as the graph of a training step, as
// [PipeDreamGraph] makes it: each forward node has one backward node, which takes what
// the file's backward nodes of its name or colour class take together, and nothing in
// files of inference.
func DNNPartitioningGraph(data []byte, name string, o DNNOptions) (*training.Graph, []string, error) {
	d, err := readDNN(data, name, o)
	if err != nil {
		return nil, nil, err
	}
	if _, err := d.g.linearize(); err != nil { // a cycle
		return nil, nil, err
	}
	order, _, err := d.g.forwards()
	if err != nil {
		return nil, nil, d.g.fail(1, "%v", err)
	}
	place := make([]int, len(d.g.nodes))
	for k, v := range order {
		place[v] = k
	}
	d.fold(place, len(order)-1, func(k int, time float64) { d.g.nodes[order[k]].backward += time })
	out, err := d.g.training()
	if err != nil {
		return nil, nil, err
	}
	out.Source = d.source()
	warnings := append(d.g.warnings, wholeBytes(out.Sizes())...)
	if err := out.Validate(); err != nil { // sums beyond all numbers
		return nil, nil, d.g.fail(1, "%v", err)
	}
	return out, warnings, nil
}

// readDNN decodes and checks a file and makes its forward graph.
func readDNN(data []byte, name string, o DNNOptions) (*dnn, error) {
	d := &dnn{data: data, g: graph{file: name}}
	if err := strictjson.DecodeForeign(data, name, &d.file); err != nil {
		return nil, err
	}
	if err := d.check(); err != nil {
		return nil, err
	}
	rate, err := d.rate(o.CostUnit)
	if err != nil {
		return nil, err
	}
	d.fillSizes(rate)
	d.build()
	return d, nil
}

func (d *dnn) source() map[string]any {
	return map[string]any{
		"kind": "measured", "profiler": "dnn-partitioning", "device": "not recorded", "batch": "not recorded",
		"nodes": float64(len(d.file.Nodes)), "edges": float64(len(d.file.Edges)),
	}
}

// dnnFile mirrors the format.
type dnnFile struct {
	Memory       *float64  `json:"maxSizePerFPGA"`
	Accelerators *int      `json:"maxFPGAs"`
	CPUs         *int      `json:"maxCPUs"`
	Nodes        []dnnNode `json:"nodes"`
	Edges        []dnnEdge `json:"edges"`
}

type dnnNode struct {
	ID         *int     `json:"id"`
	Name       string   `json:"name"`
	Latency    *float64 `json:"fpgaLatency"`
	CPULatency *float64 `json:"cpuLatency"`
	Supported  any      `json:"supportedOnFpga"` // 0, 1, false, true; nil: true
	Backward   any      `json:"isBackwardNode"`  // 0, 1, false, true
	Color      *int     `json:"colorClass"`
	Size       *float64 `json:"size"` // nil: 0
}

type dnnEdge struct {
	From *int     `json:"sourceId"`
	To   *int     `json:"destId"`
	Cost *float64 `json:"cost"`
	Size *float64 `json:"size"`
}

// dnn is a file on its way to a graph.
type dnn struct {
	data []byte
	file dnnFile
	g    graph

	index    map[int]int // of node ids
	backward []bool
	edges    []linear.Edge // of the file, by index
	size     []float64     // of what each carries
	node     []int         // node of g, -1: a weight or a backward node
}

func (d *dnn) fail(path, format string, args ...any) error {
	return &strictjson.Error{Name: d.g.file, Line: strictjson.Line(d.data, path), Path: path, Msg: fmt.Sprintf(format, args...)}
}

// check checks every node and edge by itself, and that edges meet nodes.
func (d *dnn) check() error {
	if len(d.file.Nodes) == 0 {
		return d.fail("nodes", "there is no node")
	}
	d.index = make(map[int]int, len(d.file.Nodes))
	d.backward = make([]bool, len(d.file.Nodes))
	for i := range d.file.Nodes {
		n, at := &d.file.Nodes[i], fmt.Sprintf("nodes[%d]", i)
		switch {
		case n.ID == nil:
			return d.fail(at, "id is missing")
		case n.Latency == nil:
			return d.fail(at, "fpgaLatency is missing")
		case *n.Latency < 0:
			return d.fail(at+".fpgaLatency", "%v is negative", *n.Latency)
		case n.Size != nil && *n.Size < 0:
			return d.fail(at+".size", "%v is negative", *n.Size)
		}
		if _, twice := d.index[*n.ID]; twice {
			return d.fail(at+".id", "there is another node %d", *n.ID)
		}
		d.index[*n.ID] = i
		switch n.Backward {
		case nil, false, 0.0:
		case true, 1.0:
			d.backward[i] = true
		default:
			return d.fail(at+".isBackwardNode", "%v is neither true nor false nor 0 nor 1", n.Backward)
		}
	}
	for i := range d.file.Edges {
		if err := d.checkEdge(&d.file.Edges[i], fmt.Sprintf("edges[%d]", i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *dnn) checkEdge(e *dnnEdge, at string) error {
	switch {
	case e.From == nil:
		return d.fail(at, "sourceId is missing")
	case e.To == nil:
		return d.fail(at, "destId is missing")
	case e.Cost != nil && *e.Cost < 0:
		return d.fail(at+".cost", "%v is negative", *e.Cost)
	case e.Size != nil && *e.Size < 0:
		return d.fail(at+".size", "%v is negative", *e.Size)
	case e.Cost == nil && e.Size == nil:
		return d.fail(at, "cost and size are missing; one is needed")
	}
	from, ok := d.index[*e.From]
	if !ok {
		return d.fail(at+".sourceId", "there is no node %d", *e.From)
	}
	to, ok := d.index[*e.To]
	if !ok {
		return d.fail(at+".destId", "there is no node %d", *e.To)
	}
	d.edges = append(d.edges, linear.Edge{From: from, To: to})
	return nil
}

// rate returns what to multiply costs by to get bytes, and warns where that
// disagrees with the sizes.
func (d *dnn) rate(unit string) (float64, error) {
	rates := map[string]float64{"s": costRate, "ms": costRate / 1e3}
	off := func(rate float64) (disagreeing, first int) {
		for i := range d.file.Edges {
			e := &d.file.Edges[i]
			if e.Size == nil || e.Cost == nil || *e.Size == 0 || *e.Cost == 0 {
				continue
			}
			if x := *e.Cost * rate / *e.Size; x < 0.5 || x > 2 {
				if disagreeing++; disagreeing == 1 {
					first = i
				}
			}
		}
		return disagreeing, first
	}
	if unit == "" {
		unit = "s"
		inSeconds, _ := off(rates["s"])
		if inMilliseconds, _ := off(rates["ms"]); inMilliseconds < inSeconds {
			unit = "ms"
		}
		d.g.warn("costs of edges are taken to be in %s, which fits their sizes; say so with the cost unit", unit)
	}
	rate, ok := rates[unit]
	if !ok {
		return 0, fmt.Errorf("cost unit %q: s or ms is needed", unit)
	}
	if n, first := off(rate); n > 0 {
		e := &d.file.Edges[first]
		d.g.warn("with costs in %s, size and cost of %d edges disagree by more than twice (edge %d→%d: %g bytes, %g %s at 2³¹ bytes a "+
			"second); sizes are believed",
			unit, n, *e.From, *e.To, *e.Size, *e.Cost, unit)
	}
	return rate, nil
}

// fillSizes takes sizes of edges that have none from their costs.
func (d *dnn) fillSizes(rate float64) {
	d.size = make([]float64, len(d.edges))
	guessed := 0
	for i := range d.file.Edges {
		if e := &d.file.Edges[i]; e.Size != nil {
			d.size[i] = *e.Size
		} else {
			d.size[i] = math.Round(*e.Cost * rate)
			guessed++
		}
	}
	if guessed > 0 {
		d.g.warn("%s without a size: it is taken from the cost", platform.Count(guessed, "edge"))
	}
}

// build makes the graph of the forward nodes.
func (d *dnn) build() {
	layered := d.layerGraph()
	nodes := d.file.Nodes
	reads, read := make([]bool, len(nodes)), make([]bool, len(nodes)) // among forward nodes
	carried := make([]float64, len(nodes))                            // most that an edge carries away
	for i, e := range d.edges {
		carried[e.From] = max(carried[e.From], d.size[i])
		if !d.backward[e.From] && !d.backward[e.To] {
			reads[e.To], read[e.From] = true, true
		}
	}
	d.node = make([]int, len(nodes))
	weight := make([]bool, len(nodes))
	for i := range nodes {
		d.node[i] = -1
		weight[i] = !layered && !reads[i] && read[i] && *nodes[i].Latency == 0
		if d.backward[i] || weight[i] {
			continue
		}
		d.node[i] = len(d.g.nodes)
		n := d.newNode(i, carried[i], layered)
		if layered && !reads[i] && read[i] {
			n.input, n.weight = true, 0
			if n.forward > 0 {
				d.g.warn("%s: %.4g s of loading data are left out", n.name, n.forward)
			}
			n.forward = 0
		}
		d.g.nodes = append(d.g.nodes, n)
	}
	counted := make([]bool, len(nodes))
	var origin []int // of the edges of g in the file
	for i, e := range d.edges {
		to := d.node[e.To]
		switch {
		case d.backward[e.From] || d.backward[e.To] || to < 0:
		case weight[e.From]:
			// A weight that several read is the first one's in the file.
			if !counted[e.From] {
				counted[e.From] = true
				d.g.nodes[to].weight += max(carried[e.From], valueOf(nodes[e.From].Size))
			}
		default:
			d.g.edges, origin = append(d.g.edges, linear.Edge{From: d.node[e.From], To: to}), append(origin, i)
		}
	}
	d.g.lines = func(edge int) int { return strictjson.Line(d.data, fmt.Sprintf("edges[%d]", origin[edge])) }
}

// newNode makes the node of a forward operation whose widest edge carries so
// many bytes.
func (d *dnn) newNode(i int, carried float64, layered bool) node {
	f := &d.file.Nodes[i]
	size := valueOf(f.Size)
	n := node{id: fmt.Sprint(*f.ID), name: f.Name, forward: *f.Latency / 1e3, output: carried, saved: carried}
	if n.name == "" {
		n.name = fmt.Sprintf("node %d", *f.ID)
	}
	switch {
	case !layered:
		n.saved = max(size, carried)
		// Nodes with several outputs have a node for each; the edges to those
		// carry an eighth of a byte.
		n.handle = carried > 0 && carried < 1
	case carried > 0:
		n.weight = max(0, size-carried)
	case n.forward == 0:
		n.output, n.saved = size, size // one part of a tuple
	default:
		n.weight = size
		if size > 0 {
			d.g.warn("no node reads %s, so that its output is unknown: its %g bytes are treated as weights", n.name, size)
		}
	}
	return n
}

// layerGraph reports whether all nodes are called as in layer graphs.
func (d *dnn) layerGraph() bool {
	for i := range d.file.Nodes {
		digits, ok := strings.CutPrefix(strings.TrimSuffix(d.file.Nodes[i].Name, "grad"), "node")
		if !ok || digits == "" || strings.Trim(digits, "0123456789") != "" {
			return false
		}
	}
	return true
}

// fold adds the backward nodes to the layers. One without a twin goes where
// what it reads is: to the latest forward layer, or else with the earliest
// backward node, or else to the last layer.
func (d *dnn) fold(of []int, last int, add func(layer int, time float64)) {
	some := false
	byName, byColor := map[string]int{}, map[int]int{}
	layer := make([]int, len(d.file.Nodes))
	for i := range layer {
		layer[i] = -1
		if d.node[i] < 0 {
			continue
		}
		layer[i] = max(0, of[d.node[i]]) // an input's is with the first layer
		f := &d.file.Nodes[i]
		if f.Name != "" {
			byName[f.Name] = i
		}
		if f.Color != nil {
			if _, ok := byColor[*f.Color]; !ok || *f.Latency > 0 {
				byColor[*f.Color] = i
			}
		}
	}
	pred := make([][]int, len(layer))
	for _, e := range d.edges {
		pred[e.To] = append(pred[e.To], e.From)
	}
	alone := 0
	for _, i := range d.backwardOrder() {
		f := &d.file.Nodes[i]
		twin, ok := byName[strings.TrimSuffix(f.Name, "grad")]
		if !ok && f.Color != nil {
			twin, ok = byColor[*f.Color]
		}
		if ok {
			layer[i] = layer[twin]
		} else {
			alone++
			layer[i] = d.layerOfBackward(pred[i], layer, last)
		}
		add(layer[i], *f.Latency/1e3)
		some = some || *f.Latency > 0
	}
	if alone > 0 {
		d.g.warn("%s backward without a forward twin by name or colour class: folded into the layer of what it reads",
			platform.Count(alone, "node"))
	}
	if !some {
		d.g.warn("the file has no backward times, so that they are 0")
	}
}

// layerOfBackward returns the layer of a backward node without a twin.
func (d *dnn) layerOfBackward(pred, layer []int, last int) int {
	forward, backward := -1, math.MaxInt
	for _, x := range pred {
		switch {
		case layer[x] < 0:
		case d.backward[x]:
			backward = min(backward, layer[x])
		default:
			forward = max(forward, layer[x])
		}
	}
	switch {
	case forward >= 0:
		return forward
	case backward <= last:
		return backward
	}
	return last
}

// backwardOrder returns the backward nodes, those that are read before those
// that read them as far as there is such an order.
func (d *dnn) backwardOrder() []int {
	left := make([]int, len(d.file.Nodes))
	succ := make([][]int, len(left))
	for _, e := range d.edges {
		if d.backward[e.From] && d.backward[e.To] {
			left[e.To]++
			succ[e.From] = append(succ[e.From], e.To)
		}
	}
	var order []int
	for i := range left {
		if d.backward[i] && left[i] == 0 {
			order = append(order, i)
		}
	}
	for k := 0; k < len(order); k++ {
		for _, y := range succ[order[k]] {
			if left[y]--; left[y] == 0 {
				order = append(order, y)
			}
		}
	}
	return order
}

func valueOf(p *float64) float64 {
	if p == nil {
		return 0
	}
	return *p
}
