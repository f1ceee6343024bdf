package functions

import "slices"

// End is the name of the function, of no time, with which a training step ends:
// it uses all weights, so that they are on the device again as at the start.
const End = "end"

// A Builder puts the sequence of a training step together, one function after
// the other. Variables are named by the index that it returns; those of no bytes
// are left out, their index is -1, and who uses -1 uses nothing.
type Builder struct {
	s       *Sequence
	weights []int
	taken   map[string]bool // ids
}

// NewBuilder returns a Builder of a sequence of that name.
func NewBuilder(name string) *Builder {
	return &Builder{s: &Sequence{Name: name}, taken: map[string]bool{}}
}

// Variable adds a variable of so many bytes. If its id is taken, primes are added.
func (b *Builder) Variable(id string, size float64, initial string) int {
	if size == 0 {
		return -1
	}
	for b.taken[id] {
		id += "'"
	}
	b.taken[id] = true
	b.s.Variables = append(b.s.Variables, Variable{ID: id, Size: size, Initial: initial})
	return len(b.s.Variables) - 1
}

// Weight adds a variable that is on the device before the step and after it.
func (b *Builder) Weight(id string, size float64) int {
	v := b.Variable(id, size, Device)
	if v >= 0 {
		b.weights = append(b.weights, v)
	}
	return v
}

// Function adds a function. What it uses is added next, by Reads and Writes.
func (b *Builder) Function(name, kind string, time float64) {
	b.s.Functions = append(b.s.Functions, Function{Name: name, Kind: kind, Time: time, Uses: []int{}, Writes: []int{}})
}

// Reads adds variables to what the last function uses, unless it does already.
func (b *Builder) Reads(variables ...int) {
	f := &b.s.Functions[len(b.s.Functions)-1]
	for _, v := range variables {
		if v >= 0 && !slices.Contains(f.Uses, v) {
			f.Uses = append(f.Uses, v)
		}
	}
}

// Writes adds variables to what the last function uses and changes.
func (b *Builder) Writes(variables ...int) {
	b.Reads(variables...)
	f := &b.s.Functions[len(b.s.Functions)-1]
	for _, v := range variables {
		if v >= 0 && !slices.Contains(f.Writes, v) {
			f.Writes = append(f.Writes, v)
		}
	}
}

// End ends the step, with a function [End] if there are weights, and returns the
// sequence.
func (b *Builder) End() *Sequence {
	if len(b.weights) > 0 {
		b.Function(End, Backward, 0)
		b.s.Functions[len(b.s.Functions)-1].Uses = b.weights
	}
	return b.s
}
