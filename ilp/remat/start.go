package remat

import (
	"cmp"
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// A computed value is one run of a forward, from then to its last reading.
type computed struct {
	layer   int
	all     bool // F_all, not F_ck or F_none
	phase   int  // the backward that comes next
	read    bool
	reads   *computed // its input
	stage   int       // in which it is computed; -1: a_0
	lastUse int       // stage in which it is last read
}

// start gives every column its value in the plan, brought to normal form: no
// value is computed that is not read, an ā that is no ā_t of B_t is an a. If the
// model has fewer sweeps than the plan, forwards are sorted, which may break the
// limit on memory.
func (f *chainMILP) start(p *plan.Plan) ([]float64, error) {
	if p == nil || p.Problem != plan.Remat {
		return nil, fmt.Errorf("%w: not a plan of rematerialization", formulation.ErrStart)
	}
	forwards, ends, err := f.values(p.Ops)
	if err != nil {
		return nil, err
	}
	if !f.assign(forwards) {
		if forwards, ends, err = f.values(f.sorted(forwards)); err != nil {
			return nil, err
		}
		if !f.assign(forwards) {
			return nil, fmt.Errorf("%w: it runs forwards twice between two backwards", formulation.ErrStart)
		}
	}
	x := f.point(forwards, ends)
	if broken := f.m.Violations(x, 0); len(broken) > 0 {
		return nil, fmt.Errorf("%w: it cannot be expressed in %s", formulation.ErrStart, f.name())
	}
	return x, nil
}

// sorted returns the forwards by layer from backward to backward, nothing being
// discarded.
func (f *chainMILP) sorted(forwards []*computed) (ops []plan.Op) {
	forwards = slices.Clone(forwards[1:])
	slices.SortStableFunc(forwards, func(v, w *computed) int {
		return cmp.Or(w.phase-v.phase, v.layer-w.layer)
	})
	for t := f.v.N; t >= 1; t-- {
		for len(forwards) > 0 && forwards[0].phase == t {
			op := plan.OpFCk
			if forwards[0].all {
				op = plan.OpFAll
			}
			ops = append(ops, plan.Op{Op: op, Layer: forwards[0].layer})
			forwards = forwards[1:]
		}
		ops = append(ops, plan.Op{Op: plan.OpB, Layer: t})
	}
	return ops
}

// ended has what a backward reads.
type ended struct{ saved, input *computed }

// values reads the forwards of a plan that are of use, in order, after a_0, and
// what B_t reads, by t. Of a and ā of one layer, ā is read.
func (f *chainMILP) values(ops []plan.Op) (forwards []*computed, ends []ended, err error) {
	input := &computed{stage: -1}
	a, abar := make([]*computed, f.v.N+1), make([]*computed, f.v.N+1)
	a[0] = input
	stored := func(i int) *computed {
		if i >= 0 && i <= f.v.N {
			if abar[i] != nil {
				return abar[i]
			}
			return a[i]
		}
		return nil
	}
	forwards, ends = []*computed{input}, make([]ended, f.v.N+1)
	next := f.v.N
	for i := range ops {
		o := &ops[i]
		l := o.Layer
		lacks := func() error {
			return fmt.Errorf("%w: operation %d, %s of layer %d, lacks an input", formulation.ErrStart, i, o.Op, l)
		}
		if l < 0 || l > f.v.N {
			return nil, nil, lacks()
		}
		switch o.Op {
		case plan.OpFAll, plan.OpFCk, plan.OpFNone:
			in := stored(l - 1)
			if in == nil {
				return nil, nil, lacks()
			}
			v := &computed{layer: l, all: o.Op == plan.OpFAll, phase: next, reads: in}
			forwards = append(forwards, v)
			if v.all {
				abar[l] = v
			} else {
				a[l] = v
			}
			if o.Op == plan.OpFNone {
				a[l-1] = nil
			}
		case plan.OpB:
			if l != next || abar[l] == nil || stored(l-1) == nil {
				return nil, nil, lacks()
			}
			ends[l] = ended{abar[l], stored(l - 1)}
			abar[l], a[l-1] = nil, nil
			next--
		case plan.OpD:
			if o.Tensor == plan.TensorAbar {
				abar[l] = nil
			} else {
				a[l] = nil
			}
		}
	}
	if next != 0 {
		return nil, nil, fmt.Errorf("%w: B %d is missing", formulation.ErrStart, next)
	}
	for l := 1; l <= f.v.N; l++ {
		ends[l].saved.read, ends[l].input.read = true, true
	}
	for i := len(forwards) - 1; i > 0; i-- {
		if v := forwards[i]; v.read {
			v.reads.read = true
		}
	}
	for _, v := range forwards {
		if v.all = v.layer > 0 && ends[v.layer].saved == v; v.layer > 0 && v.phase < v.layer {
			v.read = false
		}
	}
	return slices.DeleteFunc(forwards, func(v *computed) bool { return v.layer > 0 && !v.read }), ends, nil
}

// assign gives the forwards their stages, the next one where layers do not
// ascend. It returns false if there are too few.
func (f *chainMILP) assign(forwards []*computed) bool {
	for from := 1; from < len(forwards); {
		to := from + 1
		for to < len(forwards) && forwards[to].phase == forwards[from].phase {
			to++
		}
		phase := forwards[from:to]
		descents := f.descents(phase)
		if descents >= f.sweeps {
			return false
		}
		stage := (f.v.N-phase[0].phase+1)*f.sweeps - 1 - descents
		for i, v := range phase {
			if i > 0 && v.layer <= phase[i-1].layer {
				stage++
			}
			v.stage = stage
		}
		from = to
	}
	return true
}

// descents counts where layers do not ascend.
func (f *chainMILP) descents(phase []*computed) (n int) {
	for i := 1; i < len(phase); i++ {
		if phase[i].layer <= phase[i-1].layer {
			n++
		}
	}
	return n
}

// point sets the columns.
func (f *chainMILP) point(forwards []*computed, ends []ended) []float64 {
	x := make([]float64, f.m.NumCols())
	set := func(kind, k, i int) {
		if v, ok := f.column(kind, k, i); ok {
			x[v.Index()] = 1
		}
	}
	for _, v := range forwards {
		if v.reads != nil {
			v.reads.lastUse = max(v.reads.lastUse, v.stage)
		}
	}
	for t := 1; t <= f.v.N; t++ {
		last := (f.v.N-t+1)*f.sweeps - 1
		ends[t].saved.lastUse = max(ends[t].saved.lastUse, last)
		ends[t].input.lastUse = max(ends[t].input.lastUse, last)
	}
	for _, v := range forwards {
		run, found := runCk, foundA
		if v.all {
			run, found = runAll, foundAbar
		}
		if v.stage >= 0 {
			set(run, v.stage, v.layer)
		}
		for k := v.stage + 1; k <= v.lastUse; k++ {
			set(found, k, v.layer)
		}
	}
	return x
}
