package allocator

import (
	"fmt"

	"workbench/model/instance/lifetimes"
)

// Lifetimes returns the blocks of t as buffers for a static placement: each interval in which a tensor is on the
// device is a buffer, with one time step for each event. Blocks that are not freed live to the end. The second
// interval of a tensor is called NAME#2. Addresses are multiples of align bytes. O(events).
func (t *Trace) Lifetimes(name string, align int64) *lifetimes.Lifetimes {
	l := &lifetimes.Lifetimes{Name: name, Align: align, Buffers: make([]lifetimes.Buffer, len(t.Blocks))}
	times := make(map[string]int, len(t.Blocks))
	for b := range t.Blocks {
		id := t.Blocks[b].String()
		if times[id]++; times[id] > 1 {
			id = fmt.Sprintf("%s#%d", id, times[id])
		}
		l.Buffers[b] = lifetimes.Buffer{ID: id, Upper: int64(len(t.Events)), Size: float64(t.Blocks[b].Size)}
	}
	for k, e := range t.Events {
		if e.Free {
			l.Buffers[e.Block].Upper = int64(k)
		} else {
			l.Buffers[e.Block].Lower = int64(k)
		}
	}
	return l
}
