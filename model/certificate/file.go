package certificate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"

	"workbench/model/strictjson"
)

// maxBytes is the maximum size of a certificate's file.
const maxBytes = 1 << 30

// digits of the bound as a decimal.
const digits = 17

// file mirrors the format. The decimal of the bound is read exactly, not as the nearest float64.
type file struct {
	Format      string          `json:"format"`
	Name        string          `json:"name"`
	Instance    string          `json:"instance"`
	Problem     string          `json:"problem"`
	Platform    json.RawMessage `json:"platform,omitempty"`
	Formulation string          `json:"formulation"`
	Options     json.RawMessage `json:"options,omitempty"`
	Backend     string          `json:"backend"`
	Model       string          `json:"model"`
	Infeasible  bool            `json:"infeasible"`
	Bound       *bound          `json:"bound,omitempty"`
	Scale       float64         `json:"scale"`
	Granularity float64         `json:"granularity"`
	Tree        *node           `json:"tree,omitempty"`
}

type bound struct {
	Fraction string          `json:"fraction"`
	Decimal  json.RawMessage `json:"decimal,omitempty"`
}

type node struct {
	Column      *int            `json:"column,omitempty"`
	At          *float64        `json:"at,omitempty"`
	Down        *node           `json:"down,omitempty"`
	Up          *node           `json:"up,omitempty"`
	Multipliers json.RawMessage `json:"multipliers,omitempty"`
	Empty       json.RawMessage `json:"empty,omitempty"`
}

// Read reads a certificate/v1 document without checking its proof. name is used in errors, which contain file,
// line, field and correction. O(size of the file).
func Read(r io.Reader, name string) (*Certificate, error) {
	return strictjson.ReadFormat(r, name, Format, maxBytes, (*file).certificate)
}

func (f *file) certificate([]strictjson.Extra) (c *Certificate, err error) {
	c = &Certificate{
		Name: f.Name, Instance: f.Instance, Problem: f.Problem, Platform: f.Platform,
		Formulation: f.Formulation, Options: f.Options, Backend: f.Backend, Model: f.Model,
		Infeasible: f.Infeasible, Scale: f.Scale, Granularity: f.Granularity,
	}
	if f.Bound != nil {
		if c.Bound, err = f.Bound.value(); err != nil {
			return nil, err
		}
	}
	if f.Tree != nil {
		if c.Tree, err = f.Tree.node(nil); err != nil {
			return nil, err
		}
	}
	return c, c.Validate()
}

// longest is the maximum length of a fraction, in digits: no sum of float64s needs as many.
const longest = 5000

// value returns the fraction, unless the decimal exceeds it.
func (b *bound) value() (*big.Rat, error) {
	v, ok := new(big.Rat), false
	if len(b.Fraction) <= longest && strings.IndexFunc(b.Fraction, notFraction) < 0 {
		v, ok = v.SetString(b.Fraction)
	}
	if !ok {
		return nil, wrong("bound.fraction", "%.40q is not a fraction as \"-7/4\"", b.Fraction)
	}
	if text := decimal(v, digits); text != string(b.Decimal) {
		return nil, wrong("bound.decimal", "%.40q is not the fraction to %d digits, rounded down: %s", b.Decimal, digits, text)
	}
	return v, nil
}

func notFraction(r rune) bool { return !strings.ContainsRune("-/0123456789", r) }

// node returns the tree below n.
func (n *node) node(path []byte) (*Node, error) {
	fail := func(format string, args ...any) error { return wrong(where(path), format, args...) }
	inner := n.Column != nil || n.At != nil || n.Down != nil || n.Up != nil
	switch {
	case inner && (n.Multipliers != nil || n.Empty != nil):
		return nil, fail("branches and multipliers; a node has either")
	case inner && (n.Column == nil || n.At == nil || n.Down == nil || n.Up == nil):
		return nil, fail("a branch needs column, at, down and up")
	case inner:
		down, err := n.Down.node(append(path, 'd'))
		if err != nil {
			return nil, err
		}
		up, err := n.Up.node(append(path, 'u'))
		return &Node{Column: *n.Column, At: *n.At, Down: down, Up: up}, err
	case (n.Multipliers == nil) == (n.Empty == nil):
		return nil, fail("a leaf has multipliers, or empty, and not both")
	case n.Empty != nil:
		y, err := multipliers(n.Empty)
		if err != nil {
			return nil, wrong(where(path)+".empty", "%v", err)
		}
		return &Node{Empty: true, Multipliers: y}, nil
	}
	y, err := multipliers(n.Multipliers)
	if err != nil {
		return nil, wrong(where(path)+".multipliers", "%v", err)
	}
	return &Node{Multipliers: y}, nil
}

// multipliers reads [[row, value], …]. The text is known to be JSON; encoding/json would take ten times the time
// and memory.
func multipliers(raw json.RawMessage) ([]Multiplier, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	text := compact.Bytes()
	if len(text) < 2 || text[0] != '[' || text[len(text)-1] != ']' {
		return nil, fmt.Errorf("a list of pairs [row, value] is needed")
	}
	text = text[1 : len(text)-1]
	y := make([]Multiplier, 0, bytes.Count(text, []byte{'['}))
	for len(text) != 0 {
		end := bytes.IndexByte(text, ']')
		comma := bytes.IndexByte(text, ',')
		if text[0] != '[' || end < 0 || comma < 0 || comma > end {
			return nil, fmt.Errorf("[%d]: a pair [row, value] is needed", len(y))
		}
		row, err := strconv.ParseInt(string(text[1:comma]), 10, 32)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %.40q is not a row", len(y), text[1:comma])
		}
		value, err := strconv.ParseFloat(string(text[comma+1:end]), 64)
		if err != nil {
			return nil, fmt.Errorf("[%d]: %.40q is not a number in range", len(y), text[comma+1:end])
		}
		y = append(y, Multiplier{int32(row), value})
		text = bytes.TrimPrefix(text[end+1:], []byte{','})
	}
	return y, nil
}

// Write writes c as a certificate/v1 document.
func (c *Certificate) Write(w io.Writer) error {
	if err := c.Validate(); err != nil {
		return err
	}
	out := strictjson.NewWriter(w, Format, c.Name, nil)
	out.Member("instance", c.Instance)
	out.Member("problem", c.Problem)
	optional := func(key string, raw json.RawMessage) {
		if raw != nil {
			out.Member(key, raw)
		}
	}
	optional("platform", c.Platform)
	out.Member("formulation", c.Formulation)
	optional("options", c.Options)
	out.Member("backend", c.Backend)
	out.Member("model", c.Model)
	if c.Infeasible {
		out.Member("infeasible", true)
	} else {
		out.Member("bound", bound{c.Bound.String(), json.RawMessage(decimal(c.Bound, digits))})
		out.Member("scale", c.Scale)
	}
	if c.Granularity != 0 {
		out.Member("granularity", c.Granularity)
	}
	out.Member("tree", json.RawMessage(c.Tree.append(nil)))
	return out.Close(nil)
}

// append writes the tree below n as JSON.
func (n *Node) append(b []byte) []byte {
	if n.Down != nil {
		b = strconv.AppendInt(append(b, `{"column":`...), int64(n.Column), 10)
		b = strconv.AppendFloat(append(b, `,"at":`...), n.At, 'f', -1, 64)
		b = n.Down.append(append(b, `,"down":`...))
		b = n.Up.append(append(b, `,"up":`...))
		return append(b, '}')
	}
	if n.Empty {
		b = append(b, `{"empty":[`...)
	} else {
		b = append(b, `{"multipliers":[`...)
	}
	for i, y := range n.Multipliers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, '['), int64(y.Row), 10)
		b = strconv.AppendFloat(append(b, ','), y.Value, 'g', -1, 64)
		b = append(b, ']')
	}
	return append(b, `]}`...)
}
