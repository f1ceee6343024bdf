package functions_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/swap"
	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/testcase/random"
)

// described writes a sequence in a few words a function: what it reads, and after
// an arrow what it writes.
func described(s *functions.Sequence) (lines []string) {
	for i := range s.Functions {
		f := &s.Functions[i]
		line := f.Name + ":"
		for _, v := range f.Uses {
			if !slices.Contains(f.Written(), v) {
				line += " " + s.Variables[v].ID
			}
		}
		line += " →"
		for _, v := range f.Written() {
			line += " " + s.Variables[v].ID
		}
		lines = append(lines, line)
	}
	return lines
}

func TestOf(t *testing.T) {
	c := &chain.Chain{
		Name: "two", Samples: 4, Input: chain.Input{Activation: 3, Gradient: 2},
		Layers: []chain.Layer{
			{Name: "conv", ForwardTime: 1, BackwardTime: 2, Activation: 4, Saved: 5, Gradient: 4, ForwardOverhead: 7, Weight: 6},
			{ForwardTime: 3, BackwardTime: 4, Activation: 1, Saved: 1, Gradient: 1, BackwardOverhead: 8},
		},
	}
	s := functions.FromChain(c)
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"F1 conv: a0 w1 → abar1 oF1",
		"F2: abar1 → abar2",
		"B2: abar1 abar2 delta2 → delta1 oB2",
		"B1 conv: a0 abar1 delta1 → delta0 w1 dw1",
		"end: w1 →",
	}
	if diff := cmp.Diff(want, described(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var kinds, initial []string
	sizes := map[string]float64{}
	for i := range s.Functions {
		kinds = append(kinds, s.Functions[i].Kind)
	}
	for _, v := range s.Variables {
		sizes[v.ID] = v.Size
		if v.Initial == functions.Device {
			initial = append(initial, v.ID)
		}
	}
	if diff := cmp.Diff([]string{"forward", "loss", "backward", "backward", "backward"}, kinds); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"a0", "w1"}, initial); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]float64{
		"a0": 3, "delta0": 2, "abar1": 5, "abar2": 1, "delta1": 4, "delta2": 1, "w1": 6, "dw1": 6, "oF1": 7,
		"oB2": 8,
	}, sizes); diff != "" {
		t.Error(diff)
	}
	// F1: 3 + 6 + 5 + 7; B2: all of a0, w1, ā1, ā2 and δ2, δ1, overhead.
	if s.TotalTime() != 10 || s.LeastMemory() != 3+5+4+2+6+6 || s.FullMemory() != 3+6+5+1+1+4+8 || s.Samples != 4 || s.Name != "two" {
		t.Errorf("%s: time %g, least memory %g, memory without transfers %g", s.Name, s.TotalTime(), s.LeastMemory(), s.FullMemory())
	}
}

// Without weights the memory of a chain is that of activation offloading.
func TestOfMemory(t *testing.T) {
	for seed := range uint64(500) {
		c := random.Chain(rand.New(rand.NewPCG(seed, 31)), 1+int(seed%6))
		s := functions.FromChain(c)
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		full, least := random.OffloadPeak(c), max(c.Input.Activation, random.OffloadLeastMemory(c))
		if s.FullMemory() != full || s.LeastMemory() != least || s.TotalTime() != c.TotalTime() {
			t.Errorf("seed %d: memory %g to %g, want %g to %g", seed, s.LeastMemory(), s.FullMemory(), least, full)
		}
	}
}

// Without links there is a plan, of no idle time, exactly from that memory on.
func TestFullMemory(t *testing.T) {
	tried := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 32))
		s, _, _ := random.Swap(r, 5, 5)
		for v := range s.Variables {
			if s.Variables[v].Initial == functions.Host {
				s.Variables[v].Initial = functions.Device
			}
		}
		full := s.FullMemory()
		if got, _, err := optimum.Search(s, full, 0, 1, 1e5); err != nil || got != s.TotalTime() {
			t.Errorf("seed %d: makespan %g, error %v; want %g", seed, got, err, s.TotalTime())
		}
		if full > 0 {
			tried++
			if _, _, err := optimum.Search(s, full-0.5, 0, 1, 1e5); !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Errorf("seed %d: half a byte less than %g is enough: %v", seed, full, err)
			}
		}
	}
	if tried < 100 {
		t.Errorf("only %d sequences need memory", tried)
	}
}

func TestUses(t *testing.T) {
	s := smallSequence()
	if diff := cmp.Diff([]int{3, 2, 2}, s.LastUse()); diff != "" {
		t.Error(diff)
	}
	if s.Len() != 4 || s.TotalTime() != 1.5 {
		t.Errorf("%d functions, %g s", s.Len(), s.TotalTime())
	}
	s.Functions[3].Writes = nil
	if w := s.Functions[3].Written(); !slices.Equal(w, []int{0}) {
		t.Errorf("f_4 writes %v", w)
	}
}
