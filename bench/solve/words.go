package solve

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Line is a labelled line of a printed plan: "step time", "109.9 ms".
type Line struct{ Label, Text string }

// Count describes operations that are counted together in the description of a plan.
type Count struct {
	Word string // "computations"
	Ops  []string
}

// Counts returns a function that describes plans: "12 computations, 3 offloads".
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

// one returns the singular of a plural.
func one(several string) string {
	for _, end := range [][2]string{{"ies", "y"}, {"ches", "ch"}, {"s", ""}} {
		if stem, is := strings.CutSuffix(several, end[0]); is {
			return stem + end[1]
		}
	}
	return several
}

// RecomputeTime splits the step time of a plan without idle time into compute and recompute.
func RecomputeTime(in *Instance, r *Result) []Line {
	compute := in.Compute()
	return stepTime(r.Report.Makespan, compute, part{noRounding(r.Report.Makespan-compute, compute), "recompute"})
}

// Waiting splits the step time of a plan with transfers into compute, recompute if plans of the problem recompute,
// and GPU idle time.
func Waiting(recomputes bool) func(*Instance, *Result) []Line {
	return func(in *Instance, r *Result) []Line {
		compute, busy := in.Compute(), 0.0
		for _, o := range r.Plan.Ops {
			if o.Op != plan.OpO && o.Op != plan.OpP && o.Op != plan.OpIn && o.Op != plan.OpOut {
				busy += o.End - o.Start
			}
		}
		total := r.Report.Makespan
		var parts []part
		if recomputes {
			parts = append(parts, part{noRounding(busy-compute, total), "recompute"})
		}
		return stepTime(total, compute, append(parts, part{noRounding(total-busy, total), "idle"})...)
	}
}

// part is a component of a step time.
type part struct {
	seconds float64
	name    string
}

// stepTime returns "109.9 ms = 96.92 ms compute + 12.98 ms recompute (+13.39 %)".
func stepTime(total, compute float64, parts ...part) []Line {
	var b strings.Builder
	fmt.Fprintf(&b, "%s = %s compute", platform.FormatSeconds(total), platform.FormatSeconds(compute))
	for _, x := range parts {
		fmt.Fprintf(&b, " + %s %s", platform.FormatSeconds(x.seconds), x.name)
	}
	fmt.Fprintf(&b, " (+%.2f %%)", 100*noRounding(total-compute, total)/max(compute, math.SmallestNonzeroFloat64))
	return []Line{{"step time", b.String()}}
}

// noRounding returns part, or 0 if it is within the rounding error of sums of whole.
func noRounding(part, whole float64) float64 {
	if part < plan.Tolerance*whole {
		return 0
	}
	return part
}
