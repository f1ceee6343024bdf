package plan_test

import (
	"testing"

	"workbench/model/plan"
)

func TestInfeasible(t *testing.T) {
	for want, e := range map[string]plan.Infeasible{
		"remat: no plan fits in 9 bytes: at least 10 bytes are needed (B_3 needs its inputs)": {
			Problem: plan.Remat, Memory: 10,
			Given: 9, Why: "B_3 needs its inputs",
		},
		"remat: no plan fits in 0.25 bytes: at least 0.3 bytes are needed": {
			Problem: plan.Remat, Memory: 0.3,
			Given: 0.25,
		},
		"remat: no plan fits in 16 GiB (17179869184 bytes): at least 16 GiB (17179869185 bytes) are needed": {
			Problem: plan.Remat,
			Memory:  1<<34 + 1, Given: 1 << 34,
		},
		"join: no plan fits in 2 slots: at least 3 slots are needed": {
			Problem: plan.Join, Memory: 3,
			Given: 2,
		},
	} {
		if got := e.Error(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
