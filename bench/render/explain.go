package render

import (
	"fmt"
	"io"
	"strings"

	"workbench/bench/solve"
	"workbench/model/platform"
	"workbench/model/proof"
)

// explainedShares is how many arguments Explain prints of a bound.
const explainedShares = 8

// Explain writes why the bounds of r hold: which argument excluded which part of the search that proved each of them, in
// about ten lines.
func Explain(w io.Writer, p *solve.Problem, r *solve.Result) {
	if b := r.Bound; b != nil && len(b.Why) == 0 {
		fmt.Fprintf(w, "\nwhy %s holds for every plan: %s; docs/bounds.md says where its proof is\n", p.Write(b.Value), ProvedBy(b))
	}
	for _, x := range r.Explanations {
		of := "every plan"
		if len(x.Assumptions) > 0 {
			of = "plans that keep: " + strings.Join(x.Assumptions, "; ")
		}
		fmt.Fprintf(w, "\nwhy %s holds for %s: part of the search that each argument excluded\n", p.Write(x.Value), of)
		for _, s := range FewShares(x.Why) {
			fmt.Fprintf(w, "  %5.1f %%  %s\n", 100*s.Part, s.By)
		}
	}
}

// FewShares returns the largest shares, and the sum of the others as the last one.
func FewShares(list []proof.Share) []proof.Share {
	if len(list) <= explainedShares {
		return list
	}
	few := append([]proof.Share{}, list[:explainedShares-1]...)
	rest := 0.0
	for _, s := range list[explainedShares-1:] {
		rest += s.Part
	}
	return append(few, proof.Share{By: platform.Count(len(list)-explainedShares+1, "other argument"), Part: rest})
}
