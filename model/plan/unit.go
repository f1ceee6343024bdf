package plan

import (
	"encoding/json"
	"strconv"

	"workbench/model/platform"
)

// In returns p with its platform and claims in another unit. The memory is
// rounded down to a whole number of it, and a peak that is none stays as it is,
// so that it equals no peak. A plan of that unit is returned itself.
func (p *Plan) In(u platform.Unit) *Plan {
	if p == nil || p.Unit == u {
		return p
	}
	q := *p
	q.Unit = u
	q.Platform.Memory = p.Unit.In(u, p.Platform.Memory)
	q.Platform.Bandwidth = u.Rate(p.Unit.Bytes(p.Platform.Bandwidth))
	if q.Claims.PeakMemory = p.Unit.In(u, p.Claims.PeakMemory); u.In(p.Unit, q.Claims.PeakMemory) != p.Claims.PeakMemory {
		q.Claims.PeakMemory = u.PerByte() * p.Unit.Bytes(p.Claims.PeakMemory)
	}
	return &q
}

// MarshalJSON writes p as files do, in bytes.
func (p *Plan) MarshalJSON() ([]byte, error) {
	type plain Plan
	return json.Marshal((*plain)(p.In(platform.Byte)))
}

// in turns a report on a plan in the unit of its instance into one in another,
// that of the plan as it was given.
func (r *Report) in(from, to platform.Unit) *Report {
	if from == to {
		return r
	}
	r.PeakMemory = from.In(to, r.PeakMemory)
	if r.Pattern != nil {
		for _, peaks := range [][]float64{r.Pattern.StageMemory, r.Pattern.TaskMemory} {
			for i := range peaks {
				peaks[i] = from.In(to, peaks[i])
			}
		}
	}
	return r
}

// size writes so many units of p in bytes, all digits: a limit and what goes
// over it may be near.
func (p *Plan) size(x float64) string { return strconv.FormatFloat(p.Unit.Bytes(x), 'f', -1, 64) }
