// Package rematoffload holds the formulation of rematerialization with offloading.
package rematoffload

import (
	"fmt"
	"math"

	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/platform"
	view "workbench/model/problem/rematoffload"
)

// MostLayers limits the chains of Stages: 12N² binaries are too many for longer ones.
const MostLayers = 40

// rematOffload is a MILP of this project that bounds rematerialization with offloading from below, in the spirit
// of POET: recomputation and paging in stages.
//
// Event j is the first start of F_{j+1} for j < N, and the start of B_{2N−j} from then on: every plan has these
// events, in this order. Stage j lasts from event j to event j+1. It begins with that computation; the rest of it
// is recomputation and idle time. Tensors are a_0..a_{N-1} and ā_1..ā_N; only those that a later computation may
// read have columns.
//
// # Why it is a lower bound
//
// Take a valid plan. Three changes cost no time. First, omit prefetches that nothing reads, or during which the
// value is recomputed. Second, keep only the first offload of a value and replace the others by discards, since
// the host keeps its copy. Third, let F_1 start at 0: until then only a_0 is in memory, which F_1 can keep if it
// is offloaded later, and the peak before F_2 is the requirement of F_1.
//
// Let S_{j,v} be 1 if v is stored or being fetched at event j, and first_j if F_{j+1} runs as F_all there. Let
// R_{j,v} be 1 if a forward that makes v runs in stage j, apart from the first computation of the stage, and
// q_{j,v} if a prefetch of v starts in stage j. Let O_{j,v} and P_{j,v} be the fractions of v that transfers carry
// in it, D_{j,v} the fraction still to come at event j, and idle_j the rest of the stage. Then
//
//   - the makespan is Σ u_j + Σ uF R + Σ idle_j (a forward that runs twice in a stage counts as idle time here,
//     and so does one of several prefetches of a tensor in a stage);
//   - a stored tensor was stored before, or computed, or fetched ("kept"). A fetched tensor is transferred
//     ("coming") after all of it was sent ("sent before"), and only a tensor in memory can be sent ("sends");
//   - the inputs of a computation are in memory ("input of …"); the inputs of a recomputation are in memory at
//     some time of the stage;
//   - the transfers of a stage take no longer than the stage ("link");
//   - consider a tensor that a forward before event j made and a backward after it reads. It is stored or being
//     fetched at event j, or recomputed later, or fetched later. In the last case all of it was sent before
//     event j, as it was not stored then ("here or sent or again"). So the relaxation contains at every event
//     what the bound moved-or-again contains at one;
//   - at each event the tensors that are stored or being fetched fit together with the requirement of the
//     computation ("memory"). At other times, as during recomputation, memory is not limited here.
type rematOffload struct {
	*view.Instance
	unit float64 // of times, seconds: a power of two, in which a good plan takes about 2¹⁰

	u      []float64 // of the first computation of stage j
	uF     []float64 // by layer
	bytes  []float64 // by tensor
	move   []float64 // time of a transfer, by tensor, rounded down
	beside []float64 // bytes at event j, without the stored tensors and the output of F

	m     *milp.Model
	e     milp.Expr         // scratch
	cover formulation.Cover // scratch

	idle, first  milp.List
	S, R, q      [][]column // by stage, or event, and tensor
	O, P, coming [][]column
}

// column is an optional column.
type column struct {
	v  milp.Var
	ok bool
}

// abar returns the number of ā_i, N+i; a_i has number i. Number N, ā_0 or a_N, is no tensor.
func (f *rematOffload) abar(i int) int { return f.N + i }

// layer returns the layer of a tensor and whether it is an ā.
func (f *rematOffload) layer(v int) (i int, saved bool) {
	if v > f.N {
		return v - f.N, true
	}
	return v, false
}

func (f *rematOffload) stages() int { return 2 * f.N }

// top returns the number of layers before event j: F_{top+1} or B_top is next.
func (f *rematOffload) top(j int) int { return min(j, 2*f.N-j) }

// live reports whether tensor v can exist by event j and a computation from event j on may read it.
func (f *rematOffload) live(j, v int) bool {
	i, saved := f.layer(v)
	if v == f.N || j >= f.stages() {
		return false
	}
	if j >= f.N && !saved {
		return i <= f.top(j)-1
	}
	return i <= f.top(j)
}

// movable reports whether a transfer of v can be useful.
func (f *rematOffload) movable(v int) bool {
	return v != f.N && f.bytes[v] > 0 && f.Bandwidth > 0
}

// Stages builds a MILP of this project, in the stages of Checkmate, whose optimum is a lower bound on the makespan
// of rematerialization with offloading. It has 12N² binaries, 12N² other columns and 20N² rows. The error wraps
// ErrInstance or ErrTooLong, or is a *plan.Infeasible.
func Stages(c *chain.Chain, p platform.Platform) (*formulation.Program, error) {
	f, err := newRematOffload(c, p)
	if err != nil {
		return nil, err
	}
	f.build()
	return f.program(), nil
}

func (f *rematOffload) program() *formulation.Program {
	return &formulation.Program{
		Model: f.m, Promise: formulation.LowerBound, Formulation: f.m.Name(), Unit: f.unit, Start: f.start, Plan: f.plan,
	}
}

func newRematOffload(c *chain.Chain, p platform.Platform) (*rematOffload, error) {
	v, err := view.New(c, p)
	if err != nil {
		return nil, formulation.Unfit(err)
	}
	if v.N > MostLayers {
		return nil, fmt.Errorf("%w: %d layers, remat-offload takes %d at most", formulation.ErrTooLong, v.N, MostLayers)
	}
	f := &rematOffload{Instance: v}
	f.read()
	return f, nil
}

// target is the approximate makespan of a good plan, in units of the model.
const target = 0x1p10

// read arranges the instance by stages and tensors.
func (f *rematOffload) read() {
	n := f.N
	f.bytes, f.move = make([]float64, 2*n+1), make([]float64, 2*n+1)
	f.u, f.uF, f.beside = make([]float64, 2*n), make([]float64, n+1), make([]float64, 2*n)
	scale := milp.PowerOfTwo(f.BestBound(), target)
	f.unit = 1 / scale
	f.bytes[0] = f.A[0]
	for l := 1; l <= n; l++ {
		if l < n {
			f.bytes[l] = f.A[l]
		}
		f.bytes[f.abar(l)] = f.Abar[l]
		f.beside[l-1] = f.OF[l]
		f.beside[2*n-l] = f.OB[l] + f.Delta[l] + f.Delta[l-1]
		f.uF[l] = scale * f.UF[l]
		f.u[l-1], f.u[2*n-l] = f.uF[l], scale*f.UB[l]
	}
	for v, x := range f.bytes {
		if f.movable(v) {
			f.move[v] = formulation.Counts(scale * milp.Down.Quo(x, f.Bandwidth))
		}
	}
}

// build builds the model.
func (f *rematOffload) build() {
	f.m = milp.New("remat-offload")
	f.columns()
	f.objective()
	f.kept()
	f.transfers()
	f.inputs()
	f.link()
	f.memory()
	f.sentOrAgain()
}

func (f *rematOffload) columns() {
	f.idle = f.m.List("idle", f.stages()-1, milp.Continuous, 0, math.Inf(1))
	f.first = f.m.List("first", f.N, milp.Binary, 0, 1)
	grid := func(name string, k milp.Kind, up float64, has func(j, v int) bool) [][]column {
		g := make([][]column, f.stages())
		for j := range g {
			g[j] = make([]column, 2*f.N+1)
			for v := range g[j] {
				if has(j, v) {
					g[j][v] = column{f.m.Var(fmt.Sprintf("%s[%d,%d]", name, j, v), k, 0, up), true}
				}
			}
		}
		return g
	}
	later := func(j, v int) bool { return f.live(j+1, v) }
	moves := func(j, v int) bool { return f.live(j+1, v) && f.movable(v) }
	f.S = grid("S", milp.Binary, 1, f.live)
	f.R = grid("R", milp.Binary, 1, func(j, v int) bool { return v > 0 && later(j, v) })
	f.q = grid("q", milp.Binary, 1, moves)
	f.O = grid("O", milp.Continuous, 1, moves)
	// At most 2: the rest of one prefetch and all of the next one.
	f.P = grid("P", milp.Continuous, 2, moves)
	f.coming = grid("D", milp.Continuous, 1, func(j, v int) bool { return f.live(j, v) && f.movable(v) })
	f.m.Fix(f.S[0][0].v, 1)
	if d := f.coming[0][0]; d.ok {
		f.m.Fix(d.v, 0)
	}
}

// add adds a column to the scratch expression, if it exists.
func (f *rematOffload) add(coefficient float64, x column) {
	if x.ok {
		f.e.Add(coefficient, x.v)
	}
}

// made adds 1 if the first computation of stage j makes v.
func (f *rematOffload) made(coefficient float64, j, v int) {
	i, saved := f.layer(v)
	switch {
	case j >= f.N || i != j+1 || v == f.N:
	case saved:
		f.e.Add(coefficient, f.first.At(j))
	default:
		f.e.AddConst(coefficient).Add(-coefficient, f.first.At(j))
	}
}

// addRecomputation adds the time of the recomputations of stage j.
func (f *rematOffload) addRecomputation(coefficient float64, j int) {
	for v, r := range f.R[j] {
		i, _ := f.layer(v)
		f.add(coefficient*f.uF[i], r)
	}
}

// objective sets the makespan as the objective.
func (f *rematOffload) objective() {
	f.e.Reset().AddConst(milp.Down.Sum(f.u...))
	for j := range f.stages() {
		f.addRecomputation(1, j)
		if j < f.idle.Len() {
			f.e.Add(1, f.idle.At(j))
		}
	}
	f.m.Minimize(&f.e)
}

// kept adds that a stored tensor was stored before, computed, or fetched.
func (f *rematOffload) kept() {
	g := f.m.Group("kept", "the rules")
	for j := range f.stages() - 1 {
		for v, s := range f.S[j+1] {
			if !s.ok {
				continue
			}
			f.e.Reset().Add(1, s.v)
			f.add(-1, f.S[j][v])
			f.add(-1, f.R[j][v])
			f.add(-1, f.q[j][v])
			f.made(-1, j, v)
			g.AtMost(&f.e, 0)
		}
	}
}

// transfers adds the fractions that are being fetched, that a fetched tensor was sent, and that a sent one was in
// memory.
func (f *rematOffload) transfers() {
	coming, reserved := f.m.Group("coming", "[004] O.7"), f.m.Group("reserved", "[004] O.7")
	sent, sends := f.m.Group("sent before", "the rules"), f.m.Group("sends", "the rules")
	for j := range f.stages() - 1 {
		for v, q := range f.q[j] {
			if !q.ok {
				continue
			}
			f.e.Reset().Add(-1, q.v)
			f.add(1, f.coming[j+1][v])
			f.add(-1, f.coming[j][v])
			f.add(1, f.P[j][v])
			coming.Equal(&f.e, 0)

			reserved.Semi(f.coming[j+1][v].v, f.S[j+1][v].v, 0, 1)

			f.e.Reset().Add(1, q.v)
			for k := range j + 1 {
				f.add(-1, f.O[k][v])
			}
			sent.AtMost(&f.e, 0)

			f.e.Reset().Add(1, f.O[j][v].v)
			f.add(-1, f.S[j][v])
			f.add(-1, f.R[j][v])
			f.made(-1, j, v)
			sends.AtMost(&f.e, 0)
		}
	}
}

// there adds the tensors of layer i that are stored at event j.
func (f *rematOffload) there(coefficient float64, j, i int) {
	for _, v := range f.tensors(i) {
		f.add(coefficient, f.S[j][v])
		f.add(-coefficient, f.coming[j][v])
	}
}

// tensors returns the tensors of layer i.
func (f *rematOffload) tensors(i int) []int {
	switch i {
	case 0:
		return []int{0}
	case f.N:
		return []int{f.abar(i)}
	}
	return []int{i, f.abar(i)}
}

// inputs adds that computations have their inputs.
func (f *rematOffload) inputs() {
	forward, backward := f.m.Group("input of F", "[004] Table 2.2"), f.m.Group("input of B", "[004] Table 2.2")
	again := f.m.Group("input of F again", "[004] Table 2.2")
	for j := range f.stages() {
		if j < f.N {
			f.e.Reset()
			f.there(1, j, j)
			forward.AtLeast(&f.e, 1)
		} else {
			t := f.top(j)
			f.e.Reset()
			f.there(1, j, t-1)
			backward.AtLeast(&f.e, 1)
			f.e.Reset()
			f.add(1, f.S[j][f.abar(t)])
			f.add(-1, f.coming[j][f.abar(t)])
			backward.AtLeast(&f.e, 1)
		}
		for v, r := range f.R[j] {
			if !r.ok {
				continue
			}
			i, _ := f.layer(v)
			f.e.Reset().Add(1, r.v)
			for _, w := range f.tensors(i - 1) {
				f.add(-1, f.S[j][w])
				f.add(-1, f.R[j][w])
				f.add(-1, f.q[j][w])
				f.made(-1, j, w)
			}
			again.AtMost(&f.e, 0)
		}
	}
}

// link adds [004] O.1: the transfers of a stage take no longer than the stage.
func (f *rematOffload) link() {
	g := f.m.Group("link", "[004] O.1")
	for j := range f.stages() - 1 {
		f.e.Reset().Add(-1, f.idle.At(j))
		f.addRecomputation(-1, j)
		for v, move := range f.move {
			f.add(move, f.O[j][v])
			f.add(move, f.P[j][v])
		}
		g.AtMost(&f.e, f.u[j])
	}
}

// memory adds the memory row of each event.
func (f *rematOffload) memory() {
	g := f.m.Group("memory", "the rules")
	for j := range f.stages() {
		all := f.beside[j] // with every possible tensor stored
		if j == 0 {
			all += f.bytes[0]
		}
		f.cover.Reset()
		for v, s := range f.S[j] {
			if s.ok && (j > 0 || v > 0) { // a_0 is in memory at the start
				f.cover.Kept(f.bytes[v], s.v)
				all += f.bytes[v]
			}
		}
		if j < f.N { // F_all takes no less than F_ck: see chain.Layer
			f.cover.Kept(f.Abar[j+1]+f.OF[j+1]-f.A[j+1]-f.OC[j+1], f.first.At(j))
			all += f.Abar[j+1]
		}
		f.cover.AtLeast(g, all-f.Memory, 1)
	}
}

// sentOrAgain adds that a tensor that a backward reads is stored, or was sent, or will be recomputed.
func (f *rematOffload) sentOrAgain() {
	g := f.m.Group(groupSentOrAgain, "ours")
	for j := 1; j < f.stages(); j++ {
		for v, s := range f.S[j] {
			if _, saved := f.layer(v); !s.ok || !saved && v != 0 {
				continue
			}
			f.e.Reset().Add(1, s.v)
			for k := range f.stages() {
				if k < j {
					f.add(1, f.O[k][v])
				} else {
					f.add(1, f.R[k][v])
				}
			}
			g.AtLeast(&f.e, 1)
		}
	}
}

// groupSentOrAgain tightens the relaxation.
const groupSentOrAgain = "here or sent or again"
