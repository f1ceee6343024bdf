package certify

import (
	"container/heap"
	"context"
	"math"
	"math/big"
	"slices"
	"strconv"

	"workbench/model/certificate"
	"workbench/model/milp"
	"workbench/solvers"
)

// node is an open node, or one on the path from the root to it.
type node struct {
	parent *node
	column int32 // branched on here, now in [lower, upper]; −1 at the root
	lower  float64
	upper  float64

	// bound is the lower bound that y proves at this node. y may be the node's own or an ancestor's.
	bound float64
	y     []certificate.Multiplier
	tree  *certificate.Node // its place in the tree

	// The objective of the parent, and the distance and direction by which the branch moves column.
	above, moved float64
	side         int
}

// search is a branch and bound.
type search struct {
	lp    solvers.LP
	d     *milp.Data
	model *certificate.Model // its box is that of the current node

	goal, target float64 // leaves that attain the target are not branched on
	grain        float64
	maxNodes     int
	maxMemory    int64

	whole        []int32   // integer columns
	lower, upper []float64 // bounds of model at the root
	unbounded    int       // number of columns with an infinite bound there
	inside       []int32   // columns whose bounds differ from those at the root
	pseudo       pseudoCosts

	root              *node
	open              queue
	least             float64 // minimum bound of the closed leaves
	found             float64 // the objective of a point where a proof of infeasibility was sought; else +Inf
	point             []float64
	pointBound        float64 // of the linear program whose solution point is
	memory            int64   // bytes of multipliers
	nodes, iterations int64
	ended             solvers.Stop
}

func newSearch(lp solvers.LP, d *milp.Data, o Options) *search {
	s := &search{
		lp: lp, d: d, goal: o.Goal, maxNodes: o.Nodes, maxMemory: o.Memory, least: math.Inf(1), found: math.Inf(1),
		model: certificate.NewModel(d, o.Goal), grain: granularity(d, o.Goal),
	}
	if s.maxMemory == 0 {
		s.maxMemory = 1 << 30
	}
	if s.target = o.Goal; !math.IsInf(o.Goal, 1) {
		s.target -= 1e-9*greatest(d.Cost) + 1e-12*math.Abs(o.Goal)
		if s.grain != 0 { // greater than the value one step below
			before := new(big.Rat).Sub(s.next(new(big.Rat).SetFloat64(o.Goal)), new(big.Rat).SetFloat64(s.grain))
			s.target = math.Min(s.target, math.Nextafter(milp.Up.Rat(before), math.Inf(1)))
		}
	}
	for j, integer := range d.Integer {
		if integer {
			s.whole = append(s.whole, int32(j))
		}
	}
	s.lower, s.upper = slices.Clone(s.model.Lower), slices.Clone(s.model.Upper)
	for j, lower := range s.lower {
		if math.IsInf(lower, -1) || math.IsInf(s.upper[j], 1) {
			s.unbounded++
		}
	}
	s.pseudo = newPseudoCosts(len(d.Cost))
	s.root = &node{column: -1, bound: math.Inf(-1), tree: &certificate.Node{}, above: math.NaN()}
	return s
}

// queue is a heap of open nodes, ordered by bound (best-first search).
type queue []*node

func (q queue) Len() int           { return len(q) }
func (q queue) Less(i, j int) bool { return q[i].bound < q[j].bound }
func (q queue) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)        { *q = append(*q, x.(*node)) }
func (q *queue) Pop() any {
	old := *q
	n := old[len(old)-1]
	*q = old[:len(old)-1]
	return n
}

// run repeatedly takes the open node of minimum bound and dives from it to a leaf. The bound at a limit is
// therefore as good as possible, and most linear programs differ from the previous one in one bound. After an
// error the tree is as it was before the failing node.
func (s *search) run(ctx context.Context) error {
	if err := s.boundLP(); err != nil {
		return err
	}
	if s.ascend(ctx); s.root.bound >= s.target {
		s.close(s.root, s.root.bound, s.root.y, false)
		return nil
	}
	heap.Push(&s.open, s.root)
	for len(s.open) > 0 {
		n := heap.Pop(&s.open).(*node)
		for n != nil {
			if s.stop(ctx) {
				heap.Push(&s.open, n)
				return nil
			}
			down, up, err := s.visit(ctx, n)
			if err != nil || s.ended != solvers.NotStopped { // the node is unfinished
				heap.Push(&s.open, n)
				return err
			}
			if n = s.choose(down, up); !math.IsInf(s.found, 1) {
				return nil
			}
		}
	}
	return nil
}

// boundLP passes the bounds that rows imply for integer columns to the library. Otherwise it may return values
// outside the box, where branching is impossible.
func (s *search) boundLP() error {
	var columns []int32
	var lower, upper []float64
	for _, j := range s.whole {
		if s.lower[j] != s.d.Lower[j] || s.upper[j] != s.d.Upper[j] {
			columns, lower, upper = append(columns, j), append(lower, s.lower[j]), append(upper, s.upper[j])
		}
	}
	if columns == nil || s.model.Crossed() {
		return nil
	}
	return s.lp.SetBounds(columns, lower, upper)
}

// choose returns the child to dive into and queues the other. It dives to the side of the column's value, where
// plans are found; pruning is more likely on the other side.
func (s *search) choose(down, up *node) *node {
	if down == nil {
		return nil
	}
	if up.moved < down.moved {
		down, up = up, down
	}
	heap.Push(&s.open, up)
	return down
}

// stop reports whether a limit is reached.
func (s *search) stop(ctx context.Context) bool {
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		s.ended = solvers.Time
	case ctx.Err() != nil:
		s.ended = solvers.Cancelled
	case s.maxNodes > 0 && s.nodes >= int64(s.maxNodes):
		s.ended = solvers.Nodes
	case s.memory > s.maxMemory:
		s.ended = solvers.Memory
	}
	return s.ended != solvers.NotStopped
}

// enter sets the bounds of model and library to the box of n.
func (s *search) enter(n *node) error {
	before := s.inside
	s.inside = nil
	for _, j := range before {
		s.model.Lower[j], s.model.Upper[j] = s.lower[j], s.upper[j]
	}
	for a := n; a.column >= 0; a = a.parent {
		j := a.column
		s.model.Lower[j] = math.Max(s.model.Lower[j], a.lower)
		s.model.Upper[j] = math.Min(s.model.Upper[j], a.upper)
		s.inside = append(s.inside, j)
	}
	slices.Sort(s.inside)
	s.inside = slices.Compact(s.inside)
	changed := slices.Compact(slices.Sorted(slices.Values(slices.Concat(before, s.inside))))
	lower, upper := make([]float64, len(changed)), make([]float64, len(changed))
	for k, j := range changed {
		lower[k], upper[k] = s.model.Lower[j], s.model.Upper[j]
	}
	return s.lp.SetBounds(changed, lower, upper)
}

// visit solves the linear program of n, then closes n or returns its children.
func (s *search) visit(ctx context.Context, n *node) (down, up *node, err error) {
	if s.model.Crossed() { // at the root
		s.close(n, math.Inf(1), nil, true)
		return nil, nil, nil
	}
	if err := s.enter(n); err != nil {
		return nil, nil, err
	}
	r, empty, err := s.solve(ctx, n)
	if err != nil || s.ended != solvers.NotStopped {
		return nil, nil, err
	}
	s.nodes++
	if empty != nil {
		s.close(n, math.Inf(1), empty, true)
		return nil, nil, nil
	}
	if n != s.root {
		s.pseudo.learn(n.side, n.column, n.moved, r.Objective-n.above)
	}
	if n.bound >= s.target {
		s.close(n, n.bound, n.y, false)
		return nil, nil, nil
	}
	if s.maxNodes > 0 && s.nodes >= int64(s.maxNodes) {
		s.ended = solvers.Nodes // before any column is tried
		return nil, nil, nil
	}
	j, x, err := s.branch(ctx, r)
	if err != nil || s.ended != solvers.NotStopped {
		return nil, nil, err
	}
	if j < 0 {
		if r.Status == solvers.Optimal {
			if math.IsInf(s.goal, 1) {
				s.found = r.Objective
			}
			if s.point == nil || r.Objective < s.pointBound {
				s.point, s.pointBound = r.X, r.Objective
			}
		}
		s.close(n, n.bound, n.y, false)
		return nil, nil, nil
	}
	at := math.Floor(x)
	n.tree.Column, n.tree.At = int(j), at
	down, up = s.child(n, j, r.Objective), s.child(n, j, r.Objective)
	down.lower, down.upper, down.moved, down.side = s.model.Lower[j], at, x-at, downwards
	up.lower, up.upper, up.moved, up.side = at+1, s.model.Upper[j], at+1-x, upwards
	n.tree.Down, n.tree.Up = down.tree, up.tree
	n.y = nil
	return down, up, nil
}

func (s *search) child(n *node, j int32, above float64) *node {
	return &node{parent: n, column: j, bound: n.bound, y: n.y, tree: &certificate.Node{}, above: above}
}

// close makes n a leaf.
func (s *search) close(n *node, bound float64, y []certificate.Multiplier, empty bool) {
	n.tree.Multipliers, n.tree.Empty, n.y = y, empty, nil
	s.least = math.Min(s.least, bound)
}

// tree returns the tree of the certificate, in which open nodes have the multipliers of their parents.
func (s *search) tree() *certificate.Node {
	for _, n := range s.open {
		n.tree.Multipliers = n.y
	}
	return s.root.tree
}

// solve solves the linear program of n, whose box is set, and gives n its multipliers. Multipliers that prove the
// box empty are returned as empty. If the library returns no conclusion, solve calls it again with other options;
// that result may be inconclusive, too.
func (s *search) solve(ctx context.Context, n *node) (r *solvers.LPResult, empty []certificate.Multiplier, err error) {
	for attempt := range 3 {
		o := solvers.LPOptions{Attempt: attempt}
		if attempt == 0 && n != s.root {
			o.Cutoff = s.cutoff()
		}
		if r, err = s.lp.Solve(ctx, o); err != nil {
			return nil, nil, err
		}
		s.iterations += r.Iterations
		switch {
		case r.Status == solvers.Optimal:
			s.improve(n, r.Dual)
			return r, nil, nil
		case r.Stop == solvers.Objective:
			if s.improve(n, r.Dual); n.bound >= s.target {
				return r, nil, nil
			}
		case r.Status == solvers.NoSolution:
			if s.ended = r.Stop; s.ended == solvers.NotStopped {
				s.ended = solvers.Unknown
			}
			return r, nil, nil
		case r.Status == solvers.Infeasible:
			if y := s.contradiction(r.Ray); y != nil {
				return r, y, nil
			}
		}
	}
	return r, nil, nil
}

// cutoff returns the objective at which a linear program may stop: slightly above the target, because cleaning
// loses some of what its multipliers prove.
func (s *search) cutoff() (o solvers.Opt[float64]) {
	if math.IsInf(s.target, 0) {
		return o
	}
	return solvers.Some(s.target + 1e-7*math.Abs(s.target))
}

// contradiction returns multipliers that prove the box empty, or nil. They come from a ray in either direction or
// from a single row, since libraries return no ray for a row that its bounds alone refute.
func (s *search) contradiction(ray []float64) []certificate.Multiplier {
	for _, sign := range []float64{1, -1} {
		for _, d := range digits {
			if y := s.clean(ray, sign, d); s.bound(y, false) > 0 {
				return s.keep(y)
			}
		}
	}
	for i := range s.d.RowLower {
		for _, sign := range []float64{1, -1} {
			if y := []certificate.Multiplier{{Row: int32(i), Value: sign}}; s.model.Bound(y, false) > 0 {
				return y
			}
		}
	}
	return nil
}

// bound returns the bound that y proves. Where a column is unbounded, its reduced cost must be exactly 0 or of the
// right sign, which floating point cannot decide.
func (s *search) bound(y []certificate.Multiplier, costs bool) float64 {
	v := s.model.Bound(y, costs)
	if s.unbounded == 0 || !math.IsInf(v, -1) {
		return v
	}
	if e := s.model.Exact(y, costs); e != nil {
		r, _ := e.Rat(nil)
		return milp.Down.Rat(r)
	}
	return v
}

// improve gives n the multipliers of its own linear program if they prove more than its current ones, in the
// fewest digits that suffice.
func (s *search) improve(n *node, dual []float64) {
	for _, d := range digits {
		y := s.clean(dual, 1, d)
		if b := s.model.Bound(y, true); b > n.bound && (b >= s.target || d == digits[len(digits)-1]) {
			n.bound, n.y = b, s.keep(y)
			return
		}
	}
}

// clean returns the duals of a library as multipliers, rounded to the given number of digits. Those of infinite
// sides and negligible ones become 0.
func (s *search) clean(dual []float64, sign float64, digits int) []certificate.Multiplier {
	tiny := 1e-13 * greatest(dual)
	y := make([]certificate.Multiplier, 0, 64)
	var text [32]byte
	for i, v := range dual {
		v *= sign
		side := s.d.RowUpper[i]
		if v > 0 {
			side = s.d.RowLower[i]
		}
		if math.Abs(v) <= tiny || math.IsInf(side, 0) || math.IsNaN(v) {
			continue
		}
		if digits < 17 {
			v, _ = strconv.ParseFloat(string(strconv.AppendFloat(text[:0], v, 'g', digits, 64)), 64)
		}
		y = append(y, certificate.Multiplier{Row: int32(i), Value: v})
	}
	return y
}

// greatest returns the greatest magnitude of x.
func greatest(x []float64) (most float64) {
	for _, v := range x {
		most = math.Max(most, math.Abs(v))
	}
	return most
}

// keep adds the size of multipliers to the memory in use and returns them clipped.
func (s *search) keep(y []certificate.Multiplier) []certificate.Multiplier {
	s.memory += 16 * int64(len(y))
	return slices.Clip(y)
}
