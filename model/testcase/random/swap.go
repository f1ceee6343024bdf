package random

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"workbench/model/instance/functions"
)

// Swap returns a random sequence of about the given numbers of functions and variables,
// no more, but at least one of each, with a memory and a bandwidth for swapping.
// Numbers are small integers, and transfers take whole times. What they are drawn
// from varies: equal sizes or not, functions that write all they use or some of
// it, variables that exist before or not, few uses or many, in two halves that
// mirror each other as forward and backward do, or anyhow. Memory is between one
// less than the least in which there is a plan and what needs no transfer, every
// other time the least.
func Swap(r *rand.Rand, most, variables int) (s *functions.Sequence, memory, bandwidth float64) {
	fewer := func(most int) int { return max(1, most-r.IntN(max(1, most/2))) }
	n, m := fewer(most), fewer(variables)
	var (
		sizes   = 1 + r.IntN(3)
		times   = 1 + r.IntN(3)
		all     = r.IntN(3) == 0 // they write all
		mirror  = r.IntN(2) == 0
		initial = r.IntN(4) // how many of three exist before
		uses    = 1 + r.IntN(2)
		empty   = r.IntN(4) == 0 // sizes may be 0
	)
	s = &functions.Sequence{Name: fmt.Sprintf("random-%d-%d", n, m), Functions: make([]functions.Function, n)}
	for v := range m {
		x := functions.Variable{ID: string(rune('a' + v)), Size: float64(1 + r.IntN(sizes))}
		if empty && r.IntN(3) == 0 {
			x.Size = 0
		}
		if r.IntN(3) < initial {
			x.Initial = []string{functions.Host, functions.Host, functions.Device}[r.IntN(3)]
		}
		s.Variables = append(s.Variables, x)
	}
	use := func(i, v int) {
		if f := &s.Functions[i]; !slices.Contains(f.Uses, v) {
			f.Uses = append(f.Uses, v)
		}
	}
	for v := range m { // each once at least
		use(r.IntN(n), v)
	}
	for i := range n {
		for range uses {
			v := r.IntN(m)
			use(i, v)
			if mirror {
				use(n-1-i, v)
			}
		}
	}
	for i := range s.Functions {
		f := &s.Functions[i]
		f.Name, f.Time = fmt.Sprintf("f%d", i+1), float64(r.IntN(times+1))
		slices.Sort(f.Uses)
		f.Writes = slices.Clone(f.Uses)
		if !all {
			f.Writes = slices.DeleteFunc(f.Writes, func(int) bool { return r.IntN(3) > 0 })
		}
		if f.Writes == nil {
			f.Writes = []int{}
		}
	}
	low, high := s.LeastMemory(), s.FullMemory()
	memory = max(0, low-1+float64(r.IntN(int(high-low)+2)))
	if r.IntN(2) == 0 {
		memory = low
	}
	return s, memory, []float64{1, 1, 0.5}[r.IntN(3)]
}
