package rematoffload

import (
	"math/bits"

	view "workbench/model/problem/rematoffload"
)

// A tensors is a set of tensors: a_i is number i < N, ā_i number N−1+i, ā_0 being a_0.
type tensors uint32

func (s tensors) has(v int) bool { return s>>v&1 == 1 }

// What runs on the device, and on the link.
const (
	idle = iota
	forwardAll
	forwardCk
	backward
)

const (
	sending  = iota + 1
	holding  // sent, but kept until a computation that uses it has started
	fetching // its space is taken
)

// A place is what the past of a partial plan leaves to its future, but for times.
// F_none is F_ck followed by a discard, and a discard is put off until something
// needs the space: it happens before the computation that runs then.
type place struct {
	stored, host tensors // what can still be read
	next         int8    // the next backward, or the one that runs
	op, layer    int8
	input        int8 // the tensor that the computation reads beside ā_layer
	link         int8 // what the link does: sending, …
	moved        int8 // its tensor
	gone         bool // the input has been sent, and leaves when the computation ends
	rests        bool // the device does nothing until the next event
	still        bool // nor does the link
}

// A board is the instance by tensors.
type board struct {
	*view.Instance
	size, move []float64
	uB         []float64 // uB[k] = Σ uB_1..k
	empty      tensors   // of no bytes, which never move
}

func newBoard(in *view.Instance) board {
	b := board{Instance: in, size: make([]float64, 2*in.N), move: make([]float64, 2*in.N), uB: make([]float64, in.N+1)}
	for l := range in.N {
		b.size[l], b.size[b.saved(l+1)] = in.A[l], in.Abar[l+1]
		b.uB[l+1] = b.uB[l] + in.UB[l+1]
	}
	for v, x := range b.size {
		b.move[v] = x / in.Bandwidth
		if x == 0 {
			b.empty |= 1 << v
		}
	}
	return b
}

// saved is the number of ā_l.
func (b *board) saved(l int) int {
	if l == 0 {
		return 0
	}
	return b.N - 1 + l
}

// bytes is the size of a set.
func (b *board) bytes(s tensors) float64 {
	sum := 0.0
	for ; s != 0; s &= s - 1 {
		sum += b.size[bits.TrailingZeros32(uint32(s))]
	}
	return sum
}

// needs is the memory in use.
func (b *board) needs(x *place) float64 {
	sum := b.bytes(x.stored)
	if x.link == fetching {
		sum += b.size[x.moved]
	}
	if int(x.next) < b.N {
		sum += b.Delta[x.next]
	}
	l := int(x.layer)
	switch x.op {
	case forwardAll:
		sum += b.Abar[l] + b.OF[l]
	case forwardCk:
		sum += b.A[l] + b.OC[l]
	case backward:
		sum += b.Delta[l-1] + b.OB[l]
		if l == b.N {
			sum += b.Delta[l]
		}
	}
	return sum
}

// made is the tensor that the running forward makes.
func (b *board) made(x *place) int {
	if x.op == forwardAll {
		return b.saved(int(x.layer))
	}
	return int(x.layer)
}

// busy reports whether v is being sent.
func (x *place) busy(v int) bool {
	return (x.link == sending || x.link == holding) && int(x.moved) == v
}

// coming reports whether v is on its way to the device.
func (x *place) coming(v int) bool { return x.link == fetching && int(x.moved) == v }

// computed ends the running computation: what is not live any more goes.
func (b *board) computed(x *place) {
	switch x.op {
	case backward:
		x.next--
		live := tensors(0)
		for l := range int(x.next) {
			live |= 1<<l | 1<<b.saved(l+1)
		}
		x.stored &= live
		x.host &= live
	default:
		x.stored |= 1 << b.made(x)
	}
	if x.gone {
		x.stored &^= 1 << x.input
	}
	x.op, x.layer, x.input, x.gone = idle, 0, 0, false
}

// transferred ends the transfer that runs.
func (b *board) transferred(x *place) {
	switch x.link {
	case fetching:
		x.stored |= 1 << x.moved
	default:
		x.host |= 1 << x.moved
		if x.op != idle && x.input == x.moved {
			x.gone = true
		} else {
			x.stored &^= 1 << x.moved
		}
	}
	x.link, x.moved = 0, 0
}

// dies reports whether nothing reads v once the running backward has ended.
func (b *board) dies(x *place, v int) bool {
	return x.op == backward && (v == b.saved(int(x.layer)) || v == int(x.layer)-1)
}
