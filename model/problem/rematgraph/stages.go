// Package rematgraph represents schedules of training steps as in Checkmate (Jain et al., MLSys
// 2020, §4): frontier-advancing stages, in each of which every node is computed at most once and in
// graph order.
//
// Stage t of a graph with n nodes ends with the first computation of node t. S[t] is the set of
// values retained from stage t−1 into stage t, and R[t] the set of nodes computed in stage t; S[n]
// has the results of the step. A value is a storage that is not resident, written by a node and
// read by later ones. In a graph/v1 each node has one value, in a graph/v2 any number, which
// extends Checkmate. Not every plan has this form: a plan may compute nodes for the first time out
// of graph order, and may compute a node twice between two first computations.
package rematgraph

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"

	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Most is the maximum number of nodes. The sets of a schedule take n²/4 bytes; at this size a
// search takes 0.6 GB and starts within half a second.
const Most = 10_000

// Errors of this package.
var (
	ErrGraph = errors.New("graph unfit for stages")
	ErrPlan  = errors.New("plan is no schedule of stages")
)

// View is a training step in flat arrays. Values are numbered in the order of the nodes that write
// them; in a graph/v1, value i is that of node i.
type View struct {
	Graph *training.Graph
	// Instance is the instance of plans: Graph, or the graph/v1 that it was converted from.
	Instance plan.Instance
	N        int // nodes
	M        int // values
	// Words and ValueWords are the lengths of sets of nodes and of values in 64-bit words.
	Words, ValueWords int
	Pred              [][]int   // by node: the values that it reads, ascending
	Writes            [][]int   // by node: the values that it writes, ascending
	Succ              [][]int   // by value: the nodes that read it, ascending
	Writer            []int     // by value
	Time              []float64 // by node, seconds
	Memory            []float64 // by value, in bytes: integer
	Overhead          []float64 // by node: workspace in addition to values while it is computed
	Written           []float64 // by node: the size of its values
	// Once is true for a node that is computed exactly once.
	Once []bool
	// Until is the last stage in which a node can be computed: its own stage if it is computed
	// once, else that of the first later node that mutates what it reads.
	Until  []int
	Result []bool // by value: it must be in memory at the end
	Pinned []bool // by value: it must not be offloaded
	// Stopped, if not nil, reports whether the searches of Least and TimeBound must end.
	Stopped func() bool

	once sync.Once // guards made
	made *bounds   // see View.bounds

	keeping  sync.Once // guards kept and keptPeak
	kept     *Schedule // see View.StoreAll
	keptPeak float64   // its peak, in bytes
}

// New validates a *training.Graph or a *graph.Graph and returns its view. The error wraps ErrGraph.
// O(n²/64 + edges).
func New(in plan.Instance) (*View, error) {
	v1, n := plan.As[*graph.Graph](in), 0
	g := plan.As[*training.Graph](in)
	switch {
	case v1 != nil:
		n = v1.Len()
	case g != nil:
		n = max(g.Len(), len(g.Storages))
	default:
		return nil, fmt.Errorf("%w: there is none", ErrGraph)
	}
	if n > Most {
		return nil, fmt.Errorf("%w: it has %d nodes or storages, at most %d are possible", ErrGraph, n, Most)
	}
	if err := in.Validate(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrGraph, err)
	}
	if v1 != nil {
		g = training.FromGraph(v1)
	}
	v := newView(g)
	v.Instance = in
	return v, nil
}

func newView(g *training.Graph) *View {
	n := g.Len()
	v := &View{
		Graph: g, N: n, Words: (n + 63) / 64,
		Pred: make([][]int, n), Writes: make([][]int, n), Time: make([]float64, n), Overhead: make([]float64, n),
		Written: make([]float64, n), Once: make([]bool, n), Until: make([]int, n),
	}
	value := make([]int, len(g.Storages))
	for i := range g.Nodes {
		for _, s := range g.Nodes[i].Writes {
			value[s] = v.M
			v.Writes[i] = append(v.Writes[i], v.M)
			v.Written[i] += g.Storages[s].Bytes
			v.M++
			v.Writer, v.Memory, v.Result = append(v.Writer, i), append(v.Memory, g.Storages[s].Bytes), append(v.Result, g.Storages[s].Result)
			v.Pinned = append(v.Pinned, g.Storages[s].NoOffload)
		}
	}
	v.ValueWords, v.Succ = (v.M+63)/64, make([][]int, v.M)
	changed := make([]int, len(g.Storages)) // the first node from i on that mutates it
	for s := range changed {
		changed[s] = n
	}
	for i := n - 1; i >= 0; i-- {
		x := &g.Nodes[i]
		v.Time[i], v.Overhead[i], v.Once[i], v.Until[i] = x.Time, x.Workspace, x.Once, n
		for _, s := range x.Mutates {
			changed[s] = i
		}
		for _, s := range x.Reads {
			if g.Storages[s].Resident {
				v.Until[i] = min(v.Until[i], changed[s])
				continue
			}
			v.Pred[i] = append(v.Pred[i], value[s])
		}
		slices.Sort(v.Pred[i])
		if v.Once[i] = v.Once[i] || v.Until[i] == i; v.Once[i] {
			v.Until[i] = i
		}
	}
	for i := range n {
		for _, s := range v.Pred[i] {
			v.Succ[s] = append(v.Succ[s], i)
		}
	}
	return v
}

// ID returns the id of the storage of value s.
func (v *View) ID(s int) string {
	i := v.Writer[s]
	return v.Graph.Storages[v.Graph.Nodes[i].Writes[s-v.Writes[i][0]]].ID
}

// NewPlan returns a plan of the graph without operations.
func (v *View) NewPlan(method string, p platform.Platform) *plan.Plan {
	return plan.New(plan.Remat, method, v.Instance, p)
}

// Schedule is a schedule in stages. R has rows of Words words, S rows of ValueWords; use
// [Schedule.Retained] and [Schedule.Computed] to read them.
type Schedule struct {
	v *View
	R []uint64 // row t: the nodes that are computed in stage t
	S []uint64 // row t: the values that are retained into stage t; row N: the results

	want []uint64 // scratch: the values that a stage must compute
	last []int32  // scratch: the last reader of a value in a stage
}

// New returns the schedule of v that retains and computes nothing; call Complete after filling S.
func (v *View) New() *Schedule {
	s := &Schedule{
		v: v, R: make([]uint64, v.N*v.Words), S: make([]uint64, (v.N+1)*v.ValueWords),
		want: make([]uint64, v.ValueWords), last: make([]int32, v.M),
	}
	for i, result := range v.Result {
		s.Retain(v.N, i, result)
	}
	return s
}

// Clone returns a copy of s.
func (s *Schedule) Clone() *Schedule {
	c := s.v.New()
	copy(c.R, s.R)
	copy(c.S, s.S)
	return c
}

// Copy makes s equal to t, a schedule of the same view, without allocation.
func (s *Schedule) Copy(t *Schedule) {
	copy(s.R, t.R)
	copy(s.S, t.S)
}

// View returns the view s is of.
func (s *Schedule) View() *View { return s.v }

// Retained reports S[t][i]: whether value i is retained into stage t.
func (s *Schedule) Retained(t, i int) bool { return s.S[t*s.v.ValueWords+i>>6]>>(i&63)&1 != 0 }

// Computed reports R[t][i]: whether node i is computed in stage t.
func (s *Schedule) Computed(t, i int) bool { return s.R[t*s.v.Words+i>>6]>>(i&63)&1 != 0 }

// Retain sets S[t][i]. The writer of value i must come before t.
func (s *Schedule) Retain(t, i int, keep bool) {
	if keep {
		s.S[t*s.v.ValueWords+i>>6] |= 1 << (i & 63)
	} else {
		s.S[t*s.v.ValueWords+i>>6] &^= 1 << (i & 63)
	}
}

// MostComputations is the maximum number of computations of a schedule that is converted to
// operations or timed; this many operations take two to three gigabytes. At its minimum memory a
// ResNet with 1,001 layers needs half as many; Frugal with 10,000 nodes needs twice as many.
const MostComputations = 8_000_000

// Computations returns the total number of computations in all stages. O(n²/64).
func (s *Schedule) Computations() (n int) {
	for _, x := range s.R {
		n += bits.OnesCount64(x)
	}
	return n
}

// Size returns the total number of values retained into all stages.
func (s *Schedule) Size() (n int) {
	for _, x := range s.S {
		n += bits.OnesCount64(x)
	}
	return n
}

// Nodes and Values return R[t] and S[t] as sets.
func (s *Schedule) Nodes(t int) []uint64  { return s.R[t*s.v.Words : (t+1)*s.v.Words] }
func (s *Schedule) Values(t int) []uint64 { return s.S[t*s.v.ValueWords : (t+1)*s.v.ValueWords] }

// End returns the last stage that reads value i in a schedule that computes every node once: N for
// results, the stage of its writer if nothing reads it.
func (v *View) End(i int) int {
	if v.Result[i] {
		return v.N
	}
	if k := len(v.Succ[i]); k > 0 {
		return v.Succ[i][k-1]
	}
	return v.Writer[i]
}

// StoreAll returns the schedule that retains every value until its last reader. O(n²/64) after the first call.
func (v *View) StoreAll() *Schedule {
	v.keepAll()
	return v.kept.Clone()
}

// StoreAllPeak returns the peak of StoreAll, in bytes. O(1) after the first call of it or of StoreAll.
func (v *View) StoreAllPeak() float64 {
	v.keepAll()
	return v.keptPeak
}

// keepAll sets kept and keptPeak. O(n² + edges).
func (v *View) keepAll() {
	v.keeping.Do(func() {
		s := v.New()
		for i := range v.M {
			for t := v.Writer[i] + 1; t <= v.End(i); t++ {
				s.Retain(t, i, true)
			}
		}
		s.Complete()
		v.kept = s
		v.keptPeak, _, _ = s.Peak()
	})
}

// Frugal returns the schedule that retains only values that must not be recomputed, and values of
// nodes that are not forward nodes.
func (v *View) Frugal() *Schedule {
	s := v.frugal()
	s.Complete()
	return s
}

// frugal returns Frugal before its completion.
func (v *View) frugal() *Schedule {
	s := v.New()
	for i, j := range v.Writer {
		if v.Graph.Nodes[j].Phase == training.Forward {
			continue
		}
		for t := j + 1; t <= v.End(i); t++ {
			s.Retain(t, i, true)
		}
	}
	return s
}

// Complete sets R to the minimum recomputation for S (Checkmate §4.5, "two-phase rounding") and
// removes from S what nothing reads. A value that cannot be recomputed is retained from its
// computation on wherever it is needed, whatever S says. A value whose writer is computed in a
// stage anyway is not retained into it. O(n³/64) in the worst case, O(R·(n/64 + degree)) in
// practice.
func (s *Schedule) Complete() {
	for t := s.v.N - 1; t >= 0; t-- {
		s.CompleteStage(t)
	}
}

// CompleteStage does for stage t what Complete does for all, given S[t+1]: it sets R[t], and adds
// to and removes from S[t]. Call it from the last changed stage down to the first one whose S no
// longer changes.
func (s *Schedule) CompleteStage(t int) {
	v := s.v
	r, held, next, want := s.Nodes(t), s.Values(t), s.Values(t+1), s.want
	clear(r)
	r[t>>6] |= 1 << (t & 63)
	for k := range want {
		want[k] = next[k] &^ held[k]
	}
	v.ask(want, t, held)
	if len(v.Writes[t]) > 0 {
		s.drop(want, v.Writes[t])
	}
	for k := len(want) - 1; k >= 0; k-- {
		for want[k] != 0 {
			i := k<<6 + 63 - bits.LeadingZeros64(want[k])
			j := v.Writer[i]
			if t > v.Until[j] {
				want[k] &^= 1 << (i & 63)
				held[k] |= 1 << (i & 63)
				continue
			}
			r[j>>6] |= 1 << (j & 63)
			s.drop(want, v.Writes[j])
			s.drop(held, v.Writes[j])
			v.ask(want, j, held) // its inputs, which are written earlier
		}
	}
	s.forget(t)
}

// ask adds to a set the values that node j reads and that are not held.
func (v *View) ask(set []uint64, j int, held []uint64) {
	for _, i := range v.Pred[j] {
		set[i>>6] |= 1 << (i & 63) &^ held[i>>6]
	}
}

// drop removes values from a set.
func (s *Schedule) drop(set []uint64, values []int) {
	for _, i := range values {
		set[i>>6] &^= 1 << (i & 63)
	}
}

// forget removes from S[t] the values that are neither read in the stage nor retained after it.
func (s *Schedule) forget(t int) {
	r, held, next := s.Nodes(t), s.Values(t), s.Values(t+1)
	for k := range held {
		used := next[k]
		for x := held[k] &^ used; x != 0; x &= x - 1 {
			i := k<<6 + bits.TrailingZeros64(x)
			for _, j := range s.v.Succ[i] {
				if r[j>>6]>>(j&63)&1 != 0 {
					used |= 1 << (i & 63)
					break
				}
			}
		}
		held[k] &= used
	}
}

// Cost returns the time of all computations, in seconds.
func (s *Schedule) Cost() float64 {
	c := 0.0
	for t := range s.v.N {
		c += s.StageCost(t)
	}
	return c
}

// StageCost returns the time of the computations of stage t, in seconds.
func (s *Schedule) StageCost(t int) float64 {
	c := 0.0
	for k, x := range s.Nodes(t) {
		for ; x != 0; x &= x - 1 {
			c += s.v.Time[k<<6+bits.TrailingZeros64(x)]
		}
	}
	return c
}

// Peak returns the peak memory of the schedule in bytes if every value is freed as early as
// possible, and the stage and node where it occurs.
func (s *Schedule) Peak() (bytes float64, stage, node int) {
	for t := range s.v.N {
		if m, i := s.StagePeak(t); m > bytes || t == 0 {
			bytes, stage, node = m, t, i
		}
	}
	return bytes, stage, node
}

// StagePeak returns the peak memory of stage t, in bytes, and the node where it occurs.
// O(computations · degree + n/64).
func (s *Schedule) StagePeak(t int) (bytes float64, node int) {
	m := s.v.Graph.Input
	for k, x := range s.Values(t) {
		for ; x != 0; x &= x - 1 {
			m += s.v.Memory[k<<6+bits.TrailingZeros64(x)]
		}
	}
	bytes = -1
	s.walk(t, func(i int) {
		m += s.v.Written[i]
		if need := m + s.v.Overhead[i]; need > bytes {
			bytes, node = need, i
		}
	}, func(i int) { m -= s.v.Memory[i] })
	return bytes, node
}

// walk replays stage t: it calls compute for every computation, and then free for every value that
// nothing reads any more.
func (s *Schedule) walk(t int, compute, free func(i int)) {
	v, r := s.v, s.Nodes(t)
	for k := len(r) - 1; k >= 0; k-- {
		for x := r[k]; x != 0; x &= x - 1 {
			j := k<<6 + bits.TrailingZeros64(x)
			for _, i := range v.Writes[j] {
				s.last[i] = -1
			}
			for _, i := range v.Pred[j] {
				s.last[i] = -1
			}
		}
	}
	for k := len(r) - 1; k >= 0; k-- {
		for x := r[k]; x != 0; {
			b := 63 - bits.LeadingZeros64(x)
			x &^= 1 << b
			for _, i := range v.Pred[k<<6+b] {
				if s.last[i] < 0 {
					s.last[i] = int32(k<<6 + b)
				}
			}
		}
	}
	for k := range r {
		for x := r[k]; x != 0; x &= x - 1 {
			j := k<<6 + bits.TrailingZeros64(x)
			compute(j)
			for _, i := range v.Pred[j] {
				if s.last[i] == int32(j) && !s.Retained(t+1, i) {
					free(i)
				}
			}
			for _, i := range v.Writes[j] {
				if s.last[i] < 0 && !s.Retained(t+1, i) {
					free(i)
				}
			}
		}
	}
}
