package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"workbench/bench/render/picture"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify/replay"
)

// Colours of operations, and of what is kept for them.
const (
	forwardColour    = picture.Sky  // also of forwards that save nothing for their backward
	savingColour     = picture.Blue // of forwards that do
	backwardColour   = picture.Orange
	prefetchColour   = picture.Green
	uploadColour     = picture.Purple
	weightColour     = picture.Blue
	activationColour = picture.Grey
	gradientColour   = picture.Vermilion
	overheadColour   = picture.Olive // memory for the running operation alone

	keptOutput   = picture.Slate
	keptSaved    = picture.Steel
	keptGradient = picture.Ochre
)

// Colours are those of the kinds of operations and of the parts of memory, by their names in a page.
func Colours() map[string]string {
	return map[string]string{
		"forward": forwardColour, "recompute": picture.Rust, "backward": backwardColour, "weight": overheadColour,
		"out": uploadColour, "in": prefetchColour, "other": activationColour,
		"activations": activationColour, "variables": activationColour, "saved": weightColour, "weights": weightColour, "fixed": weightColour,
		"gradients": gradientColour, "overhead": overheadColour, "arriving": prefetchColour,
	}
}

// Items of legends that several pictures have.
var (
	forwardItem   = picture.Item{Name: "forward", Sample: picture.Swatch(forwardColour)}
	savingItem    = picture.Item{Name: "forward (saves for backward)", Sample: picture.Swatch(savingColour)}
	cheapItem     = picture.Item{Name: "forward (checkpoint)", Sample: picture.Swatch(forwardColour)}
	recomputeItem = picture.Item{Name: "recomputed forward", Sample: picture.Swatch(picture.Hatched)}
	backwardItem  = picture.Item{Name: "backward", Sample: picture.Swatch(backwardColour)}
)

// colour is that of an operation of a chain.
func colour(kind string) string {
	switch kind {
	case plan.OpF, plan.OpFCk, plan.OpFNone, plan.OpC:
		return forwardColour
	case plan.OpFAll:
		return savingColour
	case plan.OpB:
		return backwardColour
	case plan.OpP:
		return prefetchColour
	}
	return uploadColour
}

// A piece is an operation, or the part of one on one side of the period's end.
type piece struct {
	start, end float64
}

// A box is an operation in a picture and in a trace.
type box struct {
	*plan.Op
	pieces     []piece // one, or two if it runs past the period
	instant    bool    // it is drawn as taking no time
	recomputed float64 // seconds at its start that recompute
	fill       string
	label      string
	title      string         // in a picture
	name       string         // in a trace
	args       map[string]any // in a trace, in addition to start and end
}

// boxesOf returns the operations of these kinds in order of start, those without meaningful times left out;
// describe completes each.
func (c *chart) boxesOf(p *plan.Plan, kinds []string, describe func(*box)) (boxes []box) {
	for k := range p.Ops {
		o := &p.Ops[k]
		if !slices.Contains(kinds, o.Op) {
			continue
		}
		ps := onePiece(o, c.end)
		if p.Period != nil {
			ps = pieces(o, *p.Period)
		}
		if ps == nil {
			continue
		}
		b := box{Op: o, pieces: ps, name: o.String(), args: map[string]any{}}
		describe(&b)
		boxes = append(boxes, b)
	}
	slices.SortStableFunc(boxes, func(a, b box) int { return cmp.Compare(a.pieces[0].start, b.pieces[0].start) })
	return boxes
}

// pieces returns where in [0, period] an operation is; nil if nowhere, because
// its times are no numbers.
func pieces(o *plan.Op, period float64) []piece {
	start, length := o.Start, min(o.End-o.Start, period)
	if !(length >= 0) || math.IsInf(start, 0) {
		return nil
	}
	start -= period * math.Floor(start/period)
	if start >= period*(1-1e-9) {
		start = 0 // by rounding
	}
	end := start + length
	if end > period*(1+1e-9) {
		return []piece{{start, period}, {0, end - period}}
	}
	return []piece{{start, min(end, period)}}
}

// onePiece returns where in [0, end] an operation of a plan that does not repeat
// is; nil if nowhere, because its times are no numbers.
func onePiece(o *plan.Op, end float64) []piece {
	if !(o.End-o.Start >= 0) || math.IsInf(o.Start, 0) || o.Start > end {
		return nil
	}
	return []piece{{max(0, o.Start), max(0, min(o.End, end))}}
}

// lastEnd returns when the last operation of these kinds, without any: of all,
// ends whose times are numbers.
func lastEnd(p *plan.Plan, kinds ...string) (end float64) {
	for k := range p.Ops {
		o := &p.Ops[k]
		if (len(kinds) == 0 || slices.Contains(kinds, o.Op)) && !math.IsInf(o.End, 0) && o.End > end {
			end = o.End
		}
	}
	return end
}

// recomputed returns the operations that compute a layer or node that was computed before.
func recomputed(p *plan.Plan) map[*plan.Op]bool {
	ran, again := map[string]bool{}, map[*plan.Op]bool{}
	for k := range p.Ops {
		o := &p.Ops[k]
		what := o.Node
		switch o.Op {
		case plan.OpF, plan.OpFAll, plan.OpFCk, plan.OpFNone:
			what = fmt.Sprint(o.Branch, " ", o.Layer)
		case plan.OpC:
		default:
			continue
		}
		if ran[what] {
			again[o] = true
		}
		ran[what] = true
	}
	return again
}

// times writes when an operation runs.
func (c *chart) times(o *plan.Op, instant bool) string {
	if instant {
		return fmt.Sprintf(": at %.6g %s", o.Start/c.unit.Size, c.unit.Name)
	}
	return fmt.Sprintf(": %.6g to %.6g %s", o.Start/c.unit.Size, o.End/c.unit.Size, c.unit.Name)
}

// layerOf returns the layer of an operation; nil: it names none, or the instance is no chain.
func layerOf(in *chain.Chain, o *plan.Op) *chain.Layer {
	if in == nil || o.Layer < 1 || o.Layer > in.Len() {
		return nil
	}
	return &in.Layers[o.Layer-1]
}

// describeLayer completes an operation on a layer of a chain or, if in is nil, a node of a graph.
func (c *chart) describeLayer(in *chain.Chain, b *box) {
	b.fill, b.instant = colour(b.Op.Op), b.Op.Op == plan.OpD
	b.args["layer"], b.title = b.Layer, b.String()
	if b.Node+b.Storage == "" && !b.instant { // what has a name has no number
		b.label = strconv.Itoa(b.Layer)
	}
	if b.Layer == 0 && b.Tensor != "" && in != nil {
		b.title += size(in.Unit.Bytes(in.Input.Activation))
	}
	if l := layerOf(in, b.Op); l != nil {
		if l.Name != "" {
			b.args["name"], b.title = l.Name, b.title+" ("+l.Name+")"
		}
		if tensor, known := map[string]float64{plan.TensorW: l.Weight, plan.TensorA: l.Activation, plan.TensorAbar: l.Saved}[b.Tensor]; known {
			b.title += size(in.Unit.Bytes(tensor))
		}
	}
	b.title += c.times(b.Op, b.instant)
}

// size writes the size of a tensor behind its name.
func size(bytes float64) string { return ", " + formatted(bytes, platform.ByteUnit(bytes)) }

// number writes x with no more digits than a picture needs.
func number(x float64) string {
	if x == 0 {
		return "0" // not -0
	}
	if x >= 1e4 && x < 1e7 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}

// layerLabels writes the labels of operations into a lane. Where they all fit into their
// boxes each has one; else round numbers have, the rounder the sooner, as long
// as they keep apart, and may reach over their boxes.
func layerLabels(v *view, y, height float64, boxes []box) {
	var all []picture.Text
	fit := true
	for _, b := range boxes {
		i := slices.IndexFunc(b.pieces, v.seen)
		if b.label == "" || i < 0 {
			continue
		}
		p := b.pieces[i]
		if n := len(b.pieces) - 1; v.width(b.pieces[n]) > v.width(p) {
			p = b.pieces[n]
		}
		fit = fit && picture.TextWidth(b.label, picture.LabelSize)+2 <= v.width(p)
		all = append(all, picture.Text{
			X: (v.x(p.start) + v.x(p.end)) / 2, Y: y + height/2 + 3.5, Anchor: picture.Middle, Size: picture.LabelSize,
			Colour: onFill(b), S: b.label,
		})
	}
	if !fit {
		all = spread(all)
	}
	for _, t := range all {
		if !fit {
			t.Colour, t.Halo = picture.Ink, picture.White // separate them from what is under them
		}
		v.Text(t)
	}
}

// onFill returns the colour of a text on a box.
func onFill(b box) string {
	if b.fill == savingColour {
		return picture.White
	}
	return picture.Ink
}

// spread returns labels that keep apart: multiples of 1000 as far as they do,
// then those of 500, 100, …, 5. O(n·m) for n labels, m of them placed.
func spread(all []picture.Text) (kept []picture.Text) {
	for _, step := range []int{1000, 500, 100, 50, 10, 5} {
		for _, l := range all {
			near := func(k picture.Text) bool {
				return math.Abs(k.X-l.X) < (picture.TextWidth(k.S, k.Size)+picture.TextWidth(l.S, l.Size))/2+6
			}
			if n, err := strconv.Atoi(l.S); err == nil && n%step == 0 && !slices.ContainsFunc(kept, near) {
				kept = append(kept, l)
			}
		}
	}
	return kept
}

// ofLimit writes a peak of memory and the limit, if there is one, in bytes.
func ofLimit(peak, limit float64) string {
	s := "peak " + platform.FormatBytes(peak)
	if !math.IsInf(limit, 1) {
		s += " of " + platform.FormatBytes(limit)
	}
	return s
}

// stepTime are the measures of a plan that does not repeat: its step time and the peak of its memory.
func (c *chart) stepTime(makespan float64) {
	_, peak := c.memory.most()
	memory := ofLimit(peak, c.memory.limit)
	if unit := c.memory.unit(0); unit == slots(0) {
		memory = fmt.Sprintf("peak %s of %s slots", number(peak), number(c.memory.limit))
	}
	c.measures = "step time " + platform.FormatSeconds(makespan) + ", " + memory
}

// oneDevice makes the memory that of the only device.
func (m *memory) oneDevice(parts []part, levels []level) {
	m.parts, m.devices = parts, []device{{levels: levels}}
}

// useParts are what memory is used for by rematerialization and offloading of activations.
var useParts = []part{
	{"outputs", "activations", activationColour},
	{"saved for backward", "saved", weightColour},
	{"gradients", "gradients", gradientColour},
	{"temporary", "overhead", overheadColour},
}

func uses(m replay.MemoryParts) [4]float64 {
	return [4]float64{m.Fixed + m.Activations, m.Saved, m.Gradients, m.Overhead}
}
