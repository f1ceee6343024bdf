package testcase

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/placement"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Placement is the subject of buffers of known lifetimes.
func Placement() *Subject {
	return &Subject{
		Kind: lifetimes.Kind, Units: "buffers", Usual: 6, Most: 8,
		Random: func(r *rand.Rand, units int) (*Trial, error) {
			if r.IntN(2) == 0 {
				return roomy(random.Structured(r, min(units, 5))), nil
			}
			l := random.Lifetimes(r, units)
			if units >= 8 {
				l = random.AboveLoad(r)
			}
			l.Align = [...]int64{0, 0, 4}[r.IntN(3)]
			return ample(r, l), nil
		},
		Draw: func(r *rand.Rand) *Trial {
			if r.IntN(3) == 0 {
				return roomy(random.Structured(r, 5))
			}
			if r.IntN(4) == 0 {
				return ample(r, random.AboveLoad(r))
			}
			l := random.Lifetimes(r, 1+r.IntN(7))
			for i := range l.Buffers { // of mixed magnitude, many of equal size
				l.Buffers[i].Size *= [...]float64{1, 1, 1000, 1e6, 1e9 + 1}[r.IntN(5)]
			}
			l.Align = [...]int64{0, 0, 1, 3, 512}[r.IntN(5)]
			return ample(r, l)
		},
		Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(plan.As[*lifetimes.Lifetimes](t.In), t.Platform.Memory, states)
		},
		Smaller: smallerPlacement,
		Text:    placementText,
	}
}

// roomy returns a trial without a memory limit: pools have capacities.
func roomy(l *lifetimes.Lifetimes) *Trial {
	return &Trial{In: l, Platform: platform.Platform{Memory: 1000}, Pace: 1}
}

// ample returns a trial in which all buffers usually fit one above the other; with alignment, sometimes not quite.
func ample(r *rand.Rand, l *lifetimes.Lifetimes) *Trial {
	total := 0.0
	for i := range l.Buffers {
		total += l.Buffers[i].Size
	}
	memory := total
	if r.IntN(3) == 0 {
		memory = nearBreakpoint(r, total/2)
	}
	return &Trial{In: l, Platform: platform.Platform{Memory: max(1, math.Floor(memory))}, Pace: 1}
}

// smallerPlacement drops a buffer, or reduces its size or lifetime.
func smallerPlacement(t *Trial) (all []*Trial) {
	l := plan.As[*lifetimes.Lifetimes](t.In)
	if l.Pools != nil {
		return smallerStructured(t, l)
	}
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

// smallerStructured drops a rule.
func smallerStructured(t *Trial, l *lifetimes.Lifetimes) (all []*Trial) {
	change := func(edit func(*lifetimes.Lifetimes)) {
		m := *l
		m.Buffers, m.Pools = slices.Clone(l.Buffers), slices.Clone(l.Pools)
		if edit(&m); m.Validate() == nil {
			all = append(all, &Trial{In: &m, Platform: t.Platform, Pace: t.Pace})
		}
	}
	drop := func(n int, edit func(m *lifetimes.Lifetimes, k int)) {
		for k := range n {
			change(func(m *lifetimes.Lifetimes) { edit(m, k) })
		}
	}
	drop(len(l.Separations), func(m *lifetimes.Lifetimes, k int) {
		m.Separations = slices.Delete(slices.Clone(l.Separations), k, k+1)
	})
	drop(len(l.Exclusions), func(m *lifetimes.Lifetimes, k int) { m.Exclusions = slices.Delete(slices.Clone(l.Exclusions), k, k+1) })
	drop(len(l.Colocations), func(m *lifetimes.Lifetimes, k int) {
		m.Colocations = slices.Delete(slices.Clone(l.Colocations), k, k+1)
	})
	drop(len(l.Penalties), func(m *lifetimes.Lifetimes, k int) { m.Penalties = slices.Delete(slices.Clone(l.Penalties), k, k+1) })
	drop(len(l.Pools), func(m *lifetimes.Lifetimes, k int) { m.Pools[k].Reserved = nil })
	drop(len(l.Buffers), func(m *lifetimes.Lifetimes, k int) { m.Buffers[k].Pinned, m.Buffers[k].Exclusive = false, false })
	drop(len(l.Buffers), func(m *lifetimes.Lifetimes, k int) { m.Buffers[k].Gaps = nil })
	drop(len(l.Buffers), func(m *lifetimes.Lifetimes, k int) { m.Buffers[k].Size = max(0, m.Buffers[k].Size-1) })
	return all
}

func placementText(t *Trial, best *plan.Plan) string {
	var b strings.Builder
	l := plan.As[*lifetimes.Lifetimes](t.In)
	fmt.Fprintf(&b, "memory %g, alignment %d\n", t.Platform.Memory, l.Grid())
	if l.Pools != nil {
		_ = l.Write(&b) // to memory
	}
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
