package flush_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/exhaustive/flush"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyflush "workbench/model/verify/flush"
)

// What orders of the instants at which memory changes come to is the least makespan of a search that knows
// of no orders: second by second it starts any set of operations for which GPUs and links are free, what they
// need is there and there is room.
func TestSecondBySecond(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(19, 9))
	tried, sent, worth := 0, 0, 0
	for n := range testfile.Cases(200) {
		p := platform.Platform{Placement: plan.Straight, Objective: plan.MakespanObjective, Processors: 1 + r.IntN(2), MicroBatches: 2}
		stageCount := p.Processors
		if p.Processors == 1 && r.IntN(2) == 0 {
			p.Placement, stageCount = plan.Interleaved, 2
		}
		in := random.Stages(r, stageCount, stageCount == 1 && r.IntN(3) == 0)
		if stageCount == 1 && !in.Stages[0].Split() {
			p.MicroBatches = 3
		}
		random.Copies(r, in)
		for i := range in.Stages {
			s := &in.Stages[i]
			s.ForwardTime, s.BackwardTime, s.Overhead = 1+float64(r.IntN(3)), 1+float64(r.IntN(3)), 0
			if s.OffloadMemory > 0 {
				s.OffloadTime = 1 + float64(r.IntN(3))
			} else {
				s.OffloadTime = 0
			}
			if s.Split() {
				s.WeightTime = 1 + float64(r.IntN(2))
			}
		}
		for _, s := range in.Stages {
			p.Memory = max(p.Memory, s.Weight+s.ForwardMemory)
		}
		p.Memory += float64(r.IntN(5))
		least, best, err := flush.Search(in, p, 200_000)
		if errors.Is(err, exhaustive.ErrLimit) {
			continue
		}
		if errors.Is(err, exhaustive.ErrInfeasible) {
			continue
		}
		c := newClock(in, p)
		late, early := c.ends(int(least)), c.ends(int(least)-1)
		if c.long {
			continue
		}
		if err != nil || !late || early {
			t.Fatalf("case %d: %v (%v) is not the optimum second by second\n%+v %+v", n, least, err, in, p)
		}
		if report, err := verifyflush.Verify(in, best); err != nil || !report.Valid() || report.Makespan != least {
			t.Fatalf("case %d: %v %+v, want %v\n%+v %+v", n, err, report, least, in, p)
		}
		tried++
		none := *in
		none.Stages = nil
		for _, s := range in.Stages {
			if s.Sends() {
				sent++
			}
			s.OffloadMemory, s.OffloadTime = 0, 0
			none.Stages = append(none.Stages, s)
		}
		if without, _, err := flush.Search(&none, p, 200_000); errors.Is(err, exhaustive.ErrInfeasible) || err == nil && without > least {
			worth++
		}
	}
	t.Logf("%d optima, %d stages that send; in %d that is worth it", tried, sent, worth)
	if !testing.Short() && (tried < 100 || worth < 5) {
		t.Errorf("%d optima, %d stages that send; in %d that is worth it", tried, sent, worth)
	}
}

// A clock starts operations second by second.
type clock struct {
	p     platform.Platform
	tasks []task
	tail  []int // by task: from its start to the end of all behind it, at least
	seen  map[string]bool
	long  bool // there is more to try than one waits for
}

// A task is an operation.
type task struct {
	time  int
	after []int // tasks
	way   []int // by after: seconds on the way
	lane  int   // GPUs, then their links
	gpu   int
	take  float64 // at its start
	give  float64 // at its end
}

func newClock(in *stages.Partition, p platform.Platform) *clock {
	c := &clock{p: p, seen: map[string]bool{}}
	gpus := p.Processors
	last := make([][4]int, len(in.Stages)) // F, O, P, B of the micro-batch
	add := func(x task) int {
		c.tasks = append(c.tasks, x)
		return len(c.tasks) - 1
	}
	for range p.MicroBatches {
		for i := range in.Stages {
			s, g := &in.Stages[i], i%gpus
			x := task{time: int(s.ForwardTime), lane: g, gpu: g, take: s.ForwardMemory}
			if i > 0 {
				x.after, x.way = []int{last[i-1][0]}, []int{way(in, i-1, i, gpus)}
			}
			last[i][0] = add(x)
			if s.Sends() {
				last[i][1] = add(task{time: int(s.OffloadTime), after: []int{last[i][0]}, way: []int{0}, lane: gpus + g, gpu: g, give: s.OffloadMemory})
				last[i][2] = add(task{time: int(s.OffloadTime), after: []int{last[i][1]}, way: []int{0}, lane: gpus + g, gpu: g, take: s.OffloadMemory})
			}
		}
		for i := len(in.Stages) - 1; i >= 0; i-- {
			s, g := &in.Stages[i], i%gpus
			x := task{time: int(s.BackwardTime), after: []int{last[i][0]}, way: []int{0}, lane: g, gpu: g, give: -s.BackwardMemory}
			if s.Sends() {
				x.after[0] = last[i][2]
			}
			if i+1 < len(in.Stages) {
				x.after, x.way = append(x.after, last[i+1][3]), append(x.way, way(in, i, i+1, gpus))
			}
			last[i][3] = add(x)
			if s.Split() {
				add(task{time: int(s.WeightTime), after: []int{last[i][3]}, way: []int{0}, lane: g, gpu: g, give: -s.WeightMemory})
			}
		}
	}
	for i := range in.Stages { // weights are tasks that never end
		c.tasks = append(c.tasks, task{lane: -1, gpu: i % gpus, take: in.Stages[i].Weight})
	}
	return c
}

func way(in *stages.Partition, from, to, gpus int) int {
	if from%gpus == to%gpus {
		return 0
	}
	return int(in.CommunicationTime)
}

// ends reports whether all can end by then.
func (c *clock) ends(end int) bool {
	start := make([]int8, len(c.tasks)) // when they start; -1: not yet
	for i := range start {
		if start[i] = -1; c.tasks[i].lane < 0 {
			start[i] = 0
		}
	}
	clear(c.seen)
	c.tail = make([]int, len(c.tasks))
	for i := len(c.tasks) - 1; i >= 0; i-- { // behind all that they need
		x := &c.tasks[i]
		c.tail[i] += x.time
		for k, y := range x.after {
			c.tail[y] = max(c.tail[y], c.tail[i]+x.way[k])
		}
	}
	return c.by(end, 0, start)
}

// by reports whether all can end by then, from a time on.
func (c *clock) by(end, now int, start []int8) bool {
	done := true
	for i, x := range c.tasks {
		if start[i] < 0 && now+c.tail[i] > end {
			return false
		}
		if x.lane >= 0 && (start[i] < 0 || int(start[i])+x.time > now) {
			done = false
		}
	}
	if done {
		return true
	}
	key := string(append([]byte{byte(now)}, bytesOf(start)...))
	if now >= end || c.seen[key] {
		return false
	}
	if c.seen[key] = true; len(c.seen) > 30_000 {
		c.long = true
	}
	if c.long {
		return false
	}
	return c.start(end, now, 0, start)
}

func bytesOf(start []int8) []byte {
	b := make([]byte, len(start))
	for i, t := range start {
		b[i] = byte(t)
	}
	return b
}

// start tries each set of tasks from one on to start now, and goes on.
func (c *clock) start(end, now, from int, start []int8) bool {
	for i := from; i < len(c.tasks); i++ {
		if start[i] >= 0 || !c.can(i, now, start) {
			continue
		}
		start[i] = int8(now)
		if c.start(end, now, i+1, start) {
			return true
		}
		start[i] = -1
	}
	if c.held(now, start) {
		return c.by(end, now+1, start)
	}
	return false
}

// can reports whether what a task needs is there and its lane free.
func (c *clock) can(i, now int, start []int8) bool {
	x := &c.tasks[i]
	for k, y := range x.after {
		if start[y] < 0 || int(start[y])+c.tasks[y].time+x.way[k] > now {
			return false
		}
	}
	for k, y := range c.tasks {
		if y.lane == x.lane && start[k] >= 0 && int(start[k])+y.time > now {
			return false
		}
	}
	return true
}

// held reports whether what is held now has room.
func (c *clock) held(now int, start []int8) bool {
	held := make([]float64, c.p.Processors)
	for i, x := range c.tasks {
		if start[i] >= 0 {
			held[x.gpu] += x.take
			if x.lane >= 0 && int(start[i])+x.time <= now {
				held[x.gpu] -= x.give
			}
		}
	}
	for _, h := range held {
		if h > c.p.Memory {
			return false
		}
	}
	return true
}
