package plan

// Placement is the problem of giving addresses to buffers of known lifetimes.
const Placement = "placement"

// An Offset is where a buffer begins, in units from the start of the memory; in
// files, in bytes.
type Offset struct {
	ID     string  `json:"id"`
	Offset float64 `json:"offset"`
}

// Rules of placements, as violations name them, beside RuleMemory, RuleMissing,
// RuleTwice, RuleOverlap and RuleUnknownOp.
const (
	RuleBuffer = "buffer" // an offset of a buffer that there is not
	RuleOffset = "offset" // an offset that is no whole number of units from 0 on, or not aligned
)
