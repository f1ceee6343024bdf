//go:build cgo && !nohighs

package highs

import (
	"context"
	"runtime"
	"time"

	"workbench/solvers"
)

// Presolve implements [solvers.Presolver].
func (Engine) Presolve(ctx context.Context, p *solvers.Problem) (size solvers.Presolved, err error) {
	if err := Available(); err != nil {
		return size, err
	}
	done := make(chan error, 1)
	found := make(chan solvers.Presolved, 1)
	go func() {
		runtime.LockOSThread() // permanently, as in Run
		done <- use(&sink{p: p, deaf: true}, func(h instance) error {
			if err := h.load(p); err != nil {
				return err
			}
			h.set("time_limit", timeLimit(p.Time, time.Duration(0)))
			size, err := h.presolve()
			found <- size
			return err
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			return size, err
		}
		return <-found, nil
	case <-ctx.Done(): // abandoned, until its time limit
		return size, ctx.Err()
	}
}
