package results

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

// ComparisonFormat names the format of [Comparison].
const ComparisonFormat = "workbench.comparison/v2"

// Options are the rules by which a difference counts that users may change.
type Options struct {
	// Time is the growth of times from which it counts: with repetitions, or over all tasks of a
	// method. 0.1 is 10 %.
	Time float64 `json:"time"`
	// Alpha is the probability, over all methods, of seeing a change where there is none.
	Alpha float64 `json:"alpha"`
	// Partial says that tasks of the older night may be missing in the newer.
	Partial bool `json:"partial"`
}

// Defaults returns the rules where the user does not say.
func Defaults() Options { return Options{Time: 0.10, Alpha: 0.01} }

// Rules that users cannot change.
const (
	// exact is the relative difference that rounding explains. Runs that came to their end by
	// themselves repeat exactly, so any more is a change.
	exact = 1e-6
	// edge is the share of its limit above which a run may be stopped by noise.
	edge = 0.75
	// outlying is how many deviations a change of one task must be from none: normal noise does
	// that once in two million times.
	outlying = 5
	// pairAlpha is the p-value of the Mann–Whitney test from which repetitions differ.
	pairAlpha = 0.05
	// leastRepetitions is the number from which on repetitions, all of them alike, are no accident.
	leastRepetitions = 3
	// leastTasks of a method are tested together.
	leastTasks = 3
	// leastTimes is the same for what is never the same twice: the spread of fewer differences says nothing.
	leastTimes = 5
	// leastMethods is the number of methods from which on what all share is the machine's doing,
	// up to a factor of mostDrift.
	leastMethods = 5
	mostDrift    = 1.25
	// starvedShare of the wall time on a processor, or less: the run was starved.
	starvedShare = 0.5
	// shareLoss is the share of a processor, relative to the older night, below which a run that
	// looks at the clock is not comparable.
	shareLoss = 0.85
)

// TimesRule says from where on times count, for people.
func (o *Options) TimesRule() string {
	return fmt.Sprintf("times are processor times of single-threaded runs; they count from %+.3g %% on, with repetitions (Mann–Whitney, p "+
		"≤ %g)"+
		" or over a method (p ≤ %g), of one run against one from +100 %% and 1 s on", 100*o.Time, pairAlpha, o.Alpha)
}

// Kind says what a finding is. The order is that of importance.
type Kind string

// Kinds of findings; those before AtEdge are regressions. Those that begin with "method" are about
// all tasks of a method together.
const (
	Contradicts   Kind = "contradiction" // rows of the nights cannot all be true
	Fails         Kind = "fails"         // had a plan, a bound or a proof, and has none
	NotRun        Kind = "not-run"       // has a row in the older night only
	WorsePlan     Kind = "worse-plan"
	MethodPlans   Kind = "method-worse-plans"
	ProofLost     Kind = "proof-lost"
	WeakerBound   Kind = "weaker-bound"
	MethodBounds  Kind = "method-weaker-bounds"
	AllSlower     Kind = "all-slower" // all methods together
	MethodSlower  Kind = "method-slower"
	Slower        Kind = "slower"
	AtEdge        Kind = "at-edge"          // came to its end with nearly all its time, and is now stopped
	Starved       Kind = "starved"          // had too little of a processor to be compared
	OtherInstance Kind = "another-instance" // the instance of that name is another one now
	Recovered     Kind = "recovered"
	BetterPlan    Kind = "better-plan"
	ProofGained   Kind = "proof-gained"
	StrongerBound Kind = "stronger-bound"
	Faster        Kind = "faster"
	Added         Kind = "new" // has a row in the newer night only
)

// kinds are all kinds, the gravest first.
var kinds = []Kind{
	Contradicts, Fails, NotRun, WorsePlan, MethodPlans, ProofLost, WeakerBound, MethodBounds, AllSlower, MethodSlower, Slower,
	AtEdge, Starved, OtherInstance, Recovered, BetterPlan, ProofGained, StrongerBound, Faster, Added,
}

// Regression reports whether findings of the kind make a night worse.
func (k Kind) Regression() bool { return slices.Index(kinds, k) < slices.Index(kinds, AtEdge) }

// Finding is one difference between the nights.
type Finding struct {
	Kind       Kind `json:"kind"`
	Regression bool `json:"regression"`
	// Name is that of the task's instance; "" for a method, or all methods.
	Name string `json:"instance"`
	// Task is of the newer night, of the older if it is only there; of a method its first.
	Task    sweep.Task  `json:"task"`
	Method  string      `json:"method"` // with the settings by which it differs from others
	Old     *float64    `json:"old"`    // what is compared; nil: no number
	New     *float64    `json:"new"`
	Change  *float64    `json:"change"` // new/old − 1
	P       *float64    `json:"p"`      // nil: not tested
	Detail  string      `json:"detail"`
	Against *sweep.Task `json:"against,omitempty"` // the other row of a contradiction
}

// About says in a few words what the finding is about.
func (f *Finding) About() string {
	if f.Kind == AllSlower || f.Kind == OtherInstance {
		return cmp.Or(f.Name, "all methods")
	}
	s := f.Task.Problem + " " + f.Method
	if f.Name != "" {
		s += " on " + f.Name + " " + cmp.Or(f.Task.MemoryName, Memory(&f.Task))
	}
	if f.Change != nil {
		s += fmt.Sprintf(" (%+.3g %%)", 100**f.Change)
	}
	return s
}

// subject identifies what a finding is about, whatever the night.
func (f *Finding) subject() string {
	if f.Name == "" || f.Kind == OtherInstance {
		return f.Task.Problem + " " + f.Method + " " + f.Name
	}
	return Key(f.Task)
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
	// Drift is the median ratio of times over all tasks: what all methods share is more likely the
	// machine's doing than theirs. Nil: no times.
	Drift *float64 `json:"drift"`
	// Groups has one entry a method and its settings, Findings what changed; regressions first.
	Groups    []Group   `json:"groups"`
	Findings  []Finding `json:"findings"`
	Regressed bool      `json:"regressed"`

	noise noise // of the changes of times
}

// Group is all tasks of a method with the same settings.
type Group struct {
	Problem string `json:"problem"`
	Method  string `json:"method"` // with the settings by which it differs from others
	Tasks   int    `json:"tasks"`
	// Objective, Bound and Time are over the tasks that have the number in both nights.
	Objective Ratio `json:"objective"`
	Bound     Ratio `json:"bound"`
	Time      Ratio `json:"time"`
	// OldStopped and NewStopped count tasks whose times are not known.
	OldStopped int `json:"old_stopped"`
	NewStopped int `json:"new_stopped"`

	first *sweep.Row
}

// Ratio is the change of one measure over the tasks of a group: new over old.
type Ratio struct {
	Pairs int `json:"pairs"`
	// Mean is the geometric mean, Low and High its interval of 95 %, nil for fewer than five pairs.
	Mean *float64 `json:"mean"`
	Low  *float64 `json:"low"`
	High *float64 `json:"high"`
	// Worse and Better count pairs. Of a time that is known in one of the nights only, it is known
	// which is longer.
	Worse  int `json:"worse"`
	Better int `json:"better"`
	// P is the p-value of no change, by [shiftTest] after Holm's correction for all groups.
	P *float64 `json:"p"`
	// Verdict: worse, better, "~" if the pairs differ and it cannot be told, or "".
	Verdict string `json:"verdict"`

	differences []float64 // of logarithms, ±Inf where only the sign is known
	center      float64   // their median
	repeated    bool      // each of them is between repetitions
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

// ErrUnmatched is wrapped by the error of nights that have no task in common.
var ErrUnmatched = errors.New("no task is in both nights")

// Compare compares two nights. It is an error of the user's, which wraps [ErrUnmatched], if no task is in both.
// O(n log n) in the rows.
func Compare(old, new *Night, o Options) (*Comparison, error) {
	c := &Comparison{Format: ComparisonFormat, Options: o, Findings: []Finding{}, Groups: []Group{}}
	oldTasks, newTasks := byTask(old.Rows), byTask(new.Rows)
	c.Old, c.New = side(old, len(oldTasks)), side(new, len(newTasks))
	var pairs []pair
	for k, list := range oldTasks {
		if other, ok := newTasks[k]; ok {
			pairs = append(pairs, pair{list, other})
		}
	}
	if c.Matched = len(pairs); c.Matched == 0 {
		return nil, solve.InputError(fmt.Errorf("%w: %s has %d, %s has %d; tasks match if problem, instance, limits, method "+
			"and settings are the same", ErrUnmatched, cmp.Or(old.Name, "the older"), len(oldTasks),
			cmp.Or(new.Name, "the newer"), len(newTasks)))
	}
	slices.SortFunc(pairs, func(a, b pair) int { return order(a.new[0], b.new[0]) })
	c.unmatched(oldTasks, newTasks)
	c.TimesJudged = len(c.Old.Machines) == 0 || len(c.New.Machines) == 0 || slices.Equal(c.Old.Machines, c.New.Machines)
	if !c.TimesJudged {
		c.TimesWhy = "the nights ran on different machines or with different numbers of tasks at a time: changes of times are shown, and no " +
			"regressions"
	}
	c.contradictions(old, new)
	labels := c.groups(pairs)
	c.judge(pairs)
	for k := range c.Findings {
		f := &c.Findings[k]
		f.Method = cmp.Or(f.Method, labels[configurationOf(&f.Task)], f.Task.Method)
	}
	c.finish()
	return c, nil
}

// configurationOf is the configuration of a task, whatever the version of the program.
func configurationOf(t *sweep.Task) Configuration {
	who := ConfigurationOf(t)
	who.Version = ""
	return who
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
		cmp.Compare(InstanceName(a), InstanceName(b)), cmp.Compare(x.SHA256, y.SHA256),
		cmp.Compare(x.Memory, y.Memory), cmp.Compare(x.Bandwidth, y.Bandwidth), cmp.Compare(x.Processors, y.Processors),
		cmp.Compare(x.Seed, y.Seed), cmp.Compare(x.Repetition, y.Repetition),
		cmp.Compare(a.ID, b.ID),
	)
}

func side(n *Night, tasks int) Side {
	s := Side{
		Sweep: n.Name, Versions: n.Versions(), Machines: []string{}, Rows: len(n.Rows), Tasks: tasks, Damaged: n.Damaged + n.Torn,
		Damage: n.Damage,
	}
	for _, r := range n.Rows {
		if e, ok := n.Environments[r.Environment]; ok {
			machine := fmt.Sprintf("%s, %s, %s at a time", e.CPU, platform.Count(e.Cores, "core"), platform.Count(max(e.Jobs, 1), "task"))
			if !slices.Contains(s.Machines, machine) {
				s.Machines = append(s.Machines, machine)
			}
		}
		if reason, _ := Failure(r); reason != "" && reason != NoPlan {
			s.Failed++
		}
	}
	slices.Sort(s.Machines)
	return s
}

// unmatched records the tasks that are in one night only: one finding an instance that is another
// one under the same name, else one a task.
func (c *Comparison) unmatched(old, new map[string][]*sweep.Row) {
	digests := map[string]string{}
	for _, list := range new {
		digests[list[0].Task.Instance] = list[0].Task.SHA256
	}
	changed, count := map[string]*sweep.Row{}, map[string]int{}
	for _, k := range slices.Sorted(maps.Keys(old)) {
		r := old[k][0]
		digest, known := digests[r.Task.Instance]
		switch {
		case new[k] != nil:
		case known && digest != r.Task.SHA256:
			changed[r.Task.Instance] = r
			count[r.Task.Instance]++
		default:
			c.add(r, Finding{Kind: NotRun, Detail: "has no row in the newer night"})
			c.Findings[len(c.Findings)-1].Regression = !c.Options.Partial
		}
	}
	for name, r := range changed {
		c.add(r, Finding{Kind: OtherInstance, Detail: fmt.Sprintf("%s is another instance now: %s not compared", name,
			platform.Count(count[name], "task"))})
		c.Findings[len(c.Findings)-1].Name = name
	}
	for k, list := range new {
		if old[k] == nil && changed[list[0].Task.Instance] == nil {
			c.add(list[0], Finding{Kind: Added, Detail: "not in the older night"})
		}
	}
}

// add records a finding about the task of r.
func (c *Comparison) add(r *sweep.Row, f Finding) {
	f.Task, f.Name, f.Regression = r.Task, InstanceName(r), f.Kind.Regression()
	if f.Old != nil && f.New != nil && *f.Old > 0 && f.Change == nil {
		f.Change = number(*f.New / *f.Old - 1)
	}
	if f.Kind == Slower && !c.TimesJudged {
		f.Regression = false
	}
	c.Findings = append(c.Findings, f)
}

// contradictions records the cases of which the rows of both nights together cannot all be true.
func (c *Comparison) contradictions(old, new *Night) {
	facts := FactsOf(old.Rows, new.Rows)
	for k := range facts {
		if x := facts.Contradiction(k); x != nil {
			f := Finding{Kind: Contradicts, New: x.Plan.Result.Objective, Detail: x.Detail, Against: &x.Against.Task}
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
		return math.Abs(*f.Change)
	}
	slices.SortFunc(c.Findings, func(a, b Finding) int {
		return cmp.Or(
			cmp.Compare(bit(b.Regression), bit(a.Regression)),
			cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)),
			cmp.Compare(size(&b), size(&a)),
			cmp.Compare(a.Task.Problem, b.Task.Problem), cmp.Compare(a.Task.Method, b.Task.Method),
			cmp.Compare(a.Name, b.Name), cmp.Compare(a.Task.Memory, b.Task.Memory),
			cmp.Compare(Key(a.Task), Key(b.Task)),
		)
	})
	c.Regressed = slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Regression })
}

// Versions is the range of versions that a comparison is about: "abc..def".
func (c *Comparison) Versions() string { return listed(c.Old.Versions) + ".." + listed(c.New.Versions) }

// Verdict is one line that says what happened: the number of findings of each kind, and the first
// five regressions by name.
func (c *Comparison) Verdict() string {
	worse, others := map[Kind]int{}, map[Kind]int{}
	var names, parts []string
	for k := range c.Findings {
		if f := &c.Findings[k]; f.Regression {
			worse[f.Kind]++
			names = append(names, fmt.Sprintf("%s %s", f.Kind, f.About()))
		} else {
			others[f.Kind]++
		}
	}
	if len(names) > 0 {
		parts = append(parts, "REGRESSION "+c.Versions()+": "+summed(counts(kinds, worse), names))
	}
	if remarks := counts(kinds, others); len(remarks) > 0 {
		parts = append(parts, "no regression: "+strings.Join(remarks, ", "))
	}
	return cmp.Or(strings.Join(parts, "; "), "no regression")
}

// counts writes the numbers that are not 0, in the order of the keys.
func counts[K ~string](keys []K, n map[K]int) (parts []string) {
	for _, k := range keys {
		if n[k] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n[k], k))
		}
	}
	return parts
}

// named is the number of names in a verdict.
const named = 5

// summed writes what a verdict counts, and the first of its names.
func summed(counts, names []string) string {
	s := strings.Join(counts, ", ") + ": " + strings.Join(names[:min(len(names), named)], "; ")
	if n := len(names) - named; n > 0 {
		s += fmt.Sprintf("; and %d more", n)
	}
	return s
}
