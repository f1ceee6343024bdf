package results

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// HistoryFormat names the format of [History].
const HistoryFormat = "workbench.history/v2"

// History is what became of tasks and methods over nights: the idea is that of asv, airspeed
// velocity. Changes of tasks follow the rules of [Compare]; steps and slopes of methods are fitted
// to all nights.
type History struct {
	Format string `json:"format"`
	// Nights, the oldest first.
	Nights []HistoryNight `json:"nights"`
	// Methods follow each method over the nights.
	Methods []Line `json:"methods"`
	// Steps are those of the lines of methods, regressions that stand first.
	Steps []Step `json:"steps"`
	// Changes are those from a night to the next: what still stands first, of that
	// regressions, then by night, the newest first; tasks that came or went, which say
	// nothing of a method, last.
	Changes []Change `json:"changes"`
}

// HistoryNight is one of the nights.
type HistoryNight struct {
	Folder   string    `json:"folder"`
	Sweep    string    `json:"sweep"`
	Started  time.Time `json:"started"`
	Versions []string  `json:"versions"`
	Rows     int       `json:"rows"`
	Proved   int       `json:"proved"` // rows with a proof that the plan is optimal, or that there is none
	Failed   int       `json:"failed"` // without what was asked for
}

// Line is a method with its settings over the nights: entry k of each list is the geometric mean,
// over the tasks of the method, of night k over the first night that has the task; of times, what
// all methods share is taken out. Nil: no task. The method "all methods" has what was taken out.
type Line struct {
	Problem   string     `json:"problem"`
	Method    string     `json:"method"`
	Objective []*float64 `json:"objective"`
	Bound     []*float64 `json:"bound"`
	Time      []*float64 `json:"time"`
}

// Step is a lasting change of a line: at Night, or, of a slope, from Night to the last.
type Step struct {
	Problem    string  `json:"problem"`
	Method     string  `json:"method"`
	Measure    string  `json:"measure"` // plan, bound or time
	Night      int     `json:"night"`
	Versions   string  `json:"versions"` // the range that has it
	Slope      bool    `json:"slope"`
	Change     float64 `json:"change"` // relative; of a slope each night
	Regression bool    `json:"regression"`
	Stands     bool    `json:"stands"` // whether the last night is still as much worse or better
}

// String says what the step is, in one line.
func (s Step) String() string {
	when := "in"
	if s.Slope {
		when = "a night since"
	}
	name := strings.TrimSpace(s.Problem + " " + s.Method)
	return fmt.Sprintf("%s: %ss %+.3g %% %s night %d (%s)", name, s.Measure, 100*s.Change, when, s.Night, s.Versions)
}

// Change is a difference between a night and the one before.
type Change struct {
	// Night is the index of the night that has it first, Versions the range that has it.
	Night    int    `json:"night"`
	Versions string `json:"versions"`
	// Stands says that the last night differs in the same way from the night before
	// the change.
	Stands bool `json:"stands"`
	Finding
}

// Standing counts the regressions that stand.
func (h *History) Standing() int {
	changes, steps := h.standing()
	return len(changes) + len(steps)
}

// standing returns the changes and steps that are regressions and stand.
func (h *History) standing() (changes []Change, steps []Step) {
	for _, c := range h.Changes {
		if c.Stands && c.Regression {
			changes = append(changes, c)
		}
	}
	for _, s := range h.Steps {
		if s.Stands && s.Regression {
			steps = append(steps, s)
		}
	}
	return changes, steps
}

// Source is a night and where it was read.
type Source struct {
	Folder string
	Night  *Night
}

// NewHistory puts nights in the order of their starts and compares each with the one before, and,
// where something changed, the night before it with the last. It is an error of the user's if there
// are fewer than two, or if two that follow each other have no task in common.
// O(k·n log n) for k nights of n rows, and O(k³ log k) a method.
func NewHistory(sources []Source, o Options) (*History, error) {
	if len(sources) < 2 {
		return nil, solve.InputError(fmt.Errorf("a history needs two nights, %d given", len(sources)))
	}
	o.Partial = true // a task that a night left out is back in the next
	slices.SortStableFunc(sources, func(a, b Source) int { return began(a.Night).Compare(began(b.Night)) })
	h := &History{Format: HistoryFormat, Nights: []HistoryNight{}, Methods: []Line{}, Steps: []Step{}, Changes: []Change{}}
	latest := gather(sources, func(*sweep.Row) bool { return true })
	for k, s := range sources {
		h.Nights = append(h.Nights, describe(s))
		if k == 0 {
			continue
		}
		c, err := Compare(sources[k-1].Night, s.Night, o)
		if err != nil {
			return nil, fmt.Errorf("%s and %s: %w", sources[k-1].Folder, s.Folder, err)
		}
		h.add(k, c, sources, sources[k-1].Night, latest)
		if old := unseen(sources[:k]); len(old.Rows) > 0 {
			if c, err = Compare(old, s.Night, o); err == nil { // else none of these is back
				c.Findings = slices.DeleteFunc(c.Findings, func(f Finding) bool {
					return !f.Regression || f.Name == "" || f.Kind == Contradicts || f.Kind == Fails || f.Kind == NotRun
				})
				h.add(k, c, sources, old, latest)
			}
		}
	}
	h.follow(sources, o)
	h.sort()
	return h, nil
}

// SinceChange returns the nights from the last change of specification on, the oldest first: before it lies a night that has no
// task in common with the next. O(n log n) in the rows.
func SinceChange(sources []Source) []Source {
	slices.SortStableFunc(sources, func(a, b Source) int { return began(a.Night).Compare(began(b.Night)) })
	for k := len(sources) - 1; k > 0; k-- {
		old, matched := byTask(sources[k-1].Night.Rows), false
		for key := range byTask(sources[k].Night.Rows) {
			_, in := old[key]
			matched = matched || in
		}
		if !matched {
			return sources[k:]
		}
	}
	return sources
}

// began returns when the first row of a night was begun.
func began(n *Night) (first time.Time) {
	for i, r := range n.Rows {
		if i == 0 || r.Started.Before(first) {
			first = r.Started
		}
	}
	return first
}

func describe(s Source) HistoryNight {
	n := HistoryNight{Folder: s.Folder, Sweep: s.Night.Name, Started: began(s.Night), Versions: s.Night.Versions(), Rows: len(s.Night.Rows)}
	for _, r := range s.Night.Rows {
		n.Proved, n.Failed = n.Proved+bit(Proved(r)), n.Failed+bit(failed(r))
	}
	return n
}

// add adds what a comparison of night k with an older one found. What was not run stands if
// the last night has none of it, all else if the latest row of the task differs in the same way.
func (h *History) add(k int, c *Comparison, sources []Source, old, latest *Night) {
	if len(c.Findings) == 0 {
		return
	}
	now, err := Compare(old, latest, c.Options)
	if err != nil {
		now = nil // nothing in common: nothing stands
	}
	for _, f := range c.Findings {
		standing := now != nil && slices.ContainsFunc(now.Findings,
			func(g Finding) bool { return g.Kind == f.Kind && g.subject() == f.subject() })
		if f.Kind == NotRun {
			standing = RowsOf(sources, f.Task)[len(sources)-1] == nil
		}
		h.Changes = append(h.Changes, Change{k, c.Versions(), standing, f})
	}
}

// gather returns, of each task, its rows of the last night that has any of them that counts.
func gather(sources []Source, counts func(*sweep.Row) bool) *Night {
	night := &Night{Environments: map[string]sweep.Environment{}}
	have := map[string]bool{}
	for _, s := range slices.Backward(sources) {
		maps.Copy(night.Environments, s.Night.Environments)
		first := len(night.Rows)
		for _, r := range s.Night.Rows {
			if !have[Key(r.Task)] && counts(r) {
				night.Rows = append(night.Rows, r)
			}
		}
		for _, r := range night.Rows[first:] {
			have[Key(r.Task)] = true
		}
	}
	return night
}

// unseen are the tasks that the last of the nights did not run, or that failed in it, as
// they were when they last did not: what is worse than that is no less so for the hole.
func unseen(sources []Source) *Night {
	whole := func(r *sweep.Row) bool { return !failed(r) }
	seen := map[string]bool{}
	for _, r := range gather(sources[len(sources)-1:], whole).Rows {
		seen[Key(r.Task)] = true
	}
	return gather(sources, func(r *sweep.Row) bool { return whole(r) && !seen[Key(r.Task)] })
}

// allMethods is the line of what the times of all methods share.
const allMethods = "all methods"

// follow makes the lines of methods, and finds their steps.
func (h *History) follow(sources []Source, o Options) {
	nights := make([]map[string][]*sweep.Row, len(sources))
	tasks := map[Configuration][]string{}
	var list []Configuration
	seen := map[string]bool{}
	for k, s := range sources {
		nights[k] = byTask(s.Night.Rows)
		for _, key := range slices.Sorted(maps.Keys(nights[k])) {
			who := configurationOf(&nights[k][key][0].Task)
			if !seen[key] {
				if tasks[who] == nil {
					list = append(list, who)
				}
				tasks[who] = append(tasks[who], key)
			}
			seen[key] = true
		}
	}
	labels := Labels(list)
	measures := []measure{objectives(), bounds(), o.times()}
	var times [][]*float64
	for _, who := range list {
		lines := make([][]*float64, len(measures))
		for i, m := range measures {
			lines[i] = line(m, tasks[who], nights)
		}
		times = append(times, lines[2])
		h.Methods = append(h.Methods, Line{who.Problem, labels[who], lines[0], lines[1], lines[2]})
	}
	if len(list) >= leastMethods {
		h.Methods = append(h.Methods, Line{"", allMethods, make([]*float64, len(sources)), make([]*float64, len(sources)), takeShared(times)})
	}
	slices.SortFunc(h.Methods, func(a, b Line) int {
		return cmp.Or(cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Method, b.Method))
	})
	// A step is confirmed by a comparison of the nights before with those after it, as if they were
	// repetitions: what only few short tasks show is noise.
	compared := map[[4]int]*Comparison{}
	confirm := func(before, after level) *Comparison {
		key := [4]int{before.from, before.to, after.from, after.to}
		if _, done := compared[key]; !done {
			compared[key], _ = Compare(pool(sources[before.from:before.to]), pool(sources[after.from:after.to]), o)
		}
		return compared[key]
	}
	for _, l := range h.Methods {
		for i, values := range [][]*float64{l.Objective, l.Bound, l.Time} {
			h.steps(l, measures[i], values, confirm)
		}
	}
}

// pool is the rows of several nights as one.
func pool(sources []Source) *Night {
	night := &Night{Environments: map[string]sweep.Environment{}}
	for _, s := range sources {
		maps.Copy(night.Environments, s.Night.Environments)
		night.Rows = append(night.Rows, s.Night.Rows...)
	}
	return night
}

// confirms reports whether a comparison says that a measure of a method, or of its tasks, got worse
// or better; of all methods together, that it drifted.
func (c *Comparison) confirms(l Line, m measure, worse bool) bool {
	if c == nil || l.Method == allMethods {
		return c != nil && c.Drift != nil && math.Abs(math.Log(*c.Drift)) > math.Log1p(c.Options.Time)
	}
	verdict, kind := "better", m.better
	if worse {
		verdict, kind = "worse", m.worse
	}
	for i := range c.Groups {
		g := &c.Groups[i]
		of := map[string]*Ratio{"plan": &g.Objective, "bound": &g.Bound, "time": &g.Time}[m.name]
		if g.Problem == l.Problem && g.Method == l.Method && of.Verdict == verdict {
			return true
		}
	}
	return slices.ContainsFunc(c.Findings, func(f Finding) bool {
		return f.Kind == kind && f.Task.Problem == l.Problem &&
			f.Method == l.Method
	})
}

// line returns the geometric means of a measure over tasks, night by night, each over the first
// night that has the task.
func line(m measure, tasks []string, nights []map[string][]*sweep.Row) []*float64 {
	sums, counts := make([]float64, len(nights)), make([]int, len(nights))
	for _, key := range tasks {
		first := math.NaN()
		for k, night := range nights {
			list := night[key]
			values := m.values(list)
			if len(values) == 0 || share(list) < starvedShare && most(list, Stopped) {
				continue
			}
			v := m.log(median(values))
			if math.IsNaN(first) {
				first = v
			}
			sums[k], counts[k] = sums[k]+v-first, counts[k]+1
		}
	}
	out := make([]*float64, len(nights))
	for k := range out {
		if counts[k] > 0 {
			out[k] = number(math.Exp(sums[k] / float64(counts[k])))
		}
	}
	return out
}

// takeShared takes out of lines, night by night, their median, and returns it.
func takeShared(lines [][]*float64) []*float64 {
	out := make([]*float64, len(lines[0]))
	for k := range out {
		var values []float64
		for _, l := range lines {
			if l[k] != nil {
				values = append(values, *l[k])
			}
		}
		if out[k] = number(median(values)); out[k] == nil {
			continue
		}
		for _, l := range lines {
			if l[k] != nil {
				*l[k] /= *out[k]
			}
		}
	}
	return out
}

// steps finds the steps of one line.
func (h *History) steps(l Line, m measure, values []*float64, confirm func(before, after level) *Comparison) {
	var x []float64
	var at []int
	for k, v := range values {
		if v != nil && *v > 0 {
			x, at = append(x, math.Log(*v)), append(at, k)
		}
	}
	least, floor := exact, exact/10
	if !m.repeats {
		least, floor = math.Log1p(m.threshold), math.Log1p(m.threshold)/20
	}
	nights := func(l level) level { return level{from: at[l.from], to: at[l.to-1] + 1} }
	for _, f := range changes(x, least, floor) {
		if !confirm(nights(f.before), nights(f.after)).confirms(l, m, f.change*float64(m.up) > 0) {
			continue
		}
		s := Step{Problem: l.Problem, Method: l.Method, Measure: m.name, Night: at[f.at], Slope: f.slope, Regression: f.change*float64(m.up) > 0}
		before, after := max(f.at-1, 0), f.at
		s.Change, s.Stands = math.Expm1(f.change), true
		if f.slope {
			s.Change, after = math.Expm1(f.change/float64(len(x)-1)), len(x)-1
		} else {
			now := x[len(x)-1] - median(x[:f.at])
			s.Stands = now*f.change > 0 && math.Abs(now) > math.Abs(f.change)/2
		}
		s.Versions = listed(h.Nights[at[before]].Versions) + ".." + listed(h.Nights[at[after]].Versions)
		if !slices.ContainsFunc(h.Changes, func(c Change) bool {
			return c.Night == s.Night && !f.slope && m.about(c.Kind) && c.Task.Problem == l.Problem && c.Method == l.Method
		}) {
			h.Steps = append(h.Steps, s) // else a change of that night says so
		}
	}
}

func (h *History) sort() {
	rank := func(kind Kind, stands, regression bool) int {
		switch {
		case kind == Added || kind == NotRun:
			return 3
		case stands && regression:
			return 0
		case stands:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(h.Changes, func(a, b Change) int {
		return cmp.Or(cmp.Compare(rank(a.Kind, a.Stands, a.Regression), rank(b.Kind, b.Stands, b.Regression)), cmp.Compare(b.Night, a.Night))
	})
	slices.SortStableFunc(h.Steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(rank("", a.Stands, a.Regression), rank("", b.Stands, b.Regression)), cmp.Compare(b.Night, a.Night))
	})
}

// Verdict is one line that says what stands: the number of regressions of each kind, the steps, and
// the first five by name, each with the versions between which it came.
func (h *History) Verdict() string {
	changes, steps := h.standing()
	if len(changes)+len(steps) == 0 {
		return "no regression stands"
	}
	var names []string
	for _, s := range steps {
		names = append(names, s.String())
	}
	count := map[Kind]int{}
	for _, c := range changes {
		count[c.Kind]++
		names = append(names, fmt.Sprintf("%s %s in night %d (%s)", c.Kind, c.About(), c.Night, c.Versions))
	}
	numbers := counts(kinds, count)
	if len(steps) > 0 {
		numbers = append([]string{fmt.Sprintf("%d step or slope", len(steps))}, numbers...)
	}
	return "REGRESSION stands: " + summed(numbers, names)
}

// RowsOf returns the rows of the nights that ran a task, in their order: entry k is of
// night k, nil where it has none.
func RowsOf(sources []Source, t sweep.Task) []*sweep.Row {
	list := make([]*sweep.Row, len(sources))
	for k, s := range sources {
		i := slices.IndexFunc(s.Night.Rows, func(r *sweep.Row) bool { return Key(r.Task) == Key(t) })
		if i >= 0 {
			list[k] = s.Night.Rows[i]
		}
	}
	return list
}
