package swap

import (
	"context"
	"errors"
	"fmt"
	"math"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// ErrParameter is wrapped by the error of a parameter that means nothing.
var ErrParameter = errors.New("parameter unfit for the method")

// LMS is in.lms for given thresholds, ErrParameter if they are none.
func LMS(ctx context.Context, s *functions.Sequence, p platform.Platform, threshold, ahead int) (*plan.Plan, error) {
	return lms(ctx, s, p, "lms", threshold, ahead, func(d int) bool { return d > threshold })
}

// LMSPrinted is LMS with the condition as [003] prints it: swapped out is what is
// used again soon, d(f_i,f_j) ≤ threshold. Le et al. have the opposite, and so has
// [003] a few lines on: a larger threshold takes more memory.
func LMSPrinted(ctx context.Context, s *functions.Sequence, p platform.Platform, threshold, ahead int) (*plan.Plan, error) {
	return lms(ctx, s, p, "lms-printed", threshold, ahead, func(d int) bool { return d <= threshold })
}

func lms(ctx context.Context, s *functions.Sequence, p platform.Platform, method string, threshold, ahead int,
	far func(int) bool,
) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	if threshold < 0 || ahead < 1 {
		return nil, fmt.Errorf("%w: %s: a swap-out threshold of %d and swap-in %d ahead; they must be at least 0 and 1", ErrParameter, method,
			threshold, ahead)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", method, plan.ErrNoPlan, err)
	}
	m, list := newMachine(in), in.lms(newOrders(in), far, ahead, nil)
	m.issued = true
	if math.IsInf(m.run(list), 1) {
		return nil, m.explain(method, list)
	}
	return m.plan(method), nil
}

// Window is the schedule of one schedule-window, in bytes. A window smaller than
// the variables of some function is an error wrapping ErrParameter.
func Window(ctx context.Context, s *functions.Sequence, p platform.Platform, window float64) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	if err := in.checkWindow(window); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("window: %w: %w", plan.ErrNoPlan, err)
	}
	m := newMachine(in)
	m.issued = true
	if list := newScheduler(in).list(window, nil); math.IsInf(m.run(list), 1) {
		return nil, m.explain("window", list)
	}
	return m.plan("window"), nil
}

// checkWindow checks that each function is within the window.
func (in *instance) checkWindow(window float64) error {
	if math.IsNaN(window) || math.IsInf(window, 0) {
		return fmt.Errorf("%w: the schedule-window is %v bytes, it must be a number", ErrParameter, window)
	}
	for i := range in.N {
		if own := in.Own(i); own > window {
			return fmt.Errorf("%w: the schedule-window is %.10g bytes, but %s alone has variables of %.10g bytes", ErrParameter, window, in.Name(i),
				own)
		}
	}
	return nil
}
