package run

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"workbench/model/chain"
	"workbench/model/functions"
	"workbench/model/graph"
	"workbench/model/join"
	"workbench/model/plan"
	"workbench/model/strictjson"
	"workbench/model/zoo"
)

// Form is what an instance is.
type Form string

const (
	AChain Form = "chain"
	AGraph Form = "graph"
	AJoin  Form = "join"

	AFunctions Form = "functions"
)

// String names one of them in a sentence: "a chain is", "a sequence of functions
// is".
func (f Form) String() string {
	if f == AFunctions {
		return "sequence of functions"
	}
	return string(f)
}

// Instance is what a method works on: a chain, a graph, a join or a sequence of
// functions.
type Instance struct {
	plan.Instance
	Name   string
	SHA256 string // of the canonical JSON
	Source string // how it was named: a path or zoo:NAME?…; empty: unknown

	memo map[any]any // see Memo
}

// Memo returns make(), which is called once for an instance and key: every run
// asks again for ranges and closed-form bounds, which may take a second. Not safe
// for concurrent use.
func Memo[T any](in *Instance, key any, make func() T) T {
	if known, ok := in.memo[key]; ok {
		return known.(T)
	}
	if in.memo == nil {
		in.memo = map[any]any{}
	}
	made := make()
	in.memo[key] = made
	return made
}

// Ref returns how plans and results name the instance.
func (in *Instance) Ref() plan.InstanceRef {
	return plan.InstanceRef{Name: in.Name, SHA256: in.SHA256, Source: in.Source}
}

// Form returns what the instance is.
func (in *Instance) Form() Form { return Form(in.Kind()) }

// AsGraph returns the instance as a graph: itself, or that of its chain.
func (in *Instance) AsGraph() *graph.Graph {
	if in.Graph != nil {
		return in.Graph
	}
	return graph.Of(in.Chain)
}

// Size says how large the instance is, in a few words.
func (in *Instance) Size() string {
	switch {
	case in.Graph != nil:
		return fmt.Sprintf("%d nodes", in.Graph.Len())
	case in.Join != nil:
		return fmt.Sprintf("branches of %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(in.Join.Branches), " ", ", "), "[]"))
	case in.Functions != nil:
		return fmt.Sprintf("%d functions of %d variables", in.Functions.Len(), len(in.Functions.Variables))
	}
	return fmt.Sprintf("%d layers", in.Chain.Len())
}

// Samples returns the mini-batch size, 0 if it is unknown.
func (in *Instance) Samples() int {
	switch {
	case in.Graph != nil:
		return in.Graph.Samples
	case in.Join != nil:
		return 0
	case in.Functions != nil:
		return in.Functions.Samples
	}
	return in.Chain.Samples
}

// Compute returns the time in seconds of computing everything once.
func (in *Instance) Compute() float64 {
	switch {
	case in.Graph != nil:
		return in.Graph.TotalTime()
	case in.Join != nil:
		return in.Join.Span()
	case in.Functions != nil:
		return in.Functions.TotalTime()
	}
	return in.Chain.TotalTime()
}

// Load reads an instance: a file of any of the formats, "-" for standard
// input, or zoo:NAME[?key=value&…], with as=graph among them for the graph of
// a network, as=functions for its training step as a sequence of functions. Every error is the user's and wraps ErrInput.
func Load(spec string, stdin io.Reader) (*Instance, error) {
	in, err := read(spec, stdin)
	if err != nil {
		return nil, InputError(err)
	}
	if err := in.finish(); err != nil {
		return nil, err
	}
	if spec != "-" {
		in.Source = spec
	}
	return in, nil
}

// NewInstance makes an instance of a chain. O(len(c.Layers)).
func NewInstance(c *chain.Chain) (*Instance, error) {
	in := &Instance{Instance: plan.Instance{Chain: c}}
	return in, in.finish()
}

// Write writes the instance as a file of its format.
func (in *Instance) Write(w io.Writer) error {
	switch {
	case in.Graph != nil:
		return in.Graph.Write(w)
	case in.Join != nil:
		return in.Join.Write(w)
	case in.Functions != nil:
		return in.Functions.Write(w)
	}
	return in.Chain.Write(w)
}

// finish validates the instance and notes its name and digest.
func (in *Instance) finish() (err error) {
	switch {
	case in.Graph != nil:
		in.Name, err = in.Graph.Name, in.Graph.Validate()
	case in.Join != nil:
		in.Name, err = in.Join.Name, in.Join.Validate()
	case in.Functions != nil:
		in.Name, err = in.Functions.Name, in.Functions.Validate()
	default:
		in.Name, err = in.Chain.Name, in.Chain.Validate()
	}
	if err != nil {
		return InputError(err)
	}
	switch {
	case in.Graph != nil:
		in.SHA256, err = in.Graph.Digest()
	case in.Join != nil:
		in.SHA256, err = in.Join.Digest()
	case in.Functions != nil:
		in.SHA256, err = in.Functions.Digest()
	default:
		in.SHA256, err = in.Chain.Digest()
	}
	return InputError(err)
}

func read(spec string, stdin io.Reader) (*Instance, error) {
	if strings.HasPrefix(spec, zoo.Scheme) {
		return fromZoo(spec)
	}
	name := spec
	if spec == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(spec)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) && !strings.ContainsAny(spec, "./\\") {
				return nil, fmt.Errorf("instance %s: no such file; built-in networks are written %s%s", spec, zoo.Scheme, spec)
			}
			return nil, fmt.Errorf("instance %s cannot be read: %w", spec, err)
		}
		defer f.Close()
		stdin = f
	}
	data, err := strictjson.Read(stdin, name, maxInstance)
	if err != nil {
		return nil, err
	}
	in := &Instance{}
	switch again, format := bytes.NewReader(data), strictjson.Format(data); format {
	case graph.Format:
		in.Graph, err = graph.Read(again, name)
	case join.Format:
		in.Join, err = join.Read(again, name)
	case functions.Format:
		in.Functions, err = functions.Read(again, name)
	case chain.Format, "": // a file without format gets its error from the reader
		in.Chain, err = chain.Read(again, name)
	default:
		err = &strictjson.Error{
			Name: name, Line: strictjson.Line(data, "format"), Path: "format",
			Msg: fmt.Sprintf("%q is no instance; it must be %q, %q, %q or %q", format, chain.Format, graph.Format, join.Format, functions.Format),
		}
	}
	return in, err
}

// maxInstance is the most bytes an instance file of any format may have.
const maxInstance = 1 << 30

// fromZoo generates a built-in network in the form asked for.
func fromZoo(spec string) (in *Instance, err error) {
	in = &Instance{}
	form, rest := zoo.Form(spec)
	switch Form(form) {
	case AGraph:
		in.Graph, err = zoo.LoadGraph(rest)
	case AJoin:
		in.Join, err = zoo.LoadJoin(rest)
	case AFunctions:
		in.Functions, err = zoo.LoadFunctions(rest)
	default:
		in.Chain, err = zoo.Load(rest)
	}
	return in, err
}

// InputError wraps err as a mistake of the user's, nil for nil. The text is
// err's own.
func InputError(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err}
}

type inputError struct{ err error }

func (e *inputError) Error() string   { return e.err.Error() }
func (e *inputError) Unwrap() []error { return []error{e.err, ErrInput} }
