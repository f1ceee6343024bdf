package placement

import (
	"cmp"
	"fmt"
	"slices"

	"workbench/ilp/formulation"
	"workbench/model/instance/lifetimes"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
)

// item is a block of a pool.
type item struct{ pool, block int }

func (i item) String() string { return fmt.Sprintf("%d,%d", i.pool, i.block) }

// meeting is two blocks of a pool that may not overlap, or only at a penalty; a < b.
type meeting struct{ pool, a, b int }

func (q meeting) String() string { return fmt.Sprintf("%d,%d,%d", q.pool, q.a, q.b) }

// beside is a pair of a block and a reserved range.
type beside struct{ pool, block, reserved int }

func (q beside) String() string { return fmt.Sprintf("%d,%d,%d", q.pool, q.block, q.reserved) }

// structured is the model of instances with rules of lifetimes/v2. x_i = a_i k_i is the offset of block i, a
// multiple of its alignment, or its pin. h_p is the height of pool p, at most its capacity, and H the objective:
//
//	x_i + w_i ≤ h_p                         every block i of p
//	x_i + w_i ≤ x_j  if y_ij = 1            i and j may not overlap
//	x_j + w_j ≤ x_i  if y_ij = 0            the same
//	x_i + w_i ≤ x_j  if y_ij = 1            i and j have a penalty c_ij
//	x_j + w_j ≤ x_i  if y_ji = 1            the same
//	y_ij + y_ji + z_ij ≥ 1                  the same; z_ij is 1 if it is charged
//	x_i + w_i ≤ b_r  if u_ir = 1            reserved range r, [b_r, e_r)
//	x_i ≥ e_r        if u_ir = 0            the same
//	H = Σ h_p,  H ≥ h_p  or  H = Σ c_ij z_ij
//
// placement-cliques adds two families of rows. h_p is at least the height of any clique of blocks that may not
// overlap. Σ z over a clique of conflicts and penalties is at least the number of overlapping pairs by Turán's
// theorem.
type structured struct {
	*view.Layout
	platform platform.Platform
	m        *milp.Model
	scale    float64
	most     []int64 // by pool: a height that some optimal placement does not exceed
	h        milp.List
	top      milp.Var // the largest height; with that objective only
	x        milp.Family[item]
	y        milp.Family[meeting] // a below b
	v, z     milp.Family[meeting] // of penalties: b below a, charged
	u        milp.Family[beside]
	pairs    []meeting // may not overlap
	soft     []meeting // with a penalty
	ranges   []beside
}

// newStructured declares the heights. The error wraps formulation.ErrInstance or is a *plan.Infeasible.
func newStructured(name string, y *view.Layout, p platform.Platform) (*structured, error) {
	if err := y.Fits(p.Memory); err != nil {
		return nil, err
	}
	_, sum := y.Bounds()
	s := &structured{Layout: y, platform: p, m: milp.New(name), scale: milp.PowerOfTwo(float64(max(sum, 1)), target)}
	s.h = s.m.List("h", len(y.Pools), milp.Continuous, 0, 0)
	total := new(milp.Expr)
	for k := range y.Pools {
		one := &view.Layout{Pools: y.Pools[k : k+1]}
		s.most = append(s.most, int64(min(float64(one.High()), p.Memory)))
		s.m.SetBounds(s.h.At(k), 0, s.units(s.most[k]))
		total.Add(1, s.h.At(k))
	}
	if high := y.High(); float64(high) > p.Memory {
		s.m.Group("memory", "of all pools").AtMost(total, s.units(int64(p.Memory)))
	}
	return s, nil
}

func (s *structured) units(x int64) float64 { return s.scale * float64(x) }

// minimise sets the objective.
func (s *structured) minimise() {
	e := new(milp.Expr)
	switch s.Objective {
	case lifetimes.TotalPenalty:
		for k, p := range s.Pools {
			e.AddConst(float64(p.Constant))
			for _, x := range p.Penalties {
				z, _ := s.z.At(meeting{k, int(x.First), int(x.Second)})
				e.Add(float64(x.Cost), z)
			}
		}
	case lifetimes.LargestHeight:
		s.top = s.m.Var("H", milp.Continuous, 0, s.units(slices.Max(s.most)))
		g := s.m.Group("largest", "height of the highest pool")
		for k := range s.Pools {
			g.GreaterEqual(milp.Sum(s.top), milp.Sum(s.h.At(k)))
		}
		e.Add(1, s.top)
	default:
		for k := range s.Pools {
			e.Add(1, s.h.At(k))
		}
	}
	s.m.Minimize(e)
}

// unit returns the value of one unit of the model's objective in the unit of the problem's.
func (s *structured) unit() float64 {
	if s.Objective == lifetimes.TotalPenalty {
		return s.Lifetimes.Unit.PerByte()
	}
	return 1 / s.scale
}

// charge declares the column z of every penalty.
func (s *structured) charge(kind milp.Kind) {
	for k, p := range s.Pools {
		for _, x := range p.Penalties {
			s.soft = append(s.soft, meeting{k, int(x.First), int(x.Second)})
		}
	}
	s.z = milp.Vars(s.m, "z", s.soft, kind, 0, 1)
}

// cliques adds the clique rows of heights and charges.
func (s *structured) cliques() {
	load, turan := s.m.Group("load", "cliques of conflicts"), s.m.Group("turan", "Turán 1941")
	for k, p := range s.Pools {
		if p.Plain != nil {
			for _, x := range p.Plain.Loads() {
				load.AtLeast(new(milp.Expr).Add(1, s.h.At(k)), s.units(x))
			}
			continue
		}
		for _, c := range p.Cliques(false) {
			load.AtLeast(new(milp.Expr).Add(1, s.h.At(k)), s.units(c.Height))
		}
		if len(p.Penalties) == 0 {
			continue
		}
		for _, c := range p.Cliques(true) {
			if c.Charged == 0 {
				continue
			}
			e := new(milp.Expr)
			for i, a := range c.Blocks {
				for _, b := range c.Blocks[i+1:] {
					if z, ok := s.z.At(meeting{k, a, b}); ok {
						e.Add(1, z)
					}
				}
			}
			turan.AtLeast(e, float64(c.Charged))
		}
	}
}

// structuredLoad returns the model of [Load] for such instances: only heights, penalties and cliques.
func structuredLoad(y *view.Layout, p platform.Platform) (*formulation.Program, error) {
	s, err := newStructured("placement-load", y, p)
	if err != nil {
		return nil, err
	}
	s.charge(milp.Continuous)
	s.cliques()
	s.minimise()
	return &formulation.Program{Model: s.m, Promise: formulation.LowerBound, Formulation: s.m.Name(), Unit: s.unit()}, s.m.Err()
}

// structuredOrders returns the model of [Orders], or of [Cliques], for such instances.
func structuredOrders(name string, y *view.Layout, p platform.Platform, cliques bool) (*formulation.Program, error) {
	s, err := newStructured(name, y, p)
	if err != nil {
		return nil, err
	}
	if err := s.declare(); err != nil {
		return nil, err
	}
	s.separate()
	if cliques {
		s.cliques()
	}
	s.minimise()
	return &formulation.Program{
		Model: s.m, Promise: formulation.Equal, Formulation: name, Unit: s.unit(), Start: s.start,
		Plan: func(x []float64) (*plan.Plan, error) { return s.plan(x), nil },
	}, s.m.Err()
}

// conflicts returns the pairs of blocks of a pool that may not overlap.
func conflicts(p *view.Pool) (pairs [][2]int) {
	if p.Plain == nil {
		return p.Pairs()
	}
	for a := range p.Plain.Buffers {
		for b := range a {
			if x, y := &p.Plain.Buffers[a], &p.Plain.Buffers[b]; x.Room > 0 && y.Room > 0 && x.Meets(y) {
				pairs = append(pairs, [2]int{b, a})
			}
		}
	}
	return pairs
}

// declare declares offsets, orders and charges.
func (s *structured) declare() error {
	var items []item
	for k, p := range s.Pools {
		for a := range p.Blocks {
			if p.Blocks[a].Size == 0 {
				continue
			}
			items = append(items, item{k, a})
			for r, x := range p.Reserved {
				if p.Blocks[a].Pin < 0 && x.Begin < s.most[k] {
					s.ranges = append(s.ranges, beside{k, a, r})
				}
			}
		}
		for _, q := range conflicts(p) {
			s.pairs = append(s.pairs, meeting{k, q[0], q[1]})
		}
		if n := len(s.pairs) + len(p.Penalties); n > mostPairs {
			return fmt.Errorf("%w: more than %d pairs of buffers may not overlap or have penalties", formulation.ErrInstance, mostPairs)
		}
	}
	s.charge(milp.Binary)
	slices.SortFunc(s.pairs, func(a, b meeting) int {
		return cmp.Or(cmp.Compare(a.pool, b.pool), cmp.Compare(a.a, b.a), cmp.Compare(a.b, b.b))
	})
	s.x = milp.Vars(s.m, "x", items, milp.Integer, 0, 0)
	for i, x := range s.x.All() {
		b := &s.Pools[i.pool].Blocks[i.block]
		low, high := int64(0), max(0, s.most[i.pool]-b.Size)/b.Align
		if b.Pin >= 0 {
			low, high = b.Pin/b.Align, b.Pin/b.Align
		}
		s.m.SetBounds(x, float64(low), float64(high))
	}
	s.y = milp.Vars(s.m, "y", append(slices.Clone(s.pairs), s.soft...), milp.Binary, 0, 1)
	s.v = milp.Vars(s.m, "v", s.soft, milp.Binary, 0, 1)
	s.u = milp.Vars(s.m, "u", s.ranges, milp.Binary, 0, 1)
	return nil
}

// addOffset adds c times the offset of a block.
func (s *structured) addOffset(e *milp.Expr, c float64, i item) *milp.Expr {
	x, _ := s.x.At(i)
	return e.Add(c*s.units(s.Pools[i.pool].Blocks[i.block].Align), x)
}

// separate adds the rows that keep blocks apart and below the height.
func (s *structured) separate() {
	size := func(i item) float64 { return s.units(s.Pools[i.pool].Blocks[i.block].Size) }
	height := s.m.Group("height", "Sekiyama et al. 2018")
	for i := range s.x.All() {
		height.AtMost(s.addOffset(new(milp.Expr).Add(-1, s.h.At(i.pool)), 1, i), -size(i))
	}
	below := func(g milp.Conditional, i, j item) {
		g.AtMost(s.addOffset(s.addOffset(new(milp.Expr), 1, i), -1, j), -size(i))
	}
	apart := s.m.Group("apart", "Sekiyama et al. 2018")
	for _, q := range s.pairs {
		y, _ := s.y.At(q)
		below(apart.When(milp.Is(y)), item{q.pool, q.a}, item{q.pool, q.b})
		below(apart.When(milp.IsNot(y)), item{q.pool, q.b}, item{q.pool, q.a})
	}
	respected, charged := s.m.Group("respected", "penalties"), s.m.Group("charged", "penalties")
	for _, q := range s.soft {
		y, _ := s.y.At(q)
		v, _ := s.v.At(q)
		z, _ := s.z.At(q)
		below(respected.When(milp.Is(y)), item{q.pool, q.a}, item{q.pool, q.b})
		below(respected.When(milp.Is(v)), item{q.pool, q.b}, item{q.pool, q.a})
		charged.AtLeast(new(milp.Expr).Add(1, y).Add(1, v).Add(1, z), 1)
	}
	reserved := s.m.Group("reserved", "reserved ranges")
	for _, q := range s.ranges {
		u, _ := s.u.At(q)
		i, r := item{q.pool, q.block}, s.Pools[q.pool].Reserved[q.reserved]
		reserved.When(milp.Is(u)).AtMost(s.addOffset(new(milp.Expr), 1, i), s.units(r.Begin)-size(i))
		reserved.When(milp.IsNot(u)).AtLeast(s.addOffset(new(milp.Expr), 1, i), s.units(r.End))
	}
}

// plan returns the placement that drops the blocks, in the order of their offsets in x, onto the blocks already
// placed that they conflict with or whose penalty x avoids. It is no worse than x, whatever rounding errors a
// solver left in x.
func (s *structured) plan(x []float64) *plan.Plan {
	blocks := make([][]int64, len(s.Pools))
	for k, p := range s.Pools {
		blocks[k] = make([]int64, len(p.Blocks))
		var order []int
		value := func(a int) float64 {
			v, _ := s.x.At(item{k, a})
			return x[v.Index()] * float64(p.Blocks[a].Align)
		}
		for a := range p.Blocks {
			if blocks[k][a] = max(0, p.Blocks[a].Pin); p.Blocks[a].Size > 0 && p.Blocks[a].Pin < 0 {
				order = append(order, a)
			}
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(value(a), value(b)) })
		near := s.near(k, x)
		done := make([]bool, len(p.Blocks))
		for _, a := range order {
			low := int64(0)
			for _, b := range near[a] {
				if done[b] {
					low = max(low, blocks[k][b]+p.Blocks[b].Size)
				}
			}
			blocks[k][a], done[a] = s.clear(p, a, low, near[a]), true
		}
	}
	return s.Plan(s.m.Name(), blocks, s.platform)
}

// near returns, for each block of pool k, the blocks that it may not overlap and those whose penalty with it x
// does not charge.
func (s *structured) near(k int, x []float64) [][]int {
	near := make([][]int, len(s.Pools[k].Blocks))
	join := func(q meeting) {
		near[q.a], near[q.b] = append(near[q.a], q.b), append(near[q.b], q.a)
	}
	for _, q := range s.pairs {
		if q.pool == k {
			join(q)
		}
	}
	for _, q := range s.soft {
		if z, _ := s.z.At(q); q.pool == k && x[z.Index()] < 0.5 {
			join(q)
		}
	}
	return near
}

// clear returns the lowest offset from low on at which block a avoids the reserved ranges and its pinned
// neighbours.
func (s *structured) clear(p *view.Pool, a int, low int64, near []int) int64 {
	for {
		at := p.Fit(a, low)
		low = at
		for _, b := range near {
			if x := &p.Blocks[b]; x.Pin >= 0 && at < x.Pin+x.Size && x.Pin < at+p.Blocks[a].Size {
				low = max(low, x.Pin+x.Size)
			}
		}
		if low == at {
			return at
		}
	}
}

// start returns the values of the variables for a placement.
func (s *structured) start(p *plan.Plan) ([]float64, error) {
	if p.Problem != plan.Placement {
		return nil, fmt.Errorf("%w: a plan of %s", formulation.ErrStart, p.Problem)
	}
	at, err := s.BlockOffsets(p)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", formulation.ErrStart, err)
	}
	x := make([]float64, s.m.NumCols())
	below := func(k, a, b int) float64 {
		if at[k][a]+s.Pools[k].Blocks[a].Size <= at[k][b] {
			return 1
		}
		return 0
	}
	largest := 0.0
	for k, pool := range s.Pools {
		x[s.h.At(k).Index()] = s.units(pool.Height(at[k]))
		largest = max(largest, s.units(pool.Height(at[k])))
	}
	if s.Objective == lifetimes.LargestHeight {
		x[s.top.Index()] = largest
	}
	for i, v := range s.x.All() {
		x[v.Index()] = float64(at[i.pool][i.block] / s.Pools[i.pool].Blocks[i.block].Align)
	}
	for q, y := range s.y.All() {
		x[y.Index()] = below(q.pool, q.a, q.b)
	}
	for q, v := range s.v.All() {
		y, _ := s.y.At(q)
		z, _ := s.z.At(q)
		x[v.Index()] = below(q.pool, q.b, q.a)
		x[z.Index()] = 1 - x[y.Index()] - x[v.Index()]
	}
	for q, u := range s.u.All() {
		if at[q.pool][q.block] < s.Pools[q.pool].Reserved[q.reserved].Begin {
			x[u.Index()] = 1
		}
	}
	return x, nil
}
