package remat

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"

	optimumremat "workbench/model/exhaustive/remat"
	"workbench/model/instance/chain"
	"workbench/model/platform"
	model "workbench/model/problem/remat"
	"workbench/model/testfile"
)

// swept is a state of a search in which forwards ascend, in so many sweeps from
// backward to backward.
type swept struct {
	x            held
	layer, sweep int // of the last forward
}

type sweptAt struct {
	x    swept
	time float64
}

type sweptQueue []sweptAt

func (q sweptQueue) Len() int           { return len(q) }
func (q sweptQueue) Less(i, j int) bool { return q[i].time < q[j].time }
func (q sweptQueue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *sweptQueue) Push(x any)        { *q = append(*q, x.(sweptAt)) }
func (q *sweptQueue) Pop() any {
	last := len(*q) - 1
	x := (*q)[last]
	*q = (*q)[:last]
	return x
}

// inSweeps returns the least makespan of plans with at most so many sweeps
// before each backward: what the chain MILP finds. +Inf: there is none.
func inSweeps(v *model.View, memory float64, sweeps int) float64 {
	done := map[swept]bool{}
	queue := &sweptQueue{{x: swept{x: held{a: 1, next: v.N}, sweep: 1}}}
	for queue.Len() > 0 {
		at := heap.Pop(queue).(sweptAt)
		if at.x.x.next == 0 {
			return at.time
		}
		if done[at.x] {
			continue
		}
		done[at.x] = true
		steps(v, at.x.x, size(v, at.x.x), func(y held, do move, duration, need float64) {
			to := swept{y, int(do.layer), at.x.sweep}
			switch {
			case need > memory:
				return
			case do.op == moveB:
				to.layer, to.sweep = 0, 1
			case to.layer <= at.x.layer:
				to.sweep++
			}
			if to.sweep <= sweeps {
				heap.Push(queue, sweptAt{to, at.time + duration})
			}
		})
	}
	return math.Inf(1)
}

// Two ascending sweeps before each backward are enough on small chains, and one
// nearly always is: what docs/formulations/chain-milp.md says of the sweeps of
// the chain MILP. The chains are drawn such that one sometimes is not.
func TestSweeps(t *testing.T) {
	r := testfile.Random(t, 7, 2)
	cases := testfile.Cases(3000)
	failed := 0
	for k := range cases {
		c := anyChain(r, 5, k%8)
		for i := range c.Layers {
			uneven(r, &c.Layers[i])
		}
		least, err := optimumremat.LeastMemory(c, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		p := platform.Platform{Memory: max(1, least+float64(r.IntN(3)))}
		best, err := Optimum(t.Context(), c, p, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := model.FromChain(c)
		if inSweeps(v, p.Memory, 1) > best.Value {
			failed++
			if inSweeps(v, p.Memory, 2) > best.Value {
				t.Errorf("two sweeps are not enough: %+v in %g", c, p.Memory)
			}
		}
	}
	if failed > cases/100 {
		t.Errorf("one sweep is not enough in %d of %d", failed, cases)
	}
	// One sweep is not enough here.
	c := layers(0, []float64{0, 0, 2}, []float64{0, 0, 0}, []float64{0, 3, 5})
	for i := range c.Layers {
		c.Layers[i].Saved = 1
	}
	c.Layers[1].Gradient = 3
	if got := inSweeps(model.FromChain(c), 6, 1); !math.IsInf(got, 1) {
		t.Errorf("one sweep: %g; there should be no plan", got)
	}
	if got := inSweeps(model.FromChain(c), 6, 2); got != 2 {
		t.Errorf("two sweeps: %g, should be 2", got)
	}
}

// uneven makes large overheads and gradients likely.
func uneven(r *rand.Rand, l *chain.Layer) {
	if r.IntN(3) == 0 {
		l.Gradient += float64(r.IntN(9))
	}
	if r.IntN(3) == 0 {
		l.ForwardOverhead += float64(r.IntN(9))
	}
	if r.IntN(3) == 0 {
		l.ForwardTime = 0
	}
	if r.IntN(2) == 0 {
		l.Activation = float64(r.IntN(2))
		l.Saved = l.Activation + float64(r.IntN(2))
	}
	l.ClampOverhead()
}
