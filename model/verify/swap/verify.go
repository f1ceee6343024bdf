// Package swap has the verifier of plans of swapping.
package swap

import (
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, a plan of [plan.Swap], on s.
//
// Functions stand in the plan in the order of the sequence, each once, and run
// one at a time; between them the GPU may idle. The other operations may stand
// anywhere. Two links, one for in and one for out, carry one transfer at a time
// each; a transfer takes size/bandwidth, a drop no time.
//
// A variable without initial is made by the first function that uses it, at its
// start, listed under writes or not; one that is initially on the device is
// there from time 0, and the host has no copy; one that is initially on the host
// is only there. A function needs all it uses on the GPU from its start to its
// end. After the last function that uses it a variable is gone, from the host,
// too.
//
//   - in needs a copy on the host and none on the GPU, nor one coming; it
//     reserves the variable from its start, which can be used from its end on.
//   - out needs the variable on the GPU and may not overlap a function that
//     writes it. When it ends the host holds a copy, and the variable leaves the
//     GPU; if a function that uses it runs then, when that ends ("stays usable
//     until its transfer and the computation using it have both ended").
//   - drop needs the variable on the GPU, used by no running function and not on
//     its way out, with a copy on the host that is the same: no function has
//     written the variable since.
//
// A variable of no bytes is everywhere at all times; transfers of it must take
// no time and mean nothing. Without other transfers the bandwidth may be 0.
//
// Memory at an instant is the variables on the GPU and those coming. Instants
// closer than 1e-9 of the makespan are simultaneous; of such, what began before
// ends first; then what takes no time happens, in the order of the plan; then
// functions start, then outs, then ins. (Of operations without duration the plan's
// order decides, as a drop may have to come before a function of no time, or
// after it.)
//
// The makespan is the end of the last function. A transfer that ends later is of
// no use, breaks no rule and does not count.
//
// After a broken rule the replay goes on as if the operation had had what it
// needs. The error wraps [plan.ErrUnreadable] where there is nothing to replay.
// O(size of the sequence + operations · log operations).
func Verify(s *functions.Sequence, p *plan.Plan) (*plan.Report, error) {
	v, err := replaySwap(s, p, false)
	if err != nil {
		return nil, err
	}
	return v.Report.Converted(s.Unit, p.Unit), nil
}

// Profile returns the memory in use over time, in the unit of the instance: see package
// verify.
func Profile(s *functions.Sequence, p *plan.Plan) ([]replay.MemoryStep, error) {
	v, err := replaySwap(s, p, true)
	if err != nil {
		return nil, err
	}
	return v.Steps, nil
}

// An Allocation is memory that a plan of [plan.Swap] takes or gives back: a variable
// on the GPU, from when it is made, or its transfer starts, until it leaves.
type Allocation struct {
	Time     float64
	Variable int  // index in the sequence
	Free     bool // freed; else allocated
	Op       int  // index of the operation whose start or end it is; -1: there from the start
}

// Allocations replays p, a plan of [plan.Swap], and returns what it takes and gives
// back, in the order in which that happens by the rules of [Verify], which
// says whether the plan is valid. Variables of no bytes take nothing. The cost
// and the error are those of VerifySwap.
func Allocations(s *functions.Sequence, p *plan.Plan) ([]Allocation, error) {
	v, err := replaySwap(s, p, true)
	if err != nil {
		return nil, err
	}
	return v.allocations, nil
}
