package rematoffload

import "workbench/model/plan"

// problemOf returns the problem by whose rules p is replayed, and whether that is activation
// offloading.
func problemOf(p *plan.Plan) (problem string, activation bool) {
	if p != nil && p.Problem == plan.ActivationOffload {
		return plan.ActivationOffload, true
	}
	return plan.RematOffload, false
}
