// Package chain holds the linear networks that most methods work on: layers in
// sequence, each with durations and sizes, the last one being the loss.
package chain

import (
	"fmt"
	"iter"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.chain/v1"

// Chain is a network as a sequence of layers. Times are in seconds, sizes are
// whole numbers of Unit, which is the byte unless a file has decimals. Layer i of the literature (i = 1..N) is Layers[i-1];
// layer 0 is Input.
type Chain struct {
	Name    string
	Samples int // mini-batch size; 0: unknown
	Input   Input
	Layers  []Layer
	Unit    platform.Unit  // of all sizes
	Source  map[string]any // where the numbers come from; free form
	// Extra are fields of the user's own ("x-…"), of the chain, its input and
	// its layers. They are written back where they stood.
	Extra []strictjson.Extra

	// Kept is what F_ℓ of a pipeline leaves for B_ℓ, at ℓ-1, of a chain that is a
	// graph's forward in one order; nil: the layer's input a_{ℓ-1}. Files have none.
	Kept []float64

	// AllSaved says that pipelines and weight offloading count all that autograd saves, and the overheads of what runs: see
	// [Chain.Count]. Files do not have it.
	AllSaved bool
}

// Count returns the chain as a model of memory counts it (platform.SavedModel or another).
func (c *Chain) Count(model string) *Chain {
	if c == nil || c.AllSaved == (model == platform.SavedModel) {
		return c
	}
	x := *c
	x.AllSaved = !c.AllSaved
	return &x
}

// A returns the size of a_ℓ, ℓ from 0, the input, to N.
func (c *Chain) A(l int) float64 {
	if l == 0 {
		return c.Input.Activation
	}
	return c.Layers[l-1].Activation
}

// Abar returns the size of ā_ℓ, ℓ from 0 to N; ā_0 is a_0.
func (c *Chain) Abar(l int) float64 {
	if l == 0 {
		return c.Input.Activation
	}
	return c.Layers[l-1].Saved
}

// Delta returns the size of δ_ℓ, the gradient of a_ℓ, ℓ from 0 to N.
func (c *Chain) Delta(l int) float64 {
	if l == 0 {
		return c.Input.Gradient
	}
	return c.Layers[l-1].Gradient
}

// SavedSize returns what layer ℓ adds to what a step holds from F_ℓ to B_ℓ, by the model of memory: its output or ā_ℓ, which has it.
func (c *Chain) SavedSize(l int) float64 {
	if c.AllSaved {
		return c.Layers[l-1].Saved
	}
	return c.Layers[l-1].Activation
}

// TransientSizes returns what F_ℓ and B_ℓ of weight offloading need while they run beyond weights and what [Chain.SavedSize] counts: their
// overheads and, of B_ℓ, the gradients δ_ℓ and δ_{ℓ-1}.
func (c *Chain) TransientSizes(l int) (forward, backward float64) {
	if !c.AllSaved {
		return 0, 0
	}
	forward, backward = c.Overheads(l)
	return forward, backward + c.Delta(l) + c.Delta(l-1)
}

// Overheads returns what F_ℓ and B_ℓ need while they run beyond tensors between layers, by the model of memory.
func (c *Chain) Overheads(l int) (forward, backward float64) {
	if !c.AllSaved {
		return 0, 0
	}
	x := &c.Layers[l-1]
	return x.ForwardOverhead, x.BackwardOverhead
}

// KeptBy returns what F_ℓ of a pipeline leaves for B_ℓ: its input, unless [Chain.Kept]
// says what, and if AllSaved what it saves beside its output, a_{ℓ-1} + ā_ℓ − a_ℓ.
func (c *Chain) KeptBy(l int) float64 {
	if c.Kept != nil {
		return c.Kept[l-1]
	}
	kept := c.A(l - 1)
	if x := &c.Layers[l-1]; c.AllSaved {
		kept += x.Saved - x.Activation
	}
	return kept
}

// Input is layer 0: the tensors a chain starts from.
type Input struct {
	Activation float64 // a_0
	Gradient   float64 // δ_0, default a_0
}

// Layer is one layer ℓ.
type Layer struct {
	Name            string
	ForwardTime     float64 // uF
	BackwardTime    float64 // uB
	Activation      float64 // a: size of the output
	Saved           float64 // ā ≥ a: everything F_all keeps; default a
	Gradient        float64 // δ: gradient of the output; default a
	ForwardOverhead float64 // oF
	// CheckpointOverhead is o_F of F_ck and F_none, if it is not that of F_all; 0: it is.
	// Both let go what F_all keeps in ā: F_all's peak is not below theirs, and what
	// it needs beside its larger output not above. So oF ≤ it ≤ oF + ā - a.
	CheckpointOverhead float64
	BackwardOverhead   float64 // oB
	Weight             float64 // W
	// WeightGradientTime is the part of BackwardTime for the gradients of the weights, where it is known apart; 0: it is not.
	WeightGradientTime float64
	// WeightGradientSaved are the gradients that are kept from the backward for the input to that for the weights.
	WeightGradientSaved float64
	// OutputDropped says that neither this layer nor the next saves the output.
	OutputDropped bool
	// Recompute are ways to compute parts of the layer again in its backward, for layouts of pipelines. Computing nothing and
	// computing all of it again need not be listed.
	Recompute []Recomputation
}

// A Recomputation is a way to keep less of a layer.
type Recomputation struct {
	Name        string
	Saved       float64 // held from forward to backward, the layer's input counted and its output not
	ForwardTime float64 // computed again
	Transient   float64 // held beside that during the backward
	Splits      bool    // the gradients of the weights may be computed later
}

// Overhead returns what F_ℓ needs beside its input, its output and what is stored: of
// F_all, which keeps ā_ℓ, or of F_ck and F_none, which keep a_ℓ alone.
func (l *Layer) Overhead(all bool) float64 {
	if all {
		return l.ForwardOverhead
	}
	return max(l.ForwardOverhead, l.CheckpointOverhead)
}

// Copy returns a chain with layers of its own. O(N).
func (c *Chain) Copy() *Chain {
	d := *c
	d.Layers = slices.Clone(c.Layers)
	for i := range d.Layers {
		d.Layers[i].Recompute = slices.Clone(d.Layers[i].Recompute)
	}
	return &d
}

// ClampOverhead puts CheckpointOverhead between its bounds, when other sizes have been changed.
func (l *Layer) ClampOverhead() {
	if l.CheckpointOverhead != 0 {
		l.CheckpointOverhead = min(max(l.CheckpointOverhead, l.ForwardOverhead), l.ForwardOverhead+l.Saved-l.Activation)
	}
}

// Len returns the number of layers N, the loss included.
func (c *Chain) Len() int { return len(c.Layers) }

// TotalTime returns Σ (uF + uB).
func (c *Chain) TotalTime() float64 {
	t := 0.0
	for i := range c.Layers {
		t += c.Layers[i].ForwardTime + c.Layers[i].BackwardTime
	}
	return t
}

// Totals are sums over the layers of a chain.
type Totals struct {
	ForwardTime, BackwardTime float64 // seconds
	Activation, Saved, Weight float64 // units
}

// Totals adds up the layers. O(N).
func (c *Chain) Totals() Totals {
	var t Totals
	for i := range c.Layers {
		l := &c.Layers[i]
		t.ForwardTime += l.ForwardTime
		t.BackwardTime += l.BackwardTime
		t.Activation += l.Activation
		t.Saved += l.Saved
		t.Weight += l.Weight
	}
	return t
}

// Sizes yields every size of c with a function that names its field.
func (c *Chain) Sizes() iter.Seq2[*float64, func() string] {
	return func(yield func(*float64, func() string) bool) {
		if !yield(&c.Input.Activation, func() string { return "input.activation" }) ||
			!yield(&c.Input.Gradient, func() string { return "input.gradient" }) {
			return
		}
		for i := range c.Layers {
			l := &c.Layers[i]
			for k, x := range [...]*float64{
				&l.Activation, &l.Saved, &l.Gradient, &l.ForwardOverhead, &l.CheckpointOverhead, &l.BackwardOverhead,
				&l.Weight, &l.WeightGradientSaved,
			} {
				if !yield(x, func() string { return fmt.Sprintf("layers[%d].%s", i, sizeFields[k]) }) {
					return
				}
			}
			for k := range l.Recompute {
				r := &l.Recompute[k]
				if !yield(&r.Saved, func() string { return fmt.Sprintf("layers[%d].recompute[%d].saved", i, k) }) ||
					!yield(&r.Transient, func() string { return fmt.Sprintf("layers[%d].recompute[%d].transient", i, k) }) {
					return
				}
			}
		}
	}
}

// sizeFields names the sizes of a layer in the order of Sizes.
var sizeFields = [...]string{
	"activation", "saved", "gradient", "forward_overhead", "checkpoint_overhead", "backward_overhead", "weight",
	"weight_gradient_saved",
}
