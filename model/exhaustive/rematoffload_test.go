package exhaustive

import (
	"errors"
	"math/rand/v2"
	"testing"
)

func TestSecondsAgainstOffload(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 5))
		c := RandomChain(r, 1+r.IntN(4))
		memory := OffloadLeastMemory(c) - 1 + float64(r.IntN(4))
		if memory < 0 {
			continue
		}
		want, _, err := Offload(c, memory, 1, states)
		got, p, err2 := searchSeconds(c, memory, 1, 1e6, true)
		if errors.Is(err, ErrInfeasible) != errors.Is(err2, ErrInfeasible) || got != want || err == nil != (err2 == nil) {
			t.Errorf("seed %d: %g %v, second by second %g %v", seed, want, err, got, err2)
		}
		if err2 == nil {
			checkOffload(t, c, p)
		}
	}
}

func TestRematOffload(t *testing.T) {
	better := 0
	for n := 1; n <= 4; n++ {
		sum, most := 0, 0
		for seed := range uint64(40) {
			r := rand.New(rand.NewPCG(seed, uint64(n)))
			c := RandomChain(r, n)
			low, err := RematLeastMemory(c, states)
			if err != nil {
				t.Fatal(err)
			}
			memory := low + float64(r.IntN(3))
			remat, _, err := Remat(c, memory, states)
			if err != nil {
				t.Fatal(err)
			}
			s, err := newSeconds(c, memory, 1, 3e6, false)
			if err != nil {
				t.Fatal(err)
			}
			last, err := s.search()
			if err != nil {
				t.Errorf("n %d seed %d: %v", n, seed, err)
				continue
			}
			p := s.plan(c, platformOf(memory, 1), last)
			checkOffload(t, c, p)
			got := float64(s.nodes[last].time)
			if got > remat {
				t.Errorf("%g, without offloads %g", got, remat)
			}
			if got < remat {
				better++
			}
			offload, _, err := Offload(c, memory, 1, states)
			if err == nil && got > offload {
				t.Errorf("n %d seed %d: %g, without recomputing %g", n, seed, got, offload)
			}
			sum += len(s.nodes)
			most = max(most, len(s.nodes))
		}
		t.Logf("%d layers: %d states on average, at most %d", n, sum/40, most)
	}
	t.Logf("%d better", better)
}
