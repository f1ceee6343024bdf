package solvertest

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"workbench/model/milp"
)

// The generators below make instances from a seed, each with an optimum that is
// found by another method than linear programming or branch and bound on
// columns, or that is planted.

func source(seed int64) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 42)) }

// between returns a random integer in [lo, up].
func between(r *rand.Rand, lo, up int) int { return lo + r.IntN(up-lo+1) }

// knapsack is max Σ value_i x_i, Σ weight_i x_i ≤ capacity, x binary.
type knapsack struct {
	value, weight []int
	capacity      int
}

func newKnapsack(n int, seed int64) *knapsack {
	r := source(seed)
	k := &knapsack{value: make([]int, n), weight: make([]int, n)}
	for i := range n {
		k.weight[i] = between(r, 10, 60)
		k.value[i] = k.weight[i] + between(r, 0, 20)
		k.capacity += k.weight[i]
	}
	k.capacity /= 2
	return k
}

func (k *knapsack) model() *milp.Model {
	m := newModel(fmt.Sprintf("knapsack %d", len(k.value)))
	v := m.cols(len(k.value), milp.Binary, 0, 1)
	m.row(-inf, float64(k.capacity), sum(floats(k.weight), v)...)
	m.max(0, sum(floats(k.value), v)...)
	return m.Model
}

// optimum by dynamic programming over the capacity.
func (k *knapsack) optimum() float64 {
	best := make([]int, k.capacity+1)
	for i, w := range k.weight {
		for c := k.capacity; c >= w; c-- {
			best[c] = max(best[c], best[c-w]+k.value[i])
		}
	}
	return float64(best[k.capacity])
}

func floats(v []int) []float64 {
	f := make([]float64, len(v))
	for i, x := range v {
		f[i] = float64(x)
	}
	return f
}

// multiKnapsack is a knapsack with several weights.
type multiKnapsack struct {
	value            []int
	weight           [][]int // [row][item]
	capacity         []int
	items, dimension int
}

func newMultiKnapsack(rows, items int, seed int64) *multiKnapsack {
	r := source(seed)
	k := &multiKnapsack{items: items, dimension: rows, capacity: make([]int, rows)}
	for i := range rows {
		k.weight = append(k.weight, make([]int, items))
		for j := range items {
			k.weight[i][j] = between(r, 1, 1000)
			k.capacity[i] += k.weight[i][j]
		}
		k.capacity[i] /= 2
	}
	for j := range items {
		total := 0
		for i := range rows {
			total += k.weight[i][j]
		}
		k.value = append(k.value, total/rows+between(r, 0, 500))
	}
	return k
}

func (k *multiKnapsack) model() *milp.Model {
	m := newModel(fmt.Sprintf("multi-knapsack %dx%d", k.dimension, k.items))
	v := m.cols(k.items, milp.Binary, 0, 1)
	for i := range k.dimension {
		m.row(-inf, float64(k.capacity[i]), sum(floats(k.weight[i]), v)...)
	}
	m.max(0, sum(floats(k.value), v)...)
	return m.Model
}

// optimum by looking at all subsets.
func (k *multiKnapsack) optimum() float64 {
	best := 0
	for set := range uint(1) << k.items {
		value := 0
		for s := set; s != 0; s &= s - 1 {
			value += k.value[bits.TrailingZeros(s)]
		}
		if value > best && k.fits(set) {
			best = value
		}
	}
	return float64(best)
}

func (k *multiKnapsack) fits(set uint) bool {
	for i := range k.dimension {
		load := 0
		for s := set; s != 0; s &= s - 1 {
			load += k.weight[i][bits.TrailingZeros(s)]
		}
		if load > k.capacity[i] {
			return false
		}
	}
	return true
}

// generalAssignment gives every task to one agent of limited capacity at least
// cost.
type generalAssignment struct {
	cost, load [][]int // [agent][task]
	capacity   []int
}

func newGeneralAssignment(agents, tasks int, seed int64) *generalAssignment {
	r := source(seed)
	g := &generalAssignment{capacity: make([]int, agents)}
	for a := range agents {
		g.cost, g.load = append(g.cost, make([]int, tasks)), append(g.load, make([]int, tasks))
		for t := range tasks {
			g.cost[a][t], g.load[a][t] = between(r, 10, 50), between(r, 5, 25)
			g.capacity[a] += g.load[a][t]
		}
		g.capacity[a] = g.capacity[a]*11/(10*agents) + 5
	}
	return g
}

func (g *generalAssignment) model() *milp.Model {
	agents, tasks := len(g.cost), len(g.cost[0])
	m := newModel(fmt.Sprintf("general assignment %dx%d", agents, tasks))
	x := m.Grid("give", agents, tasks, milp.Binary, 0, 1)
	var cost milp.Expr
	for t := range tasks {
		var one milp.Expr
		for a := range agents {
			one.Add(1, x.At(a, t))
			cost.Add(float64(g.cost[a][t]), x.At(a, t))
		}
		m.rows.Equal(&one, 1)
	}
	for a := range agents {
		var load milp.Expr
		for t := range tasks {
			load.Add(float64(g.load[a][t]), x.At(a, t))
		}
		m.rows.AtMost(&load, float64(g.capacity[a]))
	}
	m.Minimize(&cost)
	return m.Model
}

// optimum by giving the tasks in turn to every agent with room left.
func (g *generalAssignment) optimum() float64 {
	room := append([]int(nil), g.capacity...)
	best := math.Inf(1)
	var give func(t, cost int)
	give = func(t, cost int) {
		if t == len(g.cost[0]) {
			best = math.Min(best, float64(cost))
			return
		}
		for a := range g.cost {
			if room[a] >= g.load[a][t] {
				room[a] -= g.load[a][t]
				give(t+1, cost+g.cost[a][t])
				room[a] += g.load[a][t]
			}
		}
	}
	give(0, 0)
	return best
}

// setCover covers all elements by sets of least total cost.
type setCover struct {
	cost, sets []int // sets are bit masks
	elements   int
}

func newSetCover(elements, sets int, seed int64) *setCover {
	r := source(seed)
	c := &setCover{elements: elements}
	for s := range sets {
		set := 1 << (s % elements) // every element is in some set
		for range elements / 4 {
			set |= 1 << r.IntN(elements)
		}
		c.sets, c.cost = append(c.sets, set), append(c.cost, between(r, 5, 20)+3*bits.OnesCount(uint(set)))
	}
	return c
}

func (c *setCover) model() *milp.Model {
	m := newModel(fmt.Sprintf("set cover %dx%d", c.elements, len(c.sets)))
	v := m.cols(len(c.sets), milp.Binary, 0, 1)
	for e := range c.elements {
		var cover milp.Expr
		for s, set := range c.sets {
			if set>>e&1 != 0 {
				cover.Add(1, v[s])
			}
		}
		m.rows.AtLeast(&cover, 1)
	}
	m.min(0, sum(floats(c.cost), v)...)
	return m.Model
}

// optimum by dynamic programming over the elements covered.
func (c *setCover) optimum() float64 {
	least := make([]int, 1<<c.elements)
	for i := range least {
		least[i] = math.MaxInt32
	}
	least[0] = 0
	for s, set := range c.sets {
		for covered := range least {
			next := covered | set
			least[next] = min(least[next], least[covered]+c.cost[s])
		}
	}
	return float64(least[len(least)-1])
}

// assignment matches n workers to n tasks at least cost: its relaxation is
// integral and very degenerate.
type assignment [][]int

func newAssignment(n int, seed int64) assignment {
	r := source(seed)
	a := make(assignment, n)
	for i := range a {
		a[i] = make([]int, n)
		for j := range a[i] {
			a[i][j] = between(r, 1, 20)
		}
	}
	return a
}

func (a assignment) model() *milp.Model {
	n := len(a)
	m := newModel(fmt.Sprintf("assignment %d", n))
	x := m.Grid("match", n, n, milp.Binary, 0, 1)
	var cost milp.Expr
	for i := range n {
		var row, col milp.Expr
		for j := range n {
			row.Add(1, x.At(i, j))
			col.Add(1, x.At(j, i))
			cost.Add(float64(a[i][j]), x.At(i, j))
		}
		m.rows.Equal(&row, 1)
		m.rows.Equal(&col, 1)
	}
	m.Minimize(&cost)
	return m.Model
}

// optimum by dynamic programming over the tasks taken.
func (a assignment) optimum() float64 {
	least := make([]int, 1<<len(a))
	for set := 1; set < len(least); set++ {
		least[set] = math.MaxInt32
		worker := bits.OnesCount(uint(set)) - 1
		for s := uint(set); s != 0; s &= s - 1 {
			task := bits.TrailingZeros(s)
			least[set] = min(least[set], least[set&^(1<<task)]+a[worker][task])
		}
	}
	return float64(least[len(least)-1])
}

// jobShop orders the operations of jobs, one on every machine, for the least
// makespan.
type jobShop struct {
	machine, duration [][]int // [job][operation]
	machines, horizon int
}

func newJobShop(jobs, machines int, seed int64) *jobShop {
	r := source(seed)
	s := &jobShop{machines: machines}
	for j := range jobs {
		s.machine, s.duration = append(s.machine, r.Perm(machines)), append(s.duration, make([]int, machines))
		for k := range machines {
			s.duration[j][k] = between(r, 5, 99)
			s.horizon += s.duration[j][k]
		}
	}
	return s
}

// model is Manne's disjunctive formulation: of two operations on a machine,
// a binary decides which is first, and the large constant M lifts the other
// row.
func (s *jobShop) model(large float64) *milp.Model {
	jobs := len(s.machine)
	m := newModel(fmt.Sprintf("job shop %dx%d, M=%g", jobs, s.machines, large))
	start := m.Grid("start", jobs, s.machines, milp.Continuous, 0, float64(s.horizon)) // by job and operation
	makespan := m.Var("makespan", milp.Continuous, 0, float64(s.horizon))
	for j := range jobs {
		for k := range s.machines {
			after := makespan
			if k+1 < s.machines {
				after = start.At(j, k+1)
			}
			m.row(float64(s.duration[j][k]), inf, term(1, after), term(-1, start.At(j, k)))
		}
	}
	for i := range jobs {
		for j := range i {
			for on := range s.machines {
				a, b := s.operation(i, on), s.operation(j, on)
				first := m.Var("first", milp.Binary, 0, 1)
				x, y := start.At(i, a), start.At(j, b)
				m.row(float64(s.duration[i][a])-large, inf, term(1, y), term(-1, x), term(-large, first))
				m.row(float64(s.duration[j][b]), inf, term(1, x), term(-1, y), term(large, first))
			}
		}
	}
	m.min(0, term(1, makespan))
	return m.Model
}

// operation returns the operation of job j on a machine.
func (s *jobShop) operation(j, machine int) int {
	for k, m := range s.machine[j] {
		if m == machine {
			return k
		}
	}
	return -1
}

// optimum by going through the active schedules (Giffler and Thompson 1960),
// cut off by what the jobs and machines still have to do.
func (s *jobShop) optimum() float64 {
	jobs := len(s.machine)
	next := make([]int, jobs)
	best := s.horizon
	var schedule func(jobFree, machineFree []int)
	schedule = func(jobFree, machineFree []int) {
		machine, earliest, done := -1, math.MaxInt, 0
		load := append([]int(nil), machineFree...)
		for j, k := range next {
			rest := 0
			for o := k; o < s.machines; o++ {
				rest += s.duration[j][o]
				load[s.machine[j][o]] += s.duration[j][o]
			}
			done = max(done, jobFree[j]+rest)
			if k == s.machines {
				continue
			}
			on := s.machine[j][k]
			if end := max(jobFree[j], machineFree[on]) + s.duration[j][k]; end < earliest {
				machine, earliest = on, end
			}
		}
		for on := range load {
			if load[on] > machineFree[on] {
				done = max(done, load[on])
			}
		}
		if done >= best {
			return
		}
		if machine < 0 {
			best = done
			return
		}
		for j, k := range next {
			if k == s.machines || s.machine[j][k] != machine || max(jobFree[j], machineFree[machine]) >= earliest {
				continue
			}
			f, g := append([]int(nil), jobFree...), append([]int(nil), machineFree...)
			f[j] = max(f[j], g[machine]) + s.duration[j][k]
			g[machine] = f[j]
			next[j]++
			schedule(f, g)
			next[j]--
		}
	}
	schedule(make([]int, jobs), make([]int, s.machines))
	return float64(best)
}

// tardiness orders jobs on one machine for the least weighted tardiness.
type tardiness struct{ duration, due, weight []int }

func newTardiness(n int, seed int64) *tardiness {
	r := source(seed)
	t := new(tardiness)
	total := 0
	for range n {
		t.duration = append(t.duration, between(r, 3, 20))
		total += t.duration[len(t.duration)-1]
	}
	for range n {
		t.due, t.weight = append(t.due, between(r, total/4, total)), append(t.weight, between(r, 1, 5))
	}
	return t
}

func (t *tardiness) model() *milp.Model {
	n, total := len(t.duration), 0
	for _, d := range t.duration {
		total += d
	}
	m := newModel(fmt.Sprintf("weighted tardiness %d", n))
	end, late := m.cols(n, milp.Continuous, 0, float64(total)), m.cols(n, milp.Continuous, 0, float64(total))
	for j := range n {
		m.row(float64(t.duration[j]), inf, term(1, end[j]))
		m.row(-float64(t.due[j]), inf, term(1, late[j]), term(-1, end[j]))
		for i := range j {
			first := m.Var("first", milp.Binary, 0, 1)
			large := float64(total)
			m.row(float64(t.duration[j])-large, inf, term(1, end[j]), term(-1, end[i]), term(-large, first))
			m.row(float64(t.duration[i]), inf, term(1, end[i]), term(-1, end[j]), term(large, first))
		}
	}
	m.min(0, sum(floats(t.weight), late)...)
	return m.Model
}

// optimum by dynamic programming over the set of jobs done.
func (t *tardiness) optimum() float64 {
	n := len(t.duration)
	least, end := make([]int, 1<<n), make([]int, 1<<n)
	for set := 1; set < len(least); set++ {
		least[set] = math.MaxInt32
		for s := uint(set); s != 0; s &= s - 1 {
			j := bits.TrailingZeros(s)
			end[set] += t.duration[j]
		}
		for s := uint(set); s != 0; s &= s - 1 {
			j := bits.TrailingZeros(s)
			late := max(0, end[set]-t.due[j])
			least[set] = min(least[set], least[set&^(1<<j)]+t.weight[j]*late)
		}
	}
	return float64(least[len(least)-1])
}

// marketSplit asks for a 0-1 point on several random hyperplanes (Cornuéjols
// and Dawande 1998): next to impossible for branch and bound from some 30
// columns on.
type marketSplit struct {
	a       [][]int // [row][column]
	half    []int   // floor of half the row sum: usually no point
	planted []int   // sides of the planted point
	point   []float64
}

func newMarketSplit(rows, cols int, seed int64) *marketSplit {
	r := source(seed)
	s := &marketSplit{half: make([]int, rows), planted: make([]int, rows), point: make([]float64, cols)}
	for _, j := range r.Perm(cols)[:cols/2] {
		s.point[j] = 1
	}
	for i := range rows {
		s.a = append(s.a, make([]int, cols))
		for j := range cols {
			s.a[i][j] = between(r, 0, 99)
			s.half[i] += s.a[i][j]
			s.planted[i] += s.a[i][j] * int(s.point[j])
		}
		s.half[i] /= 2
	}
	return s
}

// strictModel asks for a point on the hyperplanes through the half sums.
func (s *marketSplit) strictModel() *milp.Model {
	m := newModel(fmt.Sprintf("market split %dx%d, strict", len(s.a), len(s.point)))
	v := m.cols(len(s.point), milp.Binary, 0, 1)
	for i, a := range s.a {
		m.row(float64(s.half[i]), float64(s.half[i]), sum(floats(a), v)...)
	}
	return m.Model
}

// slackModel asks for a point near the hyperplanes through the planted point:
// all points are solutions, the optimum is 0.
func (s *marketSplit) slackModel() *milp.Model {
	m := newModel(fmt.Sprintf("market split %dx%d", len(s.a), len(s.point)))
	v := m.cols(len(s.point), milp.Binary, 0, 1)
	more, less := m.cols(len(s.a), milp.Continuous, 0, inf), m.cols(len(s.a), milp.Continuous, 0, inf)
	for i, a := range s.a {
		terms := append(sum(floats(a), v), term(1, more[i]), term(-1, less[i]))
		m.row(float64(s.planted[i]), float64(s.planted[i]), terms...)
	}
	m.min(0, append(ones(more), ones(less)...)...)
	return m.Model
}
