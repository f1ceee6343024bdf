package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"workbench/model/instance/chain"
)

// ErrLayoutProfile is wrapped by the errors of [LayoutProfile].
var ErrLayoutProfile = errors.New("no profile of layouts")

// layoutFields are the columns of a layer behind its name: seconds and bytes.
var layoutFields = [...]string{
	"forward", "input gradient", "weight gradient", "input", "held", "held selectively", "selective recomputation", "full recomputation",
	"weights", "transient",
}

// LayoutProfile reads an analytic profile of a transformer for pipeline layouts, which is text: the number of layers and the time
// of a transfer, which is not part of a chain, then a line for each layer with its name and the columns of layoutFields: seconds of
// forward, input gradient and weight gradient; bytes of its input, and held from forward to weight gradient without and with selective
// recomputation; seconds of selective and of full recomputation; bytes that are resident, and transient in the backward. A layer
// with 0 seconds of selective recomputation has none. The loss has no output. The error wraps [ErrLayoutProfile] and names the line.
func LayoutProfile(data []byte, name string) (*chain.Chain, []string, error) {
	fail := func(line int, format string, args ...any) (*chain.Chain, []string, error) {
		return nil, nil, fmt.Errorf("%w: %s:%d: %s", ErrLayoutProfile, name, line, fmt.Sprintf(format, args...))
	}
	c := &chain.Chain{
		Name:   strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)),
		Source: map[string]any{"kind": "import", "format": "layout-profile"},
	}
	s := bufio.NewScanner(bytes.NewReader(data))
	s.Scan()
	var layers int
	var transfer float64
	if n, err := fmt.Sscan(s.Text(), &layers, &transfer); n != 2 || err != nil {
		return fail(1, "%q; the number of layers and the seconds of a transfer are needed", s.Text())
	}
	var inputs []float64
	line := 1
	for ; s.Scan(); line++ {
		words := strings.Fields(s.Text())
		if len(words) != len(layoutFields)+1 {
			return fail(line+1, "%d fields; a name and %s are needed", len(words), strings.Join(layoutFields[:], ", "))
		}
		var x [len(layoutFields)]float64
		var err error
		for k := range x {
			if x[k], err = strconv.ParseFloat(words[k+1], 64); err != nil || !(x[k] >= 0) || math.IsInf(x[k], 0) {
				return fail(line+1, "%s is %q; it is a number from 0 on", layoutFields[k], words[k+1])
			}
		}
		l := chain.Layer{
			Name: words[0], ForwardTime: x[0], BackwardTime: x[1] + x[2], WeightGradientTime: x[2], Saved: x[4] - x[3], Weight: x[8],
			BackwardOverhead: x[9], Recompute: []chain.Recomputation{{Name: "full", Saved: x[3], ForwardTime: x[7]}},
		}
		if x[6] > 0 {
			selective := chain.Recomputation{Name: "selective", Saved: x[5], ForwardTime: x[6], Splits: true}
			l.Recompute = append([]chain.Recomputation{selective}, l.Recompute...)
		}
		c.Layers, inputs = append(c.Layers, l), append(inputs, x[3])
	}
	if layers != len(c.Layers) || layers == 0 {
		return fail(1, "%d layers, and there are %d", layers, len(c.Layers))
	}
	c.Input.Activation = inputs[0]
	for i := range c.Layers {
		l := &c.Layers[i]
		if i+1 < layers {
			l.Activation = inputs[i+1]
		}
		l.Gradient, l.Saved = l.Activation, l.Saved+l.Activation
	}
	warnings := []string{fmt.Sprintf("a transfer takes %g s in the profile; give the bandwidth or the latency of links with that", transfer)}
	return c, warnings, c.Validate()
}
