package plan

import (
	"io"

	"workbench/model/platform"
)

// An Instance is what a plan is for: a chain, a graph, a join, a sequence of
// functions. Whoever needs more than this asserts the type.
type Instance interface {
	Kind() string // "chain"; one word, as in zoo:NAME?as=KIND
	Title() string
	// Validate returns what no instance of its kind may have, Digest the SHA-256 of
	// its canonical JSON, as hexadecimal digits.
	Validate() error
	Digest() (string, error)
	Size() string // in a few words: "12 layers"
	Batch() int   // samples of a mini-batch; 0: not known
	// TotalTime is the time in seconds of computing everything once.
	TotalTime() float64
	Scale() platform.Unit // of its sizes
	Write(io.Writer) error
}

// As returns the instance as one of a type, nil if it is of another.
func As[T Instance](in Instance) (x T) {
	x, _ = in.(T)
	return x
}
