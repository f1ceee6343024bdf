// Package swap is the model of out-of-core execution that methods and formulations share ([003]):
// the validated instance with its feasibility, and closed-form bounds.
//
//   - [Instance] is a sequence of functions on a platform; [New] reports whether a plan exists,
//     [Range]
//     from which memory on no transfer out is needed.
//   - [Bounds] hold for every plan.
//
// Functions are numbered from 1 in texts, as in [003], and from 0 in the code. Sizes are integers,
// so their sums are exact and are compared without a tolerance.
//
// [003] is "Out-of-core training for extremely large-scale neural networks with adaptive
// window-based scheduling", by anonymous authors: the copy is under review and has no year.
package swap

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Swap

// Errors of invalid input.
var (
	ErrSequence = errors.New("sequence unfit for swapping")
	ErrPlatform = errors.New("platform unfit for swapping")
)

// Instance is a sequence in flat slices with derived data that every method needs. Variables of
// size 0 are everywhere at all times and are not among the uses.
type Instance struct {
	N     int       // number of functions
	Times []float64 // their durations, seconds
	Size  []float64 // by variable, bytes
	Move  []float64 // by variable: transfer time, seconds

	// f_i uses Use[At[i]:At[i+1]]. Next is the next function that uses the variable, N if none.
	// Writes is true if f_i changes or makes it.
	At     []int
	Use    []int
	Next   []int
	Writes []bool

	First   []int // by variable: the first function that uses it
	Initial []string

	Memory  float64 // M, bytes
	Instant float64 // seconds: transfers shorter than this may have zero duration

	Sequence *functions.Sequence
	Platform platform.Platform
}

// New validates s and p and returns their instance. The errors wrap ErrSequence or ErrPlatform, or
// are a *plan.Infeasible if no plan fits. O(functions + variables + uses).
func New(s *functions.Sequence, p platform.Platform) (*Instance, error) {
	if s == nil {
		return nil, fmt.Errorf("%w: there is none", ErrSequence)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %q: %w", ErrSequence, s.Name, err)
	}
	if !(p.Memory >= 0) || math.IsInf(p.Memory, 0) {
		return nil, fmt.Errorf("%w: memory is %v bytes, it must be finite and not negative", ErrPlatform, p.Memory)
	}
	if !(p.Bandwidth > 0) || math.IsInf(p.Bandwidth, 0) {
		return nil, fmt.Errorf("%w: bandwidth is %v bytes per second, it must be positive and finite", ErrPlatform, p.Bandwidth)
	}
	in := newView(s)
	in.Platform, in.Memory = p, p.Memory
	sizes, times := 0.0, s.TotalTime()
	for v, size := range in.Size {
		in.Move[v] = size / p.Bandwidth
		sizes += size
	}
	for _, v := range in.Use {
		times += 2 * in.Move[v]
	}
	in.Instant = 2 * plan.Tolerance * times
	if math.IsInf(2*sizes, 1) || math.IsInf(2*times, 1) {
		return nil, fmt.Errorf("%w: %q: its sizes or times, transfers included, add up to more than a float64 holds", ErrSequence, s.Name)
	}
	if low, why := in.least(); !platform.Fits(low, p.Memory) {
		return nil, &plan.Infeasible{Problem: Problem, Memory: low, Given: p.Memory, Why: why}
	}
	return in, nil
}

// newView returns the part of an instance that depends on the sequence only.
func newView(s *functions.Sequence) *Instance {
	n, vs := s.Len(), len(s.Variables)
	flat := make([]float64, n+2*vs)
	in := &Instance{
		N: n, Times: flat[:n:n], Size: flat[n : n+vs : n+vs], Move: flat[n+vs:],
		At: make([]int, n+1), First: make([]int, vs), Initial: make([]string, vs), Sequence: s,
	}
	for v := range s.Variables {
		in.Size[v], in.Initial[v], in.First[v] = s.Variables[v].Size, s.Variables[v].Initial, n
	}
	written := make([]int, vs) // by variable: the last function that wrote it, from 1
	for i := range s.Functions {
		f := &s.Functions[i]
		in.Times[i] = f.Time
		for _, v := range f.Written() {
			written[v] = i + 1
		}
		for _, v := range f.Uses {
			if in.Size[v] == 0 {
				continue
			}
			in.First[v] = min(in.First[v], i)
			in.Use = append(in.Use, v)
			in.Writes = append(in.Writes, written[v] == i+1 || in.Initial[v] == functions.Nowhere && in.First[v] == i)
		}
		in.At[i+1] = len(in.Use)
	}
	in.Next = make([]int, len(in.Use))
	next := slices.Repeat([]int{n}, vs)
	for i := n - 1; i >= 0; i-- {
		for k := in.At[i]; k < in.At[i+1]; k++ {
			in.Next[k] = next[in.Use[k]]
			next[in.Use[k]] = i
		}
	}
	return in
}

// Own returns the bytes of the variables that f_i uses.
func (in *Instance) Own(i int) float64 {
	bytes := 0.0
	for _, v := range in.Use[in.At[i]:in.At[i+1]] {
		bytes += in.Size[v]
	}
	return bytes
}

// OnDevice returns the bytes that are on the GPU from the start.
func (in *Instance) OnDevice() float64 {
	bytes := 0.0
	for v, where := range in.Initial {
		if where == functions.Device {
			bytes += in.Size[v]
		}
	}
	return bytes
}

// least returns the minimum memory for which a plan exists, and the reason.
func (in *Instance) least() (bytes float64, why string) {
	bytes, why = in.OnDevice(), "variables that are on the device from the start"
	for i := range in.N {
		if own := in.Own(i); own > bytes {
			bytes, why = own, fmt.Sprintf("%s needs its %d variables", in.Name(i), in.At[i+1]-in.At[i])
		}
	}
	if bytes == 0 {
		why = ""
	}
	return bytes, why
}

// Name returns the name of function i: "f_3 (conv1)".
func (in *Instance) Name(i int) string {
	if name := in.Sequence.Functions[i].Name; name != "" {
		return fmt.Sprintf("f_%d (%s)", i+1, name)
	}
	return fmt.Sprintf("f_%d", i+1)
}

// Range returns the minimum memory for which a plan exists and a memory with which nothing is ever
// offloaded, in bytes. O(functions + variables + uses).
//
// low is the maximum of the largest sum of the variables of one function and the sum of those that
// are on the device from the start. Less is never enough, since they are on the GPU together. It is
// enough: before each function, offload everything that it does not use, one by one, then fetch
// what it uses.
//
// high holds everything at once: before each function, the variables that were used or are
// initially on the host or the device and that it or a later function uses, and what the function
// makes. With this memory the variables on the host can be fetched one after the other from the
// start, in order of first use, and every function runs as soon as they are present. No memory
// makes a plan faster.
func Range(s *functions.Sequence) (low, high float64, err error) {
	if s == nil {
		return 0, 0, fmt.Errorf("%w: there is none", ErrSequence)
	}
	if err := s.Validate(); err != nil {
		return 0, 0, fmt.Errorf("%w: %q: %w", ErrSequence, s.Name, err)
	}
	in := newView(s)
	low, _ = in.least()
	stored := 0.0
	for v, where := range in.Initial {
		if where != functions.Nowhere {
			stored += in.Size[v]
		}
	}
	high = stored
	for i := range in.N {
		for _, v := range in.Use[in.At[i]:in.At[i+1]] {
			if in.First[v] == i && in.Initial[v] == functions.Nowhere {
				stored += in.Size[v]
			}
		}
		high = max(high, stored)
		for k := in.At[i]; k < in.At[i+1]; k++ {
			if in.Next[k] == in.N {
				stored -= in.Size[in.Use[k]]
			}
		}
	}
	return low, max(low, high), nil
}
