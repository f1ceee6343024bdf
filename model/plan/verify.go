package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Tolerance is how far, relative to the period or the makespan, two instants may
// lie apart and still count as equal: rounding of sums of floating-point
// durations, nothing more. Objectives are equal within as much of themselves.
// There is none on memory: sizes are whole numbers, see [platform.Fits].
const Tolerance = 1e-9

// ErrProblem is wrapped by the error of package verify for plans of problems without a verifier on
// such an instance.
var ErrProblem = errors.New("no verifier for this problem")

// ErrUnreadable is wrapped when a plan is not broken but cannot be replayed at
// all: no period, no memory, no instance.
var ErrUnreadable = errors.New("plan cannot be replayed")

// CompareClaims returns where the claims of p differ from the replay. A plan that
// claims nothing is not wrong.
func CompareClaims(p *Plan, r *Report) []string {
	claims := p.Claims
	if claims == (Claims{}) {
		return nil
	}
	var s []string
	if x, y := claims.Makespan, r.Makespan; !(math.Abs(x-y) <= Tolerance*max(math.Abs(x), math.Abs(y))) {
		s = append(s, fmt.Sprintf("claims.makespan is %.10g seconds, the replay gives %.10g", x, y))
	}
	if x, y := claims.PeakMemory, r.PeakMemory; x != y {
		s = append(s, fmt.Sprintf("claims.peak_memory is %s bytes, the replay gives %s", p.Size(x), p.Size(y)))
	}
	return s
}

// SortViolations puts violations in order of time, then of operation.
func SortViolations(v []Violation) {
	slices.SortStableFunc(v, func(a, b Violation) int {
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

func Finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
