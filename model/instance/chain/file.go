package chain

import (
	"fmt"
	"io"
	"math"
	"slices"

	"workbench/model/platform"
	"workbench/model/strictjson"
)

// file and fileLayer mirror the format. Nil fields take their defaults or, if
// they have none, are missing; "omitempty" keeps null out of them.
type file struct {
	Format  string         `json:"format"`
	Name    string         `json:"name"`
	Samples int            `json:"samples,omitempty"`
	Input   *fileInput     `json:"input,omitempty"`
	Layers  []fileLayer    `json:"layers"`
	Source  map[string]any `json:"source,omitempty"`
}

type fileInput struct {
	Activation *strictjson.Size `json:"activation,omitempty"`
	Gradient   *strictjson.Size `json:"gradient,omitempty"`
}

type fileLayer struct {
	Name               string           `json:"name"`
	ForwardTime        *float64         `json:"forward_time,omitempty"`
	BackwardTime       *float64         `json:"backward_time,omitempty"`
	Activation         *strictjson.Size `json:"activation,omitempty"`
	Saved              *strictjson.Size `json:"saved,omitempty"`
	Gradient           *strictjson.Size `json:"gradient,omitempty"`
	ForwardOverhead    strictjson.Size  `json:"forward_overhead"`
	CheckpointOverhead strictjson.Size  `json:"checkpoint_overhead,omitempty"`
	BackwardOverhead   strictjson.Size  `json:"backward_overhead"`
	Weight             strictjson.Size  `json:"weight"`

	InputGradientTime   *float64            `json:"input_gradient_time,omitempty"`
	WeightGradientTime  *float64            `json:"weight_gradient_time,omitempty"`
	WeightGradientSaved strictjson.Size     `json:"weight_gradient_saved,omitempty"`
	OutputSaved         *bool               `json:"output_saved,omitempty"`
	Recompute           []fileRecomputation `json:"recompute,omitempty"`
}

type fileRecomputation struct {
	Name        string          `json:"name"`
	Saved       strictjson.Size `json:"saved"`
	ForwardTime float64         `json:"forward_time"`
	Transient   strictjson.Size `json:"transient,omitempty"`
	Splits      bool            `json:"splits,omitempty"`
}

// Read reads a chain/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Chain, error) {
	return strictjson.ReadSizes(r, name, Format, strictjson.MostBytes, (*file).chain)
}

// chain fills in the defaults, takes sizes in units, and validates.
func (f *file) chain(extra []strictjson.Extra, unit platform.Unit) (*Chain, error) {
	c := &Chain{Name: f.Name, Samples: f.Samples, Source: f.Source, Extra: extra, Layers: make([]Layer, len(f.Layers)), Unit: unit}
	units := func(x strictjson.Size) float64 { return unit.FromBytes(float64(x)) }
	or := func(x *strictjson.Size, otherwise float64) float64 {
		if x == nil {
			return otherwise
		}
		return units(*x)
	}
	if f.Input != nil {
		if f.Input.Activation == nil {
			return nil, strictjson.Wrong("input", "activation is missing")
		}
		a := units(*f.Input.Activation)
		c.Input = Input{a, or(f.Input.Gradient, a)}
	}
	for i := range f.Layers {
		l := &f.Layers[i]
		if l.BackwardTime == nil && l.InputGradientTime != nil && l.WeightGradientTime != nil {
			sum := *l.InputGradientTime + *l.WeightGradientTime
			l.BackwardTime = &sum
		}
		for _, required := range []struct {
			name    string
			missing bool
		}{{"forward_time", l.ForwardTime == nil}, {"backward_time", l.BackwardTime == nil}, {"activation", l.Activation == nil}} {
			if required.missing {
				return nil, strictjson.Wrong(fmt.Sprintf("layers[%d]", i), "%s is missing", required.name)
			}
		}
		a := units(*l.Activation)
		c.Layers[i] = Layer{
			Name: l.Name, ForwardTime: *l.ForwardTime, BackwardTime: *l.BackwardTime,
			Activation: a, Saved: or(l.Saved, a), Gradient: or(l.Gradient, a),
			ForwardOverhead: units(l.ForwardOverhead), CheckpointOverhead: units(l.CheckpointOverhead),
			BackwardOverhead: units(l.BackwardOverhead), Weight: units(l.Weight),
			WeightGradientSaved: units(l.WeightGradientSaved), OutputDropped: l.OutputSaved != nil && !*l.OutputSaved,
		}
		x := &c.Layers[i]
		switch {
		case l.WeightGradientTime != nil:
			x.WeightGradientTime = *l.WeightGradientTime
		case l.InputGradientTime != nil:
			x.WeightGradientTime = x.BackwardTime - *l.InputGradientTime
		}
		for _, r := range l.Recompute {
			x.Recompute = append(x.Recompute, Recomputation{r.Name, units(r.Saved), r.ForwardTime, units(r.Transient), r.Splits})
		}
	}
	return c, c.Validate()
}

// Validate checks that every number is finite and not negative, that sizes are
// whole numbers of units whose sums are exact ([platform.MaxTotal]), that saved
// includes the activation, that checkpoint_overhead is between its bounds, and that
// there is a layer. The error is a
// *strictjson.FieldError. O(N).
func (c *Chain) Validate() error {
	switch {
	case len(c.Layers) == 0:
		return strictjson.Wrong("layers", "a chain needs at least one layer, the last one being the loss")
	case c.Samples < 0:
		return strictjson.Wrong("samples", "%d is negative; leave it out if it is unknown", c.Samples)
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		if err := strictjson.CheckTime("layers", i, "forward_time", l.ForwardTime); err != nil {
			return err
		}
		if err := strictjson.CheckTime("layers", i, "backward_time", l.BackwardTime); err != nil {
			return err
		}
	}
	if err := strictjson.CheckSizes(c.Sizes(), "layers", c.Unit); err != nil {
		return err
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		if err := l.validate(fmt.Sprintf("layers[%d]", i)); err != nil {
			return err
		}
		if l.Saved < l.Activation {
			saved, activation := c.Unit.Bytes(l.Saved), c.Unit.Bytes(l.Activation)
			return strictjson.Wrong(fmt.Sprintf("layers[%d].saved", i), "%v is below activation %v: saved includes the activation", saved,
				activation)
		}
		low, high := l.ForwardOverhead, l.ForwardOverhead+l.Saved-l.Activation
		if x := l.CheckpointOverhead; x != 0 && (x < low || x > high) {
			return strictjson.Wrong(fmt.Sprintf("layers[%d].checkpoint_overhead", i),
				"%v is not between forward_overhead %v and forward_overhead + saved - activation %v: a forward that keeps less needs less in all, "+
					"but not together with what it keeps",
				c.Unit.Bytes(x), c.Unit.Bytes(low), c.Unit.Bytes(high))
		}
	}
	return nil
}

// validate checks what layouts of pipelines add to a layer.
func (l *Layer) validate(path string) error {
	if !(l.WeightGradientTime >= 0) || l.WeightGradientTime > l.BackwardTime {
		return strictjson.Wrong(path+".weight_gradient_time", "%v s are not from 0 to backward_time, %v s, of which they are a part",
			l.WeightGradientTime, l.BackwardTime)
	}
	for k := range l.Recompute {
		r := &l.Recompute[k]
		at := fmt.Sprintf("%s.recompute[%d]", path, k)
		switch {
		case r.Name == "" || r.Name == "none" || slices.ContainsFunc(l.Recompute[:k], func(x Recomputation) bool { return x.Name == r.Name }):
			return strictjson.Wrong(at+".name", "%q; each option has a name of its own, and none stands for recomputing nothing", r.Name)
		case !(r.ForwardTime >= 0) || math.IsInf(r.ForwardTime, 0):
			return strictjson.Wrong(at+".forward_time", "%v; it is a number of seconds from 0 on", r.ForwardTime)
		}
	}
	return nil
}

// canonical returns the document that Write writes, sizes in bytes, -0 as 0.
func (c *Chain) canonical() *file {
	bytes := func(x float64) *strictjson.Size {
		s := strictjson.Bytes(c.Unit, x)
		return &s
	}
	f := &file{
		Format: Format, Name: c.Name, Samples: c.Samples,
		Input:  &fileInput{bytes(c.Input.Activation), bytes(c.Input.Gradient)},
		Layers: make([]fileLayer, len(c.Layers)),
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		forward, backward := l.ForwardTime+0.0, l.BackwardTime+0.0
		f.Layers[i] = fileLayer{
			Name: l.Name, ForwardTime: &forward, BackwardTime: &backward,
			Activation: bytes(l.Activation), Saved: bytes(l.Saved), Gradient: bytes(l.Gradient),
			ForwardOverhead: *bytes(l.ForwardOverhead), CheckpointOverhead: *bytes(l.CheckpointOverhead),
			BackwardOverhead: *bytes(l.BackwardOverhead), Weight: *bytes(l.Weight), WeightGradientSaved: *bytes(l.WeightGradientSaved),
		}
		x := &f.Layers[i]
		if weight := l.WeightGradientTime + 0.0; weight > 0 {
			x.WeightGradientTime = &weight
		}
		if l.OutputDropped {
			x.OutputSaved = new(bool)
		}
		for _, r := range l.Recompute {
			x.Recompute = append(x.Recompute, fileRecomputation{r.Name, *bytes(r.Saved), r.ForwardTime + 0.0, *bytes(r.Transient), r.Splits})
		}
	}
	return f
}

// Write writes c as a chain/v1 document, a line for each layer, with every
// default spelt out. The numbers must be finite.
func (c *Chain) Write(w io.Writer) error {
	f := c.canonical()
	out := strictjson.NewWriter(w, f.Format, f.Name, c.Extra)
	out.Count("samples", f.Samples)
	out.Key("input")
	out.Object(f.Input)
	out.List("layers", len(f.Layers), func(i int) { out.Object(&f.Layers[i]) })
	return out.Close(c.Source)
}

// Digest returns the digest of the document, see [strictjson.Digest].
func (c *Chain) Digest() (string, error) {
	digest, err := strictjson.Digest(c.canonical(), nil)
	if err != nil {
		return "", fmt.Errorf("chain %s: %w", c.Name, err)
	}
	return digest, nil
}
