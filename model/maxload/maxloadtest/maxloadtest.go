// Package maxloadtest has what the tests of methods for max-load share: random tiny
// instances, and their optimum by trying every split.
package maxloadtest

import (
	"math"
	"math/rand/v2"

	"workbench/model/maxload"
)

// Random returns an instance of n parts on one to four devices, some of which are scarce of memory.
func Random(r *rand.Rand, n int) *maxload.Instance {
	in := &maxload.Instance{Name: "random", Accelerators: r.IntN(4), CPUs: r.IntN(2), Memory: float64(2 + r.IntN(12))}
	if in.Devices() == 0 {
		in.Accelerators = 2
	}
	for range n {
		p := maxload.Part{Name: "p", Accelerator: float64(r.IntN(9)), CPU: float64(r.IntN(40)), Size: float64(r.IntN(5))}
		if r.IntN(12) == 0 {
			p.Accelerator = math.Inf(1)
		}
		in.Parts = append(in.Parts, p)
	}
	for i := range n {
		v := maxload.Value{Cost: float64(r.IntN(5)) / 4, Parts: []int{i}}
		for j := range n {
			if j == i {
				continue
			}
			if j > i && r.IntN(3) == 0 || r.IntN(40) == 0 {
				in.Before = append(in.Before, [2]int{i, j})
				v.Parts = append(v.Parts, j)
			} else if r.IntN(12) == 0 { // a backward
				v.Parts = append(v.Parts, j)
			}
		}
		if len(v.Parts) > 1 {
			in.Values = append(in.Values, v)
		}
	}
	return in
}

// Best returns the least max-load of the splits that are wanted, +Inf if there are none.
// O(devices^parts).
func Best(in *maxload.Instance, wanted func(device []int) bool) float64 {
	best := math.Inf(1)
	device := make([]int, len(in.Parts))
	for {
		if load, err := in.MaxLoad(device); err == nil && load < best && wanted(device) {
			best = load
		}
		i := 0
		for ; i < len(device); i++ {
			if device[i]++; device[i] < in.Devices() {
				break
			}
			device[i] = 0
		}
		if i == len(device) {
			return best
		}
	}
}
