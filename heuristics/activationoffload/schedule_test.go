package activationoffload

import (
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// device draws a platform for c whose memory is in the range where it matters.
func device(r *rand.Rand, c *chain.Chain) platform.Platform {
	low, high := view.Range(c)
	m := low
	if high > low {
		m += float64(r.IntN(int(high - low)))
	}
	return platform.Platform{Memory: m, Bandwidth: []float64{1, 1, 2, 0.5}[r.IntN(4)]}
}

// cheapest returns the least makespan over the orders of starts of the
// computations and of these transfers, each in its order, with every offload
// before every prefetch; by trying all of them.
func cheapest(in *instance, link []int) float64 {
	m := view.NewMachine(in.Instance)
	order := make([]int, 0, 4*in.N)
	best := math.Inf(1)
	var merge func(c, t int)
	merge = func(c, t int) {
		if c == 2*in.N && t == len(link) {
			best = min(best, m.Run(order))
			return
		}
		if c < 2*in.N {
			order = append(order, c)
			merge(c+1, t)
			order = order[:len(order)-1]
		}
		if t < len(link) {
			order = append(order, link[t])
			merge(c, t+1)
			order = order[:len(order)-1]
		}
	}
	merge(0, 0)
	return best
}

// events returns the transfers of ch in their order.
func events(n int, ch view.Choice) []int {
	var link []int
	for _, i := range ch.Offload {
		link = append(link, 2*n+i)
	}
	for _, i := range ch.Prefetch {
		link = append(link, 3*n+i)
	}
	return link
}

func TestScheduleEqualsAllInterleavings(t *testing.T) {
	r := testfile.Random(t, 1, 1)
	fits := 0
	for range 3000 {
		c := random.Chain(r, 1+r.IntN(5))
		p := device(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		ch := view.Choice{Offload: r.Perm(in.N)[:r.IntN(min(in.N, 3)+1)]}
		ch.Prefetch = make([]int, len(ch.Offload))
		for k, j := range r.Perm(len(ch.Offload)) {
			ch.Prefetch[k] = ch.Offload[j]
		}
		want := cheapest(in, events(in.N, ch))
		got, err := in.Schedule("test", ch)
		if err != nil {
			if !math.IsInf(want, 1) {
				t.Fatalf("%v, but a plan takes %v\n%+v %+v %+v", err, want, c, p, ch)
			}
			continue
		}
		fits++
		if math.Abs(got.Claims.Makespan-want) > 1e-9 {
			t.Fatalf("%v, best %v\n%+v %+v %+v\n%+v", got.Claims.Makespan, want, c, p, ch, got.Ops)
		}
	}
	if fits < 1000 {
		t.Fatalf("only %d choices fit", fits)
	}
}
