package exhaustive

import (
	"fmt"
	"math"
	"math/rand/v2"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// MaxBuffers is how many buffers [Placement] takes.
const MaxBuffers = 9

// Placement returns the least height of offsets for l, and a plan that has it.
// limit is the most states to visit. The errors are [ErrInfeasible] where the
// memory is lower, [ErrLimit] and [ErrTooHard].
//
// It drops the buffers one after the other, in every order, each onto what lies there
// already. Some order has the least height: that of the offsets of a placement
// that has it, for each buffer falls at most to where it lay. With an alignment it falls
// onto the next multiple above what is under it. An instance with pools or an objective is
// searched with every rule, one pool after the other, as [structured] describes; only
// such a one may have rules beside lifetimes, sizes and an alignment.
func Placement(l *lifetimes.Lifetimes, memory float64, limit int) (float64, *plan.Plan, error) {
	n := len(l.Buffers)
	if n > MaxBuffers {
		return 0, nil, fmt.Errorf("%w: %d buffers, there can be %d", ErrTooHard, n, MaxBuffers)
	}
	if len(l.Pools) > 0 || l.Objective != "" {
		value, at, err := structuredPlacement(l, memory, limit)
		if err != nil {
			return 0, nil, err
		}
		p := plan.New(plan.Placement, "exhaustive search", l, platform.Platform{Memory: memory})
		for i := range at {
			p.Offsets = append(p.Offsets, plan.Offset{ID: l.Buffers[i].ID, Offset: at[i]})
		}
		return value, p, nil
	}
	s := &dropping{l: l, limit: limit, at: make([]float64, n), placed: make([]bool, n), height: -1}
	s.drop(0, 0)
	if s.limit < 0 {
		return 0, nil, fmt.Errorf("%w: more than %d", ErrLimit, limit)
	}
	if !platform.Fits(s.height, memory) {
		return 0, nil, ErrInfeasible
	}
	p := plan.New(plan.Placement, "exhaustive search", l, platform.Platform{Memory: memory})
	p.Offsets = make([]plan.Offset, n)
	for i, at := range s.best {
		p.Offsets[i] = plan.Offset{ID: l.Buffers[i].ID, Offset: at}
	}
	p.Claims.PeakMemory = s.height
	return s.height, p, nil
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

// RandomLifetimes returns so many buffers of small whole sizes and lifetimes.
func RandomLifetimes(r *rand.Rand, buffers int) *lifetimes.Lifetimes {
	l := &lifetimes.Lifetimes{Name: "random"}
	instants := int64(2 + r.IntN(buffers+2))
	for i := range buffers {
		from := r.Int64N(instants)
		l.Buffers = append(l.Buffers, lifetimes.Buffer{
			ID: fmt.Sprint(i), Lower: from, Upper: from + 1 + r.Int64N(instants-from), Size: float64(r.IntN(8)),
		})
	}
	return l
}

// AboveLoad returns the eight buffers of load 8 and least height 9 that random ones
// led to, fewer were never above their load; mirrored in time or not, times some
// number, and half of the times one size differs by one.
func AboveLoad(r *rand.Rand) *lifetimes.Lifetimes {
	l := &lifetimes.Lifetimes{Name: "above its load"}
	factor, mirrored := float64(1+r.IntN(5)), r.IntN(2) == 0
	for i, x := range [...][3]int64{{5, 7, 1}, {3, 5, 3}, {4, 7, 3}, {4, 6, 1}, {4, 6, 1}, {1, 4, 5}, {6, 8, 3}, {7, 8, 5}} {
		b := lifetimes.Buffer{ID: fmt.Sprint(i), Lower: x[0], Upper: x[1], Size: factor * float64(x[2])}
		if mirrored {
			b.Lower, b.Upper = 9-x[1], 9-x[0]
		}
		l.Buffers = append(l.Buffers, b)
	}
	if r.IntN(2) == 0 {
		l.Buffers[r.IntN(len(l.Buffers))].Size += float64(1 - 2*r.IntN(2))
	}
	r.Shuffle(len(l.Buffers), func(i, j int) { l.Buffers[i], l.Buffers[j] = l.Buffers[j], l.Buffers[i] })
	return l
}
