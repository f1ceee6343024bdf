package solve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/plan"
	"workbench/model/platform"
)

// A Line is a line of what is printed of a plan: "makespan" and what there is to say.
type Line struct{ Label, Text string }

// A Count is operations that are counted together when a plan is described.
type Count struct {
	Word string // "computations"
	Ops  []string
}

// Counts returns a description of plans: "12 computations, 3 offloads".
func Counts(list ...Count) func(*plan.Plan) string {
	return func(p *plan.Plan) string {
		var parts []string
		for _, x := range list {
			n := 0
			for k := range p.Ops {
				if slices.Contains(x.Ops, p.Ops[k].Op) {
					n++
				}
			}
			word := x.Word
			if n == 1 {
				word = one(word)
			}
			parts = append(parts, fmt.Sprintf("%d %s", n, word))
		}
		return strings.Join(parts, ", ")
	}
}

// one is a word for several operations as it is of one.
func one(several string) string {
	for _, end := range [][2]string{{"ies", "y"}, {"ches", "ch"}, {"s", ""}} {
		if stem, is := strings.CutSuffix(several, end[0]); is {
			return stem + end[1]
		}
	}
	return several
}

// RecomputeTime splits the makespan of a plan in which nothing waits into computing once
// and computing again.
func RecomputeTime(in *Instance, r *Result) []Line {
	once := in.Compute()
	more := noRounding(r.Report.Makespan-once, once)
	return []Line{{"makespan", fmt.Sprintf("%s: computing once %s, again %s (%.2f %%)", platform.FormatSeconds(r.Report.Makespan),
		platform.FormatSeconds(once), platform.FormatSeconds(more), 100*more/max(once, math.SmallestNonzeroFloat64))}}
}

// Waiting splits the makespan of a plan with transfers into computing once,
// computing again if plans of the problem do, and waiting.
func Waiting(again bool) func(*Instance, *Result) []Line {
	return func(in *Instance, r *Result) []Line {
		once, busy := in.Compute(), 0.0
		for _, o := range r.Plan.Ops {
			if o.Op != plan.OpO && o.Op != plan.OpP && o.Op != plan.OpIn && o.Op != plan.OpOut {
				busy += o.End - o.Start
			}
		}
		whole := r.Report.Makespan
		s := fmt.Sprintf("%s: computing once %s", platform.FormatSeconds(whole), platform.FormatSeconds(once))
		if again {
			s += ", again " + platform.FormatSeconds(noRounding(busy-once, whole))
		}
		s += fmt.Sprintf(", idle %s (%.2f %% longer)", platform.FormatSeconds(noRounding(whole-busy, whole)),
			100*noRounding(whole-once, whole)/max(once, math.SmallestNonzeroFloat64))
		return []Line{{"makespan", s}}
	}
}

// noRounding returns a part of a whole, 0 for what the rounding of sums leaves.
func noRounding(part, whole float64) float64 {
	if part < plan.Tolerance*whole {
		return 0
	}
	return part
}
