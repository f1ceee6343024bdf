package run

import (
	"context"
	"errors"

	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Problems and methods of the catalogue compute in the unit of the instance's
// sizes; settings, results and plans speak bytes. The functions of this file are
// the border.

// in returns the setting, given in bytes, in another unit.
func (s Setting) in(u platform.Unit) Setting {
	s.Platform = inUnit(s.Platform, u)
	return s
}

// inUnit returns a platform, given in bytes, in another unit. The memory of one
// in bytes is rounded down, too: sizes are whole numbers.
func inUnit(p platform.Platform, u platform.Unit) platform.Platform {
	p.Memory, p.Bandwidth = u.FromBytes(p.Memory), u.Rate(p.Bandwidth)
	return p
}

// InBytes returns the problem with functions that take and return bytes.
func (p *Problem) InBytes() *Problem {
	q := *p
	q.Range = func(in *Instance) (low, high float64) {
		low, high = p.Range(in)
		return in.Unit().Bytes(low), in.Unit().Bytes(high)
	}
	q.Fit = func(in *Instance, m platform.Platform) error { return p.Fit(in, inUnit(m, in.Unit())) }
	q.Bound = func(in *Instance, s Setting) Bound { return p.Bound(in, s.in(in.Unit())) }
	return &q
}

// InBytes returns the method with functions that take and return bytes.
func (m *Method) InBytes() *Method {
	w := *m
	w.Run = func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
		out, err := m.Run(ctx, in, s.in(in.Unit()))
		if out != nil {
			out.Plan = out.Plan.In(platform.Byte)
		}
		return out, inBytes(err, in.Unit())
	}
	if m.Curve != nil {
		w.Curve = func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error) {
			u := in.Unit()
			t, err := m.Curve(ctx, in, s.in(u), u.FromBytes(most))
			if err != nil {
				return t, inBytes(err, u)
			}
			for k := range t.Points {
				t.Points[k].Memory = u.Bytes(t.Points[k].Memory)
			}
			plans := t.Plan
			t.Plan = func(memory float64) (*plan.Plan, error) {
				p, err := plans(u.FromBytes(memory))
				return p.In(platform.Byte), inBytes(err, u)
			}
			return t, nil
		}
	}
	if m.Model != nil {
		w.Model = func(in *Instance, p platform.Platform) (*milp.Model, error) {
			model, err := m.Model(in, inUnit(p, in.Unit()))
			return model, inBytes(err, in.Unit())
		}
	}
	return &w
}

// inBytes says of an error about memory in which unit it is.
func inBytes(err error, u platform.Unit) error {
	var infeasible *plan.Infeasible
	if errors.As(err, &infeasible) {
		infeasible.Unit = u
	}
	return err
}

// Resolve returns the bytes that a limit on memory stands for, a whole number of
// the unit of the instance, whose range is from low to high bytes.
func (in *Instance) Resolve(spec platform.MemorySpec, low, high float64) float64 {
	u := in.Unit()
	return u.Bytes(spec.ResolveIn(u.FromBytes(low), u.FromBytes(high), u))
}
