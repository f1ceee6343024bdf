// Package compare holds two nights against each other: the same tasks, run by
// two versions, and says what got worse. It is meant to fail a nightly job, so it
// has to find what is there and to be silent about what is noise; the rules that
// decide are in [Options], and each is stated with its number.
//
// Tasks are matched if they are the same up to version and repetition. Each pair
// is judged alone, its repetitions against those of the other night; then all
// pairs of a method together, by paired tests, which see a small change that many
// tasks share. Values of runs that were stopped never enter a mean.
package compare

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/report/rows"
	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

// Format names the format of [Comparison].
const Format = "workbench.comparison/v1"

// Options are the rules by which a difference counts. Shares are of the older
// night: 0.1 is 10 %.
type Options struct {
	// Tolerance is what rounding explains of objectives and bounds. Runs that
	// came to their end by themselves repeat exactly, so any more is a change.
	Tolerance float64 `json:"tolerance"`
	// Quality is the change from which an objective or a bound of runs that were
	// stopped by their limit counts when repetitions show what their noise is;
	// QualityAlone when there are none.
	Quality      float64 `json:"quality"`
	QualityAlone float64 `json:"quality_alone"`
	// Time is the change of times from which it counts, with repetitions or over
	// all tasks of a method; TimeAlone that of one run against one, which must
	// also differ by Least seconds.
	Time      float64 `json:"time"`
	TimeAlone float64 `json:"time_alone"`
	Least     float64 `json:"least"`
	// Shift is added to all times, in seconds, before ratios are taken: that of
	// two times far below it is 1.
	Shift float64 `json:"shift"`
	// Alpha is the chance, over all tests of a kind together, of seeing a
	// change where there is none.
	Alpha float64 `json:"alpha"`
	// Edge is the share of its time limit above which a run may be stopped by
	// noise, less if repetitions show more of it: it is remarked upon and no
	// regression.
	Edge float64 `json:"edge"`
	// Partial says that tasks of the older night may be missing in the newer.
	Partial bool `json:"partial"`
}

// Defaults returns the rules where the user does not say.
func Defaults() Options {
	return Options{
		Tolerance: 1e-6, Quality: 0.01, QualityAlone: 0.05,
		Time: 0.10, TimeAlone: 1, Least: 1, Shift: 1e-3,
		Alpha: 0.01, Edge: 0.75,
	}
}

// TimesRule says from where on times count, for people.
func (o *Options) TimesRule() string {
	return fmt.Sprintf("times count from %+.3g %% on at p ≤ %g over a method or with repetitions, of one run against one from %+.3g %% and %g s on", 100*o.Time, o.Alpha, 100*o.TimeAlone, o.Least)
}

// Kind says what a finding is. The order is that of importance.
type Kind string

const (
	Contradicts  Kind = "contradiction" // rows of the nights cannot all be true
	Fails        Kind = "fails"         // had a plan, a bound or a proof, and has none
	NotRun       Kind = "not-run"       // has a row in the older night only
	WorsePlan    Kind = "worse-plan"
	ProofLost    Kind = "proof-lost"
	WeakerBound  Kind = "weaker-bound"
	Slower       Kind = "slower"
	AtEdge       Kind = "at-edge" // came to its end with nearly all its time, and is now stopped
	Recovered    Kind = "recovered"
	BetterPlan   Kind = "better-plan"
	ProofGained  Kind = "proof-gained"
	StrongerOne  Kind = "stronger-bound"
	Faster       Kind = "faster"
	New          Kind = "new" // has a row in the newer night only
	firstRemarks      = 7     // those before it in kinds are regressions
)

// kinds are all kinds, the gravest first.
var kinds = []Kind{
	Contradicts, Fails, NotRun, WorsePlan, ProofLost, WeakerBound, Slower,
	AtEdge, Recovered, BetterPlan, ProofGained, StrongerOne, Faster, New,
}

// Regression reports whether findings of the kind make a night worse.
func (k Kind) Regression() bool { return slices.Index(kinds, k) < firstRemarks }

// Finding is one difference between the nights.
type Finding struct {
	Kind       Kind        `json:"kind"`
	Regression bool        `json:"regression"`
	Name       string      `json:"instance"` // name of the task's instance
	Task       sweep.Task  `json:"task"`     // of the newer night, of the older if it is only there
	Old        *float64    `json:"old"`      // what is compared; nil: no number
	New        *float64    `json:"new"`
	Change     *float64    `json:"change"` // new/old − 1
	P          *float64    `json:"p"`      // adjusted for all tests of the kind; nil: not tested
	Detail     string      `json:"detail"`
	Against    *sweep.Task `json:"against,omitempty"` // the other row of a contradiction
}

// Side is one of the nights.
type Side struct {
	Sweep    string   `json:"sweep"`
	Versions []string `json:"versions"` // of the tasks
	Machines []string `json:"machines"` // processor, number of cores, tasks at a time
	Rows     int      `json:"rows"`
	Tasks    int      `json:"tasks"` // repetitions of a task count once
	Failed   int      `json:"failed"`
	Damaged  int      `json:"damaged"` // lines of the store
	Damage   string   `json:"damage,omitempty"`
}

// Comparison is what two nights differ in.
type Comparison struct {
	Format  string  `json:"format"`
	Old     Side    `json:"old"`
	New     Side    `json:"new"`
	Options Options `json:"options"`
	Matched int     `json:"matched"` // tasks in both
	// TimesJudged says whether differences of times count, TimesWhy why not.
	TimesJudged bool   `json:"times_judged"`
	TimesWhy    string `json:"times_why,omitempty"`
	// Noise is the relative standard deviation of times between repetitions,
	// nil if there are too few.
	Noise *float64 `json:"noise"`
	// Drift is the median ratio of times over all tasks: what all methods share
	// is more likely the machine's doing than theirs. Nil: no times.
	Drift *float64 `json:"drift"`
	// Groups has one entry a method and its settings, Findings the single
	// tasks; regressions first.
	Groups    []Group   `json:"groups"`
	Findings  []Finding `json:"findings"`
	Regressed bool      `json:"regressed"`

	noise noise // of times
}

// pair is a task that is in both nights, each with its repetitions.
type pair struct{ old, new []*sweep.Row }

// Key is the task without what may differ between nights. A percentage of an instance's
// range may be other bytes by rounding: of those the first four digits count, so that a range
// that has changed makes another task.
func Key(t sweep.Task) string {
	if strings.HasSuffix(t.MemoryName, "%") {
		t.Memory, _ = strconv.ParseFloat(strconv.FormatFloat(t.Memory, 'e', 3, 64), 64)
	}
	t.Version, t.Repetition, t.MemoryName = "", 0, ""
	return t.ID()
}

// Nights compares two nights. It is an error of the user's if no task is in
// both. O(n log n) in the rows.
func Nights(old, new *rows.Night, o Options) (*Comparison, error) {
	c := &Comparison{Format: Format, Options: o, Findings: []Finding{}, Groups: []Group{}}
	oldTasks, newTasks := byTask(old.Rows), byTask(new.Rows)
	c.Old, c.New = side(old, len(oldTasks)), side(new, len(newTasks))
	var pairs []pair
	for k, list := range oldTasks {
		if other, ok := newTasks[k]; ok {
			pairs = append(pairs, pair{list, other})
		} else {
			c.missing(list[0])
		}
	}
	for k, list := range newTasks {
		if _, ok := oldTasks[k]; !ok {
			c.add(list[0], Finding{Kind: New, Detail: "not in the older night"})
		}
	}
	c.Matched = len(pairs)
	if c.Matched == 0 {
		return nil, solve.InputError(fmt.Errorf("no task is in both nights: %s has %d, %s has %d; tasks match if problem, instance, limits, method and settings are the same", name(old, "the older"), len(oldTasks), name(new, "the newer"), len(newTasks)))
	}
	slices.SortFunc(pairs, func(a, b pair) int { return order(a.new[0], b.new[0]) })
	c.TimesJudged, c.TimesWhy = sameMachines(c.Old.Machines, c.New.Machines)
	c.contradictions(old, new)
	c.judge(pairs)
	c.Groups = c.groups(pairs)
	c.finish()
	return c, nil
}

func name(n *rows.Night, otherwise string) string {
	if n.Name == "" {
		return otherwise
	}
	return n.Name
}

// byTask gathers the repetitions of each task, in their order.
func byTask(list []*sweep.Row) map[string][]*sweep.Row {
	tasks := make(map[string][]*sweep.Row, len(list))
	for _, r := range list {
		k := Key(r.Task)
		tasks[k] = append(tasks[k], r)
	}
	for _, reps := range tasks {
		slices.SortFunc(reps, order)
	}
	return tasks
}

// order sorts rows as reports list them.
func order(a, b *sweep.Row) int {
	x, y := &a.Task, &b.Task
	return cmp.Or(
		cmp.Compare(x.Problem, y.Problem), cmp.Compare(x.Method, y.Method),
		cmp.Compare(rows.InstanceName(a), rows.InstanceName(b)), cmp.Compare(x.SHA256, y.SHA256),
		cmp.Compare(x.Memory, y.Memory), cmp.Compare(x.Bandwidth, y.Bandwidth), cmp.Compare(x.Processors, y.Processors),
		cmp.Compare(x.Seed, y.Seed), cmp.Compare(x.Repetition, y.Repetition),
		cmp.Compare(a.ID, b.ID),
	)
}

func side(n *rows.Night, tasks int) Side {
	s := Side{Sweep: n.Name, Versions: []string{}, Machines: []string{}, Rows: len(n.Rows), Tasks: tasks, Damaged: n.Damaged + n.Torn, Damage: n.Damage}
	for _, r := range n.Rows {
		if !slices.Contains(s.Versions, r.Task.Version) {
			s.Versions = append(s.Versions, r.Task.Version)
		}
		if e, ok := n.Environments[r.Environment]; ok {
			machine := fmt.Sprintf("%s, %s, %s at a time", e.CPU, platform.Count(e.Cores, "core"), platform.Count(max(e.Jobs, 1), "task"))
			if !slices.Contains(s.Machines, machine) {
				s.Machines = append(s.Machines, machine)
			}
		}
		if reason, _ := rows.Failure(r); reason != "" && reason != rows.NoPlan {
			s.Failed++
		}
	}
	slices.Sort(s.Versions)
	slices.Sort(s.Machines)
	return s
}

// sameMachines reports whether times of the nights can be compared. Nights that
// do not say where they ran are taken to be of the same machine.
func sameMachines(old, new []string) (bool, string) {
	if len(old) > 0 && len(new) > 0 && !slices.Equal(old, new) {
		return false, "the nights ran on different machines or with different numbers of tasks at a time: changes of times are shown, and no regressions"
	}
	return true, ""
}

// missing records a task that the newer night has no row of.
func (c *Comparison) missing(r *sweep.Row) {
	f := Finding{Kind: NotRun, Detail: "has no row in the newer night"}
	c.add(r, f)
	if c.Options.Partial {
		c.Findings[len(c.Findings)-1].Regression = false
	}
}

// add records a finding about the task of r.
func (c *Comparison) add(r *sweep.Row, f Finding) {
	f.Task, f.Name, f.Regression = r.Task, rows.InstanceName(r), f.Kind.Regression()
	if f.Old != nil && f.New != nil && *f.Old > 0 && f.Change == nil {
		change := *f.New / *f.Old - 1
		f.Change = &change
	}
	c.Findings = append(c.Findings, f)
}

// contradictions records the cases of which the rows of both nights together
// cannot all be true.
func (c *Comparison) contradictions(old, new *rows.Night) {
	facts := rows.FactsOf(old.Rows, new.Rows)
	for k := range facts {
		if x := facts.Contradiction(k); x != nil {
			f := Finding{Kind: Contradicts, Old: nil, New: x.Plan.Result.Objective, Detail: x.Detail, Against: &x.Against.Task}
			if x.Against.Result.Bound != nil {
				f.Old = &x.Against.Result.Bound.Value
			}
			c.add(x.Plan, f)
		}
	}
}

// finish puts regressions first, the gravest and largest before others.
func (c *Comparison) finish() {
	size := func(f *Finding) float64 {
		if f.Change == nil {
			return 0
		}
		return max(*f.Change, -*f.Change)
	}
	flag := func(b bool) int {
		if b {
			return 0
		}
		return 1
	}
	slices.SortFunc(c.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(flag(a.Regression), flag(b.Regression)),
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(size(&b), size(&a)),
			cmp.Compare(a.Task.Problem, b.Task.Problem), cmp.Compare(a.Task.Method, b.Task.Method),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Task.Memory, b.Task.Memory),
			cmp.Compare(Key(a.Task), Key(b.Task)),
		)
	})
	for _, f := range c.Findings {
		c.Regressed = c.Regressed || f.Regression
	}
	for _, g := range c.Groups {
		c.Regressed = c.Regressed || g.Regressed()
	}
}

// Counts returns how many findings there are of each kind, the gravest first;
// kinds without any are left out.
func (c *Comparison) Counts() (names []Kind, counts []int) {
	n := map[Kind]int{}
	for _, f := range c.Findings {
		n[f.Kind]++
	}
	for _, k := range kinds {
		if n[k] > 0 {
			names, counts = append(names, k), append(counts, n[k])
		}
	}
	return names, counts
}
