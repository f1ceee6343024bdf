package zoo

import (
	"math"
	"strconv"

	"workbench/model/instance/chain"
)

// table1 reconstructs the instances of [001] Table 1 from the printed numbers, since the measurements are not
// published.
//
// The column L2L is Σu + (2L−1)·t_w to the millisecond in every row, so all L layers have the same weight, t_w at
// 12 GB/s. Σu is a multiple of L (BERT) or of L−2 (GPT-2, whose embedding and head take almost no time).
// Activations are 20 MB per layer at batch 16 ([001] §7), proportional to the batch. Two assumptions: the backward
// takes three times the forward, as it recomputes the forward and then costs twice as much; and the last layer
// includes the loss, so its output is one number.
type table1 struct {
	transfer float64         // t_w, seconds
	layer    map[int]float64 // seconds of forward and backward of a layer, by batch
	ends     bool            // the first and the last layer take no time
}

const (
	table1Bandwidth  = 12e9
	table1Activation = 20e6 // bytes at batch 16
	table1Loss       = 4    // bytes
)

func table1GPT2() generator {
	return table1{0.03595, map[int]float64{16: 0.1613, 32: 0.329, 64: 0.6585}, true}.generator(
		"table1-gpt2", "GPT-2 of [001] Table 1 (depths 38, 56, 74), rebuilt from its numbers", "38")
}

func table1BERT() generator {
	return table1{0.0136, map[int]float64{16: 0.0631, 32: 0.1211, 64: 0.2395}, false}.generator(
		"table1-bert", "BERT of [001] Table 1 (depths 96, 144), rebuilt from its numbers", "96")
}

func (t table1) generator(name, description, depth string) generator {
	return generator{
		Entry: Entry{name, description, chains, []Param{
			number("depth", depth, 3, 100_000, "layers of the chain, embedding and head included"),
			choice("batch", "sequences a step", "16", "32", "64"),
		}},
		chain: func(v values) (*chain.Chain, error) { return t.chain(name, v) },
	}
}

func (t table1) chain(name string, v values) (*chain.Chain, error) {
	batch, err := strconv.Atoi(v.words["batch"])
	if err != nil {
		return nil, err
	}
	depth := v.numbers["depth"]
	activation := table1Activation * float64(batch) / 16
	c := &chain.Chain{Samples: batch, Layers: make([]chain.Layer, depth)}
	if !t.ends {
		// Without an embedding among the layers, the first one reads what the
		// others read.
		c.Input = chain.Input{Activation: activation, Gradient: activation}
	}
	for i := range c.Layers {
		l := chain.Layer{
			Name: "layer " + strconv.Itoa(i+1), ForwardTime: t.layer[batch] / 4, BackwardTime: t.layer[batch] * 3 / 4,
			Activation: activation, Saved: activation, Gradient: activation, Weight: math.Round(t.transfer * table1Bandwidth),
		}
		if i == depth-1 {
			l.Name += " and loss"
			l.Activation, l.Saved, l.Gradient = table1Loss, table1Loss, table1Loss
		}
		if t.ends && (i == 0 || i == depth-1) {
			l.ForwardTime, l.BackwardTime = 0, 0
		}
		c.Layers[i] = l
	}
	c.Source = map[string]any{
		"kind": "reconstructed", "from": "[001] Table 1", "model": name, "device": "V100-16GB",
		"depth": float64(depth), "batch": float64(batch), "bandwidth": float64(table1Bandwidth),
		"how": "weights from the column L2L = Σu + (2L−1)·t_w, times from the column Σu (by regression over the rows of a batch size), " +
			"activations of 20 MB a layer at batch 16 from the text; assumed are backward = 3 · forward (it recomputes the forward) and equal " +
			"layers" + t.endsNote(),
	}
	return c, nil
}

func (t table1) endsNote() string {
	if t.ends {
		return ", the first and the last of which (embedding, head) take no time"
	}
	return ""
}
