// Package lcg decides disjunctive scheduling problems by lazy clause generation (Ohrimenko, Stuckey and Codish 2009): integer
// variables with bounds, propagators that explain what they infer, and conflict-driven clause learning over bounds.
package lcg

import "slices"

// A Lit says that one side of a variable is at least K. Side 2v is the variable v, side 2v+1 is −v.
type Lit struct {
	X, K int32
}

// Not returns the negation.
func (l Lit) Not() Lit { return Lit{l.X ^ 1, 1 - l.K} }

// Verdict is the answer of [Solver.Solve].
type Verdict int

// Verdicts.
const (
	Unknown Verdict = iota // the budget or the context ended first
	Feasible
	Infeasible
)

// A change is an entry of the trail: a bound that rose.
type change struct {
	x, old, val int32
	prev        int32 // the entry before of the same side; -1: none
	reason      int32 // a clause; decided: none; explained: literals in the arena
	from, to    int32 // of these
}

const (
	decided   = -1
	explained = -2
)

// A difference says y ≥ x + d, sides, if cond holds; cond.X is -1 if always.
type difference struct {
	x, y, d int32
	cond    Lit
}

// A sum says that the weights of the true literals are at most limit.
type sum struct {
	lits    []Lit
	weights []int64
	limit   int64
}

type clause struct {
	lits     []Lit
	activity float64
	learnt   bool
}

type watcher struct {
	clause int32
	k      int32 // of the watched literal
}

// Solver holds a problem. Its zero value is not usable; see [New].
type Solver struct {
	bound   []int32 // by side: it is at least this
	last    []int32 // by side: its last entry of the trail
	trail   []change
	arena   []Lit
	levels  []int32 // entries of the trail at which they begin
	arenas  []int32
	head    int
	clauses []clause
	watch   [][]watcher // by side
	diffs   []difference
	bySide  [][]int32 // differences by side x
	byCond  [][]int32 // differences by side of the condition
	sums    []sum
	sumsOf  [][]int32
	dirty   []bool // sums
	stale   []int32
	tasks   []*machine
	pairOf  [][]int32 // by side of a start: machines

	activity []float64 // by variable
	increase float64
	heap     []int32
	place    []int32 // by variable: in the heap; -1: not there, -2: not to be decided
	phase    []int32 // by variable: the value that is tried first
	marked   []bool  // by entry
	need     []int32
	ok       bool
	failure  []Lit
	learnts  int
	cause    int // of the last conflict; gaveUp: the last propagation took too many steps
	// Conflicts is how many there have been, Causes of which propagators.
	Conflicts int
	Causes    [Causes]int
}

// The propagators of conflicts.
const (
	ByClause = iota // clauses, most of them learned
	ByDifference
	BySum
	ByMachine
	Causes

	gaveUp = -1
)

// New returns a solver without variables.
func New() *Solver { return &Solver{increase: 1, ok: true} }

// Var adds a variable from low to high and returns its positive side.
func (s *Solver) Var(low, high int) int32 {
	x := int32(len(s.bound))
	s.bound = append(s.bound, int32(low), int32(-high))
	s.last = append(s.last, -1, -1)
	s.watch, s.bySide, s.byCond = append(s.watch, nil, nil), append(s.bySide, nil, nil), append(s.byCond, nil, nil)
	s.sumsOf, s.pairOf = append(s.sumsOf, nil, nil), append(s.pairOf, nil, nil)
	s.activity, s.phase = append(s.activity, 0), append(s.phase, 0)
	s.place = append(s.place, -2)
	return x
}

// Bool adds a variable that is 0 or 1 and that is decided, first value tried first and earlier than others of lower priority, and
// returns the literal that it is 1.
func (s *Solver) Bool(first bool, priority float64) Lit {
	x := s.Var(0, 1)
	s.activity[x/2] = priority
	s.place[x/2] = -1
	s.insert(x / 2)
	if first {
		s.phase[x/2] = 1
	}
	return Lit{x, 1}
}

// Value returns the least value of a variable that is left.
func (s *Solver) Value(x int32) int { return int(s.bound[x]) }

func (s *Solver) isTrue(l Lit) bool { return s.bound[l.X] >= l.K }
func (s *Solver) fails(l Lit) bool  { return s.bound[l.X^1] >= 1-l.K }

// Difference adds y ≥ x + d, if cond holds; nil: always.
func (s *Solver) Difference(x, y int32, d int, cond *Lit) {
	c := Lit{X: -1}
	if cond != nil {
		c = *cond
	}
	for _, f := range [2]difference{{x, y, int32(d), c}, {y ^ 1, x ^ 1, int32(d), c}} {
		k := int32(len(s.diffs))
		s.diffs = append(s.diffs, f)
		s.bySide[f.x] = append(s.bySide[f.x], k)
		if c.X >= 0 {
			s.byCond[c.X] = append(s.byCond[c.X], k)
		}
	}
	s.head = 0
}

// Implies adds that one literal implies another.
func (s *Solver) Implies(a, b Lit) {
	k := int32(len(s.clauses))
	s.clauses = append(s.clauses, clause{lits: []Lit{a.Not(), b}})
	for _, l := range s.clauses[k].lits {
		s.watch[l.X] = append(s.watch[l.X], watcher{k, l.K})
	}
}

// AtMost adds that the weights, above 0, of the true literals are at most limit.
func (s *Solver) AtMost(lits []Lit, weights []int64, limit int64) {
	k := int32(len(s.sums))
	s.sums, s.dirty, s.stale = append(s.sums, sum{lits, weights, limit}), append(s.dirty, true), append(s.stale, k)
	for _, l := range lits {
		s.sumsOf[l.X] = append(s.sumsOf[l.X], k)
	}
}

// raise sets the literal, which the others imply; false: a conflict, of which failure says why.
func (s *Solver) raise(l Lit, why ...Lit) bool {
	if s.isTrue(l) {
		return true
	}
	from := int32(len(s.arena))
	s.arena = append(s.arena, why...)
	return s.enter(l, explained, from, int32(len(s.arena)))
}

func (s *Solver) enter(l Lit, reason, from, to int32) bool {
	if s.fails(l) {
		s.failure = append(s.failure[:0], l.Not())
		if reason == explained {
			s.failure = append(s.failure, s.arena[from:to]...)
		} else {
			s.failure = s.because(s.failure, reason, l)
		}
		return false
	}
	k := int32(len(s.trail))
	s.trail = append(s.trail, change{l.X, s.bound[l.X], l.K, s.last[l.X], reason, from, to})
	s.marked, s.need = append(s.marked, false), append(s.need, 0)
	s.bound[l.X], s.last[l.X] = l.K, k
	return true
}

// because appends why a clause implies a literal.
func (s *Solver) because(to []Lit, clause int32, l Lit) []Lit {
	for _, other := range s.clauses[clause].lits {
		if other.X != l.X || other.K != l.K {
			to = append(to, other.Not())
		}
	}
	return to
}

// stepsPerVariable is how many bounds a propagation may raise, on average a variable, before it gives up. Operations that would have
// to run before each other raise their bounds in turn up to the horizon; where that is long, the conflict takes too many steps to be
// found and explained, O(steps²).
const stepsPerVariable = 20

// propagate infers until nothing changes or it gives up; false: a conflict.
func (s *Solver) propagate() bool {
	most := len(s.trail) + stepsPerVariable*len(s.phase) + 1000
	for {
		for s.head < len(s.trail) {
			if len(s.trail) > most {
				s.cause = gaveUp
				return true
			}
			x := s.trail[s.head].x
			s.head++
			if !s.propagateClauses(x) {
				s.cause = ByClause
				return false
			}
			if !s.propagateDifferences(x) {
				s.cause = ByDifference
				return false
			}
			for _, k := range s.sumsOf[x] {
				if !s.dirty[k] {
					s.dirty[k], s.stale = true, append(s.stale, k)
				}
			}
			for _, m := range s.pairOf[x] {
				s.tasks[m].changed = true
			}
		}
		if n := len(s.stale); n > 0 {
			k := s.stale[n-1]
			s.stale, s.dirty[k] = s.stale[:n-1], false
			if !s.propagateSum(&s.sums[k]) {
				s.cause = BySum
				return false
			}
			continue
		}
		k := slices.IndexFunc(s.tasks, func(m *machine) bool { return m.changed })
		if k < 0 {
			return true
		}
		if s.tasks[k].changed = false; !s.tasks[k].propagate(s) {
			s.cause = ByMachine
			return false
		}
	}
}

// propagateClauses visits the clauses that watch a literal that a bound has made false.
func (s *Solver) propagateClauses(x int32) bool {
	list := s.watch[x^1]
	kept := 0
	for i, w := range list {
		if s.bound[x] < 1-w.k {
			list[kept] = w
			kept++
			continue
		}
		lits := s.clauses[w.clause].lits
		if lits[0].X == x^1 && lits[0].K == w.k {
			lits[0], lits[1] = lits[1], lits[0]
		}
		if s.isTrue(lits[0]) {
			list[kept] = w
			kept++
			continue
		}
		moved := false
		for j := 2; j < len(lits); j++ {
			if !s.fails(lits[j]) {
				lits[1], lits[j] = lits[j], lits[1]
				s.watch[lits[1].X] = append(s.watch[lits[1].X], watcher{w.clause, lits[1].K})
				moved = true
				break
			}
		}
		if moved {
			continue
		}
		list[kept] = w
		kept++
		if !s.enter(lits[0], w.clause, 0, 0) {
			kept += copy(list[kept:], list[i+1:])
			s.watch[x^1] = list[:kept]
			return false
		}
	}
	s.watch[x^1] = list[:kept]
	return true
}

// propagateDifferences visits those from a side, and those whose condition it is.
func (s *Solver) propagateDifferences(x int32) bool {
	for _, k := range s.bySide[x] {
		if !s.difference(&s.diffs[k]) {
			return false
		}
	}
	for _, k := range s.byCond[x] {
		if !s.difference(&s.diffs[k]) {
			return false
		}
	}
	return true
}

func (s *Solver) difference(f *difference) bool {
	b := s.bound[f.x]
	switch {
	case b+f.d <= s.bound[f.y]:
		return true
	case f.cond.X < 0:
		return s.raise(Lit{f.y, b + f.d}, Lit{f.x, b})
	case s.isTrue(f.cond):
		return s.raise(Lit{f.y, b + f.d}, Lit{f.x, b}, f.cond)
	case b+f.d > -s.bound[f.y^1] && !s.fails(f.cond):
		// The least x for which y is too high explains more.
		most := -s.bound[f.y^1]
		return s.raise(f.cond.Not(), Lit{f.x, most - f.d + 1}, Lit{f.y ^ 1, -most})
	}
	return true
}

func (s *Solver) propagateSum(p *sum) bool {
	total := int64(0)
	for i, l := range p.lits {
		if s.isTrue(l) {
			total += p.weights[i]
		}
	}
	why := func(over int64) []Lit {
		list := []Lit{}
		for i, l := range p.lits { // those that make it too much, no more
			if over > 0 && s.isTrue(l) {
				list = append(list, l)
				over -= p.weights[i]
			}
		}
		return list
	}
	if total > p.limit {
		s.failure = append(s.failure[:0], why(p.limit+1)...)
		return false
	}
	for i, l := range p.lits {
		if total+p.weights[i] > p.limit && !s.isTrue(l) && !s.fails(l) {
			if !s.raise(l.Not(), why(p.limit+1-p.weights[i])...) {
				return false
			}
		}
	}
	return true
}

// undo goes back to a level.
func (s *Solver) undo(level int) {
	if level >= len(s.levels) {
		return
	}
	from := s.levels[level]
	for k := int32(len(s.trail)) - 1; k >= from; k-- {
		c := &s.trail[k]
		if v := c.x / 2; s.place[v] == -1 {
			s.phase[v] = s.bound[2*v]
			s.insert(v)
		}
		s.bound[c.x], s.last[c.x] = c.old, c.prev
	}
	s.trail, s.marked, s.need = s.trail[:from], s.marked[:from], s.need[:from]
	s.arena = s.arena[:s.arenas[level]]
	s.levels, s.arenas = s.levels[:level], s.arenas[:level]
	s.head = len(s.trail)
}

// analyse returns the clause of the first unique implication point, its asserting literal first, and the level to go back to.
func (s *Solver) analyse() ([]Lit, int) {
	start := s.levels[len(s.levels)-1]
	open := 0
	var lower []int32
	add := func(l Lit) {
		k := s.last[l.X]
		if k < 0 {
			return
		}
		for s.trail[k].old >= l.K { // the entry that made it true
			if k = s.trail[k].prev; k < 0 {
				return
			}
		}
		switch {
		case k < s.levels[0]:
		case s.marked[k]:
			s.need[k] = max(s.need[k], l.K)
		default:
			s.marked[k], s.need[k] = true, l.K
			s.bump(l.X / 2)
			if k >= start {
				open++
			} else {
				lower = append(lower, k)
			}
		}
	}
	for _, l := range s.failure {
		add(l)
	}
	var buffer []Lit
	k := int32(len(s.trail)) - 1
	for ; ; k-- {
		if !s.marked[k] {
			continue
		}
		if open--; open == 0 {
			break
		}
		s.marked[k] = false
		for _, l := range s.why(k, &buffer) {
			add(l)
		}
	}
	s.marked[k] = false
	learnt := []Lit{Lit{s.trail[k].x, s.need[k]}.Not()}
	back := 0
	for _, k := range lower {
		if s.redundant(k, &buffer) {
			continue
		}
		learnt = append(learnt, Lit{s.trail[k].x, s.need[k]}.Not())
		level, _ := slices.BinarySearch(s.levels, k+1)
		if level > back {
			back = level
			last := len(learnt) - 1
			learnt[1], learnt[last] = learnt[last], learnt[1]
		}
	}
	for _, k := range lower {
		s.marked[k] = false
	}
	return learnt, back
}

// redundant reports whether other literals of the clause imply an entry.
func (s *Solver) redundant(k int32, buffer *[]Lit) bool {
	if s.trail[k].reason == decided {
		return false
	}
	for _, l := range s.why(k, buffer) {
		e := s.last[l.X]
		for e >= 0 && s.trail[e].old >= l.K {
			e = s.trail[e].prev
		}
		if e >= s.levels[0] && !(s.marked[e] && s.need[e] >= l.K) {
			return false
		}
	}
	return true
}

// why returns what implies an entry.
func (s *Solver) why(k int32, buffer *[]Lit) []Lit {
	c := &s.trail[k]
	switch c.reason {
	case decided:
		return nil
	case explained:
		return s.arena[c.from:c.to]
	}
	*buffer = s.because((*buffer)[:0], c.reason, Lit{c.x, c.val})
	return *buffer
}

// learn adds a clause and asserts its first literal.
func (s *Solver) learn(lits []Lit) bool {
	if len(lits) == 1 {
		return s.raise(lits[0])
	}
	k := int32(len(s.clauses))
	s.clauses = append(s.clauses, clause{lits: lits, learnt: true, activity: s.increase})
	for _, l := range lits[:2] {
		s.watch[l.X] = append(s.watch[l.X], watcher{k, l.K})
	}
	s.learnts++
	return s.enter(lits[0], k, 0, 0)
}

// forget drops the longer half of the learnt clauses. It is for level 0 only.
func (s *Solver) forget() {
	order := make([]int, len(s.clauses))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { // short and recent clauses first
		return len(s.clauses[a].lits)*4 - a/64 - len(s.clauses[b].lits)*4 + b/64
	})
	half := order[:0]
	for i, k := range order {
		if i < len(order)/2 || !s.clauses[k].learnt {
			half = append(half, k)
		}
	}
	kept := make([]clause, 0, len(half))
	order = half
	slices.Sort(order)
	for _, k := range order {
		kept = append(kept, s.clauses[k])
	}
	s.clauses, s.learnts = kept, s.learnts/2
	for x := range s.watch {
		s.watch[x] = s.watch[x][:0]
	}
	for k := range s.clauses {
		lits := s.clauses[k].lits
		open := 0
		for j := 0; j < len(lits) && open < 2; j++ { // watch what is not false
			if !s.fails(lits[j]) {
				lits[open], lits[j] = lits[j], lits[open]
				open++
			}
		}
		for _, l := range lits[:2] {
			s.watch[l.X] = append(s.watch[l.X], watcher{int32(k), l.K})
		}
		if open == 0 {
			s.ok = false
		} else if open == 1 && !s.raise(lits[0]) {
			s.ok = false
		}
	}
	for i := range s.trail { // entries of level 0 need no reason
		s.trail[i].reason, s.trail[i].from, s.trail[i].to = explained, 0, 0
	}
}
