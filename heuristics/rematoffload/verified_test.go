package rematoffload

import (
	"fmt"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

func verified(t testing.TB, c *chain.Chain, p *plan.Plan) float64 {
	t.Helper()
	r, err := verifyrematoffload.Verify(c, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		text := ""
		for _, o := range p.Ops {
			text += fmt.Sprintf("%s [%g,%g] ", &o, o.Start, o.End)
		}
		t.Fatalf("%s in %g bytes: %v %v\n%+v\n%s", p.Method, p.Platform.Memory, r.Violations, r.ClaimErrors, c, text)
	}
	return r.Makespan
}
