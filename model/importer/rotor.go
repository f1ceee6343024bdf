package importer

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/strictjson"
)

// RotorOptions says what rotor's chains leave open.
type RotorOptions struct {
	// TimeUnit is "us", "ms" or "s"; empty: milliseconds, in which rotor
	// measures, with a warning.
	TimeUnit string
}

// Rotor reads a chain of rotor, the implementation of [002]: its class Chain
// written as JSON, field by field (json.dump(vars(chain), file)). Of a network
// of n layers followed by a loss:
//
//	fweigth  n      u_F of layers 1..n, the loss takes none
//	bweigth  n + 1  u_B of layers 1..n and the loss
//	cweigth  n + 1  |a| of the input and of layers 1..n; also |δ|
//	cbweigth n + 1  |ā| of the input, which is passed over, and of layers 1..n
//	fwd_tmp  n      o_F of layers 1..n
//	bwd_tmp  n + 1  o_B of layers 1..n and the loss
//
// Rotor spells weigth; weight is understood, too, and so are the short names
// fw, bw, cw, cbw, ftmp and btmp and ColossalAI's fwd_mem_tmp and bwd_mem_tmp.
// Sizes are taken for bytes: export a chain before it is discretised into
// slots. Other fields are passed over.
func Rotor(data []byte, name string, o RotorOptions) (*chain.Chain, []string, error) {
	d := &rotor{data: data, name: name}
	if err := strictjson.DecodeForeign(data, name, &d.file); err != nil {
		return nil, nil, err
	}
	c, err := d.chain(o)
	if err != nil {
		return nil, nil, err
	}
	return c, append(d.warnings, wholeBytes(c.Sizes())...), nil
}

// rotorFile mirrors rotor's Chain by all names of its fields.
type rotorFile struct {
	Length    *int      `json:"length"`
	FWeigth   []float64 `json:"fweigth"`
	FWeight   []float64 `json:"fweight"`
	FW        []float64 `json:"fw"`
	BWeigth   []float64 `json:"bweigth"`
	BWeight   []float64 `json:"bweight"`
	BW        []float64 `json:"bw"`
	CWeigth   []float64 `json:"cweigth"`
	CWeight   []float64 `json:"cweight"`
	CW        []float64 `json:"cw"`
	CBWeigth  []float64 `json:"cbweigth"`
	CBWeight  []float64 `json:"cbweight"`
	CBW       []float64 `json:"cbw"`
	FwdTmp    []float64 `json:"fwd_tmp"`
	FwdMemTmp []float64 `json:"fwd_mem_tmp"`
	FTmp      []float64 `json:"ftmp"`
	BwdTmp    []float64 `json:"bwd_tmp"`
	BwdMemTmp []float64 `json:"bwd_mem_tmp"`
	BTmp      []float64 `json:"btmp"`
}

// rotor is a file on its way to a chain.
type rotor struct {
	data     []byte
	name     string
	file     rotorFile
	warnings []string
}

func (d *rotor) fail(path, format string, args ...any) error {
	return &strictjson.Error{Name: d.name, Line: strictjson.Line(d.data, path), Path: path, Msg: fmt.Sprintf(format, args...)}
}

// field is one of the six lists under one of its names.
type field struct {
	name   string
	values []float64
}

// one returns the list that is there, of the length it must have; any length
// from 1 on will do if that is negative.
func (d *rotor) one(length int, names ...field) ([]float64, error) {
	var found *field
	for i := range names {
		switch f := &names[i]; {
		case f.values == nil:
		case found != nil:
			return nil, d.fail(f.name, "%s stands for the same; one of them is needed", found.name)
		default:
			found = f
		}
	}
	if found == nil {
		return nil, d.fail("", "%s is missing", names[0].name)
	}
	if length >= 0 && len(found.values) != length {
		return nil, d.fail(found.name, "%d numbers; fweigth says that %d are needed", len(found.values), length)
	}
	for i, x := range found.values {
		if !(x >= 0) {
			return nil, d.fail(fmt.Sprintf("%s[%d]", found.name, i), "%v is negative", x)
		}
	}
	return found.values, nil
}

func (d *rotor) chain(o RotorOptions) (*chain.Chain, error) {
	unit := o.TimeUnit
	if unit == "" {
		d.warnings = append(d.warnings, "times are taken to be in milliseconds; say so with the time unit")
		unit = "ms"
	}
	second, ok := perSecond(unit)
	if !ok {
		return nil, fmt.Errorf("time unit %q: us, ms or s is needed", unit)
	}
	f := &d.file
	fw, err := d.one(-1, field{"fweigth", f.FWeigth}, field{"fweight", f.FWeight}, field{"fw", f.FW})
	if err != nil {
		return nil, err
	}
	n := len(fw)
	if f.Length != nil && *f.Length != n {
		return nil, d.fail("length", "it is %d, but fweigth has %d numbers", *f.Length, n)
	}
	var bw, cw, cbw, ftmp, btmp []float64
	for _, x := range []struct {
		into   *[]float64
		length int
		names  []field
	}{
		{&bw, n + 1, []field{{"bweigth", f.BWeigth}, {"bweight", f.BWeight}, {"bw", f.BW}}},
		{&cw, n + 1, []field{{"cweigth", f.CWeigth}, {"cweight", f.CWeight}, {"cw", f.CW}}},
		{&cbw, n + 1, []field{{"cbweigth", f.CBWeigth}, {"cbweight", f.CBWeight}, {"cbw", f.CBW}}},
		{&ftmp, n, []field{{"fwd_tmp", f.FwdTmp}, {"fwd_mem_tmp", f.FwdMemTmp}, {"ftmp", f.FTmp}}},
		{&btmp, n + 1, []field{{"bwd_tmp", f.BwdTmp}, {"bwd_mem_tmp", f.BwdMemTmp}, {"btmp", f.BTmp}}},
	} {
		if *x.into, err = d.one(x.length, x.names...); err != nil {
			return nil, err
		}
	}
	c := &chain.Chain{Name: chainName(d.name), Input: chain.Input{Activation: cw[0], Gradient: cw[0]}}
	for i := range n {
		l := chain.Layer{
			Name: fmt.Sprintf("layer%d", i+1), ForwardTime: fw[i] / second, BackwardTime: bw[i] / second,
			Activation: cw[i+1], Saved: cbw[i+1], Gradient: cw[i+1], ForwardOverhead: ftmp[i], BackwardOverhead: btmp[i],
		}
		if l.Saved < l.Activation {
			d.warnings = append(d.warnings, fmt.Sprintf("layer %d saves %g bytes, less than the %g of its output; the output is counted", i+1,
				l.Saved, l.Activation))
			l.Saved = l.Activation
		}
		c.Layers = append(c.Layers, l)
	}
	c.Layers = append(c.Layers, chain.Layer{Name: "loss", BackwardTime: bw[n] / second, BackwardOverhead: btmp[n]})
	c.Source = map[string]any{"kind": "measured", "profiler": "rotor", "device": "not recorded", "batch": "not recorded"}
	return c, nil
}
