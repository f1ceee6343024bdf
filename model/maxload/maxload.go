// Package maxload is the problem of Tarnawski, Phanishayee, Devanur, Mahajan and Nina
// Paravecino, Efficient Algorithms for Device Placement of DNN Graph Operators, NeurIPS
// 2020: operations of a network are spread over accelerators and CPUs so that the
// load of the busiest device, which is the time per sample of a pipeline, is least.
//
// Their costs are not those of pipelines here (model/problem/pipeline): an accelerator is busy
// with its operations and, not at the same time, with every value that crosses the border
// of its set, once in and once out, as all goes by the host; a CPU pays for its
// operations alone. There is no time on links, no schedule, and the memory of an
// operation is a number that does not depend on how many samples are in flight.
package maxload

import (
	"fmt"
	"math"
	"slices"

	"workbench/model/platform"
)

// Instance is operations and devices. Times are in milliseconds, sizes in bytes, as in
// the files of the data set.
type Instance struct {
	Name               string
	Accelerators, CPUs int     // devices 0..Accelerators-1, and those after them
	Memory             float64 // of an accelerator
	Parts              []Part
	Values             []Value
	// Before are pairs of parts of which a sample needs the first before the second in its
	// forward: what makes sets contiguous. There may be cycles.
	Before [][2]int
}

// A Part is operations that are on one device: a colour class of the file, which a
// forward operation shares with its backward.
type Part struct {
	Name             string
	Accelerator, CPU float64 // time; an accelerator that cannot have it takes +Inf
	Size             float64
}

// A Value is what an operation writes.
type Value struct {
	Cost  float64 // time to move it between an accelerator and the host
	Parts []int   // of the operation and of those that read it, each once, at least two
}

// Devices is the number of devices.
func (in *Instance) Devices() int { return in.Accelerators + in.CPUs }

// Load is the time that a sample takes on a device that has the parts of a set, by part;
// +Inf if it cannot have them. O(parts + Σ readers).
func (in *Instance) Load(accelerator bool, set []bool) float64 {
	load, size := 0.0, 0.0
	for i := range in.Parts {
		switch {
		case set[i] && accelerator:
			load += in.Parts[i].Accelerator
			size += in.Parts[i].Size
		case set[i]:
			load += in.Parts[i].CPU
		}
	}
	if !accelerator {
		return load
	}
	if !platform.Fits(size, in.Memory) {
		return math.Inf(1)
	}
	for k := range in.Values {
		first := set[in.Values[k].Parts[0]]
		if slices.ContainsFunc(in.Values[k].Parts, func(p int) bool { return set[p] != first }) {
			load += in.Values[k].Cost
		}
	}
	return load
}

// MaxLoad judges a split, the device of each part: the load of the busiest device. The
// error says what cannot be. O(devices·(parts + Σ readers)).
func (in *Instance) MaxLoad(device []int) (float64, error) {
	if len(device) != len(in.Parts) {
		return 0, fmt.Errorf("a split of %d parts for the %d of %q", len(device), len(in.Parts), in.Name)
	}
	for i, d := range device {
		if d < 0 || d >= in.Devices() {
			return 0, fmt.Errorf("%q is on device %d of %d", in.Parts[i].Name, d, in.Devices())
		}
	}
	most := 0.0
	for d := range in.Devices() {
		load := in.Load(d < in.Accelerators, in.set(device, d))
		if math.IsInf(load, 1) {
			return 0, fmt.Errorf("accelerator %d cannot have its parts: they need more than %g bytes, or one runs on CPUs only", d, in.Memory)
		}
		most = max(most, load)
	}
	return most, nil
}

// set is the parts on a device.
func (in *Instance) set(device []int, d int) []bool {
	set := make([]bool, len(device))
	for i := range device {
		set[i] = device[i] == d
	}
	return set
}

// Contiguous reports whether the set of every device is: no path of Before leaves it and
// comes back (Tarnawski et al.). Two such sets may still need each other, and then
// no order of the devices is a pipeline. O(devices·parts·pairs).
func (in *Instance) Contiguous(device []int) bool {
	for d := range in.Devices() {
		set := in.set(device, d)
		left := make([]bool, len(set)) // reached by a path that has left the set
		for changed := true; changed; {
			changed = false
			for _, e := range in.Before {
				u, v := e[0], e[1]
				if (set[u] || left[u]) && !set[v] && !left[v] {
					left[v], changed = true, true
				}
				if left[u] && set[v] {
					return false
				}
			}
		}
	}
	return true
}

// Groups numbers the parts so that those on a cycle of Before, which no contiguous split
// parts, have one number. O(parts·pairs·parts/64) at worst.
func (in *Instance) Groups() (group []int, groups int) {
	n := len(in.Parts)
	words := (n + 63) / 64
	after := make([]uint64, n*words)
	row := func(i int) []uint64 { return after[i*words : (i+1)*words] }
	for changed := true; changed; {
		changed = false
		for _, e := range in.Before {
			from, to := row(e[0]), row(e[1])
			for w := range from {
				more := from[w] | to[w]
				if w == e[1]/64 {
					more |= 1 << (e[1] % 64)
				}
				changed = changed || more != from[w]
				from[w] = more
			}
		}
	}
	follows := func(a, b int) bool { return row(a)[b/64]>>(b%64)&1 != 0 }
	group = slices.Repeat([]int{-1}, n)
	for i := range n {
		if group[i] >= 0 {
			continue
		}
		group[i] = groups
		for j := i + 1; j < n; j++ {
			if follows(i, j) && follows(j, i) {
				group[j] = groups
			}
		}
		groups++
	}
	return group, groups
}
