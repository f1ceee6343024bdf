package lcg

import "context"

// Solve looks for values until it has them, there are none, ctx ends, the budget of conflicts is spent or a propagation takes too
// many steps ([stepsPerVariable]). If Feasible, they are
// there to be read with [Solver.Value] until the next call. What has been learnt is kept for it.
func (s *Solver) Solve(ctx context.Context, budget int) Verdict {
	s.undo(0)
	s.cause = ByClause
	if !s.ok || !s.start() {
		s.ok = false
		return Infeasible
	}
	if s.cause == gaveUp {
		return Unknown
	}
	for round := 1; budget > 0; round++ {
		n := min(budget, 128*luby(round))
		budget -= n
		if v := s.search(ctx, n); v != Unknown {
			return v
		}
		if ctx.Err() != nil || s.cause == gaveUp {
			return Unknown
		}
		s.undo(0)
		if s.learnts > 8000 {
			s.forget()
		}
		if !s.ok {
			return Infeasible
		}
	}
	return Unknown
}

// start propagates at level 0, everything once.
func (s *Solver) start() bool {
	for k := range s.diffs {
		if !s.difference(&s.diffs[k]) {
			return false
		}
	}
	for k := range s.sums {
		if !s.dirty[k] {
			s.dirty[k], s.stale = true, append(s.stale, int32(k))
		}
	}
	for _, m := range s.tasks {
		m.changed = true
	}
	return s.propagate()
}

// search decides and learns for at most n conflicts.
func (s *Solver) search(ctx context.Context, n int) Verdict {
	for {
		if !s.propagate() {
			s.clean()
			s.Conflicts++
			s.Causes[s.cause]++
			if len(s.levels) == 0 {
				s.ok = false
				return Infeasible
			}
			lits, back := s.analyse()
			s.undo(back)
			if !s.learn(lits) {
				s.ok = false
				return Infeasible
			}
			s.increase *= 1.05
			if s.increase > 1e100 {
				for v := range s.activity {
					s.activity[v] *= 1e-100
				}
				s.increase *= 1e-100
			}
			if n--; n%64 == 0 && ctx.Err() != nil {
				return Unknown
			}
			continue
		}
		if n <= 0 || s.cause == gaveUp {
			return Unknown
		}
		v := s.next()
		if v < 0 {
			return Feasible
		}
		s.levels, s.arenas = append(s.levels, int32(len(s.trail))), append(s.arenas, int32(len(s.arena)))
		l := Lit{2 * v, 1}
		if s.phase[v] == 0 {
			l = l.Not()
		}
		s.enter(l, decided, 0, 0)
	}
}

// clean forgets what was to be propagated when a conflict came, but that machines and sums are looked at again.
func (s *Solver) clean() {
	for _, k := range s.stale {
		s.dirty[k] = false
	}
	s.stale = s.stale[:0]
	for _, m := range s.tasks {
		m.changed = true
	}
	for k := range s.sums {
		s.dirty[k], s.stale = true, append(s.stale, int32(k))
	}
}

// next returns an undecided variable of the largest activity; -1: there is none.
func (s *Solver) next() int32 {
	for len(s.heap) > 0 {
		v := s.heap[0]
		last := len(s.heap) - 1
		s.swap(0, last)
		s.heap, s.place[v] = s.heap[:last], -1
		s.down(0)
		if s.bound[2*v] != -s.bound[2*v+1] {
			return v
		}
	}
	return -1
}

// insert puts a variable that is to be decided into the heap, unless it is there.
func (s *Solver) insert(v int32) {
	if s.place[v] == -1 {
		s.place[v] = int32(len(s.heap))
		s.heap = append(s.heap, v)
		s.up(len(s.heap) - 1)
	}
}

// bump raises the activity of a variable.
func (s *Solver) bump(v int32) {
	s.activity[v] += s.increase
	if s.place[v] >= 0 {
		s.up(int(s.place[v]))
	}
}

func (s *Solver) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.place[s.heap[i]], s.place[s.heap[j]] = int32(i), int32(j)
}

func (s *Solver) up(i int) {
	for ; i > 0 && s.activity[s.heap[i]] > s.activity[s.heap[(i-1)/2]]; i = (i - 1) / 2 {
		s.swap(i, (i-1)/2)
	}
}

func (s *Solver) down(i int) {
	for {
		k := 2*i + 1
		if k >= len(s.heap) {
			return
		}
		if k+1 < len(s.heap) && s.activity[s.heap[k+1]] > s.activity[s.heap[k]] {
			k++
		}
		if s.activity[s.heap[k]] <= s.activity[s.heap[i]] {
			return
		}
		s.swap(i, k)
		i = k
	}
}

// luby returns the i-th number, from 1 on, of the sequence of Luby, Sinclair and Zuckerman (1993).
func luby(i int) int {
	for k := 1; ; k++ {
		switch full := 1<<k - 1; {
		case i == full:
			return 1 << (k - 1)
		case i < full:
			return luby(i - (1<<(k-1) - 1))
		}
	}
}
