package flush

import (
	"context"
	"slices"

	"workbench/model/problem/flush"
)

// Send returns a method for pipelines with copies to the host from one without. m orders the
// pipeline of what remains on the GPUs ([flush.Instance.Resident]) with memory reduced by what one,
// two or three micro-batches offload, since those that run are fully present. Then copies are
// inserted: O when the lag that is tried has passed since its F or memory is needed, and P before
// B, by as many operations as memory allows up to the lead that is tried. The best result is
// returned. Without offloading it is m itself. O(operations) a try, plus m.
func Send(m Method) Method {
	return func(ctx context.Context, v *flush.Instance) flush.Order {
		if !slices.Contains(v.Moves, true) {
			return m(ctx, v)
		}
		var found *flush.Schedule
		for spare := int64(1); spare <= 3; spare++ {
			x := *v.Resident()
			x.Room = slices.Clone(v.Room)
			for s, g := range v.GPU {
				x.Room[g] = min(x.Room[g], v.Room[g]-spare*v.Memory[s][flush.P])
			}
			if x.Fits() != nil {
				break
			}
			o := m(ctx, &x)
			if o == nil {
				continue
			}
			var tries []flush.Order
			for _, lag := range [...]int{0, 1, 3} {
				for _, lead := range [...]int{0, 1, 2, 4, 8} {
					tries = append(tries, copied(v, o, lag, lead))
				}
			}
			if found != nil {
				tries = append(tries, found.Order)
			}
			found = best(v, tries...)
		}
		if found == nil {
			return nil
		}
		return found.Order
	}
}

// copied puts the copies into an order, nil if they find no room.
func copied(v *flush.Instance, o flush.Order, lag, lead int) flush.Order {
	c := make(flush.Order, len(o))
	for g, sequence := range o {
		x := &copying{v: v, room: v.Room[g], count: make([]int, flush.Kinds*v.Stages)}
		for i := range sequence {
			if !x.add(sequence[i:], lag, lead) {
				return nil
			}
		}
		c[g] = x.sequence
	}
	return c
}

// copying is the sequence of a GPU under construction.
type copying struct {
	v        *flush.Instance
	room     int64
	sequence []flush.Operation
	held     int64
	count    []int // by operation
	unsent   []int // the stages of what waits for its O, the first first
}

// put appends an operation.
func (x *copying) put(l flush.Operation) {
	x.sequence, x.held = append(x.sequence, l), x.held+x.v.Memory[l.Stage()][l.Kind()]
	x.count[l]++
}

// send appends an O, that of the first that waits.
func (x *copying) send() {
	x.put(flush.OperationOf(x.unsent[0], flush.O))
	x.unsent = x.unsent[1:]
}

// makeRoom inserts copies to the host until more bytes are free. It reports false if that is impossible.
func (x *copying) makeRoom(more int64) bool {
	for x.held+more > x.room && len(x.unsent) > 0 {
		x.send()
	}
	return x.held+more <= x.room
}

// add appends the next of the remaining operations of the GPU, with the copies that precede it.
func (x *copying) add(left []flush.Operation, lag, lead int) bool {
	ahead, between := map[int]int{}, int64(0) // Bs by stage; the most that is taken before the one at hand
	held := int64(0)
	for k, l := range left[:min(lead+1, len(left))] {
		if s := l.Stage(); l.Kind() == flush.B && x.v.Sends[s] {
			ahead[s]++
			if x.count[flush.OperationOf(s, flush.P)] < x.count[l]+ahead[s] && !x.fetch(s, k == 0, between) {
				if k == 0 {
					return false
				}
				break
			}
		}
		held += x.v.Memory[l.Stage()][l.Kind()]
		between = max(between, held)
	}
	l := left[0]
	if l.Kind() == flush.F && !x.makeRoom(x.v.Memory[l.Stage()][flush.F]) {
		return false
	}
	if x.put(l); l.Kind() == flush.F && x.v.Sends[l.Stage()] {
		x.unsent = append(x.unsent, l.Stage())
	}
	for len(x.unsent) > lag {
		x.send()
	}
	return true
}

// fetch appends the P of a stage if it must, or if it can: the copy out has ended, and it fits in
// memory together with what is allocated before its B.
func (x *copying) fetch(s int, must bool, between int64) bool {
	p := flush.OperationOf(s, flush.P)
	for must && x.count[p] >= x.count[flush.OperationOf(s, flush.O)] {
		if len(x.unsent) == 0 {
			return false
		}
		x.send()
	}
	if x.count[p] >= x.count[flush.OperationOf(s, flush.O)] || !must && x.held+between+x.v.Memory[s][flush.P] > x.room ||
		!x.makeRoom(x.v.Memory[s][flush.P]) {
		return false
	}
	x.put(p)
	return true
}
