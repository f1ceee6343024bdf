package zoo

import "fmt"

// recurrent is an LSTM of one layer, unrolled, that classifies sequences: each
// step reads the state and a vector of the data, the head reads the last h.
// The steps share one set of weights, which the first one counts. As a chain
// it has a layer for each step, one for the head and one for the loss; its
// input is the state before the first step.
type recurrent struct {
	seq, hidden, inputs, batch, classes int
}

func (r recurrent) add(n *net) {
	state := n.input(int(n.precision), 2, r.batch, r.hidden)
	for t := range r.seq {
		state = n.lstm(fmt.Sprintf("step%d", t+1), state, n.data(r.batch, r.inputs), t > 0)
		n.end(1, fmt.Sprintf("step%d", t+1))
	}
	x := n.linear("head", n.view(state, r.batch, r.hidden), dense{out: r.classes, bias: true})
	n.crossEntropy("loss", x)
}
