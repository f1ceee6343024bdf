package timeline

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
	"workbench/model/verify/replay"
)

// Colours of what rematerialization computes and keeps.
const (
	allColour   = "#0072b2" // F_all
	cheapColour = "#3f8fca" // F_ck, F_none
	aStay       = "#7c93a6" // a kept
	abarStay    = "#5a8fb8" // ā kept
	deltaStay   = "#b07a2a" // a gradient kept

	overheadColour = "#968300" // memory for the running operation alone
)

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

// stepsSVG draws a plan of remat or join: what is computed and kept of each
// layer over time, and below it the memory in use against the limit.
func stepsSVG(w io.Writer, in plan.Instance, p *plan.Plan, o Options) error {
	d, err := newStepsDrawing(w, in, p)
	if err != nil {
		return err
	}
	d.steps = stepsOf(in, p)
	end := 0.0
	for _, x := range d.computed {
		end = max(end, x.end)
	}
	d.row = min(14, max(1.5, 300/float64(d.rows)))
	if err := d.lay(o, end, d.row*float64(d.rows)); err != nil {
		return err
	}
	d.draw()
	return d.Flush()
}

// A stepsDrawing is a picture of a plan that does not repeat being written: of
// steps, or of lanes.
type stepsDrawing struct {
	drawing
	*steps
	memory []replay.MemoryStep
	row    float64 // height in pixels
	slots  bool    // of a join
	graph  bool
	parts  []memoryPart // of the curve; nil: memoryParts
}

func newStepsDrawing(w io.Writer, in plan.Instance, p *plan.Plan) (*stepsDrawing, error) {
	memory, err := verify.Profile(in, p)
	if err != nil {
		return nil, fmt.Errorf("timeline: %w", err)
	}
	return &stepsDrawing{
		drawing: drawing{Writer: bufio.NewWriter(w), chain: plan.As[*chain.Chain](in), plan: p},
		memory:  memory, slots: in.Kind() == join.Kind, graph: in.Kind() == graph.Kind || in.Kind() == training.Kind,
	}, nil
}

// lay settles the measures as that of drawing does, if something takes time.
func (d *stepsDrawing) lay(o Options, end, height float64) error {
	if !(end > 0) || math.IsInf(end, 1) {
		return fmt.Errorf("timeline: %w: no operation takes time", plan.ErrUnreadable)
	}
	d.drawing.lay(o, end, height)
	return nil
}

// memoryParts returns what the curve stacks.
func (d *stepsDrawing) memoryParts() []memoryPart {
	if d.parts != nil {
		return d.parts
	}
	return memoryParts
}

func (d *stepsDrawing) draw() {
	height := d.curveEnd + bottom
	d.open(height)
	d.header()
	d.grid()
	d.text(left-14, top-10, "end", `font-style="italic"`, d.rowName())
	for r := range d.rows {
		if every := int(math.Ceil(11 / d.row)); r%every == 0 {
			d.text(left-6, d.y(r)+d.row/2+3.5, "end", `font-size="9"`, d.label(r))
		}
	}
	for _, k := range d.kept {
		d.rect(k, stayColour(k.kind), 0.25*d.row)
	}
	for _, c := range d.computed {
		d.rect(c, stepColour(c), 0)
	}
	d.curve()
	d.printf("</svg>\n")
}

func (d *stepsDrawing) y(row int) float64 { return top + float64(row)*d.row }

// rect draws a span, inset from above and below.
func (d *stepsDrawing) rect(s span, colour string, inset float64) {
	width := max((s.end-s.start)*d.scale, 0.3) // what takes no time is still seen
	d.printf("<rect x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\" fill=\"%s\"><title>%s</title></rect>\n",
		px(d.x(s.start)), px(d.y(s.row)+inset), px(width), px(max(d.row-2*inset, 0.6)), colour, escape(s.title))
}

func stepColour(s span) string {
	if s.recomputed {
		return recomputeFill
	}
	switch s.kind {
	case plan.OpFAll, plan.OpF, plan.OpC:
		return allColour
	case plan.OpFCk, plan.OpFNone:
		return cheapColour
	case plan.OpLoss:
		return gradientColour
	}
	return backwardColour
}

func stayColour(tensor string) string {
	switch tensor {
	case plan.TensorAbar:
		return abarStay
	case plan.TensorDelta:
		return deltaStay
	}
	return aStay
}

func (d *stepsDrawing) header() {
	d.heading("", d.period)
	d.legend(d.rowLegend())
	d.legendAt(d.curveTop-13, d.memoryLegend())
}

// heading writes which plan is drawn, its step time and its memory.
func (d *stepsDrawing) heading(name string, makespan float64) {
	peak := 0.0
	for i := range d.memory {
		peak = max(peak, d.memory[i].During.Total())
	}
	memory := ofLimit(peak, d.plan.Platform.Memory)
	if d.slots {
		memory = fmt.Sprintf("peak %s of %s slots", number(peak), number(d.plan.Platform.Memory))
	}
	d.drawing.heading(name, "step time "+platform.FormatSeconds(makespan)+", "+memory)
}

// rowName says what the rows are.
func (d *stepsDrawing) rowName() string {
	switch {
	case d.slots:
		return "branch: layer"
	case d.graph:
		return "node"
	}
	return "layer"
}

// rowLegend says what the colours of the rows are.
func (d *stepsDrawing) rowLegend() []legendItem {
	forward, backward := legendItem{"forward", swatch(allColour)}, legendItem{"backward", swatch(backwardColour)}
	again := legendItem{"recomputed forward", swatch(recomputeFill)}
	kept, gradient := legendItem{"kept", swatch(aStay)}, legendItem{"gradient kept", swatch(deltaStay)}
	switch {
	case d.slots:
		return []legendItem{forward, again, {"loss", swatch(gradientColour)}, backward, kept, gradient}
	case d.graph:
		return []legendItem{forward, again, backward, kept, gradient}
	}
	return []legendItem{
		{"forward (saves for backward)", swatch(allColour)},
		{"forward (checkpoint)", swatch(cheapColour)},
		again,
		backward,
		{"saved activations kept", swatch(abarStay)},
		{"output kept", swatch(aStay)},
	}
}

// A memoryPart is what memory is used for, with its colour.
type memoryPart struct {
	name, colour string
	value        func(m replay.MemoryParts) float64
}

// memoryParts are what memory is used for, in the order in which the curve
// stacks it.
var memoryParts = []memoryPart{
	{"outputs", activationColour, func(m replay.MemoryParts) float64 { return m.Fixed + m.Activations }},
	{"saved for backward", weightColour, func(m replay.MemoryParts) float64 { return m.Saved }},
	{"gradients", gradientColour, func(m replay.MemoryParts) float64 { return m.Gradients }},
	{"temporary", overheadColour, func(m replay.MemoryParts) float64 { return m.Overhead }},
}

// memoryLegend says what the colours of the curve are, of those it has.
func (d *stepsDrawing) memoryLegend() []legendItem {
	var list []legendItem
	for _, part := range d.memoryParts() {
		if slices.ContainsFunc(d.memory, func(m replay.MemoryStep) bool { return part.value(m.During) > 0 }) {
			list = append(list, legendItem{part.name, swatch(part.colour)})
		}
	}
	return list
}

// curve draws the memory in use, stacked, and the limit.
func (d *stepsDrawing) curve() {
	most := d.plan.Platform.Memory
	if math.IsInf(most, 1) {
		most = 0
	}
	for i := range d.memory {
		most = max(most, d.memory[i].During.Total())
	}
	if most == 0 {
		most = 1
	}
	u := platform.AxisUnit{Name: "slots", Size: 1}
	if !d.slots {
		u = platform.ByteUnit(most)
	}
	high := most * 1.06
	y := func(bytes float64) float64 { return d.curveEnd - bytes/high*curveHeight }
	for _, t := range ticks(most/u.Size, 5) {
		d.printf("<path d=\"M%s %sH%s\" stroke=\"#ddd\"/>\n", px(left), px(y(t*u.Size)), px(d.x(d.period)))
		d.text(left-8, y(t*u.Size)+4, "end", "", number(t))
	}
	d.printf("<text transform=\"translate(14 %s) rotate(-90)\" text-anchor=\"middle\">memory (%s)</text>\n", px((d.curveTop+d.curveEnd)/2),
		u.Name)
	base := make([]float64, len(d.memory))
	for _, part := range d.memoryParts() {
		var upper, lower strings.Builder
		var back []string
		for i, m := range d.memory {
			if m.End <= m.Start {
				continue
			}
			high := base[i] + part.value(m.During)
			fmt.Fprintf(&upper, "L%s %sH%s", px(d.x(m.Start)), px(y(high)), px(d.x(m.End)))
			back = append(back, fmt.Sprintf("L%s %sH%s", px(d.x(m.End)), px(y(base[i])), px(d.x(m.Start))))
			base[i] = high
		}
		for i := len(back) - 1; i >= 0; i-- {
			lower.WriteString(back[i])
		}
		outline := upper.String()
		if outline == "" {
			continue
		}
		d.printf("<path fill=\"%s\" d=\"M%s%sZ\"><title>%s</title></path>\n", part.colour, outline[1:],
			lower.String(), part.name)
	}
	d.printf("<path d=\"M%s %sV%sH%s\" fill=\"none\" stroke=\"#222\"/>\n", px(left), px(d.curveTop), px(d.curveEnd), px(d.x(d.period)))
	if limit := d.plan.Platform.Memory; !math.IsInf(limit, 1) {
		d.printf("<path d=\"M%s %sH%s\" stroke=\"#000\" stroke-width=\"1.2\" stroke-dasharray=\"5 3\"><title>limit</title></path>\n", px(left),
			px(y(limit)), px(d.x(d.period)))
		d.text(d.x(d.period)-4, y(limit)-4, "end", `font-size="10"`, "limit")
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
		return short(cmp.Or(c.Layers[n-row-1].Name, strconv.Itoa(n-row)), mostName)
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
	s := &steps{rows: rows, label: func(row int) string { return short(names[row], mostName) }}
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

// short cuts a name to what there is room for: names of networks say at the front
// which block it is and at the end which operation.
func short(name string, most int) string {
	if r := []rune(name); len(r) > most {
		return string(r[:most/2]) + "…" + string(r[len(r)-(most-1)/2:])
	}
	return name
}

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
