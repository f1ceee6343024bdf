package allocator

// Late returns the trace of a plan of swapping for budget bytes in which evicted variables keep their blocks until
// the bytes are needed; the oldest is freed first. By the rules of plans an out frees its variable when the
// transfer ends. [003] §3 (b) counts it until something waits for that transfer, which nothing does before it
// needs the memory. The code of its authors keeps the block as long (github.com/sony/nnabla,
// src/nbla/lms/swap_in_out_scheduler.cpp), so that blocks fill nearly all of the budget at all times. A variable
// that comes in while its old block still exists reuses that block.
//
// t must have one tensor per variable, as traces of plans of swapping do. The total allocation is at most the
// budget, or its value in t. O(events).
func (t *Trace) Late(budget int64) *Trace {
	earlier, later := vacant(len(t.Blocks)), vacant(len(t.Blocks)) // of the same variable
	last := make(map[string]int32, len(t.Blocks))
	for b := range t.Blocks {
		if x, ok := last[t.Blocks[b].Tensor]; ok {
			earlier[b], later[x] = x, int32(b)
		}
		last[t.Blocks[b].Tensor] = int32(b)
	}
	late := &Trace{Device: t.Device}
	block := vacant(len(t.Blocks)) // in late
	lies := make([]bool, len(t.Blocks))
	var queue []int32 // evicted blocks that still exist, the oldest first, and some that no longer do
	var used int64
	give := func(time float64, b int32) {
		late.Events = append(late.Events, Event{Time: time, Block: block[b], Free: true})
		used -= t.Blocks[b].Size
	}
	for _, e := range t.Events {
		b := e.Block
		switch x := earlier[b]; {
		case e.Free && later[b] != none:
			queue, lies[b] = append(queue, b), true
		case e.Free:
			give(e.Time, b)
		case x != none && lies[x]:
			block[b], lies[x] = block[x], false
		default:
			for ; used+t.Blocks[b].Size > budget && len(queue) > 0; queue = queue[1:] {
				if x := queue[0]; lies[x] {
					lies[x] = false
					give(e.Time, x)
				}
			}
			late.Blocks = append(late.Blocks, t.Blocks[b])
			block[b] = int32(len(late.Blocks) - 1)
			late.Events = append(late.Events, Event{Time: e.Time, Block: block[b]})
			used += t.Blocks[b].Size
		}
	}
	return late
}
