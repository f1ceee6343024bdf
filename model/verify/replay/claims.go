package replay

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/plan"
)

// CompareClaims returns where the claims of p differ from the replay. A plan that
// claims nothing is not wrong.
func CompareClaims(p *plan.Plan, r *plan.Report) []string {
	claims := p.Claims
	if claims == (plan.Claims{}) {
		return nil
	}
	var s []string
	if x, y := claims.Makespan, r.Makespan; !(math.Abs(x-y) <= plan.Tolerance*max(math.Abs(x), math.Abs(y))) {
		s = append(s, fmt.Sprintf("claims.makespan is %.10g seconds, the replay gives %.10g", x, y))
	}
	if x, y := claims.PeakMemory, r.PeakMemory; x != y {
		s = append(s, fmt.Sprintf("claims.peak_memory is %s bytes, the replay gives %s", p.Size(x), p.Size(y)))
	}
	return s
}

// SortViolations puts violations in order of time, then of operation.
func SortViolations(v []plan.Violation) {
	slices.SortStableFunc(v, func(a, b plan.Violation) int {
		switch {
		case a.Time != b.Time:
			if a.Time < b.Time {
				return -1
			}
			return 1
		case a.Op != b.Op:
			return a.Op - b.Op
		}
		return strings.Compare(a.Rule, b.Rule)
	})
}
