// Package placement finds optimal placements of few buffers by exhaustive search.
package placement

import (
	"fmt"
	"math"

	"workbench/model/exhaustive"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxBuffers is how many buffers [Search] takes.
const MaxBuffers = 9

// Search returns the least height of offsets for l, and a plan that has it.
// limit is the most states to visit. The errors are [exhaustive.ErrInfeasible] where the
// memory is lower, [exhaustive.ErrLimit] and [exhaustive.ErrTooHard].
//
// It drops the buffers one after the other, in every order, each onto what lies there
// already. Some order has the least height: that of the offsets of a placement
// that has it, for each buffer falls at most to where it lay. With an alignment it falls
// onto the next multiple above what is under it. An instance with pools or an objective is
// searched with every rule, one pool after the other, as [structured] describes; only
// such a one may have rules beside lifetimes, sizes and an alignment.
func Search(l *lifetimes.Lifetimes, memory float64, limit int) (float64, *plan.Plan, error) {
	n := len(l.Buffers)
	if n > MaxBuffers {
		return 0, nil, fmt.Errorf("%w: %d buffers, there can be %d", exhaustive.ErrTooHard, n, MaxBuffers)
	}
	value, at, err := searchOffsets(l, memory, limit)
	if err != nil {
		return 0, nil, err
	}
	p := plan.New(plan.Placement, "exhaustive search", l, platform.Platform{Memory: memory})
	for i := range at {
		p.Offsets = append(p.Offsets, plan.Offset{ID: l.Buffers[i].ID, Offset: at[i]})
	}
	if len(l.Pools) == 0 && l.Objective == "" {
		p.Claims.PeakMemory = value
	}
	return value, p, nil
}

// searchOffsets returns the least objective and offsets that have it.
func searchOffsets(l *lifetimes.Lifetimes, memory float64, limit int) (float64, []float64, error) {
	if len(l.Pools) > 0 || l.Objective != "" {
		return structuredPlacement(l, memory, limit)
	}
	n := len(l.Buffers)
	s := &dropping{l: l, limit: limit, at: make([]float64, n), placed: make([]bool, n), height: -1}
	s.drop(0, 0)
	if s.limit < 0 {
		return 0, nil, fmt.Errorf("%w: more than %d", exhaustive.ErrLimit, limit)
	}
	if !platform.Fits(s.height, memory) {
		return 0, nil, exhaustive.ErrInfeasible
	}
	return s.height, s.best, nil
}

type dropping struct {
	l      *lifetimes.Lifetimes
	limit  int
	at     []float64
	placed []bool
	height float64 // of best; negative: there is none
	best   []float64
}

// drop places the buffers that are left, of which the placed ones reach up to height.
func (s *dropping) drop(placed int, height float64) {
	if s.limit--; s.limit < 0 || s.height >= 0 && height >= s.height {
		return
	}
	if placed == len(s.at) {
		s.height, s.best = height, append(s.best[:0], s.at...)
		return
	}
	grid := float64(s.l.Grid())
	for i := range s.at {
		if s.placed[i] {
			continue
		}
		x, on := &s.l.Buffers[i], 0.0
		for j := range s.at {
			if y := &s.l.Buffers[j]; s.placed[j] && x.Lower < y.Upper && y.Lower < x.Upper {
				on = max(on, s.at[j]+y.Size)
			}
		}
		on = math.Ceil(on/grid) * grid
		s.at[i], s.placed[i] = on, true
		s.drop(placed+1, max(height, on+x.Size))
		s.placed[i] = false
	}
}
