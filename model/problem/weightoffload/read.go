package weightoffload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"workbench/model/plan"
)

// ErrPlan is wrapped by the error of Read for an invalid plan.
var ErrPlan = errors.New("not a plan of weight offloading")

// Read returns the normal form of a plan. The schedule is valid if the plan is; of invalid plans it
// rejects what it cannot represent. Events closer than plan.Tolerance of the period are ties.
// O(operations).
func (in *Instance) Read(p *plan.Plan) (*Schedule, error) {
	switch {
	case p == nil || p.Problem != plan.WeightOffload:
		return nil, fmt.Errorf("%w: it is a plan of another problem than %s", ErrPlan, plan.WeightOffload)
	case p.Period == nil || !(*p.Period > 0):
		return nil, fmt.Errorf("%w: it has no period", ErrPlan)
	}
	s := NewSchedule(in)
	s.T = *p.Period
	begin, err := in.readComputations(p, s)
	if err != nil {
		return nil, err
	}
	return s, in.readTransfers(p, s, begin)
}

// readComputations fills s.Op and returns the start of B_L in the plan.
func (in *Instance) readComputations(p *plan.Plan, s *Schedule) (begin float64, err error) {
	starts := make([]float64, in.N)
	for j := range starts {
		starts[j] = math.NaN()
	}
	for i := range p.Ops {
		o := &p.Ops[i]
		switch {
		case o.Layer < 1 || o.Layer > in.L:
			return 0, fmt.Errorf("%w: %s is of layer %d, the chain has layers 1 to %d", ErrPlan, o, o.Layer, in.L)
		case o.Op == plan.OpB:
			starts[in.B(o.Layer-1)] = o.Start
		case o.Op == plan.OpF:
			starts[in.F(o.Layer-1)] = o.Start
		}
	}
	for j, start := range starts {
		if math.IsNaN(start) || math.IsInf(start, 0) {
			return 0, fmt.Errorf("%w: %s is missing", ErrPlan, in.OpName(j))
		}
		if j > 0 {
			end := s.Op[j-1] + in.U[j-1]
			s.Op[j] = end + modulo(start-starts[0]-end, s.T)
		}
	}
	if last := in.N - 1; s.Op[last]+in.U[last] > s.T*(1+plan.Tolerance) {
		return 0, fmt.Errorf("%w: computations are not in order", ErrPlan)
	}
	return starts[0], nil
}

// readTransfers fills the fields of weights.
func (in *Instance) readTransfers(p *plan.Plan, s *Schedule, begin float64) error {
	for k := range s.Up {
		s.Up[k] = math.Inf(1)
	}
	moves := make([][]move, in.L)
	for i := range p.Ops {
		o := &p.Ops[i]
		k := o.Layer - 1
		if o.Tensor != plan.TensorW || in.W[k] == 0 {
			continue
		}
		at := o.Start - begin
		switch o.Op {
		case plan.OpO:
			after, _ := s.window(in, 2*k)
			s.Up[k] = min(s.Up[k], after+modulo(at-after, s.T))
		case plan.OpD, plan.OpP:
			moves[k] = append(moves[k], move{at, o.Op == plan.OpP})
		}
	}
	for k := range moves {
		if err := s.absences(in, k, moves[k]); err != nil {
			return err
		}
	}
	for k := range s.Up {
		if s.Uploads(k) && math.IsInf(s.Up[k], 0) {
			return fmt.Errorf("%w: w_%d is deleted, and not uploaded", ErrPlan, k+1)
		}
		if !s.Uploads(k) {
			s.Up[k] = 0
		}
	}
	return nil
}

// move is a deletion, or the start of a prefetch.
type move struct {
	at    float64
	fetch bool
}

// absences fills the gaps in which w_k is on the host, each from a deletion to the end of the
// following prefetch. Of several in a gap the first deletion and the last prefetch count.
func (s *Schedule) absences(in *Instance, k int, moves []move) error {
	// For prefetches the end counts, slightly earlier: see the verifier.
	early := min(in.Move[k]/2, plan.Tolerance*s.T)
	when := func(m move) float64 {
		if m.fetch {
			m.at += in.Move[k] - early
		}
		return m.at - s.T*math.Floor(m.at/s.T)
	}
	slices.SortStableFunc(moves, func(a, b move) int { return cmp.Compare(when(a), when(b)) })
	for i, d := range moves {
		p := moves[(i+1)%len(moves)]
		if d.fetch == p.fetch {
			return fmt.Errorf("%w: w_%d is not deleted and prefetched in turn", ErrPlan, k+1)
		}
		if d.fetch {
			continue
		}
		g, at := s.place(in, k, d.at, modulo(p.at-d.at, s.T)+in.Move[k])
		s.Away[g] = true
		s.Pre[g] = max(s.Pre[g], at+modulo(p.at-d.at, s.T))
	}
	return nil
}

// place returns the gap of layer k that contains an absence of the given length from time x, and x
// in the times of that gap. It is the first gap if the absence ends within it and the upload has
// ended.
func (s *Schedule) place(in *Instance, k int, x, long float64) (g int, at float64) {
	from, to := s.window(in, 2*k)
	instant := plan.Tolerance * s.T
	if at = from + modulo(x-from, s.T); at+long <= to+instant && s.Up[k]+in.Move[k] <= at+instant {
		return 2 * k, at
	}
	from, _ = s.window(in, 2*k+1)
	return 2*k + 1, from + modulo(x-from, s.T)
}

// modulo returns x modulo T in [0,T), and 0 if x is a multiple of T within plan tolerance.
func modulo(x, T float64) float64 {
	x -= T * math.Floor(x/T)
	if x >= T*(1-plan.Tolerance) || x <= T*plan.Tolerance {
		return 0
	}
	return x
}
