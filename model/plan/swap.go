package plan

import "workbench/model/functions"

// Swap is the name of the problem of [003]: out-of-core execution.
const Swap = "swap"

// VerifySwap replays p, a plan of [Swap], on s.
func VerifySwap(s *functions.Sequence, p *Plan) (*Report, error) { return nil, ErrProblem }

// An Allocation is memory that a plan of [Swap] takes or gives back.
type Allocation struct {
	Time     float64
	Variable int  // index in the sequence
	Free     bool // given back; else taken
	Op       int  // the operation at whose start, or end, it happens; -1: before the first
}

// Allocations replays p and returns what it takes and gives back, in the order
// in which that happens.
func Allocations(s *functions.Sequence, p *Plan) ([]Allocation, error) { return nil, ErrProblem }
