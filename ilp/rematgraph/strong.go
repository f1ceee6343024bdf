package rematgraph

import (
	"encoding/json"
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// Options select a strengthened model. The zero value is exact for schedules of stages.
type Options struct {
	// Backward omits the stages before the first one from which on no node is a forward node that
	// may be recomputed: forwards are computed once there and any set of their values may be
	// retained. A relaxation.
	Backward bool `json:"backward,omitempty"`
	// Ends omits the memory rows of recomputations: a stage must fit only its last computation, in units of grain,
	// see memoryRows. It is a relaxation that holds for recomputation in any order and any number of times.
	Ends bool `json:"ends,omitempty"`
	// Rows are computations, by stage and node, whose memory rows Ends keeps, exactly.
	Rows [][2]int `json:"rows,omitempty"`
	// Contract never retains a value that only one forward node reads, which may be recomputed,
	// reads nothing else and whose own value is not larger: retaining that value is as good.
	// Requires Backward and Ends.
	Contract bool `json:"contract,omitempty"`
	// Plans also keeps those of Rows that contracted values may break without harm to the optimum, and those of
	// the forward phase. Every solution is then a plan that fits in these rows, but the optimum is no bound.
	Plans bool `json:"plans,omitempty"`

	once bool // set by [Once], which adds its rows itself
}

// name returns the name of the model.
func (o Options) name() string {
	if o.once {
		return onceName
	}
	return strongName
}

// strong is the strengthened model of stages.
type strong struct {
	*instance
	o     Options
	first int // first stage of the model
	// staged restricts the relation to schedules in stages: see program.
	staged bool
	m      *milp.Model
	e      milp.Expr
	R, S   []milp.Var // by stage·n + node, stage·M + value; the zero value: no column, so 0
	hasR   []bool     // which columns of R and S exist
	hasS   []bool
	need   []bool              // by stage·M + value: stage t or a later one may read it
	lives  map[[3]int]milp.Var // L by stage, value and next reader

	larger  []larger // the definition of every L as a maximum
	carries []carry  // of memory rows
	groups  memoryGroups
	into    []int // the node into which a node is contracted, itself if none
}

// larger states that x is the maximum of others.
type larger struct {
	x  milp.Var
	of []milp.Var
}

// Strong builds the strengthened model, without options exact for schedules of stages.
// O(n²) columns, O(n³) entries.
func Strong(g plan.Instance, p platform.Platform, o Options) (*formulation.Program, error) {
	if o.Contract && !(o.Backward && o.Ends) {
		return nil, fmt.Errorf("%w: values are contracted in the model of backward stages and their ends only", formulation.ErrInstance)
	}
	in, err := newGraphInstance(g, p)
	if err != nil {
		return nil, err
	}
	most := MostCheckmate
	if o.Ends {
		most = MostRelaxed
	}
	if err := in.atMost(most); err != nil {
		return nil, err
	}
	return buildStrong(in, o).program(), nil
}

// program returns the model with its relation to the problem.
func (f *strong) program() *formulation.Program {
	p := f.restriction()
	p.Formulation, p.Promise = f.m.Name(), formulation.Equal
	if f.o.Backward || f.o.Ends {
		p.Promise = formulation.LowerBound
	}
	if f.o.Plans {
		p.Promise = formulation.Nothing
	}
	if options, err := json.Marshal(f.o); err == nil && string(options) != "{}" {
		p.Options = options
	}
	if !f.ordered(!f.o.Backward) {
		p.Assumptions = append(p.Assumptions, rematgraph.InGraphOrder)
	}
	if f.staged {
		p.Assumptions = append(p.Assumptions, rematgraph.InStages)
	}
	return p
}

// restriction returns the model without a proven relation.
func (f *strong) restriction() *formulation.Program {
	return f.instance.program(f.m, f.values, f.schedule)
}

// schedule reads the retained values from a solution and completes them. Before the first stage of the model a
// value is retained until its last forward reader, or permanently if the first stage has it.
func (f *strong) schedule(x []float64) *rematgraph.Schedule {
	s := f.New()
	for t := f.first; t < f.n; t++ {
		for i := range f.M {
			if y, ok := f.s(t, i); ok && x[y.Index()] > 0.5 {
				s.Retain(t, i, true)
			}
		}
	}
	for i := range f.made(f.first - 1) {
		last := f.Writer[i]
		for _, j := range f.Succ[i] {
			if j < f.first {
				last = j
			}
		}
		if f.first < f.n && s.Retained(f.first, i) {
			last = f.first - 1
		}
		for t := f.Writer[i] + 1; t <= last; t++ {
			s.Retain(t, i, true)
		}
	}
	s.Complete()
	return s
}

// values returns the columns of a schedule, with contracted values replaced.
func (f *strong) values(s *rematgraph.Schedule) []float64 {
	c := s.Clone()
	for t := f.first; t < f.n; t++ {
		for i := range f.M {
			if j := f.Writer[i]; f.into[j] != j && c.Retained(t, i) {
				c.Retain(t, i, false)
				c.Retain(t, f.Writes[f.into[j]][0], true)
			}
		}
	}
	c.Complete()
	x := make([]float64, f.m.NumCols())
	for t := f.first; t < f.n; t++ {
		for i := range f.M {
			if y, ok := f.s(t, i); ok {
				x[y.Index()] = value(c.Retained(t, i))
			}
		}
		for j := range t {
			if y, ok := f.r(t, j); ok && f.into[j] == j {
				x[y.Index()] = value(c.Computed(t, j))
			}
		}
	}
	for _, l := range f.larger { // each is one of the others
		for _, y := range l.of {
			x[l.x.Index()] = max(x[l.x.Index()], x[y.Index()])
		}
	}
	for k := range f.carries {
		x[f.carries[k].x.Index()] = f.carries[k].value(x)
	}
	return x
}

func buildStrong(in *instance, o Options) *strong {
	f := &strong{instance: in, o: o, m: milp.New(o.name()), lives: map[[3]int]milp.Var{}}
	n, m := in.n, in.M
	f.R, f.S, f.hasR, f.hasS = make([]milp.Var, n*n), make([]milp.Var, n*m), make([]bool, n*n), make([]bool, n*m)
	f.need = make([]bool, n*m)
	if o.Backward {
		f.first = in.behind
	}
	inner := func(x [2]int) bool { return x[1] < x[0] || x[0] == f.n-1 && slices.ContainsFunc(f.results(), f.late) }
	f.staged = !o.Ends || slices.ContainsFunc(o.Rows, inner)
	f.needs()
	f.contract()
	f.columns()
	f.objective()
	f.available()
	f.retained()
	f.memory()
	return f
}

// memory adds the memory rows that the options request.
func (f *strong) memory() {
	f.groups = memoryGroups{f.m.Group("memory", "Checkmate (2), (3), ours"), f.m.Group("larger than the memory", "ours")}
	asked := make(map[[2]int]bool, len(f.o.Rows))
	for _, x := range f.o.Rows {
		asked[x] = f.o.Plans || f.rowHolds(x)
	}
	for t := range f.n {
		if t < f.first {
			if asked[[2]int{t, t}] {
				f.memoryForward(t)
			}
			continue
		}
		for k := range t {
			if _, ok := f.r(t, k); ok && (!f.o.Ends || asked[[2]int{t, k}]) {
				f.memoryAt(t, k, true)
			}
		}
		f.memoryAt(t, t, !f.o.Ends || asked[[2]int{t, t}])
	}
}

// needs computes f.need.
func (f *strong) needs() {
	for t := f.first; t < f.n; t++ {
		for i := f.made(t-1) - 1; i >= 0; i-- {
			if !f.variable[i] {
				continue
			}
			need := f.Result[i]
			for _, j := range f.Succ[i] {
				need = need || j >= t || f.needsNode(t, j)
			}
			f.need[t*f.M+i] = need
		}
	}
}

// needsNode reports whether stage t or a later one may recompute node j < t.
func (f *strong) needsNode(t, j int) bool {
	return f.may(t, j) && slices.ContainsFunc(f.Writes[j], func(i int) bool { return f.need[t*f.M+i] })
}

// contract computes f.into.
func (f *strong) contract() {
	f.into = make([]int, f.n)
	for k := f.n - 1; k >= 0; k-- {
		f.into[k] = k
		if !f.o.Contract || k >= f.first || f.Until[k] < f.n || len(f.Writes[k]) != 1 {
			continue
		}
		i := f.Writes[k][0]
		if len(f.Succ[i]) != 1 || f.Result[i] {
			continue
		}
		if j := f.Succ[i][0]; j < f.first && f.Until[j] == f.n && len(f.Pred[j]) == 1 && len(f.Writes[j]) == 1 && f.Written[j] <= f.Memory[i] {
			f.into[k] = f.into[j]
		}
	}
}

func (f *strong) columns() {
	var r, s []stageNode
	for t := f.first; t < f.n; t++ {
		for j := range t {
			if f.into[j] != j {
				continue
			}
			any := false
			for _, i := range f.Writes[j] {
				if f.need[t*f.M+i] {
					s, any = append(s, stageNode{t, i}), true
				}
			}
			if any && f.may(t, j) {
				r = append(r, stageNode{t, j})
			}
		}
	}
	rs, ss := milp.Vars(f.m, "R", r, milp.Binary, 0, 1), milp.Vars(f.m, "S", s, milp.Binary, 0, 1)
	for k, x := range rs.All() {
		f.R[k.stage*f.n+k.node], f.hasR[k.stage*f.n+k.node] = x, true
	}
	for t := f.first; t < f.n; t++ {
		for j := range t {
			if k := t*f.n + f.into[j]; f.into[j] != j && f.hasR[k] {
				f.R[t*f.n+j], f.hasR[t*f.n+j] = f.R[k], true
			}
		}
	}
	for k, x := range ss.All() {
		f.S[k.stage*f.M+k.node], f.hasS[k.stage*f.M+k.node] = x, true
	}
}

// r returns the column R of a stage and node, s the column S of a stage and value.
func (f *strong) r(t, j int) (milp.Var, bool) { return f.R[t*f.n+j], f.hasR[t*f.n+j] }

func (f *strong) s(t, i int) (milp.Var, bool) {
	if t >= f.n {
		return milp.Var{}, false
	}
	return f.S[t*f.M+i], f.hasS[t*f.M+i]
}

// there adds R + S of a value in stage t: it is computed there or was retained.
func (f *strong) there(t, i int) {
	f.addR(1, t, f.Writer[i])
	f.addS(1, t, i)
}

func (f *strong) addR(c float64, t, i int) {
	if x, ok := f.r(t, i); ok {
		f.e.Add(c, x)
	}
}

func (f *strong) addS(c float64, t, i int) {
	if x, ok := f.s(t, i); ok {
		f.e.Add(c, x)
	}
}

func (f *strong) objective() {
	f.e.Reset().AddConst(milp.Down.Sum(f.cost...))
	for t := range f.n {
		for i := range t {
			f.addR(f.cost[i], t, i)
		}
	}
	f.m.Minimize(&f.e)
}

// available adds (1b): the inputs of a computation are in memory.
func (f *strong) available() {
	g, own := f.m.Group("available", "Checkmate (1b)"), f.m.Group("available to the stage's node", "Checkmate (1b), (8a)")
	for t := f.first; t < f.n; t++ {
		for _, i := range f.Pred[t] {
			if f.variable[i] {
				f.e.Reset()
				f.there(t, i)
				own.Equal(&f.e, 1)
			}
		}
		for j := range t {
			x, ok := f.r(t, j)
			if !ok {
				continue
			}
			for _, i := range f.Pred[j] {
				if f.into[f.Writer[i]] == f.into[j] {
					continue
				}
				f.e.Reset().Add(-1, x)
				f.there(t, i)
				g.AtLeast(&f.e, 0)
			}
		}
	}
}

// retained adds (1c): a retained value, or a result, was retained or computed before.
func (f *strong) retained() {
	g := f.m.Group("retained", "Checkmate (1c)")
	for t := f.first; t < f.n; t++ {
		for i := range f.made(t - 1) {
			if x, ok := f.s(t+1, i); ok {
				f.e.Reset().Add(-1, x)
				f.there(t, i)
				g.AtLeast(&f.e, 0)
			} else if t+1 == f.n && f.Result[i] && f.variable[i] {
				f.e.Reset()
				f.there(t, i)
				g.AtLeast(&f.e, 1)
			}
		}
	}
}

// reads reports whether value i is in memory when stage t ends, in any schedule: node t reads it, or it is a
// result and the stage is the last one. A plan that is no schedule in stages may recompute it later.
func (f *strong) reads(t, i int) bool {
	_, ok := slices.BinarySearch(f.Pred[t], i)
	return ok || t == f.n-1 && f.Result[i] && (f.staged || !f.late(i))
}

// late reports whether a plan may recompute value i after all nodes have been computed.
func (f *strong) late(i int) bool { return f.Until[f.Writer[i]] == f.n }

// results returns the values that are in memory at the end.
func (f *strong) results() (list []int) {
	for i, is := range f.Result {
		if is {
			list = append(list, i)
		}
	}
	return list
}

// memoryAt bounds the memory while stage t computes node k,
//
//	Σ_{i>k} m_i S_{t,i} + m_k (R_{t,k} + S_{t,k}) + o_k R_{t,k} + Σ_{i<k} m_i L_{t,i,k},
//
// where i ranges over values, compared by their writers, and m_k R stands for all values that node k writes.
// L_{t,i,k} is 1 if the value i is in memory and is read in the stage by k or later, or retained into the next. It
// is the maximum of R_{t,j}, for the readers j ≥ k of i, and S_{t+1,i}. It replaces U and FREE of the paper
// without a product or a big-M constant. Node k = t is always computed, and needs no L, because it is the last
// one. memoryRows defines the scaling.
func (f *strong) memoryAt(t, k int, exact bool) {
	live := f.m.Group("live", "ours")
	row := f.newRow(t)
	for i := range f.made(t - 1) {
		w := f.Writer[i]
		switch {
		case w == k && i == f.Writes[k][0]:
			f.add(row, f.Written[k]+f.Overhead[k], f.r, t, k)
			if f.variable[i] {
				f.add(row, f.Memory[i], f.s, t, i)
			}
		case !f.variable[i]:
		case w >= k:
			f.add(row, f.Memory[i], f.s, t, i)
		case f.reads(t, i):
			row.room -= f.Memory[i]
		default:
			if x, ok := f.live(live, t, i, k); ok {
				row.add(f.Memory[i], x)
			}
		}
	}
	if k == t {
		row.room -= f.Written[t] + f.Overhead[t]
	}
	f.carries = append(f.carries, memoryRows(f.m, f.groups, row, exact, stageNode{t, k}.String())...)
}

// newRow begins a row of stage t with the values that are always in memory.
func (f *strong) newRow(t int) *memoryRow {
	return &memoryRow{room: f.room - f.fixed[t], place: map[milp.Var]int{}}
}

// add adds a value to a row if its column exists.
func (f *strong) add(row *memoryRow, size float64, column func(t, i int) (milp.Var, bool), t, i int) {
	if x, ok := column(t, i); ok {
		row.add(size, x)
	}
}

// live returns L_{t,i,k}, and whether it can be nonzero. Value i is written before k, and node t does not read it.
func (f *strong) live(g milp.Group, t, i, k int) (milp.Var, bool) {
	readers := make([]milp.Var, 0, 4)
	first := f.n
	if x, ok := f.s(t+1, i); ok {
		readers = append(readers, x)
	}
	for _, j := range f.Succ[i] {
		if x, ok := f.r(t, j); ok && j >= k && j < t {
			readers = append(readers, x)
			first = min(first, j)
		}
	}
	if len(readers) < 2 {
		return append(readers, milp.Var{})[0], len(readers) == 1
	}
	key := [3]int{t, i, first}
	if x, ok := f.lives[key]; ok {
		return x, true
	}
	x := f.m.Var(fmt.Sprintf("L[%d,%d,%d]", t, i, first), milp.Continuous, 0, 1)
	f.lives[key] = x
	f.larger = append(f.larger, larger{x, readers})
	var e milp.Expr
	for _, y := range readers {
		e.Reset().Add(1, x).Add(-1, y)
		g.AtLeast(&e, 0)
	}
	return x, true
}

// rowHolds reports whether the memory row of a computation, by stage and node, holds for some
// optimal schedule of the model. It does not if contracted values are computed, nor in stages that
// Backward omits.
func (f *strong) rowHolds(x [2]int) bool {
	t, k := x[0], x[1]
	if t < f.first {
		return false
	}
	if k < t && len(f.Pred[k]) == 1 {
		j := f.Writer[f.Pred[k][0]]
		return f.into[j] == j
	}
	return true
}

// memoryForward bounds the memory at stage t of a forward phase that the model omits, in which
// nothing is recomputed: in addition to what forward nodes from t on read, the values retained into
// the first stage of the model are in memory.
func (f *strong) memoryForward(t int) {
	row := f.newRow(t)
	row.room -= f.Written[t] + f.Overhead[t]
	for i := range f.made(t - 1) {
		if !f.variable[i] {
			continue
		}
		read := false
		for _, j := range f.Succ[i] {
			read = read || j >= t && j < f.first
		}
		if read {
			row.room -= f.Memory[i]
		} else {
			f.add(row, f.Memory[i], f.s, f.first, i)
		}
	}
	f.carries = append(f.carries, memoryRows(f.m, f.groups, row, true, stageNode{t, t}.String())...)
}
