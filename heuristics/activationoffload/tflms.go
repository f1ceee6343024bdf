package activationoffload

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// TFLMS returns the best plan that offloads the first count activations as soon as they are
// produced and prefetches ā_i when B_{i+1+ahead} starts, over all pairs of count and ahead ([004]
// 3.4.1). Nothing waits for memory, as the method does not know the limit: a pair that does not fit
// yields no plan, and if no pair fits, there is none ([004] 3.4.2). O(N³), less as soon as the
// forward phase does not fit.
//
// It is never better than Greedy. Proof: its set contains that of Greedy, as otherwise something
// would not fit. Omit the other transfers: whenever one of them would have had its tensor away, all
// of Greedy's set is away too, which has M_peak − M bytes, so everything fits (the integral case of
// [004] Lemma 6). That is a plan for Greedy's set in sorted order, and the no-wait one is no
// longer.
func TFLMS(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	t := newTFLMS(in)
	t.grid(ctx)
	if math.IsInf(t.T, 1) {
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("offload: tflms: %w: %w", plan.ErrNoPlan, err)
		}
		return nil, fmt.Errorf("offload: tflms: %w: with any number of activations offloaded, some operation would wait for memory",
			plan.ErrNoPlan)
	}
	T := t.m.Run(t.order) // the same times: nothing waits
	return t.m.Plan("tflms", t.order, T), nil
}

// tflms is the state of the method.
type tflms struct {
	in    *instance
	m     *view.Machine
	queue []int // transfers in the order in which they are asked for
	at    []float64
	work  []int
	order []int // the best so far
	T     float64
}

func newTFLMS(in *instance) *tflms {
	return &tflms{in: in, m: view.NewMachine(in.Instance), at: make([]float64, 2*in.N), T: math.Inf(1)}
}

// grid tries all numbers.
func (t *tflms) grid(ctx context.Context) {
	in := t.in
	t.try(0, 1)
	for count := 1; count < in.N && ctx.Err() == nil; count++ {
		if in.Abar[count-1] == 0 {
			continue
		}
		for ahead := 1; ahead < in.N; ahead++ {
			if !t.try(count, ahead) && t.m.Begun > in.N {
				break // it did not come to the backward phase
			}
		}
	}
}

// try offloads ā_0..ā_{count-1}, prefetches them ahead, and keeps the order if it is better. It
// reports false if it does not fit. ā_{N-1}, which B_N uses at once, is not offloaded. O(N).
func (t *tflms) try(count, ahead int) bool {
	in, m, n := t.in, t.m, t.in.N
	m.Reset()
	m.Hurry = true
	defer func() { m.Hurry = false }()
	t.queue, t.work = t.queue[:0], t.work[:0]
	ask := func(e int, now float64) {
		t.at[len(t.queue)] = now
		t.queue = append(t.queue, e)
	}
	if count > 0 && in.Abar[0] > 0 {
		ask(2*n, 0)
	}
	next, now := 0, 0.0
	for e := 0; e < 2*n; {
		compute := max(now, m.Compute.End)
		if l := 2*n - e; e >= n && l <= count && in.Abar[l-1] > 0 {
			if m.Back[l-1] < 0 {
				compute = math.Inf(1) // its fetch comes first
			} else {
				compute = max(compute, m.Back[l-1])
			}
		}
		link := math.Inf(1)
		if next < len(t.queue) {
			link = max(now, m.Link.End, t.at[next])
		}
		doing := e
		if link < compute {
			doing = t.queue[next]
			next++
		}
		at, ok := m.Begin(doing, now)
		if !ok {
			return false
		}
		t.work = append(t.work, doing)
		now = at
		if doing != e {
			continue
		}
		e++
		switch {
		case doing < n: // F_ℓ
			if l := doing + 1; l < count && in.Abar[l] > 0 {
				ask(2*n+l, m.Compute.End)
			}
		default: // B_ℓ
			l := 2*n - doing
			from := l - 1 - ahead
			to := from
			if l == n {
				to = count - 1
			}
			for i := min(to, count-1); i >= max(0, from); i-- {
				if in.Abar[i] > 0 {
					ask(3*n+i, now)
				}
			}
		}
	}
	if T := m.Compute.End; T < t.T {
		t.T = T
		t.order = append(t.order[:0], t.work...)
	}
	return true
}
