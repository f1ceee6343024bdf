// Package proof has the words for what is known of an objective and how well it
// is known: bounds and who proved them, claims that nobody checked, and why a
// run ended. It proves nothing itself.
package proof

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"

	"workbench/model/certificate"
)

// Kind is how a bound is known.
type Kind string

const (
	// Certified: checked in exact arithmetic in this run, see package
	// certificate.
	Certified Kind = "certified"
	// Search: by a program of ours with exact memory: a closed form rounded
	// downwards, a dynamic program, an exhaustive search.
	Search Kind = "search"
	// Solver: the word of a floating-point solver.
	Solver Kind = "solver"
)

// Trusted reports whether a gap closed by such a bound makes a plan optimal.
func (k Kind) Trusted() bool { return k == Certified || k == Search }

// Bound is a lower bound on the objective of every plan of an instance that
// keeps the assumptions.
type Bound struct {
	Value       float64  `json:"value"` // seconds
	By          string   `json:"by"`
	Proof       Kind     `json:"proof"`
	Assumptions []string `json:"assumptions"` // see plan.Assumption

	// Why says which argument excluded which part of the search that proved the bound, the largest part first; nil if it
	// was no search.
	Why []Share `json:"-"`

	// Certificate is the proof of a Certified bound that was made of a
	// formulation.
	Certificate *certificate.Certificate `json:"-"`
}

// Share is an argument and the part of a search, 0 to 1, that it excluded.
type Share struct {
	By   string  `json:"by"`
	Part float64 `json:"part"`
}

// Tally counts by argument what a search excluded: states, nodes or conflicts.
type Tally map[string]int64

// States counts what a search over states excluded.
type States struct {
	Enumerated, Dominated, Bounded, OutOfMemory int64
}

// Shares returns the parts of the count, the largest first.
func (s States) Shares() []Share {
	return Tally{
		"enumerated": s.Enumerated, "dominated by another state": s.Dominated,
		"bound on the time from a state on": s.Bounded, "memory": s.OutOfMemory,
	}.Shares()
}

// Shares returns the parts of the count, the largest first.
func (t Tally) Shares() []Share {
	sum := int64(0)
	for _, n := range t {
		sum += n
	}
	var list []Share
	for by, n := range t {
		if n > 0 {
			list = append(list, Share{by, float64(n) / float64(sum)})
		}
	}
	return LargestFirst(list)
}

// LargestFirst orders shares by their parts, the largest first, and equal ones by name.
func LargestFirst(list []Share) []Share {
	slices.SortFunc(list, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Part, a.Part), cmp.Compare(a.By, b.By))
	})
	return list
}

// BySearch returns a bound that a program of ours proved, for all plans.
func BySearch(value float64, by string) Bound {
	return Bound{Value: value, By: by, Proof: Search, Assumptions: []string{}}
}

// SumOfComputations is the name of the bound that every problem on one GPU has.
const SumOfComputations = "the sum of the computations"

// BestFirst orders bounds in closed form by their values, the highest first.
func BestFirst(list ...Bound) []Bound {
	slices.SortStableFunc(list, func(a, b Bound) int { return cmp.Compare(b.Value, a.Value) })
	return list
}

// Compare orders bounds by what they are worth: higher ones first, of equal ones
// those with fewer assumptions, then certified ones. Values within 1e-9 of each
// other are equal, those of a certified bound and another within 1e-6, since
// certificates stop short of a millionth.
func Compare(a, b *Bound) int {
	equal := 1e-9
	if (a.Proof == Certified) != (b.Proof == Certified) {
		equal = 1e-6
	}
	switch {
	case a.Value > b.Value && a.Value-b.Value > equal*a.Value:
		return -1
	case b.Value > a.Value && b.Value-a.Value > equal*b.Value:
		return 1
	}
	if c := cmp.Compare(len(a.Assumptions), len(b.Assumptions)); c != 0 {
		return c
	}
	return cmp.Compare(a.Proof, b.Proof) // "certified" < "search" < "solver"
}

// Claim is what a solver says and nobody checked.
type Claim struct {
	By     string  `json:"by"`
	Value  float64 `json:"value"`  // seconds; of an infeasible model without meaning
	Status string  `json:"status"` // the solver's verdict: "optimal", "feasible", "infeasible"
	// Assumptions are those of the formulation, as of a Bound.
	Assumptions []string `json:"assumptions,omitempty"`
	// Why it is no bound: "not certified: 38 s of LPs were not enough".
	Why string `json:"why,omitempty"`
}

// MarshalJSON writes null for the value of an infeasible model.
func (c Claim) MarshalJSON() ([]byte, error) {
	type plain Claim
	if math.IsInf(c.Value, 0) {
		return json.Marshal(struct {
			plain
			Value *float64 `json:"value"`
		}{plain: plain(c)})
	}
	return json.Marshal(plain(c))
}

// Ended says why a run ended.
type Ended string

const (
	Closed      Ended = "closed"       // plan and bound have met, or infeasibility is proved
	Gap         Ended = "gap"          // the gap asked for is reached
	TimeLimit   Ended = "time-limit"   //
	NodeLimit   Ended = "node-limit"   //
	MemoryLimit Ended = "memory-limit" //
	Interrupted Ended = "interrupted"  // by the user
	NoProof     Ended = "no-proof"     // the method has no more to do, and the gap is open
	Error       Ended = "error"        //
)
