// Package stages holds schedules of graphs as Checkmate writes them (Jain et
// al., MLSys 2020, §4): frontier-advancing stages, in each of which every node
// is computed at most once and in the order of the graph.
//
// Stage t of a graph of n nodes ends with the first computation of node t.
// S[t] is the set of values retained from stage t−1 into stage t, R[t] the set
// of nodes computed in stage t. Not every plan is of this form: a plan may
// compute first what comes later in the graph, and may compute a node twice
// between two first computations.
package stages

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"sync"

	"workbench/model/graph"
)

// Most is the largest number of nodes: the sets of a schedule take n²/4 bytes.
const Most = 20_000

// Errors of this package.
var (
	ErrGraph = errors.New("graph unfit for stages")
	ErrPlan  = errors.New("plan is no schedule of stages")
)

// View is a graph in flat arrays, indexed by node.
type View struct {
	Graph *graph.Graph
	N     int
	// Words is the length of a set of nodes in 64-bit words.
	Words      int
	Pred, Succ [][]int
	Time       []float64 // seconds
	Memory     []float64 // of the value, in units of the graph: whole
	Overhead   []float64 // beside it while it is computed
	// Once says that a node is computed exactly once: all but forward nodes.
	Once []bool
	pred []uint64 // pred[i·Words:] is the set of the predecessors of node i

	once sync.Once // of made
	made *bounds   // see View.bounds
}

// Of checks a graph and returns its view. O(n²/64 + edges).
func Of(g *graph.Graph) (*View, error) {
	if g == nil || g.Len() == 0 {
		return nil, fmt.Errorf("%w: it has no nodes, at least one is needed", ErrGraph)
	}
	n := g.Len()
	if n > Most {
		return nil, fmt.Errorf("%w: it has %d nodes, at most %d are possible", ErrGraph, n, Most)
	}
	for k, e := range g.Edges {
		if e.From < 0 || e.To >= n || e.From >= e.To {
			return nil, fmt.Errorf("%w: edge %d goes from node %d to node %d, edges must go forward among nodes 0 to %d", ErrGraph, k, e.From, e.To, n-1)
		}
	}
	if bad(g.Input) || g.Input != math.Floor(g.Input) {
		return nil, fmt.Errorf("%w: input is %v, sizes are whole and not negative", ErrGraph, g.Input)
	}
	v := &View{
		Graph: g, N: n, Words: (n + 63) / 64,
		Time: make([]float64, n), Memory: make([]float64, n), Overhead: make([]float64, n), Once: make([]bool, n),
	}
	v.Pred, v.Succ = g.Adjacency()
	total := g.Input
	v.pred = make([]uint64, n*v.Words)
	for i := range g.Nodes {
		x := &g.Nodes[i]
		if bad(x.Time) || bad(x.Memory) || bad(x.Overhead) {
			return nil, fmt.Errorf("%w: node %q has time %v, memory %v, overhead %v; they must be finite and not negative", ErrGraph, x.ID, x.Time, x.Memory, x.Overhead)
		}
		if x.Memory != math.Floor(x.Memory) || x.Overhead != math.Floor(x.Overhead) {
			return nil, fmt.Errorf("%w: node %q has memory %v, overhead %v; sizes are whole numbers of a unit", ErrGraph, x.ID, x.Memory, x.Overhead)
		}
		total += x.Memory + x.Overhead
		v.Time[i], v.Memory[i], v.Overhead[i] = x.Time, x.Memory, x.Overhead
		v.Once[i] = x.Kind != graph.Forward
		for _, p := range v.Pred[i] {
			v.pred[i*v.Words+p>>6] |= 1 << (p & 63)
		}
	}
	if total >= 1<<53 {
		return nil, fmt.Errorf("%w: its sizes add up to %v, sums are exact below 2⁵³: choose a larger unit", ErrGraph, total)
	}
	return v, nil
}

func bad(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }

// Schedule is a schedule of stages. Sets are rows of Words words; use
// [Schedule.Retained] and the others to read them.
type Schedule struct {
	v    *View
	R, S []uint64 // row t: what is computed in, retained into stage t

	last []int32 // scratch: the last reader of a value in a stage
}

// New returns the schedule of v that retains nothing and computes nothing;
// call Complete after filling S.
func (v *View) New() *Schedule {
	return &Schedule{v: v, R: make([]uint64, v.N*v.Words), S: make([]uint64, v.N*v.Words), last: make([]int32, v.N)}
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
func (s *Schedule) Retained(t, i int) bool { return s.S[t*s.v.Words+i>>6]>>(i&63)&1 != 0 }

// Computed reports R[t][i]: whether node i is computed in stage t.
func (s *Schedule) Computed(t, i int) bool { return s.R[t*s.v.Words+i>>6]>>(i&63)&1 != 0 }

// Retain sets S[t][i]. i < t.
func (s *Schedule) Retain(t, i int, keep bool) {
	if keep {
		s.S[t*s.v.Words+i>>6] |= 1 << (i & 63)
	} else {
		s.S[t*s.v.Words+i>>6] &^= 1 << (i & 63)
	}
}

// row returns row t of a matrix.
func (s *Schedule) row(x []uint64, t int) []uint64 { return x[t*s.v.Words : (t+1)*s.v.Words] }

// StoreAll retains every value for as long as anything reads it.
func (v *View) StoreAll() *Schedule {
	s := v.New()
	for i := range v.N {
		if k := len(v.Succ[i]); k > 0 {
			for t := i + 1; t <= v.Succ[i][k-1]; t++ {
				s.Retain(t, i, true)
			}
		}
	}
	s.Complete()
	return s
}

// Complete makes R the least recomputation for S (Checkmate §4.5, "two-phase
// rounding"), and drops from S what nothing reads. A value that must be
// computed once only is retained from its computation on wherever it is
// needed, whatever S says. O(n³/64) at most, O(R·(n/64 + degree)) in fact.
func (s *Schedule) Complete() {
	for t := s.v.N - 1; t >= 0; t-- {
		s.CompleteStage(t)
	}
}

// CompleteStage does for stage t what Complete does for all, given S[t+1]: it
// sets R[t], and adds to and drops from S[t]. Call it from the last stage that
// has changed down to the first whose S changes no more.
func (s *Schedule) CompleteStage(t int) {
	v, w := s.v, s.v.Words
	r, held := s.row(s.R, t), s.row(s.S, t)
	var next []uint64
	if t+1 < v.N {
		next = s.row(s.S, t+1)
	}
	for k := range r {
		r[k] = 0
		if next != nil {
			r[k] = next[k] &^ held[k]
		}
	}
	r[t>>6] |= 1 << (t & 63)
	for k := t >> 6; k >= 0; k-- {
		// Bits only appear below the one at hand.
		for done := uint64(0); ; {
			x := r[k] &^ done
			if x == 0 {
				break
			}
			b := 63 - bits.LeadingZeros64(x)
			done |= 1 << b
			i := k<<6 + b
			if i != t && v.Once[i] {
				r[k] &^= 1 << b
				held[k] |= 1 << b
				continue
			}
			pred := v.pred[i*w : (i+1)*w]
			for q := 0; q <= k; q++ {
				r[q] |= pred[q] &^ held[q]
			}
		}
	}
	// Keep of S[t] what is read in the stage or retained through it.
	for k := range held {
		if held[k] == 0 {
			continue
		}
		used := uint64(0)
		if next != nil {
			used = next[k]
		}
		for x := held[k] &^ used; x != 0; x &= x - 1 {
			i := k<<6 + bits.TrailingZeros64(x)
			for _, j := range v.Succ[i] {
				if r[j>>6]>>(j&63)&1 != 0 {
					used |= 1 << (i & 63)
					break
				}
			}
		}
		held[k] &= used
	}
}

// Cost returns the time of all computations.
func (s *Schedule) Cost() float64 {
	c := 0.0
	for t := range s.v.N {
		c += s.StageCost(t)
	}
	return c
}

// StageCost returns the time of the computations of stage t.
func (s *Schedule) StageCost(t int) float64 {
	c := 0.0
	for k, x := range s.row(s.R, t) {
		for ; x != 0; x &= x - 1 {
			c += s.v.Time[k<<6+bits.TrailingZeros64(x)]
		}
	}
	return c
}

// Peak returns the most memory that the schedule needs if every value is freed
// as early as possible, in bytes, and the stage and node where it is needed.
func (s *Schedule) Peak() (bytes float64, stage, node int) {
	for t := range s.v.N {
		if m, i := s.StagePeak(t); m > bytes || t == 0 {
			bytes, stage, node = m, t, i
		}
	}
	return bytes, stage, node
}

// StagePeak returns the most memory that a computation of stage t needs, and
// which. O(computations · degree + n/64).
func (s *Schedule) StagePeak(t int) (bytes float64, node int) {
	m := s.v.Graph.Input
	for k, x := range s.row(s.S, t) {
		for ; x != 0; x &= x - 1 {
			m += s.v.Memory[k<<6+bits.TrailingZeros64(x)]
		}
	}
	bytes = -1
	s.walk(t, func(i int) {
		if need := m + s.v.Memory[i] + s.v.Overhead[i]; need > bytes {
			bytes, node = need, i
		}
		m += s.v.Memory[i]
	}, func(i int) { m -= s.v.Memory[i] })
	return bytes, node
}

// walk goes through stage t: it calls compute for every computation and then
// free for every value that nothing reads any more.
func (s *Schedule) walk(t int, compute, free func(i int)) {
	v, r := s.v, s.row(s.R, t)
	for k := len(r) - 1; k >= 0; k-- {
		for x := r[k]; x != 0; {
			b := 63 - bits.LeadingZeros64(x)
			x &^= 1 << b
			s.last[k<<6+b] = -1
			for _, p := range v.Pred[k<<6+b] {
				s.last[p] = -1
			}
		}
	}
	for k := len(r) - 1; k >= 0; k-- {
		for x := r[k]; x != 0; {
			b := 63 - bits.LeadingZeros64(x)
			x &^= 1 << b
			for _, p := range v.Pred[k<<6+b] {
				if s.last[p] < 0 {
					s.last[p] = int32(k<<6 + b)
				}
			}
		}
	}
	keep := func(i int) bool { return t+1 < v.N && s.Retained(t+1, i) }
	for k := range r {
		for x := r[k]; x != 0; x &= x - 1 {
			i := k<<6 + bits.TrailingZeros64(x)
			compute(i)
			for _, p := range v.Pred[i] {
				if s.last[p] == int32(i) && !keep(p) {
					free(p)
				}
			}
			if s.last[i] < 0 && !keep(i) {
				free(i)
			}
		}
	}
}
