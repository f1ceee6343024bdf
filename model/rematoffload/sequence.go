package rematoffload

import "workbench/model/plan"

// kind is a kind of computation, [004] Table 2.1, or a discard.
type kind uint8

const (
	FAll kind = iota
	FCk
	FNone
	Backward
	DiscardA
	DiscardAbar
)

// A Step is a computation of a layer or a discard of one of its tensors.
type Step struct {
	Kind  kind
	Layer int32
}

// A tensor is 2ℓ for a_ℓ and 2ℓ+1 for ā_ℓ. ā_0 is a_0.
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

// A Gap is a time in which a stored tensor is not used: after step from, which
// made it or used it last (-1: it is there from the start), and before step to,
// which uses it next.
type Gap struct {
	Tensor   tensor
	From, To int
	made     bool // step from made it
}

// A Profile is the replay of a sequence of steps without transfers: how much
// memory each step takes, and when which tensor is not in use.
type Profile struct {
	In    *Instance
	Steps []Step
	Took  []float64 // took[i]: seconds
	// during[i] is everything stored before step i, its output and overhead;
	// before[i] what is stored before it, before[len(steps)] at the end. δ_N
	// counts from the start of B_N.
	During, before []float64
	Loss           int   // the step that is B_N
	Gaps           []Gap // those over the loss: from < loss < to
}

// NewProfile replays steps; false if they break a rule of rematerialization
// other than the limit of memory. O(steps).
func NewProfile(in *Instance, steps []Step) (*Profile, bool) {
	r := &Profile{In: in, Steps: steps, Loss: -1}
	flat := make([]float64, 3*len(steps)+1)
	r.Took, r.During, r.before = flat[:len(steps)], flat[len(steps):2*len(steps)], flat[2*len(steps):]
	stored := make([]bool, 2*in.N+2)
	last := make([]int, 2*in.N+2) // step that used or made it last
	made := make([]bool, 2*in.N+2)
	ran := make([]bool, in.N+1)
	stored[0], last[0], made[0] = true, -1, true
	now := in.A[0]
	gradient := in.N
	use := func(i int, t tensor) {
		if f := last[t]; r.Loss >= 0 && f < r.Loss && i > r.Loss {
			r.Gaps = append(r.Gaps, Gap{Tensor: t, From: f, To: i, made: made[t]})
		}
		last[t], made[t] = i, false
	}
	keep := func(i int, t tensor) {
		if stored[t] {
			use(i, t)
			return
		}
		stored[t], last[t], made[t] = true, i, true
		now += in.Size(t)
	}
	drop := func(t tensor) {
		if stored[t] {
			stored[t] = false
			now -= in.Size(t)
		}
	}
	for i, s := range steps {
		l := int(s.Layer)
		r.before[i] = now
		if s.Kind == DiscardA || s.Kind == DiscardAbar {
			t := TensorOf(l, s.Kind == DiscardAbar)
			if !stored[t] {
				return nil, false
			}
			r.During[i] = now
			last[t] = i
			drop(t)
			continue
		}
		// A kept ā serves as well as a; where both are stored a is read.
		reads := TensorOf(l-1, false)
		if !stored[reads] {
			if reads = TensorOf(l-1, true); !stored[reads] || s.Kind == FNone {
				return nil, false
			}
		}
		switch s.Kind {
		case FAll:
			use(i, reads)
			r.Took[i], r.During[i] = in.UF[l], now+in.Abar[l]+in.OF[l]
			keep(i, TensorOf(l, true))
		case FCk, FNone:
			use(i, reads)
			r.Took[i], r.During[i] = in.UF[l], now+in.A[l]+in.OF[l]
			keep(i, TensorOf(l, false))
			if s.Kind == FNone {
				drop(reads)
			}
		case Backward:
			if l != gradient || ran[l] || !stored[TensorOf(l, true)] {
				return nil, false
			}
			if l == in.N {
				r.Loss = i
				now += in.Delta[l]
			}
			use(i, reads)
			use(i, TensorOf(l, true))
			r.Took[i], r.During[i] = in.UB[l], now+in.Delta[l-1]+in.OB[l]
			ran[l] = true
			drop(TensorOf(l, true))
			drop(TensorOf(l-1, false))
			now += in.Delta[l-1] - in.Delta[l]
			gradient--
		}
	}
	r.before[len(steps)] = now
	return r, gradient == 0
}

// Computing is the time of all computations.
func (r *Profile) Computing() (sum float64) {
	for _, x := range r.Took {
		sum += x
	}
	return sum
}

// StepsOf reads the computations of a plan of rematerialization.
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

// Op is the operation of a step.
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
