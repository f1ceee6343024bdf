package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/model/chain"
)

// Tolerance is how far, relative to the horizon for times and to the limit
// for memory, two numbers may lie apart and still count as equal: rounding
// of sums of floating-point durations, nothing more.
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

// compareClaims returns where the claims differ from the replay. A plan that
// claims nothing is not wrong.
func compareClaims(claims Claims, r *Report) []string {
	if claims == (Claims{}) {
		return nil
	}
	var s []string
	check := func(name, unit string, claimed, found float64) {
		if !(math.Abs(claimed-found) <= Tolerance*max(math.Abs(claimed), math.Abs(found))) {
			s = append(s, fmt.Sprintf("claims.%s is %.10g %s, the replay gives %.10g", name, claimed, unit, found))
		}
	}
	check("makespan", "seconds", claims.Makespan, r.Makespan)
	check("peak_memory", "bytes", claims.PeakMemory, r.PeakMemory)
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
