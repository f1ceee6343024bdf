// Package history holds many nights side by side: what changed from one to the next,
// since which night and version, and whether it still stands. The idea is that of asv,
// airspeed velocity; the rules by which a difference counts are those of package
// compare, which every statement here comes from.
package history

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"workbench/bench/compare"
	"workbench/bench/report/rows"
	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// Format names the format of [History].
const Format = "workbench.history/v1"

// History is what became of tasks over nights.
type History struct {
	Format string `json:"format"`
	// Nights, the oldest first.
	Nights []Night `json:"nights"`
	// Methods follow each method over the nights.
	Methods []Method `json:"methods"`
	// Changes are those from a night to the next: what still stands first, of that
	// regressions, then by night, the newest first; tasks that came or went, which say
	// nothing of a method, last.
	Changes []Change `json:"changes"`
}

// Night is one of the nights.
type Night struct {
	Folder   string    `json:"folder"`
	Sweep    string    `json:"sweep"`
	Started  time.Time `json:"started"`
	Versions []string  `json:"versions"`
	Rows     int       `json:"rows"`
	Proved   int       `json:"proved"` // rows with a proof that the plan is optimal, or that there is none
	Failed   int       `json:"failed"` // without what was asked for
}

// Method is a method with its settings over the nights: entry k of each list is
// the geometric mean of the ratio of night k to the first night that has common
// tasks, nil where there is none.
type Method struct {
	Problem   string     `json:"problem"`
	Method    string     `json:"method"`
	Objective []*float64 `json:"objective"`
	Bound     []*float64 `json:"bound"`
	Time      []*float64 `json:"time"`
}

// Change is a difference of one task between a night and the one before.
type Change struct {
	// Night is the index of the night that has it first.
	Night int `json:"night"`
	// Stands says that the last night differs in the same way from the night before
	// the change.
	Stands bool `json:"stands"`
	compare.Finding
}

// Standing counts the regressions that still stand.
func (h *History) Standing() (n int) {
	for _, c := range h.Changes {
		if c.Stands && c.Regression {
			n++
		}
	}
	return n
}

// Source is a night and where it was read.
type Source struct {
	Folder string
	Night  *rows.Night
}

// New puts nights in the order of their starts and compares each with the one
// before, with the first, and, where something changed, with the last. It is an error of
// the user's if there are fewer than two, or if two that follow each other have no task in
// common. O(k·n log n) for k nights of n rows.
func New(sources []Source, o compare.Options) (*History, error) {
	if len(sources) < 2 {
		return nil, solve.InputError(fmt.Errorf("a history needs two nights, %d given", len(sources)))
	}
	o.Partial = true // a task that a night left out is back in the next
	slices.SortStableFunc(sources, func(a, b Source) int { return began(a.Night).Compare(began(b.Night)) })
	h := &History{Format: Format, Nights: []Night{}, Methods: []Method{}, Changes: []Change{}}
	latest := gather(sources, func(*sweep.Row) bool { return true })
	for k, s := range sources {
		h.Nights = append(h.Nights, describe(s))
		if k == 0 {
			continue
		}
		c, err := compare.Nights(sources[k-1].Night, s.Night, o)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", sources[k-1].Folder, s.Folder, err)
		}
		h.add(k, c, sources, sources[k-1].Night, latest)
		if old := unseen(sources[:k]); len(old.Rows) > 0 {
			if c, err = compare.Nights(old, s.Night, o); err == nil { // else none of these is back
				c.Findings = slices.DeleteFunc(c.Findings, func(f compare.Finding) bool {
					return !f.Regression || f.Kind == compare.Contradicts || f.Kind == compare.Fails || f.Kind == compare.NotRun
				})
				h.add(k, c, sources, old, latest)
			}
		}
	}
	h.follow(sources, o)
	h.sort()
	return h, nil
}

// began returns when the first row of a night was begun.
func began(n *rows.Night) (first time.Time) {
	for i, r := range n.Rows {
		if i == 0 || r.Started.Before(first) {
			first = r.Started
		}
	}
	return first
}

func describe(s Source) Night {
	n := Night{Folder: s.Folder, Sweep: s.Night.Name, Started: began(s.Night), Versions: []string{}, Rows: len(s.Night.Rows)}
	for _, r := range s.Night.Rows {
		if !slices.Contains(n.Versions, r.Task.Version) {
			n.Versions = append(n.Versions, r.Task.Version)
		}
		if rows.Proved(r) {
			n.Proved++
		}
		if reason, _ := rows.Failure(r); reason != "" {
			n.Failed++
		}
	}
	slices.Sort(n.Versions)
	return n
}

// add adds what a comparison of night k with an older one found. What was not run stands if
// the last night has none of it, all else if the latest row of the task differs in the same way.
func (h *History) add(k int, c *compare.Comparison, sources []Source, old, latest *rows.Night) {
	if len(c.Findings) == 0 {
		return
	}
	now, err := compare.Nights(old, latest, c.Options)
	if err != nil {
		now = nil // nothing in common: nothing stands
	}
	for _, f := range c.Findings {
		standing := stands(now, &f)
		if f.Kind == compare.NotRun {
			standing = Of(sources, f.Task)[len(sources)-1] == nil
		}
		h.Changes = append(h.Changes, Change{k, standing, f})
	}
}

// gather returns, of each task, its rows of the last night that has any of them that counts.
func gather(sources []Source, counts func(*sweep.Row) bool) *rows.Night {
	night := &rows.Night{Environments: map[string]sweep.Environment{}}
	have := map[string]bool{}
	for _, s := range slices.Backward(sources) {
		maps.Copy(night.Environments, s.Night.Environments)
		first := len(night.Rows)
		for _, r := range s.Night.Rows {
			if !have[compare.Key(r.Task)] && counts(r) {
				night.Rows = append(night.Rows, r)
			}
		}
		for _, r := range night.Rows[first:] {
			have[compare.Key(r.Task)] = true
		}
	}
	return night
}

// unseen are the tasks that the last of the nights did not run, or that failed in it, as
// they were when they last did not: what is worse than that is no less so for the hole.
func unseen(sources []Source) *rows.Night {
	whole := func(r *sweep.Row) bool { reason, _ := rows.Failure(r); return reason == "" }
	last := gather(sources[len(sources)-1:], whole)
	seen := map[string]bool{}
	for _, r := range last.Rows {
		seen[compare.Key(r.Task)] = true
	}
	return gather(sources, func(r *sweep.Row) bool { return whole(r) && !seen[compare.Key(r.Task)] })
}

// stands reports whether a comparison has the same kind of finding of a task.
func stands(c *compare.Comparison, f *compare.Finding) bool {
	return c != nil && slices.ContainsFunc(c.Findings, func(g compare.Finding) bool {
		return g.Kind == f.Kind && compare.Key(g.Task) == compare.Key(f.Task)
	})
}

// follow compares every night with the first for the lines of methods.
func (h *History) follow(sources []Source, o compare.Options) {
	type name struct{ problem, method string }
	index := map[name]int{}
	for k := 1; k < len(sources); k++ {
		c, err := compare.Nights(sources[0].Night, sources[k].Night, o)
		if err != nil {
			continue // no common task: the line has a hole
		}
		for _, g := range c.Groups {
			who := name{g.Problem, g.Method}
			i, known := index[who]
			if !known {
				i = len(h.Methods)
				index[who] = i
				one := 1.0
				m := Method{Problem: g.Problem, Method: g.Method}
				for _, list := range []*[]*float64{&m.Objective, &m.Bound, &m.Time} {
					*list = make([]*float64, len(sources))
					(*list)[0] = &one
				}
				h.Methods = append(h.Methods, m)
			}
			m := &h.Methods[i]
			m.Objective[k], m.Bound[k], m.Time[k] = g.Objective.Mean, g.Bound.Mean, g.Time.Mean
		}
	}
	slices.SortFunc(h.Methods, func(a, b Method) int {
		return cmp.Or(cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Method, b.Method))
	})
}

func (h *History) sort() {
	rank := func(c *Change) int {
		switch {
		case c.Kind == compare.New || c.Kind == compare.NotRun:
			return 3
		case c.Stands && c.Regression:
			return 0
		case c.Stands:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(h.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(&a), rank(&b)), cmp.Compare(b.Night, a.Night))
	})
}

// Of returns the rows of the nights that ran a task, in their order: entry k is of
// night k, nil where it has none.
func Of(sources []Source, t sweep.Task) []*sweep.Row {
	list := make([]*sweep.Row, len(sources))
	for k, s := range sources {
		i := slices.IndexFunc(s.Night.Rows, func(r *sweep.Row) bool { return compare.Key(r.Task) == compare.Key(t) })
		if i >= 0 {
			list[k] = s.Night.Rows[i]
		}
	}
	return list
}
