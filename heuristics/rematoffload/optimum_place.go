package rematoffload

import (
	"math/bits"

	view "workbench/model/problem/rematoffload"
)

// tensors is a set of tensors: a_i is number i < N, ā_i number N−1+i, ā_0 being a_0.
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
	fetching // its memory is allocated
)

// place is the state of a partial plan, without times. F_none is F_ck followed by a discard. Discards are delayed
// until memory is needed: they precede the computation that runs then.
type place struct {
	stored, host tensors // tensors that can be read
	next         int8    // the next backward, or the running one
	op, layer    int8
	input        int8 // the tensor that the computation reads in addition to ā_layer
	link         int8 // the running transfer: sending, …
	moved        int8 // the tensor transferred
	gone         bool // the input has been sent, and is freed when the computation ends
	rests        bool // the device is idle until the next event
	still        bool // the link is idle until the next event
}

// board is the instance by tensors.
type board struct {
	*view.Instance
	size, move []float64
	uB         []float64 // uB[k] = Σ uB_1..k
	empty      tensors   // of no bytes, which are never transferred
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

// saved returns the number of ā_l.
func (b *board) saved(l int) int {
	if l == 0 {
		return 0
	}
	return b.N - 1 + l
}

// bytes returns the total size of a set.
func (b *board) bytes(s tensors) float64 {
	sum := 0.0
	for ; s != 0; s &= s - 1 {
		sum += b.size[bits.TrailingZeros32(uint32(s))]
	}
	return sum
}

// needs returns the memory in use.
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

// made returns the tensor that the running forward computes.
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

// coming reports whether v is being fetched.
func (x *place) coming(v int) bool { return x.link == fetching && int(x.moved) == v }

// computed ends the running computation and frees dead tensors.
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

// transferred ends the running transfer.
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

// dies reports whether nothing reads v after the running backward.
func (b *board) dies(x *place, v int) bool {
	return x.op == backward && (v == b.saved(int(x.layer)) || v == int(x.layer)-1)
}
