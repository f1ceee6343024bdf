package timeline

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/verify"
)

// Steps draws plans of one device without transfers: what is computed and kept of
// each layer, node or branch over time, and the memory in use.
func Steps() Drawer { return Drawer{stepsChart} }

// A span is an operation, or the time that something is kept, in a row.
type span struct {
	row        int
	start, end float64
	kind       string // of an operation: plan.Op.Op; of something kept: a tensor
	title      string
	recomputed bool
}

// steps is a plan of operations one after the other: rows, from the top, what
// is computed and what is kept in each.
type steps struct {
	rows     int
	label    func(row int) string // what a row is
	computed []span
	kept     []span
}

// stepsChart is of a plan of remat or join: what is computed and kept of each
// layer over time, and below it the memory in use against the limit.
func stepsChart(in plan.Instance, p *plan.Plan) (*chart, error) {
	memory, err := verify.Profile(in, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	s := stepsOf(in, p)
	end := 0.0
	for _, x := range s.computed {
		end = max(end, x.end)
	}
	if !(end > 0) || math.IsInf(end, 1) {
		return nil, fmt.Errorf("timeline: %w: no operation takes time", plan.ErrUnreadable)
	}
	c := newChart(p, "GPU", "", end)
	c.memory.oneDevice(useParts, levelsOf(memory, uses))
	row := "layer"
	item := func(name, fill string) picture.Item { return picture.Item{Name: name, Sample: picture.Swatch(fill)} }
	c.legend = []picture.Item{forwardItem, recomputeItem, backwardItem, item("kept", keptOutput), item("gradient kept", keptGradient)}
	switch in.Kind() {
	case join.Kind:
		row, c.memory.unit = "branch: layer", slots
		c.legend = append(c.legend, item("loss", gradientColour))
	case graph.Kind, training.Kind:
		row = "node"
	default:
		c.legend = []picture.Item{
			savingItem, cheapItem, recomputeItem, backwardItem, item("saved activations kept", keptSaved), item("output kept", keptOutput),
		}
	}
	c.stepTime(end)
	high := min(14, max(1.5, 300/float64(s.rows)))
	c.lanes = []lane{{bare: true, height: high * float64(s.rows), draw: func(v *view, y float64) { s.draw(v, y, high, row) }}}
	t := track{name: "compute"}
	for _, x := range s.computed {
		b := box{Op: &plan.Op{Op: x.kind, Start: x.start, End: x.end}, pieces: []piece{{x.start, x.end}}, name: x.title}
		if b.args = map[string]any{"layer": s.label(x.row)}; x.recomputed {
			b.args["recomputed"] = true
		}
		t.boxes = append(t.boxes, b)
	}
	c.tracks = []track{t}
	for _, k := range s.kept {
		c.stays = append(c.stays, stay{k.title, "kept", fmt.Sprintf("%s %d", k.kind, k.row), []piece{{k.start, k.end}}, nil})
	}
	return c, nil
}

// draw draws rows of a height below top, and what they are.
func (s *steps) draw(v *view, top, height float64, what string) {
	v.Text(picture.Text{X: left - 14, Y: top - 10, Anchor: picture.Right, Italic: true, S: what})
	at := func(row int) float64 { return top + float64(row)*height }
	for r := 0; r < s.rows; r += int(math.Ceil(11 / height)) {
		v.Text(picture.Text{X: left - 6, Y: at(r) + height/2 + 3.5, Anchor: picture.Right, Size: picture.SmallSize, S: s.label(r)})
	}
	rect := func(x span, fill string, inset float64) {
		v.Begin(x.title)
		width := max(v.width(piece{x.start, x.end}), 0.3) // what takes no time is still seen
		v.Rect(v.x(x.start), at(x.row)+inset, width, max(height-2*inset, 0.6), fill, "")
		v.End()
	}
	for _, x := range s.kept {
		fill, known := map[string]string{plan.TensorAbar: keptSaved, plan.TensorDelta: keptGradient}[x.kind]
		if !known {
			fill = keptOutput
		}
		rect(x, fill, 0.25*height)
	}
	for _, x := range s.computed {
		fill := colour(x.kind)
		switch {
		case x.recomputed:
			fill = picture.Hatched
		case x.kind == plan.OpLoss:
			fill = gradientColour
		}
		rect(x, fill, 0)
	}
}

// stepsOf returns what a plan computes and keeps. It follows operations as
// they stand, valid or not: what is kept begins with what writes it and ends
// with what consumes or discards it.
func stepsOf(in plan.Instance, p *plan.Plan) *steps {
	switch in := in.(type) {
	case *graph.Graph:
		return graphSteps(training.FromGraph(in), p)
	case *training.Graph:
		return graphSteps(in, p)
	case *join.Join:
		return joinSteps(in, p)
	}
	return chainSteps(plan.As[*chain.Chain](in), p)
}

// held follows what is kept: a start by key, turned into a span at its end.
type held struct {
	*steps
	since map[key]float64
}

type key struct {
	row    int
	tensor string
}

func (h *held) keep(row int, tensor string, t float64) {
	if _, here := h.since[key{row, tensor}]; !here {
		h.since[key{row, tensor}] = t
	}
}

func (h *held) free(row int, tensor string, t float64) {
	k := key{row, tensor}
	if since, here := h.since[k]; here {
		delete(h.since, k)
		if t > since {
			h.kept = append(h.kept, span{row, since, t, tensor, tensor + " of " + h.label(row) + " kept", false})
		}
	}
}

// chainSteps has a row a layer, the loss on top.
func chainSteps(c *chain.Chain, p *plan.Plan) *steps {
	n := c.Len()
	s := &steps{rows: n, label: func(row int) string {
		return picture.Short(cmp.Or(c.Layers[n-row-1].Name, strconv.Itoa(n-row)), mostName)
	}}
	h, again := &held{s, map[key]float64{}}, recomputed(p)
	row := func(l int) int { return n - l }
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Layer < 0 || o.Layer > n {
			continue
		}
		if o.Op != plan.OpD && o.Layer > 0 {
			title := o.String()
			if name := c.Layers[o.Layer-1].Name; name != "" {
				title += " (" + name + ")"
			}
			s.computed = append(s.computed, span{row(o.Layer), o.Start, o.End, o.Op, title, again[o]})
		}
		switch o.Op {
		case plan.OpFAll:
			h.keep(row(o.Layer), plan.TensorAbar, o.End)
		case plan.OpFCk:
			h.keep(row(o.Layer), plan.TensorA, o.End)
		case plan.OpFNone:
			h.keep(row(o.Layer), plan.TensorA, o.End)
			h.free(row(o.Layer-1), plan.TensorA, o.End)
		case plan.OpB:
			h.free(row(o.Layer), plan.TensorAbar, o.End)
			h.free(row(o.Layer-1), plan.TensorA, o.End)
		case plan.OpD:
			h.free(row(o.Layer), o.Tensor, o.Start)
		}
	}
	return s
}

// graphSteps has a row for every forward node; the loss and the other nodes share
// those of the forward nodes they mirror, the last first. What a node writes is
// kept as long as any of it is. D of a graph/v1 names the storage by its node.
func graphSteps(g *training.Graph, p *plan.Plan) *steps {
	forwards := 0
	for i := range g.Nodes {
		if g.Nodes[i].Phase == training.Forward {
			forwards++
		}
	}
	rows := max(forwards+1, 1)
	row, tensor, names := make([]int, g.Len()), make([]string, g.Len()), make([]string, rows)
	node := make(map[string]int, g.Len())
	up, down := rows-1, 0
	for i := range g.Nodes {
		n := &g.Nodes[i]
		node[n.ID], tensor[i] = i, plan.TensorA
		switch n.Phase {
		case training.Forward:
			row[i], names[up] = up, n.ID
			up--
		case training.Loss:
			names[0] = n.ID
		default:
			down = min(down+1, rows-1)
			row[i], tensor[i] = down, plan.TensorDelta
		}
	}
	storage, writer := make(map[string]int, len(g.Storages)), g.Writers()
	for i := range g.Storages {
		storage[g.Storages[i].ID] = i
	}
	s := &steps{rows: rows, label: func(row int) string { return picture.Short(names[row], mostName) }}
	h, again := &held{s, map[key]float64{}}, recomputed(p)
	here, kept := make([]bool, len(g.Storages)), make([]int, g.Len()) // kept: of each node, how many are here
	for k := range p.Ops {
		o := &p.Ops[k]
		if x, known := node[o.Node]; known && o.Op == plan.OpC {
			kind := plan.OpC
			if tensor[x] == plan.TensorDelta {
				kind = plan.OpB
			}
			s.computed = append(s.computed, span{row[x], o.Start, o.End, kind, o.Node, again[o]})
			h.keep(row[x], tensor[x], o.End)
			for _, i := range g.Nodes[x].Writes {
				if !here[i] {
					here[i] = true
					kept[x]++
				}
			}
		} else if i, known := storage[o.Node+o.Storage]; known && here[i] {
			here[i] = false
			if x := writer[i]; kept[x] == 1 {
				h.free(row[x], tensor[x], o.Start)
			}
			kept[writer[i]]--
		}
	}
	return s
}

// mostName is how many characters the margin has room for.
const mostName = 15

// joinSteps has a row for a_0..a_L of every branch, the first branch on top.
func joinSteps(j *join.Join, p *plan.Plan) *steps {
	first := make([]int, j.K())
	rows := 0
	for b, l := range j.Branches {
		first[b] = rows
		rows += l + 1
	}
	branch := make([]int, rows)
	for b := range first {
		for r := first[b]; r <= first[b]+j.Branches[b]; r++ {
			branch[r] = b
		}
	}
	s := &steps{rows: rows, label: func(row int) string { return fmt.Sprintf("%d: %d", branch[row]+1, row-first[branch[row]]) }}
	again := recomputed(p)
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Op == plan.OpLoss {
			for b := range first {
				s.computed = append(s.computed, span{first[b] + j.Branches[b], o.Start, o.End, o.Op, o.String(), false})
			}
			continue
		}
		if o.Branch < 1 || o.Branch > j.K() || o.Layer < 0 || o.Layer > j.Branches[o.Branch-1] {
			continue
		}
		if o.Op == plan.OpF || o.Op == plan.OpB {
			s.computed = append(s.computed, span{first[o.Branch-1] + o.Layer, o.Start, o.End, o.Op, o.String(), again[o]})
		}
	}
	joinStays(s, j.Branches, first, p)
	return s
}

// joinStays counts copies: a value is kept from its first to its last.
func joinStays(s *steps, lengths, first []int, p *plan.Plan) {
	h := &held{s, map[key]float64{}}
	copies := map[key]int{}
	change := func(row int, tensor string, by int, t float64) {
		k := key{row, tensor}
		if copies[k] += by; copies[k] > 0 {
			h.keep(row, tensor, t)
		} else {
			h.free(row, tensor, t)
		}
	}
	for b := range first {
		change(first[b], plan.TensorA, 1, 0)
	}
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Op == plan.OpLoss {
			for b := range first {
				change(first[b]+lengths[b], plan.TensorA, -1, o.End)
				change(first[b]+lengths[b], plan.TensorDelta, 1, o.End)
			}
			continue
		}
		if o.Branch < 1 || o.Branch > len(first) || o.Layer < 0 || o.Layer > lengths[o.Branch-1] {
			continue
		}
		row := first[o.Branch-1] + o.Layer
		switch {
		case o.Op == plan.OpF && o.Layer > 0:
			change(row-1, plan.TensorA, -1, o.End)
			change(row, plan.TensorA, 1, o.End)
		case o.Op == plan.OpS:
			change(row, plan.TensorA, 1, o.Start)
		case o.Op == plan.OpB && o.Layer > 0:
			change(row, plan.TensorDelta, -1, o.End)
			change(row-1, plan.TensorA, -1, o.End)
			change(row-1, plan.TensorDelta, 1, o.End)
		case o.Op == plan.OpD:
			change(row, o.Tensor, -1, o.Start)
		}
	}
}
