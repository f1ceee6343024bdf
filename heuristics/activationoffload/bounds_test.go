package activationoffload

import (
	"math"
	"slices"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// The fractional optimum is reached: with the forward phase of the eager schedule
// at its times, the backward phase at T minus its times, and transfers of Q bytes
// of each phase, no operation lacks memory at any instant and the link carries
// one transfer at a time. With the proof that nothing is shorter, this is
// Theorem 8.
func TestFractionalIsReached(t *testing.T) {
	r := testfile.Random(t, 11, 11)
	for k := range 3000 {
		c := random.Chain(r, 1+r.IntN(10))
		p := device(r, c)
		if k%2 == 0 {
			smooth(r, c)
			p.Memory, p.Bandwidth = between(r, c), 1000*p.Bandwidth
		}
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		o, err := view.Fractional(c, p)
		if err != nil {
			t.Fatal(err)
		}
		checkFractional(t, in, o)
		if lb := in.LB(); o.Makespan < lb*(1-1e-9) {
			t.Fatalf("fractional %v, below LB %v", o.Makespan, lb)
		}
		kept := o.Offloaded - o.Part
		for i := range o.Whole {
			kept -= in.Abar[i]
		}
		if math.Abs(kept) > 1e-6 || o.Whole < in.N && o.Part > in.Abar[o.Whole] {
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
	for i := range in.N {
		done := in.Before[i]
		if done >= Q {
			break
		}
		size := min(in.Abar[i], Q-done)
		s.at = append(s.at, send[i], send[i]+size/in.Bandwidth)
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

func checkFractional(t *testing.T, in *instance, o *view.FractionalOptimum) {
	t.Helper()
	e := in.Fractional()
	T, slack := o.Makespan, 1e-9*(o.Makespan+1)
	out, back := sending(in, e.Send, o.Offloaded), sending(in, e.Fetch, o.Offloaded)
	if out.at[len(out.at)-1] > T-back.at[len(back.at)-1]+slack {
		t.Fatalf("the last offload ends at %v, the first prefetch starts at %v", out.at[len(out.at)-1], T-back.at[len(back.at)-1])
	}
	if e.Fwd[in.N] > T-e.Bwd[in.N]+slack {
		t.Fatal("the backward phase starts before the forward phase ends")
	}
	instants := slices.Clone(out.at)
	for _, at := range back.at {
		instants = append(instants, T-at)
	}
	for i := range in.N {
		if e.Send[i] < e.Fwd[i] || e.Fetch[i] < e.Bwd[i+1] {
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
			if stored := in.Before[l] - min(away(at), in.Before[l-1]) + need; stored > in.Memory+1e-6*(1+in.Memory) {
				t.Fatalf("%s_%d has %v bytes at %v, of %v; T %v\n%+v %+v", name, l, stored, at, in.Memory, T, in.Chain, in.Platform)
			}
		}
	}
	for l := 1; l <= in.N; l++ {
		check("F", l, e.FwdAt[l], e.FwdAt[l]+in.UF[l], in.NeedF[l])
		end := T - e.BwdAt[l]
		check("B", l, end-in.UB[l], end, in.NeedB[l])
	}
}

// The frontier finds the least time to send a set of so many bytes, and to send
// and fetch it, as trying all sets does; with few sets held it finds no more.
func TestFrontierEqualsAllSets(t *testing.T) {
	r := testfile.Random(t, 12, 12)
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
		exact, few := view.NewFrontier(1<<n, top), view.NewFrontier(4, top)
		for i := range n {
			exact.Add(bytes[i], bytes[i]/2, send[i], fetch[i])
			few.Add(bytes[i], bytes[i]/2, send[i], fetch[i])
		}
		cost := func(a view.Shipment) float64 { return max(a.Out, 3) + a.Back }
		want := math.Inf(1)
		for set := range 1 << n {
			var a view.Shipment
			for i := range n {
				if set&(1<<i) != 0 {
					a = view.Shipment{Bytes: a.Bytes + bytes[i], Out: max(a.Out, send[i]) + bytes[i]/2, Back: max(a.Back, fetch[i]) + bytes[i]/2}
				}
			}
			if a.Bytes >= need {
				want = min(want, cost(a))
			}
		}
		if got := exact.Least(need, cost); got != want {
			t.Fatalf("%v, by all sets %v", got, want)
		}
		if got := few.Least(need, cost); got > want {
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
	if x := in.WholeTensors(); x.Forward[4] != 6 {
		t.Errorf("%v bytes away during F_4, want 6", x.Forward[4])
	}
	// 12 bytes have to go, of tensors of 3, 5 and 5: all of them.
	c.Input.Activation, c.Layers[0].Saved, c.Layers[1].Saved = 3, 5, 5
	c.Layers[0].Activation, c.Layers[1].Activation = 5, 5
	if in, err = newInstance(c, p); err != nil {
		t.Fatal(err)
	}
	if x := in.WholeTensors(); x.Forward[4] != 13 {
		t.Errorf("%v bytes away during F_4, want 13", x.Forward[4])
	}
}
