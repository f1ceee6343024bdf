// Package functions holds sequences of functions, the instances of out-of-core
// execution ([003] §3): what runs one after the other, and the variables that
// each function uses, which may be many and may be used by many.
package functions

import (
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.functions/v1"

// Where a variable may be before the first function starts.
const (
	Nowhere = ""       // it first exists when the first function that uses it starts
	Host    = "host"   // on the host, which holds its value
	Device  = "device" // on the GPU only
)

// Kinds of function. Methods that treat the forward pass apart ask for them.
const (
	Unknown  = ""
	Forward  = "forward"
	Loss     = "loss"
	Backward = "backward"
)

// Sequence is the functions f_1..f_n of [003] in the order in which they run,
// f_1 at index 0, and the variables they use. Times are in seconds, sizes are
// whole numbers of Unit, which is the byte unless a file has decimals.
type Sequence struct {
	Name      string
	Samples   int // mini-batch size; 0: unknown
	Variables []Variable
	Functions []Function
	Unit      platform.Unit      // of all sizes
	Source    map[string]any     // where the numbers come from; free form
	Extra     []strictjson.Extra // the user's own fields ("x-…")
}

// Variable is a tensor, or some other piece of memory that moves as a whole.
// Each is used by some function; after the last it is gone.
type Variable struct {
	ID      string // unique
	Size    float64
	Initial string // Nowhere, Host or Device
}

// Function is one function. Uses are all variables that must be on the GPU
// while it runs: its inputs, its outputs, its parameters, its workspace.
type Function struct {
	Name   string
	Kind   string // Unknown, Forward, Loss or Backward
	Time   float64
	Uses   []int // indices of Variables, each once
	Writes []int // those of Uses that it changes; nil: all of them; empty: none
}

// Written returns the variables that f changes.
func (f *Function) Written() []int {
	if f.Writes == nil {
		return f.Uses
	}
	return f.Writes
}

// Len returns the number of functions.
func (s *Sequence) Len() int { return len(s.Functions) }

// TotalTime returns the time of running every function once.
func (s *Sequence) TotalTime() float64 {
	t := 0.0
	for i := range s.Functions {
		t += s.Functions[i].Time
	}
	return t
}

// LastUse returns for each variable the function after which it is gone, -1 for
// one that no function uses. O(functions + uses).
func (s *Sequence) LastUse() []int {
	last := make([]int, len(s.Variables))
	for v := range last {
		last[v] = -1
	}
	for i := range s.Functions {
		for _, v := range s.Functions[i].Uses {
			last[v] = i
		}
	}
	return last
}

// LeastMemory returns the least memory in units in which a plan exists if the
// links have any bandwidth: what is on the GPU at the start, or the most that a
// function uses. Both are needed. They are enough: before each function all that
// it does not use can go out, one after the other, and then come in what it
// lacks. O(functions + variables + uses).
func (s *Sequence) LeastMemory() float64 {
	most := 0.0
	for v := range s.Variables {
		if s.Variables[v].Initial == Device {
			most += s.Variables[v].Size
		}
	}
	for i := range s.Functions {
		sum := 0.0
		for _, v := range s.Functions[i].Uses {
			sum += s.Variables[v].Size
		}
		most = max(most, sum)
	}
	return most
}

// FullMemory returns the least memory in units in which a plan exists without an
// out or a drop: each variable stays from its first use, one that is initially
// on the device from the start, to its last. To fetch ahead of the first use takes
// more. O(functions + variables + uses).
func (s *Sequence) FullMemory() float64 {
	coming := make([]float64, len(s.Functions)+1) // with the start of a function; then, what goes after it
	going := make([]float64, len(s.Functions)+1)
	used := make([]bool, len(s.Variables))
	last := s.LastUse()
	now := 0.0
	for v := range s.Variables {
		if x := &s.Variables[v]; x.Initial == Device {
			used[v] = true
			now += x.Size
		}
		if last[v] >= 0 {
			going[last[v]] += s.Variables[v].Size
		}
	}
	most := now
	for i := range s.Functions {
		for _, v := range s.Functions[i].Uses {
			if !used[v] {
				used[v] = true
				coming[i] += s.Variables[v].Size
			}
		}
		now += coming[i]
		most = max(most, now)
		now -= going[i]
	}
	return most
}
