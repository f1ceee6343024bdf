package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/chain"
)

// Tolerance is how far, relative to the period or the makespan, two instants may
// lie apart and still count as equal: rounding of sums of floating-point
// durations, nothing more. Objectives are equal within as much of themselves.
// There is none on memory: sizes are whole numbers, see [platform.Fits].
const Tolerance = 1e-9

// ErrProblem is wrapped by [Verify] for plans of problems without a verifier.
var ErrProblem = errors.New("no verifier for this problem")

// ErrUnreadable is wrapped when a plan is not broken but cannot be replayed at
// all: no period, no memory, no instance.
var ErrUnreadable = errors.New("plan cannot be replayed")

// Verify replays p on a chain by the rules of p.Problem; [VerifyOn] replays
// plans of any instance. The error says why there
// was nothing to replay; broken rules are in the report.
func Verify(c *chain.Chain, p *Plan) (*Report, error) {
	if p == nil {
		return nil, fmt.Errorf("%w: no plan", ErrUnreadable)
	}
	switch p.Problem {
	case WeightOffload:
		return VerifyWeightOffload(c, p)
	case Remat:
		return VerifyRemat(c, p)
	case Pipeline:
		return VerifyPattern(c, p)
	case ActivationOffload, RematOffload:
		return VerifyOffload(c, p)
	}
	return nil, fmt.Errorf("%w of a chain: %q (known: %s, %s, %s, %s, %s)",
		ErrProblem, p.Problem, WeightOffload, Remat, Pipeline, ActivationOffload, RematOffload)
}

// compareClaims returns where the claims of p differ from the replay. A plan that
// claims nothing is not wrong.
func compareClaims(p *Plan, r *Report) []string {
	claims := p.Claims
	if claims == (Claims{}) {
		return nil
	}
	var s []string
	if x, y := claims.Makespan, r.Makespan; !(math.Abs(x-y) <= Tolerance*max(math.Abs(x), math.Abs(y))) {
		s = append(s, fmt.Sprintf("claims.makespan is %.10g seconds, the replay gives %.10g", x, y))
	}
	if x, y := claims.PeakMemory, r.PeakMemory; x != y {
		s = append(s, fmt.Sprintf("claims.peak_memory is %s bytes, the replay gives %s", p.size(x), p.size(y)))
	}
	return s
}

// sortViolations puts violations in order of time, then of operation.
func sortViolations(v []Violation) {
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
