package testcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"workbench/model/exhaustive"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Placement are buffers of known lifetimes.
func Placement() *Subject {
	return &Subject{
		Kind: lifetimes.Kind, Units: "buffers", Usual: 6, Most: 8,
		Random: func(r *rand.Rand, units int) (*Trial, error) {
			l := exhaustive.RandomLifetimes(r, units)
			if units >= 8 {
				l = exhaustive.AboveLoad(r)
			}
			l.Align = [...]int64{0, 0, 4}[r.IntN(3)]
			return ample(r, l), nil
		},
		Draw: func(r *rand.Rand) *Trial {
			if r.IntN(4) == 0 {
				return ample(r, exhaustive.AboveLoad(r))
			}
			l := exhaustive.RandomLifetimes(r, 1+r.IntN(7))
			for i := range l.Buffers { // of mixed magnitude, many of equal size
				l.Buffers[i].Size *= [...]float64{1, 1, 1000, 1e6, 1e9 + 1}[r.IntN(5)]
			}
			l.Align = [...]int64{0, 0, 1, 3, 512}[r.IntN(5)]
			return ample(r, l)
		},
		Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return exhaustive.Placement(plan.As[*lifetimes.Lifetimes](t.In), t.Platform.Memory, states)
		},
		Smaller: smallerPlacement,
		Text:    placementText,
	}
}

// ample returns a trial in which all buffers fit one above the other, mostly;
// aligned, sometimes not quite.
func ample(r *rand.Rand, l *lifetimes.Lifetimes) *Trial {
	total := 0.0
	for i := range l.Buffers {
		total += l.Buffers[i].Size
	}
	memory := total
	if r.IntN(3) == 0 {
		memory = beside(r, total/2)
	}
	return &Trial{In: l, Platform: platform.Platform{Memory: max(1, math.Floor(memory))}, Pace: 1}
}

// smallerPlacement drops a buffer, or lessens its size or lifetime.
func smallerPlacement(t *Trial) (all []*Trial) {
	l := plan.As[*lifetimes.Lifetimes](t.In)
	change := func(edit func(*lifetimes.Lifetimes)) {
		m := *l
		m.Buffers = slices.Clone(l.Buffers)
		if edit(&m); m.Validate() == nil {
			all = append(all, &Trial{In: &m, Platform: t.Platform, Pace: t.Pace})
		}
	}
	if l.Align > 1 {
		change(func(m *lifetimes.Lifetimes) { m.Align = 0 })
		change(func(m *lifetimes.Lifetimes) { m.Align-- })
	}
	for i := range l.Buffers {
		change(func(m *lifetimes.Lifetimes) { m.Buffers = slices.Delete(m.Buffers, i, i+1) })
		if l.Buffers[i].Size > 0 {
			change(func(m *lifetimes.Lifetimes) { m.Buffers[i].Size-- })
		}
		change(func(m *lifetimes.Lifetimes) { m.Buffers[i].Upper-- })
	}
	return all
}

func placementText(t *Trial, best *plan.Plan) string {
	var b strings.Builder
	l := plan.As[*lifetimes.Lifetimes](t.In)
	fmt.Fprintf(&b, "memory %g, alignment %d\n", t.Platform.Memory, l.Grid())
	for _, x := range l.Buffers {
		fmt.Fprintf(&b, "buffer %s: [%d, %d), size %g\n", x.ID, x.Lower, x.Upper, x.Size)
	}
	if best != nil {
		fmt.Fprintf(&b, "best plan: offsets")
		for _, o := range best.Offsets {
			fmt.Fprintf(&b, " %s:%g", o.ID, o.Offset)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
