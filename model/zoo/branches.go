package zoo

import (
	"fmt"

	"workbench/model/instance/join"
)

// branches describes networks of several branches that meet in the loss, as
// [004] 1.4 simulates them: the length of each branch, and whether the
// branches share their weights.
type branches struct {
	lengths []int
	shared  bool
}

// siamese is [004]'s Siamese network for length L: three branches of 2L layers
// with one set of weights and a triplet loss.
func siamese(length int) branches {
	return branches{[]int{2 * length, 2 * length, 2 * length}, true}
}

// crossModal is [004]'s cross-modal network for length L: branches of L and 5L layers and a loss that compares
// their outputs.
func crossModal(length int) branches {
	return branches{[]int{length, 5 * length}, false}
}

// join is the join of the branches with unit costs, as in [004] 1.4.
func (b branches) join(slots int, keep bool) *join.Join {
	j := &join.Join{Branches: b.lengths, Slots: slots, Keep: make([]bool, len(b.lengths)), ForwardTime: 1, BackwardTime: 1, LossTime: 1}
	for i := range j.Keep {
		j.Keep[i] = keep
	}
	return j
}

// add builds the branches of equal layers, so that the join is a fair model of
// the graph: 3×3 convolutions with relu, of 64 channels each.
func (b branches) add(n *net, batch, image int) {
	const channels = 64
	var ends []tensor
	for i, length := range b.lengths {
		x := n.input(int(n.precision), batch, channels, image, image)
		for k := range length {
			name := fmt.Sprintf("branch%d.layer%d", i+1, k+1)
			x = n.conv(name, x, convolution{out: channels, kernel: 3, stride: 1, padding: 1, bias: true, shared: b.shared && i > 0})
			x = n.relu(name+".relu", x)
		}
		ends = append(ends, x)
	}
	if len(ends) == 3 {
		n.triplet("loss", ends[0], ends[1], ends[2])
	} else {
		n.meanSquare("loss", ends[0], ends[1])
	}
}
