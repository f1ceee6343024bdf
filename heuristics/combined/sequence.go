package combined

import "workbench/model/plan"

// kind is a kind of computation, [004] Table 2.1, or a discard.
type kind uint8

const (
	fAll kind = iota
	fCk
	fNone
	backward
	discardA
	discardAbar
)

// A step is a computation of a layer or a discard of one of its tensors.
type step struct {
	kind  kind
	layer int32
}

// A tensor is 2ℓ for a_ℓ and 2ℓ+1 for ā_ℓ. ā_0 is a_0.
type tensor int32

func tensorOf(l int, abar bool) tensor {
	if abar && l > 0 {
		return tensor(2*l + 1)
	}
	return tensor(2 * l)
}

func (in *instance) size(t tensor) float64 {
	if t&1 == 1 {
		return in.abar[t>>1]
	}
	return in.a[t>>1]
}

// A gap is a time in which a stored tensor is not used: after step from, which
// made it or used it last (-1: it is there from the start), and before step to,
// which uses it next.
type gap struct {
	tensor   tensor
	from, to int
	made     bool // step from made it
}

// A profile is the replay of a sequence of steps without transfers: how much
// memory each step takes, and when which tensor is not in use.
type profile struct {
	in    *instance
	steps []step
	took  []float64 // took[i]: seconds
	// during[i] is everything stored before step i, its output and overhead;
	// before[i] what is stored before it, before[len(steps)] at the end. δ_N
	// counts from the start of B_N.
	during, before []float64
	loss           int   // the step that is B_N
	gaps           []gap // those over the loss: from < loss < to
}

// newProfile replays steps; false if they break a rule of rematerialization
// other than the limit of memory. O(steps).
func newProfile(in *instance, steps []step) (*profile, bool) {
	r := &profile{in: in, steps: steps, loss: -1}
	flat := make([]float64, 3*len(steps)+1)
	r.took, r.during, r.before = flat[:len(steps)], flat[len(steps):2*len(steps)], flat[2*len(steps):]
	stored := make([]bool, 2*in.n+2)
	last := make([]int, 2*in.n+2) // step that used or made it last
	made := make([]bool, 2*in.n+2)
	ran := make([]bool, in.n+1)
	stored[0], last[0], made[0] = true, -1, true
	now := in.a[0]
	gradient := in.n
	use := func(i int, t tensor) {
		if f := last[t]; r.loss >= 0 && f < r.loss && i > r.loss {
			r.gaps = append(r.gaps, gap{tensor: t, from: f, to: i, made: made[t]})
		}
		last[t], made[t] = i, false
	}
	keep := func(i int, t tensor) {
		if stored[t] {
			use(i, t)
			return
		}
		stored[t], last[t], made[t] = true, i, true
		now += in.size(t)
	}
	drop := func(t tensor) {
		if stored[t] {
			stored[t] = false
			now -= in.size(t)
		}
	}
	for i, s := range steps {
		l := int(s.layer)
		r.before[i] = now
		if s.kind == discardA || s.kind == discardAbar {
			t := tensorOf(l, s.kind == discardAbar)
			if !stored[t] {
				return nil, false
			}
			r.during[i] = now
			last[t] = i
			drop(t)
			continue
		}
		// A kept ā serves as well as a; where both are stored a is read.
		reads := tensorOf(l-1, false)
		if !stored[reads] {
			if reads = tensorOf(l-1, true); !stored[reads] || s.kind == fNone {
				return nil, false
			}
		}
		switch s.kind {
		case fAll:
			use(i, reads)
			r.took[i], r.during[i] = in.uF[l], now+in.abar[l]+in.oF[l]
			keep(i, tensorOf(l, true))
		case fCk, fNone:
			use(i, reads)
			r.took[i], r.during[i] = in.uF[l], now+in.a[l]+in.oF[l]
			keep(i, tensorOf(l, false))
			if s.kind == fNone {
				drop(reads)
			}
		case backward:
			if l != gradient || ran[l] || !stored[tensorOf(l, true)] {
				return nil, false
			}
			if l == in.n {
				r.loss = i
				now += in.delta[l]
			}
			use(i, reads)
			use(i, tensorOf(l, true))
			r.took[i], r.during[i] = in.uB[l], now+in.delta[l-1]+in.oB[l]
			ran[l] = true
			drop(tensorOf(l, true))
			drop(tensorOf(l-1, false))
			now += in.delta[l-1] - in.delta[l]
			gradient--
		}
	}
	r.before[len(steps)] = now
	return r, gradient == 0
}

// computing is the time of all computations.
func (r *profile) computing() (sum float64) {
	for _, x := range r.took {
		sum += x
	}
	return sum
}

// stepsOf reads the computations of a plan of rematerialization.
func stepsOf(ops []plan.Op) []step {
	kinds := map[string]kind{plan.OpFAll: fAll, plan.OpFCk: fCk, plan.OpFNone: fNone, plan.OpB: backward}
	var steps []step
	for i := range ops {
		o := &ops[i]
		k, known := kinds[o.Op]
		switch {
		case known:
		case o.Op == plan.OpD && o.Tensor == plan.TensorA:
			k = discardA
		case o.Op == plan.OpD:
			k = discardAbar
		default:
			continue
		}
		steps = append(steps, step{k, int32(o.Layer)})
	}
	return steps
}

// op is the operation of a step.
func (s step) op() plan.Op {
	o := plan.Op{Layer: int(s.layer)}
	switch s.kind {
	case fAll:
		o.Op = plan.OpFAll
	case fCk:
		o.Op = plan.OpFCk
	case fNone:
		o.Op = plan.OpFNone
	case backward:
		o.Op = plan.OpB
	case discardA:
		o.Op, o.Tensor = plan.OpD, plan.TensorA
	case discardAbar:
		o.Op, o.Tensor = plan.OpD, plan.TensorAbar
	}
	return o
}

// segment appends F_ck s, F_none s+1 .. F_none t.
func segment(steps []step, s, t int) []step {
	steps = append(steps, step{fCk, int32(s)})
	for l := s + 1; l <= t; l++ {
		steps = append(steps, step{fNone, int32(l)})
	}
	return steps
}
