package placement

import (
	"context"

	view "workbench/model/problem/placement"
)

// BoundByWindows is the bound on the height that windows of time alone prove in so many
// rounds.
func BoundByWindows(ctx context.Context, in *view.Instance, rounds int) (bound int64) {
	for _, p := range split(in, 0) {
		p.construct(ctx, 0)
		for round := range rounds {
			p.raise(ctx, round)
		}
		bound = max(bound, p.bound)
	}
	return bound
}
