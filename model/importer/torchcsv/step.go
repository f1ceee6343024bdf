package torchcsv

import (
	"fmt"

	"workbench/model/instance/stages"
)

// Step returns when the last operation of a schedule ends if each starts as soon as it can. With queue the transfers between two
// ranks run as in torch.distributed.pipelining 2.15 with NCCL: one at a time, for both directions, in an order that the schedule
// fixes. A sender posts a transfer when what it sends has been computed, a receiver when it comes to it among its operations. A
// transfer starts when both have posted it and the one before has ended; without queue, when it is sent. The error is that of a
// schedule that does not fit the partition. O(operations·ranks).
func (s Schedule) Step(in *stages.Partition, queue bool) (float64, error) {
	s = s.shifted()
	home, err := s.ranks(len(in.Stages))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	l := &lowering{s: s, in: in, home: home, queue: queue, rows: make([][]item, len(s)), sent: map[Action]*transfer{}}
	if !l.lower() {
		return 0, fmt.Errorf("%w: the ranks wait for each other", ErrFormat)
	}
	return l.run()
}

// transfer is a tensor on its way from the rank that has computed it.
type transfer struct {
	from, to int
	start    float64 // when both ranks have posted it, as far as they have
	end      float64 // negative: not yet
}

// item is an action of a rank, or the posting of a transfer.
type item struct {
	action Action
	moved  *transfer
}

type lowering struct {
	s     Schedule
	in    *stages.Partition
	home  []int
	queue bool
	rows  [][]item
	sent  map[Action]*transfer // by what has made it; from a rank to itself: posted by nobody
}

// needs returns what an action waits for, as F, or as B for either backward; false: nothing of another stage.
func (l *lowering) needs(a Action) (Action, bool) {
	switch {
	case a.Op == "F" && a.Stage > 0:
		return Action{a.Stage - 1, "F", a.MicroBatch}, true
	case (a.Op == "B" || a.Op == "I") && a.Stage+1 < len(l.home):
		return Action{a.Stage + 1, "B", a.MicroBatch}, true
	}
	return Action{}, false
}

// makes returns what other stages wait for of an action, and the stage that does; -1: none.
func (l *lowering) makes(a Action) (Action, int) {
	switch {
	case a.Op == "F" && a.Stage+1 < len(l.home):
		return a, a.Stage + 1
	case (a.Op == "B" || a.Op == "I") && a.Stage > 0:
		return Action{a.Stage, "B", a.MicroBatch}, a.Stage - 1
	}
	return a, -1
}

// lower places sends behind what they send, and receives at the end of what the receiver has placed by then, going through the
// ranks again and again as _add_send_recv does. It reports whether everything could be placed.
func (l *lowering) lower() bool {
	at := make([]int, len(l.s))
	for moved := true; moved; {
		moved = false
		for r, actions := range l.s {
			if at[r] == len(actions) {
				continue
			}
			a := actions[at[r]]
			if need, some := l.needs(a); some && l.sent[need] == nil {
				continue
			}
			l.rows[r] = append(l.rows[r], item{action: a})
			if made, stage := l.makes(a); stage >= 0 {
				x := &transfer{from: r, to: l.home[stage], end: -1}
				if l.sent[made] = x; x.to != r {
					l.rows[r] = append(l.rows[r], item{moved: x})
					l.rows[x.to] = append(l.rows[x.to], item{moved: x})
				}
			}
			at[r], moved = at[r]+1, true
		}
	}
	for r := range l.s {
		if at[r] < len(l.s[r]) {
			return false
		}
	}
	return true
}

// run executes the rows in order.
func (l *lowering) run() (float64, error) {
	free, at, line, last := make([]float64, len(l.s)), make([]int, len(l.s)), map[[2]int]float64{}, 0.0
	waiting := map[[2]int][2][]*transfer{} // by pair: posted by the lower rank, by the higher
	for moved := true; moved; {
		moved = false
		for r, row := range l.rows {
			for ; at[r] < len(row) && l.step(r, row[at[r]], free, line, waiting); at[r]++ {
				moved, last = true, max(last, free[r])
			}
		}
	}
	for r, row := range l.rows {
		if at[r] < len(row) {
			return 0, fmt.Errorf("%w: rank %d waits forever for a transfer", ErrFormat, r)
		}
	}
	return last, nil
}

// step runs one item of a rank, and reports whether it could.
func (l *lowering) step(r int, x item, free []float64, line map[[2]int]float64, waiting map[[2]int][2][]*transfer) bool {
	if x.moved != nil {
		l.post(r, x.moved, free[r], line, waiting)
		return true
	}
	a, start := x.action, free[r]
	if need, some := l.needs(a); some {
		t := l.sent[need]
		if t.end < 0 {
			return false
		}
		start = max(start, t.end)
	}
	stage := &l.in.Stages[a.Stage]
	switch a.Op {
	case "F":
		start += stage.ForwardTime
	case "B":
		start += stage.BackwardTime + stage.WeightTime
	case "I":
		start += stage.BackwardTime
	case "W":
		start += stage.WeightTime
	}
	free[r] = start
	if made, to := l.makes(a); to >= 0 {
		if t := l.sent[made]; t.to == r {
			t.end = start
		}
	}
	return true
}

// post notes that a rank has posted a transfer. Those of a pair of ranks start in the order in which each rank has posted them.
func (l *lowering) post(r int, t *transfer, now float64, line map[[2]int]float64, waiting map[[2]int][2][]*transfer) {
	if !l.queue {
		if r == t.from {
			t.end = now + l.in.CommunicationTime
		}
		return
	}
	t.start = max(t.start, now)
	pair, side := [2]int{min(t.from, t.to), max(t.from, t.to)}, 0
	if r == pair[1] {
		side = 1
	}
	both := waiting[pair]
	both[side] = append(both[side], t)
	for len(both[0]) > 0 && len(both[1]) > 0 && both[0][0] == both[1][0] {
		x := both[0][0]
		x.end = max(x.start, line[pair]) + l.in.CommunicationTime
		line[pair] = x.end
		both[0], both[1] = both[0][1:], both[1][1:]
	}
	waiting[pair] = both
}
