package plan

import (
	"encoding/json"
	"math"
	"strconv"

	"workbench/model/platform"
)

// MarshalJSON writes p as files do, in bytes. A placement has no operations, which is an
// empty list.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	written := *p.Converted(platform.Byte)
	if written.Ops == nil {
		written.Ops = []Op{}
	}
	return json.Marshal((*plain)(&written))
}

// In turns a report on a plan in the unit of its instance into one in another,
// that of the plan as it was given.
func (r *Report) Converted(from, to platform.Unit) *Report {
	if from == to {
		return r
	}
	r.PeakMemory = from.Convert(to, r.PeakMemory)
	if r.Flush != nil {
		for g := range r.Flush.Memory {
			r.Flush.Memory[g] = from.Convert(to, r.Flush.Memory[g])
		}
	}
	if r.Placement != nil {
		for k := range r.Placement.Heights {
			r.Placement.Heights[k] = from.Convert(to, r.Placement.Heights[k])
		}
	}
	if r.Pattern != nil {
		for _, peaks := range [][]float64{r.Pattern.StageMemory, r.Pattern.TaskMemory} {
			for i := range peaks {
				peaks[i] = from.Convert(to, peaks[i])
			}
		}
	}
	return r
}

// Size writes so many units of p in bytes, all digits: a limit and what goes
// over it may be near.
func (p *Plan) Size(x float64) string { return strconv.FormatFloat(p.Unit.Bytes(x), 'f', -1, 64) }

// Tolerance is how far, relative to the period or the makespan, two instants may
// lie apart and still count as equal: rounding of sums of floating-point
// durations, nothing more. Objectives are equal within as much of themselves.
// There is none on memory: sizes are whole numbers, see [platform.Fits].
const Tolerance = 1e-9

// Finite reports whether x is a number and not infinite.
func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
