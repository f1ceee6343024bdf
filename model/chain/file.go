package chain

import (
	"fmt"
	"io"
	"math"

	"workbench/model/strictjson"
)

// maxBytes is the most a chain file may have, a million layers with all their
// fields: a wrong file is refused before it fills the memory.
const maxBytes = 256 << 20

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
	Activation *float64 `json:"activation,omitempty"`
	Gradient   *float64 `json:"gradient,omitempty"`
}

type fileLayer struct {
	Name             string   `json:"name"`
	ForwardTime      *float64 `json:"forward_time,omitempty"`
	BackwardTime     *float64 `json:"backward_time,omitempty"`
	Activation       *float64 `json:"activation,omitempty"`
	Saved            *float64 `json:"saved,omitempty"`
	Gradient         *float64 `json:"gradient,omitempty"`
	ForwardOverhead  float64  `json:"forward_overhead"`
	BackwardOverhead float64  `json:"backward_overhead"`
	Weight           float64  `json:"weight"`
}

// Read reads a chain/v1 document. Name is for errors, which say the file, the
// line, the field and what would be right. O(size of the file).
func Read(r io.Reader, name string) (*Chain, error) {
	return strictjson.ReadFormat(r, name, Format, maxBytes, (*file).chain)
}

// chain fills in the defaults and validates.
func (f *file) chain(extra []strictjson.Extra) (*Chain, error) {
	c := &Chain{Name: f.Name, Samples: f.Samples, Source: f.Source, Extra: extra, Layers: make([]Layer, len(f.Layers))}
	if f.Input != nil {
		if f.Input.Activation == nil {
			return nil, &FieldError{Path: "input", Msg: "activation is missing"}
		}
		c.Input = Input{*f.Input.Activation, or(f.Input.Gradient, *f.Input.Activation)}
	}
	for i := range f.Layers {
		l := &f.Layers[i]
		for _, required := range []struct {
			name  string
			value *float64
		}{{"forward_time", l.ForwardTime}, {"backward_time", l.BackwardTime}, {"activation", l.Activation}} {
			if required.value == nil {
				return nil, &FieldError{Path: fmt.Sprintf("layers[%d]", i), Msg: required.name + " is missing"}
			}
		}
		c.Layers[i] = Layer{
			Name: l.Name, ForwardTime: *l.ForwardTime, BackwardTime: *l.BackwardTime,
			Activation: *l.Activation, Saved: or(l.Saved, *l.Activation), Gradient: or(l.Gradient, *l.Activation),
			ForwardOverhead: l.ForwardOverhead, BackwardOverhead: l.BackwardOverhead, Weight: l.Weight,
		}
	}
	return c, c.Validate()
}

func or(p *float64, otherwise float64) float64 {
	if p == nil {
		return otherwise
	}
	return *p
}

// FieldError is a value that a chain may not have.
type FieldError = strictjson.FieldError

// Validate checks that every number is finite and not negative, that saved
// includes the activation, and that there is a layer. The error is a
// *FieldError. O(N).
func (c *Chain) Validate() error {
	switch {
	case len(c.Layers) == 0:
		return &FieldError{Path: "layers", Msg: "a chain needs at least one layer, the last one being the loss"}
	case c.Samples < 0:
		return &FieldError{Path: "samples", Msg: fmt.Sprintf("%d is negative; leave it out if it is unknown", c.Samples)}
	}
	if err := strictjson.CheckAmount("input.activation", c.Input.Activation); err != nil {
		return err
	}
	if err := strictjson.CheckAmount("input.gradient", c.Input.Gradient); err != nil {
		return err
	}
	for i := range c.Layers {
		l := &c.Layers[i]
		for k, x := range [...]float64{l.ForwardTime, l.BackwardTime, l.Activation, l.Saved, l.Gradient, l.ForwardOverhead, l.BackwardOverhead, l.Weight} {
			if !(x >= 0) || math.IsInf(x, 1) {
				return strictjson.CheckAmount(fmt.Sprintf("layers[%d].%s", i, layerFields[k]), x)
			}
		}
		if l.Saved < l.Activation {
			return &FieldError{Path: fmt.Sprintf("layers[%d].saved", i), Msg: fmt.Sprintf("%v is below activation %v: saved includes the activation", l.Saved, l.Activation)}
		}
	}
	return nil
}

// layerFields names the numbers of a layer in the order of Validate.
var layerFields = [...]string{"forward_time", "backward_time", "activation", "saved", "gradient", "forward_overhead", "backward_overhead", "weight"}

// canonical returns the document that Write writes, -0 as 0.
func (c *Chain) canonical() *file {
	const plus = 0.0 // -0 + 0 is 0
	input := Input{c.Input.Activation + plus, c.Input.Gradient + plus}
	layers := make([]Layer, len(c.Layers))
	f := &file{
		Format: Format, Name: c.Name, Samples: c.Samples, Source: c.Source,
		Input:  &fileInput{&input.Activation, &input.Gradient},
		Layers: make([]fileLayer, len(c.Layers)),
	}
	for i := range c.Layers {
		l, from := &layers[i], &c.Layers[i]
		*l = Layer{
			Name: from.Name, ForwardTime: from.ForwardTime + plus, BackwardTime: from.BackwardTime + plus,
			Activation: from.Activation + plus, Saved: from.Saved + plus, Gradient: from.Gradient + plus,
			ForwardOverhead: from.ForwardOverhead + plus, BackwardOverhead: from.BackwardOverhead + plus, Weight: from.Weight + plus,
		}
		f.Layers[i] = fileLayer{
			Name: l.Name, ForwardTime: &l.ForwardTime, BackwardTime: &l.BackwardTime,
			Activation: &l.Activation, Saved: &l.Saved, Gradient: &l.Gradient,
			ForwardOverhead: l.ForwardOverhead, BackwardOverhead: l.BackwardOverhead, Weight: l.Weight,
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
	if err := out.Close(f.Source); err != nil {
		return fmt.Errorf("chain %s: %w", c.Name, err)
	}
	return nil
}

// Digest returns the SHA-256, in hexadecimal, of the canonical JSON: compact,
// every default spelt out, fields in the order of the format, and without
// "source", which says where the numbers come from and not what they are, and
// fields of the user's own.
func (c *Chain) Digest() (string, error) {
	f := c.canonical()
	f.Source = nil
	digest, err := strictjson.Digest(f)
	if err != nil {
		return "", fmt.Errorf("chain %s: %w", c.Name, err)
	}
	return digest, nil
}
