//go:build cgo && !nohighs

package highs

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// lp is a persistent instance. HiGHS keeps its scheduler per OS thread, so all calls are made on a goroutine with
// a thread of its own.
type lp struct {
	calls      chan func(instance)
	cols, rows int
	lost       error // why it can no longer be used
}

// OpenLP implements [solvers.LPEngine].
func (Engine) OpenLP(d *milp.Data) (solvers.LP, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	p := &lp{calls: make(chan func(instance)), cols: len(d.Cost), rows: len(d.RowLower)}
	opened := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // permanently, as in Run
		err := use(&sink{deaf: true}, func(h instance) error {
			if err := h.loadLP(d); err != nil {
				return err
			}
			opened <- nil
			for call := range p.calls {
				call(h)
			}
			return nil
		})
		if err != nil {
			opened <- err
		}
	}()
	if err := <-opened; err != nil {
		return nil, err
	}
	return p, nil
}

// loadLP sets the options and passes the model. Presolve is off, because it would discard the basis and the ray.
// Tolerances are the tightest at which HiGHS is reliable.
func (h instance) loadLP(d *milp.Data) error {
	for _, o := range []struct {
		name  string
		value any
	}{
		{"output_flag", false},
		{"log_to_console", false},
		{"threads", 1},
		{"presolve", "off"},
		{"solver", "simplex"},
		{"simplex_strategy", dualSimplex},
		{"primal_feasibility_tolerance", 1e-9},
		{"dual_feasibility_tolerance", 1e-9},
		{"small_matrix_value", 1e-12},
		{"large_matrix_value", 1e16},
	} {
		if !h.set(o.name, o.value) {
			return fmt.Errorf("%w: HiGHS rejects %s = %v", solvers.ErrOption, o.name, o.value)
		}
	}
	return h.pass(d, nil)
}

// Values of simplex_strategy.
const (
	dualSimplex   = 1
	primalSimplex = 4
)

// lateness is how long HiGHS may take to return after the end of its time before it is abandoned.
const lateness = time.Second

// do makes calls with the instance. An abandoned program makes no more calls.
func (p *lp) do(ctx context.Context, call func(h instance) error) error {
	if p.lost != nil {
		return p.lost
	}
	done := make(chan error, 1)
	p.calls <- func(h instance) { done <- call(h) }
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(lateness)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		p.lost = fmt.Errorf("%w: HiGHS had not returned %v after the end of its time and was abandoned", solvers.ErrSolver, lateness)
		return p.lost
	}
}

// Close implements [solvers.LP].
func (p *lp) Close() { close(p.calls) }

// SetBounds implements [solvers.LP].
func (p *lp) SetBounds(columns []int32, lower, upper []float64) error {
	return p.do(context.Background(), func(h instance) error {
		for k, j := range columns {
			if err := h.setBounds(j, lower[k], upper[k]); err != nil {
				return err
			}
		}
		return nil
	})
}

// SetCosts implements [solvers.LP].
func (p *lp) SetCosts(columns []int32, costs []float64) error {
	return p.do(context.Background(), func(h instance) error {
		for k, j := range columns {
			if err := h.setCost(j, costs[k]); err != nil {
				return err
			}
		}
		return nil
	})
}

// AddRows implements [solvers.LP].
func (p *lp) AddRows(lower, upper []float64, start, col []int32, val []float64) error {
	err := p.do(context.Background(), func(h instance) error { return h.addRows(lower, upper, start, col, val) })
	if err == nil {
		p.rows += len(lower)
	}
	return err
}

// AddCols implements [solvers.LP].
func (p *lp) AddCols(cost, lower, upper []float64, start, row []int32, val []float64) error {
	err := p.do(context.Background(), func(h instance) error { return h.addCols(cost, lower, upper, start, row, val) })
	if err == nil {
		p.cols += len(cost)
	}
	return err
}

// SetSides implements [solvers.LP].
func (p *lp) SetSides(row int32, lower, upper float64) error {
	return p.do(context.Background(), func(h instance) error { return h.setSides(row, lower, upper) })
}

// SetCoef implements [solvers.LP].
func (p *lp) SetCoef(row, column int32, value float64) error {
	return p.do(context.Background(), func(h instance) error { return h.setCoef(row, column, value) })
}

// ways lists algorithms in the order in which they are tried; attempt k begins with the k-th.
var ways = [...]struct {
	strategy int
	scratch  bool
}{
	{dualSimplex, false},
	{primalSimplex, true},
	{dualSimplex, true},
}

// Solve implements [solvers.LP]. If HiGHS returns unknown, or infeasible without a ray, as the primal simplex
// does, it is called again with another algorithm.
func (p *lp) Solve(ctx context.Context, o solvers.LPOptions) (*solvers.LPResult, error) {
	if o.Time > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Time)
		defer cancel()
	}
	found := make(chan *solvers.LPResult, 1) // not a variable: the call may be abandoned
	err := p.do(ctx, func(h instance) error {
		r, err := p.solve(ctx, h, o)
		found <- r
		return err
	})
	if err != nil {
		return nil, err
	}
	return <-found, nil
}

func (p *lp) solve(ctx context.Context, h instance, o solvers.LPOptions) (r *solvers.LPResult, err error) {
	for _, way := range ways[min(o.Attempt, len(ways)-1):] {
		if way.scratch {
			if err := h.forget(); err != nil {
				return nil, err
			}
		}
		r, err = p.run(ctx, h, way.strategy, o)
		if err != nil || r.Status != solvers.Numerical && (r.Status != solvers.Infeasible || r.Ray != nil) {
			return r, err
		}
	}
	return r, nil
}

// run solves once.
func (p *lp) run(ctx context.Context, h instance, strategy int, o solvers.LPOptions) (*solvers.LPResult, error) {
	h.goOn()
	h.set("simplex_strategy", strategy)
	seconds := math.Inf(1)
	if end, ok := ctx.Deadline(); ok { // HiGHS checks its own clock more often
		seconds = max(0, time.Until(end).Seconds())
	}
	h.set("time_limit", seconds)
	iterations := o.Iterations
	if iterations <= 0 {
		iterations = math.MaxInt32
	}
	h.set("simplex_iteration_limit", iterations)
	cutoff := math.Inf(1)
	if o.Cutoff.Set {
		cutoff = o.Cutoff.Value
	}
	h.set("objective_bound", cutoff)
	if ctx.Err() != nil {
		h.stop() // at once: AfterFunc may fire after a small program is solved
	}
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		h.stop()
		close(ended)
	})
	rc := h.run()
	if !unwatch() {
		<-ended // stop must not follow a later goOn
	}
	if rc < -1 {
		return nil, failure("run", rc)
	}
	c, ok := claimOf(h.modelStatus(), facts{nodeLimit: -1})
	if !ok {
		return nil, fmt.Errorf("%w (%s)", failure("run", rc), c.name)
	}
	r := &solvers.LPResult{Status: c.status, Stop: c.stop, Raw: c.name, Objective: math.NaN(), Iterations: h.iterations()}
	switch c.status {
	case solvers.Optimal:
		r.Objective = h.infoDouble("objective_function_value", math.NaN())
		r.X, r.Reduced, r.Dual = make([]float64, p.cols), make([]float64, p.cols), make([]float64, p.rows)
		return r, h.solution(r.X, r.Reduced, r.Dual)
	case solvers.Infeasible:
		if strategy == dualSimplex {
			r.Ray = h.ray(p.rows)
		}
	case solvers.NoSolution:
		switch c.stop {
		case solvers.Iterations:
			r.Objective = h.infoDouble("objective_function_value", math.NaN())
		case solvers.Objective:
			r.Objective = cutoff
			r.Dual = make([]float64, p.rows)
			return r, h.solution(make([]float64, p.cols), make([]float64, p.cols), r.Dual)
		}
	case solvers.Imprecise:
		r.Status = solvers.Numerical
	}
	return r, nil
}
