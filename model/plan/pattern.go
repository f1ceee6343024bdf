package plan

import (
	"fmt"

	"workbench/model/chain"
)

// Pipeline is the name of the problem of [004] chapters 5 to 7.
const Pipeline = "pipeline"

// VerifyPattern replays p, a k-periodic pattern, on c.
func VerifyPattern(c *chain.Chain, p *Plan) (*Report, error) {
	return nil, fmt.Errorf("%w: %q", ErrProblem, Pipeline)
}
