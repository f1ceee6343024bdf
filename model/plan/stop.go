package plan

import (
	"context"
	"time"
)

// Stop says that a search is to end, with what it has: once it is closed, as the Done of a
// context is. nil: never.
type Stop <-chan struct{}

// Given reports whether the search is to end.
func (s Stop) Given() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}

// Portion returns a context that ends after a part of the time that ctx has left.
func Portion(ctx context.Context, part float64) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(part*float64(time.Until(deadline))))
}
