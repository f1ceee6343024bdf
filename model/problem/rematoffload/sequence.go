package rematoffload

import "workbench/model/plan"

// kind is a kind of computation of [004] Table 2.1, or a discard.
type kind uint8

const (
	FAll kind = iota
	FCk
	FNone
	Backward
	DiscardA
	DiscardAbar
)

// Step is a computation of a layer or a discard of one of its tensors.
type Step struct {
	Kind  kind
	Layer int32
}

// tensor is 2ℓ for a_ℓ and 2ℓ+1 for ā_ℓ; ā_0 is a_0.
type tensor int32

func TensorOf(l int, abar bool) tensor {
	if abar && l > 0 {
		return tensor(2*l + 1)
	}
	return tensor(2 * l)
}

func (in *Instance) Size(t tensor) float64 {
	if t&1 == 1 {
		return in.Abar[t>>1]
	}
	return in.A[t>>1]
}

// Gap is a time in which a stored tensor is not used: after step From, which made it or last used
// it (-1: it is stored from the start), and before step To, which uses it next.
type Gap struct {
	Tensor   tensor
	From, To int
	made     bool // step From made it
}

// Profile is the replay of a sequence of steps without transfers: the memory of each step, and the
// gaps of the tensors.
type Profile struct {
	In    *Instance
	Steps []Step
	Took  []float64 // Took[i]: seconds
	// During[i] is everything stored before step i plus its output and overhead. δ_N counts from
	// the start of B_N.
	During []float64
	Loss   int   // the index of B_N
	Gaps   []Gap // gaps across the loss: From < Loss < To
}

// NewProfile replays steps. It reports false if they violate a rule of rematerialization other than
// the memory limit. O(steps).
func NewProfile(in *Instance, steps []Step) (*Profile, bool) {
	r := &Profile{In: in, Steps: steps, Loss: -1}
	flat := make([]float64, 2*len(steps))
	r.Took, r.During = flat[:len(steps)], flat[len(steps):]
	p := &replay{
		Profile: r, now: in.A[0], gradient: in.N,
		stored: make([]bool, 2*in.N+2), last: make([]int, 2*in.N+2), made: make([]bool, 2*in.N+2),
	}
	p.stored[0], p.last[0], p.made[0] = true, -1, true
	for i, s := range steps {
		var ok bool
		switch s.Kind {
		case DiscardA, DiscardAbar:
			ok = p.discard(i, TensorOf(int(s.Layer), s.Kind == DiscardAbar))
		default:
			ok = p.compute(i, s)
		}
		if !ok {
			return nil, false
		}
	}
	return r, p.gradient == 0
}

// replay is the state between two steps of a profile.
type replay struct {
	*Profile
	now      float64 // bytes stored
	gradient int     // ℓ of the stored δ_ℓ
	stored   []bool  // by tensor
	last     []int   // by tensor: the step that last used or made it
	made     []bool  // by tensor: that step made it
}

// use records that step i uses t, and the gap before it if it spans the loss.
func (p *replay) use(i int, t tensor) {
	if f := p.last[t]; p.Loss >= 0 && f < p.Loss && i > p.Loss {
		p.Gaps = append(p.Gaps, Gap{Tensor: t, From: f, To: i, made: p.made[t]})
	}
	p.last[t], p.made[t] = i, false
}

func (p *replay) keep(i int, t tensor) {
	if p.stored[t] {
		p.use(i, t)
		return
	}
	p.stored[t], p.last[t], p.made[t] = true, i, true
	p.now += p.In.Size(t)
}

func (p *replay) drop(t tensor) {
	if p.stored[t] {
		p.stored[t] = false
		p.now -= p.In.Size(t)
	}
}

// discard removes t at step i. It reports false if t is not stored.
func (p *replay) discard(i int, t tensor) bool {
	if !p.stored[t] {
		return false
	}
	p.During[i] = p.now
	p.last[t] = i
	p.drop(t)
	return true
}

// compute runs a computation as step i. It reports false if an input is missing or a backward is
// out of order.
func (p *replay) compute(i int, s Step) bool {
	in, l := p.In, int(s.Layer)
	// A stored ā can replace a; if both are stored, a is read.
	reads := TensorOf(l-1, false)
	if !p.stored[reads] {
		if reads = TensorOf(l-1, true); !p.stored[reads] || s.Kind == FNone {
			return false
		}
	}
	switch s.Kind {
	case FAll:
		p.use(i, reads)
		p.Took[i], p.During[i] = in.UF[l], p.now+in.Abar[l]+in.OF[l]
		p.keep(i, TensorOf(l, true))
	case FCk, FNone:
		p.use(i, reads)
		p.Took[i], p.During[i] = in.UF[l], p.now+in.A[l]+in.OC[l]
		p.keep(i, TensorOf(l, false))
		if s.Kind == FNone {
			p.drop(reads)
		}
	case Backward:
		if l != p.gradient || !p.stored[TensorOf(l, true)] {
			return false
		}
		if l == in.N {
			p.Loss = i
			p.now += in.Delta[l]
		}
		p.use(i, reads)
		p.use(i, TensorOf(l, true))
		p.Took[i], p.During[i] = in.UB[l], p.now+in.Delta[l-1]+in.OB[l]
		p.drop(TensorOf(l, true))
		p.drop(TensorOf(l-1, false))
		p.now += in.Delta[l-1] - in.Delta[l]
		p.gradient--
	}
	return true
}

// Computing returns the total time of the computations, in seconds.
func (r *Profile) Computing() (sum float64) {
	for _, x := range r.Took {
		sum += x
	}
	return sum
}

// StepsOf returns the computations and discards of a rematerialization plan.
func StepsOf(ops []plan.Op) []Step {
	kinds := map[string]kind{plan.OpFAll: FAll, plan.OpFCk: FCk, plan.OpFNone: FNone, plan.OpB: Backward}
	var steps []Step
	for i := range ops {
		o := &ops[i]
		k, known := kinds[o.Op]
		switch {
		case known:
		case o.Op == plan.OpD && o.Tensor == plan.TensorA:
			k = DiscardA
		case o.Op == plan.OpD:
			k = DiscardAbar
		default:
			continue
		}
		steps = append(steps, Step{k, int32(o.Layer)})
	}
	return steps
}

// Op returns the operation of a step, without times.
func (s Step) Op() plan.Op {
	o := plan.Op{Layer: int(s.Layer)}
	switch s.Kind {
	case FAll:
		o.Op = plan.OpFAll
	case FCk:
		o.Op = plan.OpFCk
	case FNone:
		o.Op = plan.OpFNone
	case Backward:
		o.Op = plan.OpB
	case DiscardA:
		o.Op, o.Tensor = plan.OpD, plan.TensorA
	case DiscardAbar:
		o.Op, o.Tensor = plan.OpD, plan.TensorAbar
	}
	return o
}

// Segment appends F_ck s, F_none s+1 .. F_none t.
func Segment(steps []Step, s, t int) []Step {
	steps = append(steps, Step{FCk, int32(s)})
	for l := s + 1; l <= t; l++ {
		steps = append(steps, Step{FNone, int32(l)})
	}
	return steps
}
