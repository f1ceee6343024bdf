package solve

import (
	"context"
	"errors"

	"workbench/model/plan"
	"workbench/model/platform"
)

// Problems and methods of the catalogue compute in the unit of the instance's sizes; settings, results and plans
// use bytes. The functions of this file convert between them.

// inUnits returns the setting, given in bytes, in another unit.
func (s Setting) inUnits(u platform.Unit) Setting {
	s.Platform = inUnit(s.Platform, u)
	return s
}

// inUnit returns a platform, given in bytes, in another unit. The memory is rounded down even if the unit is the
// byte, since sizes are integers.
func inUnit(p platform.Platform, u platform.Unit) platform.Platform {
	p.Memory, p.Bandwidth = u.FromBytes(p.Memory), u.Rate(p.Bandwidth)
	return p
}

// Platform returns a platform, given in bytes, in the unit of the instance.
func (in *Instance) Platform(bytes platform.Platform) platform.Platform {
	return inUnit(bytes, in.Unit())
}

// InBytes annotates an error about memory with the unit of the instance.
func (in *Instance) InBytes(err error) error { return inBytes(err, in.Unit()) }

// InBytes returns the problem with functions that take and return bytes.
func (p *Problem) InBytes() *Problem {
	q := *p
	q.Range = func(in *Instance, s Setting) (low, high float64) {
		low, high = p.Range(in, s.inUnits(in.Unit()))
		return in.Unit().Bytes(low), in.Unit().Bytes(high)
	}
	q.Fit = func(in *Instance, m platform.Platform) error { return p.Fit(in, inUnit(m, in.Unit())) }
	q.Bound = func(in *Instance, s Setting) Bound {
		b := p.Bound(in, s.inUnits(in.Unit()))
		if plan.MinimisesMemory(p.Name) {
			b.Value = in.Unit().Bytes(b.Value)
		}
		return b
	}
	q.Methods = func() []*Method {
		all := p.Methods()
		for i := range all {
			all[i] = all[i].inBytes(plan.MinimisesMemory(p.Name))
		}
		return all
	}
	return &q
}

// inBytes returns the method with functions that take and return bytes. memory reports whether its objective is a
// memory.
func (m *Method) inBytes(memory bool) *Method {
	w := *m
	w.Run = func(ctx context.Context, in *Instance, s Setting) (*Outcome, error) {
		u := in.Unit()
		inUnits := s.inUnits(u)
		if memory && s.OnProgress != nil {
			inUnits.OnProgress = func(p Progress) {
				p.Objective, p.Bound = u.Bytes(p.Objective), u.Bytes(p.Bound)
				s.OnProgress(p)
			}
		}
		out, err := m.Run(ctx, in, inUnits)
		if out != nil {
			out.Plan = out.Plan.Converted(platform.Byte)
			if memory {
				out.objectiveInBytes(u)
			}
		}
		return out, inBytes(err, u)
	}
	if m.Curve != nil {
		w.Curve = func(ctx context.Context, in *Instance, s Setting, most float64) (Tradeoff, error) {
			u := in.Unit()
			t, err := m.Curve(ctx, in, s.inUnits(u), u.FromBytes(most))
			if err != nil {
				return t, inBytes(err, u)
			}
			for k := range t.Points {
				t.Points[k].Memory = u.Bytes(t.Points[k].Memory)
			}
			plans := t.Plan
			t.Plan = func(memory float64) (*plan.Plan, error) {
				p, err := plans(u.FromBytes(memory))
				return p.Converted(platform.Byte), inBytes(err, u)
			}
			return t, nil
		}
	}
	return &w
}

// objectiveInBytes converts bounds and claims of an objective that is a memory to bytes.
func (out *Outcome) objectiveInBytes(u platform.Unit) {
	for k := range out.Bounds {
		out.Bounds[k].Value = u.Bytes(out.Bounds[k].Value)
	}
	for k := range out.Claims {
		out.Claims[k].Value = u.Bytes(out.Claims[k].Value)
	}
}

// inBytes annotates an error about memory with its unit.
func inBytes(err error, u platform.Unit) error {
	if infeasible, ok := errors.AsType[*plan.Infeasible](err); ok {
		infeasible.Unit = u
	}
	return err
}

// Resolve returns a memory limit in bytes, an integer multiple of the instance's unit. low and high are the
// instance's range in bytes.
func (in *Instance) Resolve(spec platform.MemorySpec, low, high float64) float64 {
	u := in.Unit()
	return u.Bytes(spec.ResolveIn(u.FromBytes(low), u.FromBytes(high), u))
}
