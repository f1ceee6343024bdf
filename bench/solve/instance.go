package solve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/lifetimes"
	"workbench/model/nearest"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/zoo"
)

// Instance is the input of a method, with its identification in results.
type Instance struct {
	Instance plan.Instance
	Name     string
	SHA256   string // of the canonical JSON
	Source   string // how it was named: a path or zoo:NAME?…; empty: unknown

	// Stop, once closed, ends the searches for properties of the instance: the memory range, infeasibility,
	// bounds. Their results so far remain valid. nil: never.
	Stop plan.Stop

	memo map[any]any // see Memo
}

// Count applies a memory model to a chain ([chain.Chain.Count]) and returns its name: model or, if model is "",
// saved for chains that have it and paper for others. Problems without models have none. The error is one of
// usage.
func (p *Problem) Count(in *Instance, model string) (string, error) {
	known := []string{platform.SavedModel, platform.PaperModel}
	c := in.Chain()
	switch {
	case model != "" && !p.Models:
		return "", InputError(fmt.Errorf("--model: %s has one memory model; pipeline and weight-offload have two", p.Name))
	case model != "" && !slices.Contains(known, model):
		return "", InputError(fmt.Errorf("--model %q: %s", model, nearest.Hint(model, known)))
	case model == platform.SavedModel && c == nil:
		return "", InputError(fmt.Errorf("--model saved: the nodes of %s state their outputs, not what they save; --model paper counts "+
			"the former", in.Name))
	case !p.Models:
		return "", nil
	case c == nil:
		return platform.PaperModel, nil
	case model == "":
		model = platform.SavedModel
	}
	in.Instance = c.Count(model)
	return model, nil
}

// Counted returns the instance under a memory model; "" stands for paper.
func (in *Instance) Counted(model string) (*Instance, error) {
	c := in.Chain()
	if c == nil || model == in.Model() || model == "" && in.Model() == platform.PaperModel {
		return in, nil
	}
	made, err := NewInstance(c.Count(model))
	if err == nil {
		made.Name, made.Source = in.Name, in.Source
	}
	return made, err
}

// Model returns the memory model of a chain.
func (in *Instance) Model() string {
	if c := in.Chain(); c != nil && c.AllSaved {
		return platform.SavedModel
	}
	return platform.PaperModel
}

// RunLimited calls work; it closes Stop for the call at the end of ctx or of a time limit, 0 being none.
func (in *Instance) RunLimited(ctx context.Context, limit time.Duration, work func()) {
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, limit)
		defer cancel()
	}
	defer func(stop plan.Stop) { in.Stop = stop }(in.Stop)
	in.Stop = ctx.Done()
	work()
}

// Memo returns make(), which is called once per instance and key. Every run needs views, ranges and closed-form
// bounds, which may take a second. It is not safe for concurrent use.
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

// Searched is Memo for computations that Stop may end: a result computed while it was closed is recomputed.
func Searched[T any](in *Instance, key any, make func() T) T {
	_, known := in.memo[key]
	made := Memo(in, key, make)
	if !known && in.Stop.Given() {
		delete(in.memo, key)
	}
	return made
}

// Ref returns the identification of the instance in plans and results.
func (in *Instance) Ref() plan.InstanceRef {
	return plan.InstanceRef{Name: in.Name, SHA256: in.SHA256, Source: in.Source}
}

// Objective returns the objective that the instance declares; "": none.
func (in *Instance) Objective() string {
	if l, ok := in.Instance.(*lifetimes.Lifetimes); ok {
		return l.Objective
	}
	return ""
}

// Kind returns the kind of instance.
func (in *Instance) Kind() string { return in.Instance.Kind() }

// Chain returns the instance as a chain, nil if it is not one.
func (in *Instance) Chain() *chain.Chain { return plan.As[*chain.Chain](in.Instance) }

// Graph returns the instance as a graph, nil if it is not one.
func (in *Instance) Graph() *graph.Graph { return plan.As[*graph.Graph](in.Instance) }

// Size returns a short description of the size of the instance.
func (in *Instance) Size() string { return in.Instance.Size() }

// Samples returns the mini-batch size, 0 if it is unknown.
func (in *Instance) Samples() int { return in.Instance.Batch() }

// Compute returns the time in seconds of computing everything once.
func (in *Instance) Compute() float64 { return in.Instance.TotalTime() }

// Unit returns the unit of its sizes.
func (in *Instance) Unit() platform.Unit { return in.Instance.Scale() }

// Write writes the instance as a file of its format.
func (in *Instance) Write(w io.Writer) error { return in.Instance.Write(w) }

// Load reads an instance: a file of any of the formats, "-" for standard input, or zoo:NAME[?key=value&…]. The key
// as selects the form of a network: as=graph for its graph, as=functions for its training step as a sequence of
// functions. Every error is the user's and wraps ErrInput.
func Load(spec string, stdin io.Reader) (*Instance, error) {
	made, err := read(spec, stdin)
	if err != nil {
		return nil, InputError(err)
	}
	in, err := NewInstance(made)
	if err == nil && spec != "-" {
		in.Source = spec
	}
	return in, err
}

// NewInstance validates an instance and sets its name and digest. O(its size).
func NewInstance(made plan.Instance) (*Instance, error) {
	in := &Instance{Instance: made, Name: made.Title()}
	err := made.Validate()
	if err == nil {
		in.SHA256, err = made.Digest()
	}
	if err != nil {
		return nil, InputError(err)
	}
	return in, nil
}

func read(spec string, stdin io.Reader) (plan.Instance, error) {
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
	format, formats := strictjson.Format(data), Formats()
	for _, f := range formats {
		if format == f.Name {
			return f.Read(bytes.NewReader(data), name)
		}
	}
	var fields map[string]json.RawMessage
	if format == "" && json.Unmarshal(data, &fields) != nil { // the reader reports broken JSON
		return formats[0].Read(bytes.NewReader(data), name)
	}
	var known []string
	for _, f := range formats {
		known = append(known, strconv.Quote(f.Name))
	}
	last := len(known) - 1
	msg := fmt.Sprintf("%q is no instance; it must be %s or %s", format, strings.Join(known[:last], ", "), known[last])
	if format == "" {
		msg = "missing; it must be " + strings.Join(known[:last], ", ") + " or " + known[last]
	}
	if format == plan.Format {
		msg = "it is a plan and no instance: workbench show, verify and place take plans"
	}
	return nil, &strictjson.Error{Name: name, Line: strictjson.Line(data, "format"), Path: "format", Msg: msg}
}

// maxInstance is the maximum size of an instance file, in bytes.
const maxInstance = 1 << 30

// fromZoo generates a built-in network in the requested form.
func fromZoo(spec string) (plan.Instance, error) {
	form, rest := zoo.Form(spec)
	formats := Formats()
	for _, f := range formats {
		if f.Kind == form && f.Zoo != nil {
			return f.Zoo(rest)
		}
	}
	return formats[0].Zoo(rest)
}

// InputError wraps err as a mistake of the user, nil for nil. The text is that of err.
func InputError(err error) error {
	if err == nil {
		return nil
	}
	return &inputError{err}
}

type inputError struct{ err error }

func (e *inputError) Error() string   { return e.err.Error() }
func (e *inputError) Unwrap() []error { return []error{e.err, ErrInput} }
