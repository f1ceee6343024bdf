package lcg

import "slices"

// A machine runs one task at a time: disjunctive propagation by edge finding (Carlier and Pinson 1990), with explanations.
type machine struct {
	starts  []int32 // sides
	lengths []int32
	before  [][]Lit // that the first task comes before the second; always, never: it does, or does not
	changed bool
	byEnd   []int
	byStart []int
}

// Literals of a pair of tasks that is ordered.
var (
	Always = Lit{X: -1}
	Never  = Lit{X: -2}
)

// Machine adds that tasks, given by the sides of their starts and their lengths, do not overlap. It infers from sets of tasks and
// from the literals that a task comes before another; pairs are for the differences of the caller.
func (s *Solver) Machine(starts []int32, lengths []int, before [][]Lit) {
	m := &machine{starts: starts, before: before, changed: true}
	k := int32(len(s.tasks))
	for i, x := range starts {
		m.lengths = append(m.lengths, int32(lengths[i]))
		s.pairOf[x], s.pairOf[x^1] = append(s.pairOf[x], k), append(s.pairOf[x^1], k)
		m.byEnd, m.byStart = append(m.byEnd, i), append(m.byStart, i)
		for _, l := range before[i] {
			if l.X >= 0 {
				s.pairOf[l.X] = append(s.pairOf[l.X], k)
			}
		}
	}
	s.tasks = append(s.tasks, m)
}

// earliest returns the least start of a task, latest its greatest end.
func (m *machine) earliest(s *Solver, i int) int32 { return s.bound[m.starts[i]] }
func (m *machine) latest(s *Solver, i int) int32   { return -s.bound[m.starts[i]^1] + m.lengths[i] }

// propagate infers from precedences and by edge finding. The latter looks at every set of tasks between a release a and a
// deadline b. If the set and another task that starts no earlier
// than a are longer than b − a, that task comes after the set; likewise at the other end. O(tasks²) where nothing is tight.
func (m *machine) propagate(s *Solver) bool {
	return m.precedences(s) && m.edges(s)
}

// comes reports whether the order of two tasks is decided so.
func (m *machine) comes(s *Solver, i, j int) bool {
	l := m.before[i][j]
	return l.X == Always.X || l.X >= 0 && s.isTrue(l)
}

// precedences infers that a task starts no earlier than all that come before it can have run, from any release on, and ends no later
// than what comes after it leaves time for. O(tasks²).
func (m *machine) precedences(s *Solver) bool {
	slices.SortStableFunc(m.byStart, func(i, j int) int { return int(m.earliest(s, j) - m.earliest(s, i)) })
	slices.SortStableFunc(m.byEnd, func(i, j int) int { return int(m.latest(s, i) - m.latest(s, j)) })
	for i := range m.starts {
		load, best, from := int32(0), m.earliest(s, i), int32(0)
		for _, j := range m.byStart {
			if m.comes(s, j, i) {
				load += m.lengths[j]
				if x := m.earliest(s, j) + load; x > best {
					best, from = x, m.earliest(s, j)
				}
			}
		}
		if best > m.earliest(s, i) {
			var why []Lit
			for j, x := range m.starts {
				if m.comes(s, j, i) && m.earliest(s, j) >= from {
					why = append(m.ordered(why, j, i), Lit{x, from})
				}
			}
			if !s.raise(Lit{m.starts[i], best}, why...) {
				return false
			}
		}
		load, best = 0, m.latest(s, i)
		for _, j := range m.byEnd {
			if m.comes(s, i, j) {
				load += m.lengths[j]
				if x := m.latest(s, j) - load; x < best {
					best, from = x, m.latest(s, j)
				}
			}
		}
		if best < m.latest(s, i) {
			var why []Lit
			for j, x := range m.starts {
				if m.comes(s, i, j) && m.latest(s, j) <= from {
					why = append(m.ordered(why, i, j), Lit{x ^ 1, m.lengths[j] - from})
				}
			}
			if !s.raise(Lit{m.starts[i] ^ 1, m.lengths[i] - best}, why...) {
				return false
			}
		}
	}
	return true
}

// ordered appends the literal that a task comes before another, unless it always does.
func (m *machine) ordered(to []Lit, i, j int) []Lit {
	if l := m.before[i][j]; l.X >= 0 {
		return append(to, l)
	}
	return to
}

// edges is edge finding.
func (m *machine) edges(s *Solver) bool {
	slices.SortStableFunc(m.byEnd, func(i, j int) int { return int(m.latest(s, i) - m.latest(s, j)) })
	var releases []int32
	for i := range m.starts {
		releases = append(releases, m.earliest(s, i))
	}
	longest := slices.Max(m.lengths)
	slices.Sort(releases)
	for _, a := range slices.Compact(releases) {
		load := int32(0)
		for k, i := range m.byEnd {
			if m.earliest(s, i) < a {
				continue
			}
			load += m.lengths[i]
			b := m.latest(s, i)
			if k+1 < len(m.byEnd) && m.latest(s, m.byEnd[k+1]) == b {
				continue
			}
			slack := b - a - load
			if slack < 0 {
				s.failure = m.explain(s, s.failure[:0], a, b, -1, load-(b-a)-1)
				return false
			}
			if slack >= longest {
				continue
			}
			for j, p := range m.lengths {
				from, to := m.earliest(s, j), m.latest(s, j)
				switch {
				case p <= slack || from >= a && to <= b:
				case from >= a && from < a+load: // ends behind b, so it is behind the set
					if !s.raise(Lit{m.starts[j], a + load}, append(m.explain(s, nil, a, b, j, 0), Lit{m.starts[j], a})...) {
						return false
					}
				case to <= b && to > b-load:
					if !s.raise(Lit{m.starts[j] ^ 1, -(b - load - p)}, append(m.explain(s, nil, a, b, j, 0), Lit{m.starts[j] ^ 1, -(b - p)})...) {
						return false
					}
				}
			}
		}
	}
	return true
}

// explain appends that the tasks between a and b, but for one, are there, with so much to spare that both may be wider.
func (m *machine) explain(s *Solver, to []Lit, a, b int32, but int, spare int32) []Lit {
	for i, x := range m.starts {
		if i != but && m.earliest(s, i) >= a && m.latest(s, i) <= b {
			to = append(to, Lit{x, a}, Lit{x ^ 1, -(b + spare - m.lengths[i])})
		}
	}
	return to
}
