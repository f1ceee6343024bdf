package swap

import "workbench/model/instance/functions"

// orders collects what happens between functions. It can be filled and read out
// many times, without allocating once it is large enough.
type orders struct {
	in *instance
	// Slots: 2i are the leavings after f_{i-1}, 2i+1 what comes before f_i. Of
	// each the first and the last of its events, numbers in events plus 1; 0: none.
	slots  [][2]int32
	events []order
}

// order is an event, and the next one of its slot.
type order struct {
	event int
	next  int32
}

func newOrders(in *instance) *orders {
	return &orders{in: in, slots: make([][2]int32, 2*in.N+2)}
}

func (o *orders) reset() {
	clear(o.slots)
	o.events = o.events[:0]
}

func (o *orders) add(slot, event int) {
	o.events = append(o.events, order{event: event})
	last := int32(len(o.events))
	if s := &o.slots[slot]; s[0] == 0 {
		*s = [2]int32{last, last}
	} else {
		o.events[s[1]-1].next = last
		s[1] = last
	}
}

// addEviction evicts v after f_{i-1}; 0: at once.
func (o *orders) addEviction(v, i int) { o.add(2*i, o.in.evictEvent(v)) }

// addBefore inserts an event before f_i, after the evictions there.
func (o *orders) addBefore(event, i int) { o.add(2*i+1, event) }

// addRoundTrip evicts v after f_i, -1: at once, and fetches it before f_k.
func (o *orders) addRoundTrip(v, i, k int) {
	o.addEviction(v, i+1)
	o.addBefore(o.in.come(v), k)
}

// fetchInitial fetches each variable on the host the given number of functions ahead of its first
// use.
func (o *orders) fetchInitial(ahead int) {
	for v, where := range o.in.Initial {
		if where == functions.Host && o.in.Size[v] > 0 {
			o.addBefore(o.in.come(v), max(0, o.in.First[v]-ahead))
		}
	}
}

// list appends the events to list, and empties o. O(functions + events).
func (o *orders) list(list []int) []int {
	for i := range o.in.N {
		for _, slot := range o.slots[2*i : 2*i+2] {
			for k := slot[0]; k > 0; k = o.events[k-1].next {
				list = append(list, o.events[k-1].event)
			}
		}
		list = append(list, i)
	}
	o.reset()
	return list
}
