package offload

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/platform"
)

// The fractional optimum is reached: with the forward phase of the eager schedule
// at its times, the backward phase at T minus its times, and transfers of Q bytes
// of each phase, no operation lacks memory at any instant and the link carries
// one transfer at a time. With the proof that nothing is shorter, this is
// Theorem 8.
func TestFractionalIsReached(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for k := range 3000 {
		c := exhaustive.RandomChain(r, 1+r.IntN(10))
		p := device(r, c)
		if k%2 == 0 {
			smooth(r, c)
			low, high := Range(c)
			p.Memory = low + r.Float64()*(high-low)
		}
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Fractional(c, p)
		if err != nil {
			t.Fatal(err)
		}
		checkFractional(t, in, o)
		if lb := in.lb(); o.Makespan < lb*(1-1e-9) {
			t.Fatalf("fractional %v, below LB %v", o.Makespan, lb)
		}
		kept := o.Offloaded - o.Part
		for i := range o.Whole {
			kept -= in.abar[i]
		}
		if math.Abs(kept) > 1e-6 || o.Whole < in.n && o.Part > in.abar[o.Whole] {
			t.Fatalf("%+v do not add up", o)
		}
	}
}

// line is the cumulative number of bytes sent over time: straight between points.
type line struct{ at, bytes []float64 }

// sending is what the link has sent of the first Q bytes when ā_i starts at
// send[i].
func sending(in *instance, send []float64, Q float64) line {
	s := line{[]float64{0}, []float64{0}}
	for i := range in.n {
		done := in.before[i]
		if done >= Q {
			break
		}
		size := min(in.abar[i], Q-done)
		s.at = append(s.at, send[i], send[i]+size/in.beta)
		s.bytes = append(s.bytes, done, done+size)
	}
	return s
}

func (s line) of(t float64) float64 {
	k, _ := slices.BinarySearch(s.at, t)
	switch {
	case k == len(s.at):
		return s.bytes[k-1]
	case k == 0:
		return s.bytes[0]
	}
	if s.at[k] == s.at[k-1] {
		return s.bytes[k]
	}
	return s.bytes[k-1] + (s.bytes[k]-s.bytes[k-1])*(t-s.at[k-1])/(s.at[k]-s.at[k-1])
}

func checkFractional(t *testing.T, in *instance, o *FractionalOptimum) {
	t.Helper()
	e := in.fractional()
	T, slack := o.Makespan, 1e-9*(o.Makespan+1)
	out, back := sending(in, e.send, o.Offloaded), sending(in, e.fetch, o.Offloaded)
	if out.at[len(out.at)-1] > T-back.at[len(back.at)-1]+slack {
		t.Fatalf("the last offload ends at %v, the first prefetch starts at %v", out.at[len(out.at)-1], T-back.at[len(back.at)-1])
	}
	if e.fwd[in.n] > T-e.bwd[in.n]+slack {
		t.Fatal("the backward phase starts before the forward phase ends")
	}
	instants := slices.Clone(out.at)
	for _, at := range back.at {
		instants = append(instants, T-at)
	}
	for i := range in.n {
		if e.send[i] < e.fwd[i] || e.fetch[i] < e.bwd[i+1] {
			t.Fatalf("abar_%d is sent before F_%d has ended, or fetched after B_%d has started", i, i, i+1)
		}
	}
	// Away are the bytes sent and not yet being fetched.
	away := func(at float64) float64 { return out.of(at) + back.of(T-at) - o.Offloaded }
	check := func(name string, l int, from, to, need float64) {
		for _, at := range append([]float64{from, to}, instants...) {
			if at < from || at > to {
				continue
			}
			if stored := in.before[l] - min(away(at), in.before[l-1]) + need; stored > in.limit+1e-6*(1+in.limit) {
				t.Fatalf("%s_%d has %v bytes at %v, of %v; T %v\n%+v %+v", name, l, stored, at, in.limit, T, in.chain, in.platform)
			}
		}
	}
	for l := 1; l <= in.n; l++ {
		check("F", l, e.fwdAt[l], e.fwdAt[l]+in.uF[l], in.needF[l])
		end := T - e.bwdAt[l]
		check("B", l, end-in.uB[l], end, in.needB[l])
	}
}

// The frontier finds the least time to send a set of so many bytes, and to send
// and fetch it, as trying all sets does; with few sets held it finds no more.
func TestFrontierEqualsAllSets(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for range 2000 {
		n := 1 + r.IntN(8)
		bytes, send, fetch := make([]float64, n), make([]float64, n), make([]float64, n)
		top := 0.0
		for i := range n {
			bytes[i] = float64(r.IntN(6))
			send[i], fetch[i] = float64(r.IntN(4)), float64(r.IntN(4))
			if i > 0 {
				send[i] += send[i-1]
				fetch[i] += fetch[i-1]
			}
			top += bytes[i]
		}
		need := float64(r.IntN(int(top) + 1))
		exact, few := newFrontier(1<<n, top), newFrontier(4, top)
		for i := range n {
			exact.add(bytes[i], bytes[i]/2, send[i], fetch[i])
			few.add(bytes[i], bytes[i]/2, send[i], fetch[i])
		}
		cost := func(a shipment) float64 { return max(a.out, 3) + a.back }
		want := math.Inf(1)
		for set := range 1 << n {
			var a shipment
			for i := range n {
				if set&(1<<i) != 0 {
					a = shipment{a.bytes + bytes[i], max(a.out, send[i]) + bytes[i]/2, max(a.back, fetch[i]) + bytes[i]/2}
				}
			}
			if a.bytes >= need {
				want = min(want, cost(a))
			}
		}
		if got := exact.least(need, cost); got != want {
			t.Fatalf("%v, by all sets %v", got, want)
		}
		if got := few.least(need, cost); got > want {
			t.Fatalf("with few sets %v, more than %v", got, want)
		}
	}
}

// Whole tensors have to be sent: with 5 of 6 bytes to go, in tensors of 2, it is 6.
func TestWholeTensors(t *testing.T) {
	c := chainOf(4, chain.Layer{ForwardTime: 1, BackwardTime: 1, Activation: 2, Saved: 2})
	c.Layers[3].ForwardOverhead = 5
	p := platform.Platform{Memory: 10, Bandwidth: 0.5}
	in, err := newInstance(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if x := in.wholeTensors(); x.forward[4] != 6 {
		t.Errorf("%v bytes away during F_4, want 6", x.forward[4])
	}
	// 12 bytes have to go, of tensors of 3, 5 and 5: all of them.
	c.Input.Activation, c.Layers[0].Saved, c.Layers[1].Saved = 3, 5, 5
	c.Layers[0].Activation, c.Layers[1].Activation = 5, 5
	if in, err = newInstance(c, p); err != nil {
		t.Fatal(err)
	}
	if x := in.wholeTensors(); x.forward[4] != 13 {
		t.Errorf("%v bytes away during F_4, want 13", x.forward[4])
	}
}
