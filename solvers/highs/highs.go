// Package highs solves models with HiGHS, the open-source solver of linear and mixed-integer programs
// (https://highs.dev).
//
// The library is found by pkg-config and linked into the program; versions 1.7 to 1.15 are supported. Built
// without cgo, or with the tag nohighs, the package still compiles and every call returns [solvers.ErrMissing].
//
// The package only converts data. What HiGHS does not do reliably (checking the model, checking the answer,
// abandoning a solve that does not end) is done for all libraries by [solvers.New]. Most callers need only [New];
// [Engine] is for those who wrap engines.
package highs

import "workbench/solvers"

// Engine runs HiGHS. The zero value is ready. Several solves may run at once.
type Engine struct{}

// New returns the checked backend.
func New() solvers.Backend { return solvers.New(Engine{}) }

// Can implements [solvers.Engine]. It does not depend on whether HiGHS is present, so that a missing library is
// reported as such.
func (Engine) Can() solvers.Features {
	return solvers.CanInteger | solvers.CanRelGap | solvers.CanAbsGap | solvers.CanThreads |
		solvers.CanSeed | solvers.CanNodes | solvers.CanStart | solvers.CanProgress | solvers.CanLog |
		solvers.CanDuals | solvers.CanRaw | solvers.CanRetry | solvers.CanLarge
}
