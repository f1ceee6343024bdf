package testcase

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	optimum "workbench/model/exhaustive/swap"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
)

// Swap is the subject of sequences of functions for swapping, with one variable more than there are functions.
func Swap() *Subject {
	return &Subject{
		Kind: functions.Kind, Units: "functions", Usual: 6, Most: 7,
		Random: func(r *rand.Rand, most int) (*Trial, error) {
			s, memory, bandwidth := random.Swap(r, most, most+1)
			return &Trial{In: s, Platform: platform.Platform{Memory: max(1, memory), Bandwidth: bandwidth}, Pace: 1}, nil
		},
		Draw: drawSwap, Searched: drawn,
		Search: func(t *Trial, states int) (float64, *plan.Plan, error) {
			return optimum.Search(t.Functions(), t.Platform.Memory, t.Platform.Bandwidth, t.Pace, states)
		},
		Smaller: smallerSwap, Text: swapText,
	}
}

func drawSwap(r *rand.Rand) *Trial {
	s, memory, bandwidth := random.Swap(r, 5, 5)
	s, memory, bandwidth = random.MagnifySequence(r, s, memory, bandwidth)
	x := pace(r)
	return &Trial{In: random.PaceSequence(s, x), Platform: platform.Platform{Memory: memory, Bandwidth: bandwidth / x}, Pace: x}
}

// smallerSwap drops functions and uses, and reduces numbers.
func smallerSwap(x *Trial) []*Trial {
	s := &shrinker{x: x}
	for i := range x.Functions().Functions {
		s.change(func(y *Trial) {
			y.Functions().Functions = slices.Delete(y.Functions().Functions, i, i+1)
			dropUnused(y.Functions())
		})
		for k := range x.Functions().Functions[i].Uses {
			s.change(func(y *Trial) {
				f := &y.Functions().Functions[i]
				v := f.Uses[k]
				f.Uses = slices.Delete(f.Uses, k, k+1)
				f.Writes = slices.DeleteFunc(f.Writes, func(w int) bool { return w == v })
				dropUnused(y.Functions())
			})
		}
		s.number(func(y *Trial) *float64 { return &y.Functions().Functions[i].Time })
	}
	for v := range x.Functions().Variables {
		s.size(func(y *Trial) *float64 { return &y.Functions().Variables[v].Size })
	}
	s.number(func(y *Trial) *float64 { return &y.Platform.Memory })
	s.number(func(y *Trial) *float64 { return &y.Platform.Bandwidth })
	return slices.DeleteFunc(s.all, func(y *Trial) bool {
		return y.Functions().Validate() != nil || y.Platform.Memory <= 0 || y.Platform.Bandwidth <= 0
	})
}

// dropUnused drops variables that no function uses.
func dropUnused(s *functions.Sequence) {
	last, place := s.LastUse(), make([]int, len(s.Variables))
	var kept []functions.Variable
	for v, i := range last {
		if i >= 0 {
			place[v] = len(kept)
			kept = append(kept, s.Variables[v])
		}
	}
	s.Variables = kept
	for i := range s.Functions {
		f := &s.Functions[i]
		for _, list := range [...][]int{f.Uses, f.Writes} {
			for k, v := range list {
				list[k] = place[v]
			}
		}
	}
}

// cloneFunctions returns a copy that shares nothing that shrinking changes.
func cloneFunctions(s *functions.Sequence) *functions.Sequence {
	c := *s
	c.Variables, c.Functions = slices.Clone(s.Variables), slices.Clone(s.Functions)
	for i := range c.Functions {
		f := &c.Functions[i]
		f.Uses = slices.Clone(f.Uses)
		f.Writes = append([]int{}, f.Written()...)
	}
	return &c
}

func swapText(x *Trial, best *plan.Plan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "memory %g, bandwidth %g\n", x.Platform.Memory, x.Platform.Bandwidth)
	for v := range x.Functions().Variables {
		y := &x.Functions().Variables[v]
		fmt.Fprintf(&b, "variable %s: %g bytes", y.ID, y.Size)
		if y.Initial != functions.Nowhere {
			fmt.Fprintf(&b, ", on the %s at the start", y.Initial)
		}
		b.WriteByte('\n')
	}
	for i := range x.Functions().Functions {
		f := &x.Functions().Functions[i]
		fmt.Fprintf(&b, "f_%d: %g s", i+1, f.Time)
		for k, list := range [...][]int{f.Uses, f.Written()} {
			b.WriteString([...]string{", uses", ", writes"}[k])
			for _, v := range list {
				b.WriteString(" " + x.Functions().Variables[v].ID)
			}
		}
		b.WriteByte('\n')
	}
	if best != nil {
		b.WriteString("best plan:")
		for k := range best.Ops {
			o := &best.Ops[k]
			fmt.Fprintf(&b, " %s at %g,", o, o.Start)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
