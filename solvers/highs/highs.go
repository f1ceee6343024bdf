// Package highs solves models with HiGHS, the open-source solver of linear and
// mixed-integer programs (https://highs.dev).
//
// The library is found by pkg-config and linked into the program; versions 1.7
// to 1.15 are supported. Built without cgo, or with the tag nohighs, the package
// still compiles and every call answers [solvers.ErrMissing].
//
// The package converts and maps, nothing else. Everything that HiGHS does badly
// or not at all (checking the model, checking the answer, leaving behind a solve
// that does not end) is done for all libraries by [solvers.New]. Only [New] is
// of interest, except to those who wrap engines in something else.
package highs

import "workbench/solvers"

// Engine runs HiGHS. The zero value is ready. Several solves may run at once.
type Engine struct{}

// New returns the checked backend.
func New() solvers.Backend { return solvers.New(Engine{}) }

// Can implements [solvers.Engine]. It is the same where HiGHS is missing, so
// that a solve is refused for the reason that matters.
func (Engine) Can() solvers.Features {
	return solvers.CanInteger | solvers.CanRelGap | solvers.CanAbsGap | solvers.CanThreads |
		solvers.CanSeed | solvers.CanNodes | solvers.CanStart | solvers.CanProgress | solvers.CanLog |
		solvers.CanDuals | solvers.CanRaw | solvers.CanRetry | solvers.CanLarge
}
