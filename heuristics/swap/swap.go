// Package swap plans out-of-core execution ([003]): which variables leave the
// GPU between two functions that use them, and when they are sent and fetched
// back, so that a sequence of functions runs within the memory and takes little
// longer than its computations.
//
// Every method takes a sequence and a platform and returns a plan; a
// *plan.Infeasible error when the memory is below the least for which any plan
// exists; or an error wrapping plan.ErrNoPlan when the method found none. Methods
// promise nothing about optimality; Bounds says how far from it a plan can be at
// most.
//
// Functions are numbered from 1 in texts, as in [003], and from 0 in the code.
package swap

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Swap

// Errors of input that means nothing.
var (
	ErrSequence  = errors.New("sequence unfit for swapping")
	ErrPlatform  = errors.New("platform unfit for swapping")
	ErrParameter = errors.New("parameter unfit for the method")
)

// rounding is what sums of sizes, added up in another order, may differ by, as
// part of the memory. With whole bytes it changes nothing.
const rounding = 1e-11

// instance is a sequence in flat slices, with what every method needs, computed
// once. Variables without bytes are everywhere at all times: they are not among
// the uses.
type instance struct {
	n    int       // functions
	u    []float64 // their durations, seconds
	size []float64 // of variables, bytes
	move []float64 // seconds to transfer each

	// f_i uses use[at[i]:at[i+1]]. The variable is used next by f_next, n if by
	// none; writes: f_i changes it, or makes it.
	at     []int
	use    []int
	next   []int
	writes []bool

	first   []int // the function that uses the variable first
	initial []string

	limit   float64 // M and the rounding of sums of sizes
	instant float64 // seconds: what takes less may begin and end at one instant

	seq      *functions.Sequence
	platform platform.Platform
}

// newInstance checks s and p, and that a plan exists. The errors wrap
// ErrSequence or ErrPlatform; a *plan.Infeasible says that no plan fits.
// O(functions + variables + uses).
func newInstance(s *functions.Sequence, p platform.Platform) (*instance, error) {
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
	in.platform, in.limit = p, p.Memory*(1+rounding)
	sizes, times := 0.0, s.TotalTime()
	for v, size := range in.size {
		in.move[v] = size / p.Bandwidth
		sizes += size
	}
	for _, v := range in.use {
		times += 2 * in.move[v]
	}
	in.instant = 2 * plan.Tolerance * times
	if math.IsInf(2*sizes, 1) || math.IsInf(2*times, 1) {
		return nil, fmt.Errorf("%w: %q: its sizes or times, transfers included, add up to more than a float64 holds", ErrSequence, s.Name)
	}
	if low, why := in.least(); low > in.limit {
		return nil, &plan.Infeasible{Problem: Problem, Memory: low, Given: p.Memory, Why: why}
	}
	return in, nil
}

// newView is the part of an instance that the sequence gives.
func newView(s *functions.Sequence) *instance {
	n, vs := s.Len(), len(s.Variables)
	flat := make([]float64, n+2*vs)
	in := &instance{
		n: n, u: flat[:n:n], size: flat[n : n+vs : n+vs], move: flat[n+vs:],
		at: make([]int, n+1), first: make([]int, vs), initial: make([]string, vs), seq: s,
	}
	for v := range s.Variables {
		in.size[v], in.initial[v], in.first[v] = s.Variables[v].Size, s.Variables[v].Initial, n
	}
	written := make([]int, vs) // by which function last, counted from 1
	for i := range s.Functions {
		f := &s.Functions[i]
		in.u[i] = f.Time
		for _, v := range f.Written() {
			written[v] = i + 1
		}
		for _, v := range f.Uses {
			if in.size[v] == 0 {
				continue
			}
			in.first[v] = min(in.first[v], i)
			in.use = append(in.use, v)
			in.writes = append(in.writes, written[v] == i+1 || in.initial[v] == functions.Nowhere && in.first[v] == i)
		}
		in.at[i+1] = len(in.use)
	}
	in.next = make([]int, len(in.use))
	next := slices.Repeat([]int{n}, vs)
	for i := n - 1; i >= 0; i-- {
		for k := in.at[i]; k < in.at[i+1]; k++ {
			in.next[k] = next[in.use[k]]
			next[in.use[k]] = i
		}
	}
	return in
}

// own returns the bytes of the variables that f_i uses.
func (in *instance) own(i int) float64 {
	bytes := 0.0
	for _, v := range in.use[in.at[i]:in.at[i+1]] {
		bytes += in.size[v]
	}
	return bytes
}

// onDevice returns the bytes that are on the GPU from the start.
func (in *instance) onDevice() float64 {
	bytes := 0.0
	for v, where := range in.initial {
		if where == functions.Device {
			bytes += in.size[v]
		}
	}
	return bytes
}

// least returns the least memory for which a plan exists, and what needs it.
func (in *instance) least() (bytes float64, why string) {
	bytes, why = in.onDevice(), "variables that are on the device from the start"
	for i := range in.n {
		if own := in.own(i); own > bytes {
			bytes, why = own, fmt.Sprintf("%s needs its %d variables", in.name(i), in.at[i+1]-in.at[i])
		}
	}
	if bytes == 0 {
		why = ""
	}
	return bytes, why
}

// name names function i: "f_3 (conv1)".
func (in *instance) name(i int) string {
	if name := in.seq.Functions[i].Name; name != "" {
		return fmt.Sprintf("f_%d (%s)", i+1, name)
	}
	return fmt.Sprintf("f_%d", i+1)
}

// Range returns the least memory for which a plan exists and a memory in which
// nothing ever leaves, in bytes. O(functions + variables + uses).
//
// low is the larger of the largest sum of the variables of one function, and the
// sum of those that are on the device from the start. Less is never enough: they
// are on the GPU together. It is enough: before each function send out, one by
// one, everything that it does not use, then fetch what it uses. That needs no
// memory beside what is there.
//
// high is everything at once: before each function the variables that have been
// used, or are initially on the host or the device, and are still used by it or
// later, and what the function makes. In so much memory the variables from the host
// can be fetched one after the other from the start, in the order of first use,
// and every function runs as soon as they are there: no memory makes a plan
// faster.
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
	for v, where := range in.initial {
		if where != functions.Nowhere {
			stored += in.size[v]
		}
	}
	high = stored
	for i := range in.n {
		for _, v := range in.use[in.at[i]:in.at[i+1]] {
			if in.first[v] == i && in.initial[v] == functions.Nowhere {
				stored += in.size[v]
			}
		}
		high = max(high, stored)
		for k := in.at[i]; k < in.at[i+1]; k++ {
			if in.next[k] == in.n {
				stored -= in.size[in.use[k]]
			}
		}
	}
	return low, max(low, high), nil
}
