package importer

import (
	"fmt"
	"io"
	"math"
	"slices"

	"workbench/model/maxload"
)

// DNNMaxLoad reads a JSON graph of the dnn-partitioning data set as the problem that it
// was made for, with the devices that it names and its numbers as they are: costs of
// edges are added to latencies whatever their unit, as the authors' programs do (in layer
// graphs the ones are seconds, the others milliseconds).
//
// Nodes of one colour class are one part. A class with backward nodes only is in the
// order of the forward as the mirror image of its backward edges, as there.
func DNNMaxLoad(r io.Reader, name string) (*maxload.Instance, error) {
	d, err := openDNN(r, name)
	if err != nil {
		return nil, err
	}
	f := &d.file
	switch {
	case f.Accelerators == nil || *f.Accelerators < 0 || *f.Accelerators > mostDevices:
		return nil, d.fail("maxFPGAs", "a number of accelerators from 0 to %d is needed", mostDevices)
	case f.CPUs == nil || *f.CPUs < 0 || *f.CPUs > mostDevices:
		return nil, d.fail("maxCPUs", "a number of CPUs from 0 to %d is needed", mostDevices)
	case *f.Accelerators+*f.CPUs == 0:
		return nil, d.fail("maxFPGAs", "there is no device")
	case f.Memory == nil || *f.Memory < 0:
		return nil, d.fail("maxSizePerFPGA", "the memory of an accelerator is needed")
	}
	in := &maxload.Instance{Name: chainName(name), Accelerators: *f.Accelerators, CPUs: *f.CPUs, Memory: *f.Memory}
	part, err := d.parts(in)
	if err != nil {
		return nil, err
	}
	if err := d.values(in, part); err != nil {
		return nil, err
	}
	d.before(in, part)
	return in, nil
}

// mostDevices is more than there are.
const mostDevices = 1 << 12

// parts adds the colour classes in the order of the file, and returns that of each node.
func (d *dnn) parts(in *maxload.Instance) ([]int, error) {
	part := make([]int, len(d.file.Nodes))
	byColor := map[int]int{}
	for i := range d.file.Nodes {
		n, at := &d.file.Nodes[i], fmt.Sprintf("nodes[%d]", i)
		if n.CPULatency == nil || *n.CPULatency < 0 {
			return nil, d.fail(at, "cpuLatency is missing or negative")
		}
		p, known := len(in.Parts), false
		if n.Color != nil {
			if p, known = byColor[*n.Color]; !known {
				p = len(in.Parts)
				byColor[*n.Color] = p
			}
		}
		if !known {
			in.Parts = append(in.Parts, maxload.Part{Name: n.Name})
		}
		part[i] = p
		x := &in.Parts[p]
		x.Accelerator += *n.Latency
		x.CPU += *n.CPULatency
		x.Size += valueOf(n.Size)
		switch n.Supported {
		case nil, true, 1.0:
		case false, 0.0:
			x.Accelerator = math.Inf(1)
		default:
			return nil, d.fail(at+".supportedOnFpga", "%v is neither true nor false nor 0 nor 1", n.Supported)
		}
	}
	return part, nil
}

// values adds what is written by nodes of a part and read in another.
func (d *dnn) values(in *maxload.Instance, part []int) error {
	cost := make([]*float64, len(part))
	parts := make([][]int, len(part)) // of the value of a node
	for i, e := range d.edges {
		c, at := d.file.Edges[i].Cost, fmt.Sprintf("edges[%d]", i)
		switch {
		case c == nil:
			return d.fail(at, "cost is missing")
		case cost[e.From] == nil:
			cost[e.From], parts[e.From] = c, []int{part[e.From]}
		case *cost[e.From] != *c:
			return d.fail(at+".cost", "another edge from node %d costs %g; what a node writes is moved once, at one cost", *d.file.Edges[i].From, *cost[e.From])
		}
		if !slices.Contains(parts[e.From], part[e.To]) {
			parts[e.From] = append(parts[e.From], part[e.To])
		}
	}
	for i := range parts {
		if len(parts[i]) > 1 && *cost[i] > 0 {
			in.Values = append(in.Values, maxload.Value{Cost: *cost[i], Parts: parts[i]})
		}
	}
	return nil
}

// before adds the order of the forward.
func (d *dnn) before(in *maxload.Instance, part []int) {
	forward := make([]bool, len(in.Parts))
	for i := range part {
		forward[part[i]] = forward[part[i]] || !d.backward[i]
	}
	known := map[[2]int]bool{}
	for _, e := range d.edges {
		pair := [2]int{part[e.From], part[e.To]}
		switch {
		case !d.backward[e.From] && !d.backward[e.To]:
		case d.backward[e.From] && d.backward[e.To] && !(forward[pair[0]] && forward[pair[1]]):
			pair = [2]int{pair[1], pair[0]}
		default:
			continue
		}
		if pair[0] != pair[1] && !known[pair] {
			known[pair] = true
			in.Before = append(in.Before, pair)
		}
	}
}
