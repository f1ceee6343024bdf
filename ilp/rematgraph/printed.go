package rematgraph

import (
	"fmt"
	"math"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// printed is the MILP of Checkmate (Jain et al., "Checkmate: Breaking the Memory Wall with Optimal Tensor
// Rematerialization", MLSys 2020, §4), which plans in stages: see model/problem/rematgraph. The paper's node and
// stage t is t−1 here; variables that (8) fixes are omitted.
//
// It differs from the paper in two points. A node that is not a forward node is computed once, in its own stage,
// and an operation has an overhead in addition to its value. Sizes are counted in units, see [grain], since U adds
// up sizes of all magnitudes, which exceeds the precision of solvers. If the unit is not a common divisor of the
// sizes, they are rounded down, and the model is that of a graph that needs less memory.
type printed struct {
	*instance
	m *milp.Model
	e milp.Expr // scratch

	mem, ovh []float64 // M of values and overhead of nodes, in units of the model
	budget   float64   // M_budget
	exact    bool      // no size was rounded

	R, U  triangle
	S     triangle    // by value: those that nodes up to t write
	U0    milp.List   // U_{t,0}, before the first node of stage t
	free  []milp.Var  // FREE_{t,i,k} by stage, place in reads
	reads []readsPair // (i,k) for all values i that k reads or writes, by k
	upTo  []int       // upTo[t] is the number of reads with k ≤ t
	first []int       // first[t] is where free of stage t begins
}

// readsPair states that the value i may be freed once node k is computed.
type readsPair struct{ i, k int }

// triangle is a family of variables x_{t,i} by stage and node i ≤ t, or by stage and value.
type triangle struct {
	all   []milp.Var
	first []int // the first variable of stage t
}

// stageNode is an index of a triangle.
type stageNode struct{ stage, node int }

func (k stageNode) String() string { return fmt.Sprintf("%d,%d", k.stage, k.node) }

// newTriangle returns a family with width(t) variables in stage t.
func newTriangle(m *milp.Model, name string, n int, width func(t int) int, k milp.Kind, lo, up float64) triangle {
	var keys []stageNode
	x := triangle{first: make([]int, n)}
	for t := range n {
		x.first[t] = len(keys)
		for i := range width(t) {
			keys = append(keys, stageNode{t, i})
		}
	}
	x.all = make([]milp.Var, 0, len(keys))
	for _, v := range milp.Vars(m, name, keys, k, lo, up).All() {
		x.all = append(x.all, v)
	}
	return x
}

// column returns x_{t,i}.
func (x triangle) column(t, i int) milp.Var { return x.all[x.first[t]+i] }

// made returns the number of values that nodes 0..t write: they are the first ones.
func (in *instance) made(t int) int {
	for ; t >= 0; t-- {
		if w := in.Writes[t]; len(w) > 0 {
			return w[len(w)-1] + 1
		}
	}
	return 0
}

// MostCheckmate is the maximum number of nodes of exact models: with 400 nodes that of the paper
// has half a million columns, the strengthened one ten million entries. MostRelaxed is that of the
// relaxations that Run solves.
const (
	MostCheckmate = 400
	MostRelaxed   = 1500
)

// Printed builds the MILP of the paper: O(n·(n + edges)) columns and rows for n nodes. Its optimum
// is that of the schedules in stages.
func Printed(g plan.Instance, p platform.Platform) (*formulation.Program, error) {
	in, err := newGraphInstance(g, p)
	if err != nil {
		return nil, err
	}
	if err := in.atMost(MostCheckmate); err != nil {
		return nil, err
	}
	return buildPrinted(in).program(), nil
}

// program returns the model with its relation to the problem.
func (f *printed) program() *formulation.Program {
	p := f.instance.program(f.m, f.values, f.schedule)
	p.Formulation, p.Promise = printedName, formulation.LowerBound
	if f.exact {
		p.Promise = formulation.Equal
	}
	if !f.ordered(true) {
		p.Assumptions = append(p.Assumptions, rematgraph.InGraphOrder)
	}
	p.Assumptions = append(p.Assumptions, rematgraph.InStages)
	return p
}

func buildPrinted(in *instance) *printed {
	f := &printed{instance: in, m: milp.New(printedName)}
	f.sizes()
	nodes := func(t int) int { return t + 1 }
	f.R = newTriangle(f.m, "R", in.n, nodes, milp.Binary, 0, 1)
	f.S = newTriangle(f.m, "S", in.n, in.made, milp.Binary, 0, 1)
	f.U = newTriangle(f.m, "U", in.n, nodes, milp.Continuous, 0, f.budget)
	f.U0 = f.m.List("U0", in.n, milp.Continuous, 0, f.budget)
	f.freeColumns()

	f.objective()
	f.dependencies()
	f.checkpoints()
	f.frontier()
	f.once()
	f.memory()
	f.freed()
	f.overheads()
	return f
}

// sizes sets M, the overheads and M_budget.
func (f *printed) sizes() {
	size, exact := grain(f.room, append(slices.Clone(f.Memory), f.Overhead...))
	units := func(bytes float64) float64 { return math.Floor(bytes / size) }
	scale := milp.PowerOfTwo(units(f.room), about)
	f.exact = exact
	f.budget = scale*units(f.room) + loose
	for i := range f.M {
		f.mem = append(f.mem, scale*units(f.Memory[i]))
	}
	for j := range f.n {
		f.ovh = append(f.ovh, scale*units(f.Overhead[j]))
	}
}

// freeColumns adds FREE_{t,i,k} for every stage t ≥ k.
func (f *printed) freeColumns() {
	f.upTo, f.first = make([]int, f.n), make([]int, f.n)
	for k := range f.n {
		for _, i := range f.Pred[k] {
			f.reads = append(f.reads, readsPair{i, k})
		}
		for _, i := range f.Writes[k] {
			f.reads = append(f.reads, readsPair{i, k})
		}
		f.upTo[k] = len(f.reads)
	}
	total := 0
	for t := range f.n {
		f.first[t] = total
		total += f.upTo[t]
	}
	list := f.m.List("FREE", total, milp.Binary, 0, 1)
	for k := range total {
		f.free = append(f.free, list.At(k))
	}
}

// objective adds (1a): min Σ_t Σ_i C_i R_{t,i}.
func (f *printed) objective() {
	f.e.Reset()
	for t := range f.n {
		for i := range t + 1 {
			f.e.Add(f.cost[i], f.R.column(t, i))
		}
	}
	f.m.Minimize(&f.e)
}

// there adds R_{t,j} + S_{t,i}, where j writes value i.
func (f *printed) there(c float64, t, i int) {
	f.e.Add(c, f.R.column(t, f.Writer[i])).Add(c, f.S.column(t, i))
}

// dependencies adds (1b): R_{t,j} ≤ R_{t,i} + S_{t,i} for every edge (i,j).
func (f *printed) dependencies() {
	g := f.m.Group("dependencies", "Checkmate (1b)")
	for t := range f.n {
		for j := range t + 1 {
			for _, i := range f.Pred[j] {
				f.e.Reset().Add(1, f.R.column(t, j))
				f.there(-1, t, i)
				g.AtMost(&f.e, 0)
			}
		}
	}
}

// checkpoints adds (1c): S_{t,i} ≤ R_{t−1,i} + S_{t−1,i}, and the same for results after the last stage. (1d),
// that no value is stored before the first stage, follows from (8b).
func (f *printed) checkpoints() {
	g := f.m.Group("checkpoints", "Checkmate (1c)")
	for t := 1; t < f.n; t++ {
		for i := range f.made(t - 1) {
			f.e.Reset().Add(1, f.S.column(t, i))
			f.there(-1, t-1, i)
			g.AtMost(&f.e, 0)
		}
	}
	for i, result := range f.Result {
		if result {
			f.e.Reset()
			f.there(1, f.n-1, i)
			g.AtLeast(&f.e, 1)
		}
	}
}

// frontier adds (8a) and (8b): stage t computes node t, whose values were not stored before. (1e), that the last
// node is computed, follows; (8c) is that there are no variables beyond the triangle.
func (f *printed) frontier() {
	g := f.m.Group("frontier", "Checkmate (8a), (8b)")
	for t := range f.n {
		f.e.Reset().Add(1, f.R.column(t, t))
		g.Equal(&f.e, 1)
		for _, i := range f.Writes[t] {
			f.e.Reset().Add(1, f.S.column(t, i))
			g.Equal(&f.e, 0)
		}
	}
}

// once adds a rule that is not in the paper. Nodes that may not be recomputed, in a graph/v1 the loss and backward
// nodes, are computed in their own stage only.
func (f *printed) once() {
	g := f.m.Group("once", "the rules")
	for t := range f.n {
		for j := range t {
			if !f.may(t, j) {
				f.e.Reset().Add(1, f.R.column(t, j))
				g.Equal(&f.e, 0)
			}
		}
	}
}

// memory adds (2) to (4): U_{t,0} is the retained memory, and U_{t,k+1} = U_{t,k} − mem_freed_t(v_k) + M_{k+1}
// R_{t,k+1}. Here mem_freed_t(v_k) = Σ_{i ∈ DEPS[k] ∪ {k}} M_i FREE_{t,i,k}, and M_{k+1} is the total size that
// node k+1 writes. U ≤ M_budget of (9) are bounds of the columns.
func (f *printed) memory() {
	start, next := f.m.Group("memory at the start", "Checkmate (2)"), f.m.Group("memory", "Checkmate (3), (4)")
	for t := range f.n {
		f.e.Reset().Add(-1, f.U0.At(t))
		for i := range f.made(t - 1) {
			f.e.Add(f.mem[i], f.S.column(t, i))
		}
		start.Equal(&f.e, 0)
		f.e.Reset().Add(1, f.U0.At(t))
		for k := range t + 1 {
			f.e.Add(f.written(k), f.R.column(t, k)).Add(-1, f.U.column(t, k))
			next.Equal(&f.e, 0)
			f.e.Reset().Add(1, f.U.column(t, k))
			from := 0
			if k > 0 {
				from = f.upTo[k-1]
			}
			for r := from; r < f.upTo[k]; r++ {
				f.e.Add(-f.mem[f.reads[r].i], f.free[f.first[t]+r])
			}
		}
	}
}

// freed adds the linear form of (5), FREE_{t,i,k} = R_{t,k} (1 − S_{t+1,i}) Π_{j ∈ USERS[i], j>k} (1 − R_{t,j}).
// With num_hazards(t,i,k) = (1 − R_{t,k}) + S_{t+1,i} + Σ_{j ∈ USERS[i], j>k} R_{t,j} and κ its largest value,
//
//	1 − FREE ≤ num_hazards,   κ (1 − FREE) ≥ num_hazards.
func (f *printed) freed() {
	may, must := f.m.Group("freed if no hazard", "Checkmate (7b)"), f.m.Group("kept if a hazard", "Checkmate (7c)")
	for t := range f.n {
		for r := range f.upTo[t] {
			i, k := f.reads[r].i, f.reads[r].k
			x := f.free[f.first[t]+r]
			kappa := 1.0
			f.e.Reset().AddConst(1).Add(-1, f.R.column(t, k))
			switch {
			case t+1 < f.n:
				f.e.Add(1, f.S.column(t+1, i))
				kappa++
			case f.Result[i]:
				f.e.AddConst(1)
				kappa++
			}
			for _, j := range f.Succ[i] {
				if j > k && j <= t {
					f.e.Add(1, f.R.column(t, j))
					kappa++
				}
			}
			f.e.Add(1, x)
			may.AtLeast(&f.e, 1)
			f.e.Keep().Add(kappa-1, x)
			must.AtMost(&f.e, kappa)
		}
	}
}

// overheads adds a rule that is not in the paper: the overhead of node k counts while it is computed.
func (f *printed) overheads() {
	g := f.m.Group("overhead", "the rules")
	for t := range f.n {
		for k := range t + 1 {
			if f.ovh[k] > 0 {
				f.e.Reset().Add(1, f.U.column(t, k)).Add(f.ovh[k], f.R.column(t, k))
				g.AtMost(&f.e, f.budget)
			}
		}
	}
}

// written returns the total size that node k writes, in units of the model.
func (f *printed) written(k int) (sum float64) {
	for _, i := range f.Writes[k] {
		sum += f.mem[i]
	}
	return sum
}

// schedule reads S from a solution and completes it.
func (f *printed) schedule(x []float64) *rematgraph.Schedule {
	s := f.New()
	for t := range f.n {
		for i := range f.made(t - 1) {
			s.Retain(t, i, x[f.S.column(t, i).Index()] > 0.5)
		}
	}
	s.Complete()
	return s
}

// values returns the columns of a schedule.
func (f *printed) values(s *rematgraph.Schedule) []float64 {
	x := make([]float64, f.m.NumCols())
	for t := range f.n {
		u := 0.0
		for i := range f.made(t - 1) {
			if s.Retained(t, i) {
				x[f.S.column(t, i).Index()] = 1
				u += f.mem[i]
			}
		}
		x[f.U0.At(t).Index()] = u
		r := 0
		for k := range t + 1 {
			x[f.R.column(t, k).Index()] = value(s.Computed(t, k))
			if s.Computed(t, k) {
				u += f.written(k)
			}
			x[f.U.column(t, k).Index()] = u
			for ; r < f.upTo[k]; r++ {
				i := f.reads[r].i
				free := s.Computed(t, k) && !s.Retained(t+1, i)
				for _, j := range f.Succ[i] {
					free = free && !(j > k && j <= t && s.Computed(t, j))
				}
				if free {
					x[f.free[f.first[t]+r].Index()] = 1
					u -= f.mem[i]
				}
			}
		}
	}
	return x
}
