package importer

import (
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// AcesoOptions says what Aceso's profiles leave open.
type AcesoOptions struct {
	// Layers is how often a network has the layer that the profile lists once, of an
	// encoder and a decoder each; 0 where nothing is repeated.
	Layers int
	// Operations makes a layer of the chain of each operation, and not of all that are
	// repeated together.
	Operations bool
}

// acesoHeader is the first line of a profile.
var acesoHeader = []string{
	"op_name", "forward-compute", "backward-compute", "input_size", "output_size", "weights", "activations", "fwd_reserved", "bwd_reserved",
}

// acesoOp is one line: times in seconds, sizes in bytes.
type acesoOp struct {
	name                                                     string
	forward, backward                                        float64
	input, output, weights, activations, forwards, backwards float64
}

// ErrAceso is wrapped by the errors of [Aceso].
var ErrAceso = errors.New("not a profile of Aceso")

// acesoName is what names of profiles say: network, micro-batch, tensor parallelism.
var acesoName = regexp.MustCompile(`^(.+)_mbs(\d+)_tp(\d+)(_.*)?$`)

// Aceso reads a profile of operations of Aceso (Liu et al., Aceso: Efficient Parallel
// DNN Training through Iterative Bottleneck Alleviation, EuroSys 2024): CSV with times
// in microseconds and sizes in MiB. Of GPT and T5 it lists the operations of one layer,
// whose names begin with enc- or dec-; those in a row are repeated together, others are
// there once. A name with final is none of them, and so is an embedding.
//
// A layer of the chain saves the activations of its operations. Where it is a single
// operation its output contains what passes by, the residual, which its activations do
// not: then it saves the output, for the tensors of a chain begin at one place and end at
// the next. Its overheads are what the allocator reserved beyond that, which contains
// blocks that are kept for later: an upper figure; forward also the most that one
// operation keeps beside the output, for a forward that saves nothing. Warnings say what was
// made up.
func Aceso(data []byte, name string, o AcesoOptions) (*chain.Chain, []string, error) {
	ops, err := acesoOps(string(data), name)
	if err != nil {
		return nil, nil, err
	}
	title := strings.TrimSuffix(filepath.Base(name), ".csv")
	c := &chain.Chain{Name: title, Source: map[string]any{"kind": "import", "format": "aceso", "device": "V100-32GB"}}
	if m := acesoName.FindStringSubmatch(title); m != nil {
		c.Samples, _ = strconv.Atoi(m[2]) // digits, or too many: unknown
		c.Source["tensor_parallel"] = m[3]
	}
	repeated := slices.ContainsFunc(ops, func(x acesoOp) bool { return x.block() != "" })
	switch {
	case repeated && o.Layers < 1:
		return nil, nil, fmt.Errorf("%w: %s lists the operations of one layer; say how often the network has it: 24 of GPT 350M and 1.3B and "+
			"of T5 770M, 32 of GPT 2.6B and 6.7B, 40 of 13B", ErrAceso, name)
	case !repeated && o.Layers > 1:
		return nil, nil, fmt.Errorf("%w: %s lists all operations, none is repeated %d times", ErrAceso, name, o.Layers)
	}
	if repeated {
		c.Name += fmt.Sprintf("-l%d", o.Layers)
		c.Source["layers"] = o.Layers
	}
	b := &acesoChain{c: c, o: o}
	for len(ops) > 0 {
		n := 1
		for ops[0].block() != "" && n < len(ops) && ops[n].block() == ops[0].block() {
			n++
		}
		b.add(ops[:n])
		ops = ops[n:]
	}
	c.Input.Activation = b.input
	var warnings []string
	if b.raised > 0 {
		warnings = append(warnings, fmt.Sprintf("saved raised to the output, which contains what passes by, in %s, %.3f MiB more in all",
			platform.Count(b.raised, "layer"), b.more/(1<<20)))
	}
	return c, warnings, c.Validate()
}

// block names what an operation is repeated with, "" if it is there once.
func (x *acesoOp) block() string {
	for _, prefix := range []string{"enc-", "dec-"} {
		if strings.HasPrefix(x.name, prefix) && !strings.Contains(x.name, "final") && !strings.Contains(x.name, "embedding") {
			return prefix
		}
	}
	return ""
}

// acesoOps reads the lines.
func acesoOps(text, name string) ([]acesoOp, error) {
	r := csv.NewReader(strings.NewReader(text))
	r.TrimLeadingSpace, r.FieldsPerRecord = true, -1
	lines, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAceso, name, err)
	}
	if len(lines) < 2 || len(lines[0]) != len(acesoHeader) {
		return nil, fmt.Errorf("%w: %s:1: a first line %s is needed, and one for each operation", ErrAceso, name, strings.Join(acesoHeader, ","))
	}
	for i, field := range lines[0] {
		if strings.TrimSpace(field) != acesoHeader[i] {
			return nil, fmt.Errorf("%w: %s:1: field %d is %q; it must be %q", ErrAceso, name, i+1, field, acesoHeader[i])
		}
	}
	var ops []acesoOp
	for k, line := range lines[1:] {
		if len(line) != len(acesoHeader) {
			return nil, fmt.Errorf("%w: %s:%d: %d fields; there are %d", ErrAceso, name, k+2, len(line), len(acesoHeader))
		}
		var x [9]float64
		for i := 1; i < len(line); i++ {
			v, err := strconv.ParseFloat(strings.TrimSpace(line[i]), 64)
			if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				return nil, fmt.Errorf("%w: %s:%d: %s of %s is %q; it is a number from 0 on", ErrAceso, name, k+2, acesoHeader[i], line[0], line[i])
			}
			if x[i] = v / 1e6; i > 2 {
				x[i] = math.Round(v * (1 << 20))
			}
		}
		ops = append(ops, acesoOp{strings.TrimSpace(line[0]), x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8]})
	}
	return ops, nil
}

// acesoChain is a chain in the making.
type acesoChain struct {
	c      *chain.Chain
	o      AcesoOptions
	input  float64
	raised int     // layers whose output is more than their activations
	more   float64 // by so many bytes
}

// add adds operations that are repeated together, or one.
func (b *acesoChain) add(ops []acesoOp) {
	if len(b.c.Layers) == 0 {
		b.input = ops[0].input
	}
	if ops[0].block() == "" {
		b.layer(ops[0].name, ops)
		return
	}
	for n := range b.o.Layers {
		if !b.o.Operations {
			b.layer(fmt.Sprintf("%s%d", ops[0].block(), n+1), ops)
			continue
		}
		for i := range ops {
			b.layer(fmt.Sprintf("%s%d", ops[i].name, n+1), ops[i:i+1])
		}
	}
}

// layer adds one layer of the chain.
func (b *acesoChain) layer(name string, ops []acesoOp) {
	l := chain.Layer{Name: name, Activation: ops[len(ops)-1].output}
	for i := range ops {
		x := &ops[i]
		l.ForwardTime += x.forward
		l.BackwardTime += x.backward
		l.Saved += x.activations
		l.Weight += x.weights
		l.ForwardOverhead = max(l.ForwardOverhead, x.forwards, x.activations-l.Activation)
		l.BackwardOverhead = max(l.BackwardOverhead, x.backwards)
	}
	if l.Saved < l.Activation {
		b.raised++
		b.more += l.Activation - l.Saved
		l.Saved = l.Activation
	}
	l.Gradient = l.Activation
	b.c.Layers = append(b.c.Layers, l)
}
