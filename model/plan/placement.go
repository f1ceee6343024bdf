package plan

import "slices"

// Placement is the problem of giving addresses to buffers of known lifetimes.
const Placement = "placement"

// An Offset is where a buffer begins, in units from the start of the memory; in
// files, in bytes.
type Offset struct {
	ID     string  `json:"id"`
	Offset float64 `json:"offset"`
}

// PlacementReport is what only plans of [Placement] have.
type PlacementReport struct {
	Objective string    `json:"objective"` // one of those of package lifetimes
	Heights   []float64 `json:"heights"`   // of each pool, units
	Penalty   float64   `json:"penalty"`   // the sum of what is charged
}

// value returns what is minimised, in units or as a penalty.
func (r *PlacementReport) value(peak float64) float64 {
	switch r.Objective {
	case "largest-height":
		return slices.Max(r.Heights)
	case "penalty":
		return r.Penalty
	}
	return peak
}

// Rules of placements, as violations name them, beside RuleMemory, RuleMissing,
// RuleTwice, RuleOverlap and RuleUnknownOp.
const (
	RuleBuffer     = "buffer"     // an offset of a buffer that there is not
	RuleOffset     = "offset"     // an offset that is no integer of units from 0 on, or not aligned
	RulePin        = "pin"        // another offset than that of the pin
	RuleCapacity   = "capacity"   // a buffer that ends above the capacity of its pool
	RuleReserved   = "reserved"   // a buffer in a reserved range
	RuleSeparation = "separation" // separated buffers that share an address, or one beside an exclusive one
	RuleColocated  = "colocated"  // colocated buffers at two offsets
)
