package fragmentation

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/allocator"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/solvers"
)

// Placer assigns addresses to the tensors of plans: a plan of the problem placement for the tensors of one device.
type Placer struct {
	Problem  *solve.Problem // of the plans
	Instance *solve.Instance
	Device   string        // "": the one with the highest peak
	Align    int64         // of addresses, bytes
	Method   string        // of placement
	Time     time.Duration // of each placement, and of each planning run; 0: no limit
	// Replans limits how often the planner is called again, with the memory reduced by the excess of the
	// placement; Backend is for planners with a MILP.
	Replans int
	Backend solvers.Backend
}

// Placed is a placement.
type Placed struct {
	*solve.Result
	Lifetimes *lifetimes.Lifetimes
	Of        *plan.Plan // the placed plan, possibly replanned for less memory
	Memory    float64    // for which the first plan was made
}

// Place places the tensors of a plan. The error wraps plan.ErrNoPlan if no plan fits after the given number of
// replans.
func (x *Placer) Place(ctx context.Context, p *plan.Plan) (*Placed, error) {
	memory := p.Platform.Memory
	for again := 0; ; again++ {
		l, err := x.lifetimes(p)
		if err != nil {
			return nil, err
		}
		r, err := x.place(ctx, l)
		if err != nil {
			return nil, err
		}
		excess := *r.Objective - memory
		if x.Replans == 0 || x.Problem.Slots || excess <= 0 {
			return &Placed{Result: r, Lifetimes: l, Of: p, Memory: memory}, nil
		}
		if again == x.Replans || ctx.Err() != nil {
			return nil, fmt.Errorf("after %d plans the placement takes %.0f bytes more than available: %w", again+1, excess, plan.ErrNoPlan)
		}
		if p, err = x.replan(ctx, p, p.Platform.Memory-excess); err != nil {
			return nil, err
		}
	}
}

// lifetimes returns the lifetimes of a plan on the device.
func (x *Placer) lifetimes(p *plan.Plan) (*lifetimes.Lifetimes, error) {
	t, err := Fullest(x.Problem, x.Instance, p, x.Device)
	switch {
	case err != nil:
		return nil, err
	case t == nil:
		return nil, solve.InputError(fmt.Errorf("device %q: the plan uses no memory there", x.Device))
	}
	l := t.Lifetimes(cmp.Or(x.Instance.Name, p.Problem)+"-"+p.Method, x.Align)
	return l, l.Validate()
}

// Fullest returns the trace of a plan on a device, by its name, or on the device with the highest peak; nil if it
// is empty.
func Fullest(problem *solve.Problem, in *solve.Instance, p *plan.Plan, device string) (*allocator.Trace, error) {
	const slot = 1 // byte
	traces, err := allocator.Traces(problem.Tensors, in.Instance, p, slot)
	if err != nil {
		return nil, solve.InputError(err)
	}
	var chosen *allocator.Trace
	for _, t := range traces {
		if len(t.Blocks) > 0 && (t.Device == device || device == "" && (chosen == nil || t.Peak() > chosen.Peak())) {
			chosen = t
		}
	}
	return chosen, nil
}

// place solves the placement. The error says that none was found.
func (x *Placer) place(ctx context.Context, l *lifetimes.Lifetimes) (*solve.Result, error) {
	problem, err := catalog.FindProblem(plan.Placement)
	if err != nil {
		return nil, err
	}
	m, err := catalog.FindMethod(problem, x.Method)
	if err != nil {
		return nil, err
	}
	if m.Solver {
		return nil, solve.InputError(fmt.Errorf("method %s needs a solver; write the lifetimes to a file and solve them", m.Name))
	}
	digest, err := l.Digest()
	if err != nil {
		return nil, solve.InputError(err)
	}
	in := &solve.Instance{Instance: l, Name: l.Name, SHA256: digest}
	setting := solve.Setting{Time: x.Time}
	_, setting.Platform.Memory = problem.Range(in, setting)
	r := solve.Run(ctx, problem, m, in, setting)
	return r, r.Err
}

// replan runs the method of a plan with less memory.
func (x *Placer) replan(ctx context.Context, p *plan.Plan, memory float64) (*plan.Plan, error) {
	m, err := catalog.FindMethod(x.Problem, p.Method)
	if err != nil {
		return nil, err
	}
	setting := solve.Setting{Platform: p.Platform, Time: x.Time, Threads: 1, MemoryModel: p.MemoryModel, Backend: x.Backend}
	setting.Platform.Memory = memory
	r := solve.Run(ctx, x.Problem, m, x.Instance, setting)
	if r.Plan == nil {
		return nil, r.Err
	}
	return r.Plan, nil
}
