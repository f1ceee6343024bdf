package rematoffload

import (
	"cmp"
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// tensor returns the number of the tensor of a transfer or discard, -1 if there is none.
func (f *rematOffload) tensor(o *plan.Op) int {
	switch {
	case o.Layer < 0 || o.Layer > f.N || o.Tensor != plan.TensorA && o.Tensor != plan.TensorAbar:
		return -1
	case o.Tensor == plan.TensorAbar && o.Layer > 0:
		return f.abar(o.Layer)
	case o.Layer < f.N:
		return o.Layer
	}
	return -1
}

// start returns the values of the variables for a plan.
func (f *rematOffload) start(p *plan.Plan) ([]float64, error) {
	if p == nil || p.Problem != plan.RematOffload {
		return nil, fmt.Errorf("%w: not a plan of rematerialization with offloading", formulation.ErrStart)
	}
	r := newStageReader(f, p)
	if err := r.read(); err != nil {
		return nil, err
	}
	return r.x, nil
}

// stageReader follows a plan from event to event.
type stageReader struct {
	f      *rematOffload
	device []plan.Op // computations and discards, in order
	link   []plan.Op // transfers, by start
	x      []float64

	stage   int // -1 before the first event
	at      []float64
	stored  []bool
	fetched []bool  // by transfer: started
	done    []bool  // by transfer: ended
	near    float64 // maximum distance of two simultaneous events
}

func newStageReader(f *rematOffload, p *plan.Plan) *stageReader {
	r := &stageReader{
		f: f, x: make([]float64, f.m.NumCols()), stage: -1, stored: make([]bool, 2*f.N+1),
		near: plan.Tolerance * p.Claims.Makespan / f.unit,
	}
	for _, o := range p.Ops {
		o.Start, o.End = o.Start/f.unit, o.End/f.unit
		if o.Op == plan.OpO || o.Op == plan.OpP {
			if v := f.tensor(&o); v >= 0 && f.movable(v) {
				r.link = append(r.link, o)
			}
		} else {
			r.device = append(r.device, o)
		}
	}
	slices.SortStableFunc(r.link, func(a, b plan.Op) int { return cmp.Compare(a.Start, b.Start) })
	r.fetched, r.done = make([]bool, len(r.link)), make([]bool, len(r.link))
	r.stored[0] = true
	return r
}

func (r *stageReader) set(c column, value float64) {
	if c.ok {
		r.x[c.v.Index()] = value
	}
}

// read processes the computations.
func (r *stageReader) read() error {
	f := r.f
	for i := range r.device {
		o := &r.device[i]
		if o.Layer < 1 || o.Layer > f.N {
			if o.Op != plan.OpD {
				return fmt.Errorf("%w: operation %s: the chain has layers 1..%d", formulation.ErrStart, o, f.N)
			}
		}
		if r.stage < 0 {
			o.Start = 0 // F_1, unless a discard
		}
		r.events(o.Start)
		switch o.Op {
		case plan.OpD:
			if v := f.tensor(o); v >= 0 {
				r.stored[v] = false
			}
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			made := o.Layer
			if o.Op == plan.OpFAll {
				made = f.abar(o.Layer)
			}
			if o.Layer == r.stage+2 && r.stage+1 < f.N {
				r.instant(o.Start)
				if o.Op == plan.OpFAll {
					r.x[f.first.At(r.stage).Index()] = 1
				}
			} else if made != f.N && r.stage >= 0 {
				r.set(f.R[r.stage][made], 1)
			}
			if made != f.N {
				r.stored[made] = true
			}
			if o.Op == plan.OpFNone {
				r.stored[o.Layer-1] = false
			}
		case plan.OpB:
			if r.stage+1 != 2*f.N-o.Layer {
				return fmt.Errorf("%w: %s comes too early or late", formulation.ErrStart, o)
			}
			r.instant(o.Start)
			r.stored[f.abar(o.Layer)] = false
			if o.Layer > 0 {
				r.stored[o.Layer-1] = false
			}
		}
	}
	if r.stage != f.stages()-1 {
		return fmt.Errorf("%w: only %d of %d computations", formulation.ErrStart, r.stage+1, f.stages())
	}
	r.amounts()
	return nil
}

// events records the transfers that ended by time x or began before it.
func (r *stageReader) events(x float64) {
	for i := range r.link {
		o := &r.link[i]
		v := r.f.tensor(o)
		if o.Op == plan.OpP && !r.fetched[i] && o.Start < x-r.near {
			r.fetched[i] = true
			r.stored[v] = true
		}
		if !r.done[i] && o.End <= x+r.near {
			r.done[i] = true
			if r.stored[v] = o.Op == plan.OpP; o.Op == plan.OpP {
				r.fetched[i] = true
			}
		}
	}
}

// instant begins the next stage.
func (r *stageReader) instant(x float64) {
	r.stage++
	r.at = append(r.at, x)
	for v, s := range r.stored {
		if s {
			r.set(r.f.S[r.stage][v], 1)
		}
	}
}

// amounts sets the fractions that transfers carry in each stage, the fractions still to come, and the idle time.
func (r *stageReader) amounts() {
	f, sent := r.f, make([]bool, 2*r.f.N+1)
	for i := range r.link {
		o := &r.link[i]
		v := f.tensor(o)
		if o.Op == plan.OpO {
			if sent[v] {
				continue // the host has it
			}
			sent[v] = true
		}
		began := false
		for j := range f.stages() - 1 {
			if o.Op == plan.OpP && !began && o.Start < r.at[j+1]-r.near {
				began = true
				r.set(f.q[j][v], 1)
			}
			if began && o.End > r.at[j+1]+r.near {
				r.set(f.coming[j+1][v], (o.End-r.at[j+1])/(o.End-o.Start))
			}
			part := (min(o.End, r.at[j+1]) - max(o.Start, r.at[j])) / (o.End - o.Start)
			if part <= 0 {
				continue
			}
			if c := f.O[j][v]; o.Op == plan.OpO && c.ok {
				r.x[c.v.Index()] = min(1, r.x[c.v.Index()]+part)
			}
		}
	}
	get := func(c column) float64 {
		if c.ok {
			return r.x[c.v.Index()]
		}
		return 0
	}
	for j := range f.idle.Len() {
		for v, c := range f.P[j] {
			r.set(c, get(f.coming[j][v])+get(f.q[j][v])-get(f.coming[j+1][v]))
		}
		work := f.u[j]
		for v, c := range f.R[j] {
			i, _ := f.layer(v)
			work += f.uF[i] * get(c)
		}
		r.x[f.idle.At(j).Index()] = max(0, r.at[j+1]-r.at[j]-work)
	}
}
