package results

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/model/proof"
)

// Report is what the page shows.
type Report struct {
	Name              string
	Versions          []string
	Machines          []Machine
	Started, Finished time.Time // first and last of the rows
	Rows              int
	Failed, NoPlan    int // rows: see [Method]
	Missing           int // tasks of the list that have no row
	Damaged, Torn     int // lines of the store
	Problems          []*Problem
	Contradictions    []ReportedContradiction
	// Comparison is with an earlier night; nil: none.
	Comparison *Comparison
	unmatched  string   // why there is none although an earlier night was given; "": none was
	Nights     []Column // side by side, the oldest first; nil: only this one

	runs []*Run // of all problems, as the page numbers them
	byID map[string]*Run
}

// Machine is where rows were made.
type Machine struct {
	sweep.Environment
	Rows int
}

// ReportedContradiction is a contradiction between runs.
type ReportedContradiction struct {
	Detail        string
	Plan, Against *Run
}

// Problem is one problem's part of the report.
type Problem struct {
	Index     int
	Name      string
	Title     string
	Objective string
	Word      string // "period" or "makespan"
	Methods   []*Method
	Cases     []*Case
	Failures  []Failures
	Tradeoffs []*Tradeoff
}

// Case is an instance under limits, and what is known of it.
type Case struct {
	Index    int
	Instance string
	Limits   string
	// Network is that of the zoo, whatever its parameters; of a file, the instance.
	Network string
	// MemoryName is the memory as the specification has it: a percentage, or a size.
	MemoryName string
	Key        sweep.Task // see [CaseOf]
	// Bound is the run that proved the best bound, Best the one with the best
	// plan, Infeasible one that proved that there is none; nil: none did.
	Bound, Best, Infeasible *Run
	Cells                   []*Cell // one a method, in its order
}

// Cell is what a method did on a case: the medians over seeds and repetitions,
// in which a run that failed counts as infinite.
type Cell struct {
	Runs      []*Run
	Objective float64 // +Inf: no plan
	Gap       float64 // NaN: no plan or no bound
	Ratio     float64 // bound of the method over the best bound; NaN: none
	Time      float64 // seconds
	Stopped   bool    // Time is only where it was stopped
	Won       bool    // no method has a better objective
	// Outcome is that of the run in the middle: a status, a reason, or "not-run";
	// empty: nobody asked for it.
	Outcome string
}

// notRun is the outcome of a method on a case that it was to do, of which there is
// no row.
const notRun = "not-run"

// asked reports whether the method was to do the case.
func (cell *Cell) asked() bool { return cell.Outcome != "" }

// Run is one row.
type Run struct {
	*sweep.Row
	Index   int
	Problem *Problem
	Method  *Method
	Case    *Case
	Gap     *float64 // to the best bound of the case
	Reason  string   // of a failure; "" if it has what was asked for
	Detail  string
}

// Outcome is the status, or why the run failed.
func (r *Run) Outcome() string { return Solution(r.Row) }

// Command does the run again.
func (r *Run) Command() string { return Command(&r.Task) }

// Method is a contestant and its summary.
type Method struct {
	Index int
	Label string
	Kind  solve.Kind
	// Runs, and how many of them have a plan, a proof, the proof that there is
	// no plan, ended without a plan or a bound, did not end as they should, or
	// were stopped by their limit with something to show.
	Runs, Plans, Proofs, Infeasible, NoPlan, Failed, Stopped int
	// Certified counts runs with a bound that was checked in exact arithmetic,
	// Claimed those in which a solver says something that nobody checked.
	Certified, Claimed int
	// Spread is that of times over seeds and repetitions; nil: one run a case.
	Spread *Spread
	// Cases are those that it was to do, NotRun those of them without a row.
	Cases, NotRun int
	// Gaps are those of all cases with a plan and a bound, increasing.
	Gaps []float64
	// ToBest is the geometric mean of the objectives over the best plan's, of
	// the cases with a plan.
	ToBest float64
	// Wins counts cases on which no method has a better plan, Alone those on
	// which all others have worse ones.
	Wins, Alone int
	// BoundRatio is the geometric mean of its bounds over the best ones, Bounds
	// the number of cases.
	BoundRatio float64
	Bounds     int
	// MeanTime is the shifted geometric mean of the times of cases that it came
	// to the end of, PAR10 the penalised mean of all runs.
	MeanTime, PAR10 float64
	// objectives and times by case for the performance profiles; NaN: it was not to
	// do the case.
	objectives, times []float64
}

// Failures are the runs of a method that failed for the same reason.
type Failures struct {
	Method *Method
	Reason string
	Runs   []*Run
	Detail string // of the first
}

// equal is the relative difference up to which plans are as good as each other.
const equal = 1e-6

// timeShift is that of the means of times, and the time below which times are
// the same in profiles, in seconds.
const timeShift = 1e-3

// near is how close to the best plan a method has to come in profiles of time.
const near = 0.01

// NewReport reads a night. O(n log n) in the rows, but cases times methods.
func NewReport(n *Night, against *Comparison) *Report {
	r := &Report{Name: n.Name, Rows: len(n.Rows), Damaged: n.Damaged, Torn: n.Torn, Missing: len(n.Missing()), Comparison: against}
	r.origins(n)
	facts := FactsOf(n.Rows)
	byProblem := map[string][]*sweep.Row{}
	for _, row := range n.Rows {
		byProblem[row.Task.Problem] = append(byProblem[row.Task.Problem], row)
	}
	for _, known := range catalog.Problems() {
		if list := byProblem[known.Name]; list != nil {
			r.add(&Problem{Name: known.Name, Title: known.Title, Objective: known.Objective, Word: known.Word}, list, facts, n)
			delete(byProblem, known.Name)
		}
	}
	var unknown []string // of newer or older versions
	for name := range byProblem {
		unknown = append(unknown, name)
	}
	slices.Sort(unknown)
	for _, name := range unknown {
		r.add(&Problem{Name: name, Title: name, Word: "objective"}, byProblem[name], facts, n)
	}
	return r
}

// origins notes where, when and by which versions the rows were made.
func (r *Report) origins(n *Night) {
	count := map[string]int{}
	for _, row := range n.Rows {
		if !slices.Contains(r.Versions, row.Task.Version) {
			r.Versions = append(r.Versions, row.Task.Version)
		}
		count[row.Environment]++
		if r.Started.IsZero() || row.Started.Before(r.Started) {
			r.Started = row.Started
		}
		if row.Finished.After(r.Finished) {
			r.Finished = row.Finished
		}
	}
	slices.Sort(r.Versions)
	for digest, rows := range count {
		e, ok := n.Environments[digest]
		if !ok {
			e = sweep.Environment{Digest: digest}
		}
		r.Machines = append(r.Machines, Machine{e, rows})
	}
	slices.SortFunc(r.Machines, func(a, b Machine) int { return cmp.Compare(a.Digest, b.Digest) })
}

func (r *Report) add(p *Problem, list []*sweep.Row, facts Facts, n *Night) {
	p.Index = len(r.Problems)
	r.Problems = append(r.Problems, p)
	p.gather(r, list, n)
	runOf := make(map[*sweep.Row]*Run, len(list))
	for _, runs := range r.runs[len(r.runs)-len(list):] {
		runOf[runs.Row] = runs
	}
	for _, c := range p.Cases {
		c.fill(facts, runOf)
		if x := facts.Contradiction(c.Key); x != nil {
			r.Contradictions = append(r.Contradictions, ReportedContradiction{x.Detail, runOf[x.Plan], runOf[x.Against]})
		}
	}
	for _, m := range p.Methods {
		p.summarise(m)
	}
	p.wins()
	p.failures()
	p.tradeoffs()
	for _, m := range p.Methods {
		r.Failed, r.NoPlan = r.Failed+m.Failed, r.NoPlan+m.NoPlan
	}
}

// distinguish names the cases of different instances that have one name by what the specification calls them.
func distinguish(cases map[sweep.Task]*Case, specs map[*Case]string) {
	digests := map[string]string{}
	shared := map[string]bool{}
	for key, c := range cases {
		if known, ok := digests[c.Instance]; ok && known != key.SHA256 {
			shared[c.Instance] = true
		}
		digests[c.Instance] = key.SHA256
	}
	for _, c := range cases {
		if shared[c.Instance] {
			c.Instance = specs[c]
		}
	}
}

// gather sorts the rows of a problem into cases and methods. Where nothing says
// what was to be done, every method was to do every case.
func (p *Problem) gather(r *Report, list []*sweep.Row, n *Night) {
	var contestants []Configuration
	methods := map[Configuration]*Method{}
	cases, specs := map[sweep.Task]*Case{}, map[*Case]string{}
	for _, row := range list {
		who := ConfigurationOf(&row.Task)
		if methods[who] == nil {
			methods[who] = &Method{Kind: kindOf(row)}
			contestants = append(contestants, who)
		}
		if row.Result != nil {
			methods[who].Kind = row.Result.Kind
		}
		key := CaseOf(&row.Task)
		if cases[key] == nil || row.Result != nil && InstanceName(row) < cases[key].Instance {
			c := &Case{Key: key, Instance: InstanceName(row), Limits: Limits(&row.Task), MemoryName: cmp.Or(row.Task.MemoryName, Memory(&row.Task))}
			c.Network = c.Instance
			if name, zoo := strings.CutPrefix(row.Task.Instance, "zoo:"); zoo {
				c.Network, _, _ = strings.Cut(name, "?")
			}
			cases[key], specs[c] = c, row.Task.Instance
		}
	}
	distinguish(cases, specs)
	labels := Labels(contestants)
	for who, m := range methods {
		m.Label = labels[who]
		p.Methods = append(p.Methods, m)
	}
	place := inCatalogue(p.Name)
	slices.SortFunc(p.Methods, func(a, b *Method) int {
		return cmp.Or(cmp.Compare(place(a.Label), place(b.Label)), cmp.Compare(a.Label, b.Label))
	})
	for _, c := range cases {
		p.Cases = append(p.Cases, c)
	}
	slices.SortFunc(p.Cases, func(a, b *Case) int {
		return cmp.Or(
			cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Key.SHA256, b.Key.SHA256),
			cmp.Compare(a.Key.Processors, b.Key.Processors), cmp.Compare(a.Key.Bandwidth, b.Key.Bandwidth),
			cmp.Compare(a.Key.MemoryModel, b.Key.MemoryModel), cmp.Compare(a.Key.WeightCopies, b.Key.WeightCopies),
			cmp.Compare(strconv.FormatBool(a.Key.Replicas), strconv.FormatBool(b.Key.Replicas)),
			cmp.Compare(a.Key.MicroBatches, b.Key.MicroBatches), cmp.Compare(a.Key.Placement, b.Key.Placement),
			cmp.Compare(a.Key.Minimised, b.Key.Minimised), cmp.Compare(a.Key.Model, b.Key.Model),
			cmp.Compare(a.Key.Memory, b.Key.Memory),
		)
	})
	for k, m := range p.Methods {
		m.Index = k
	}
	for k, c := range p.Cases {
		c.Index = k
		c.Cells = make([]*Cell, len(p.Methods))
		for m := range p.Methods {
			c.Cells[m] = &Cell{}
			if n.Tasks == nil {
				c.Cells[m].Outcome = notRun
			}
		}
	}
	for _, t := range n.Missing() {
		c, m := cases[CaseOf(&t)], methods[ConfigurationOf(&t)]
		if c != nil && m != nil {
			c.Cells[m.Index].Outcome = notRun
		}
	}
	p.addRuns(r, list, cases, methods)
}

// addRuns puts every row into its cell, and all of them in the order of cases,
// methods, seeds and repetitions.
func (p *Problem) addRuns(r *Report, list []*sweep.Row, cases map[sweep.Task]*Case, methods map[Configuration]*Method) {
	first := len(r.runs)
	for _, row := range list {
		c := cases[CaseOf(&row.Task)]
		runs := &Run{Row: row, Problem: p, Method: methods[ConfigurationOf(&row.Task)], Case: c}
		runs.Reason, runs.Detail = Failure(row)
		c.Cells[runs.Method.Index].Runs = append(c.Cells[runs.Method.Index].Runs, runs)
		r.runs = append(r.runs, runs)
	}
	mine := r.runs[first:]
	slices.SortFunc(mine, func(a, b *Run) int {
		return cmp.Or(
			cmp.Compare(a.Case.Index, b.Case.Index), cmp.Compare(a.Method.Index, b.Method.Index),
			cmp.Compare(a.Task.Seed, b.Task.Seed), cmp.Compare(a.Task.Repetition, b.Task.Repetition), cmp.Compare(a.ID, b.ID),
		)
	})
	for k, runs := range mine {
		runs.Index = first + k
	}
	for _, c := range p.Cases {
		for _, cell := range c.Cells {
			slices.SortFunc(cell.Runs, func(a, b *Run) int { return cmp.Compare(a.Index, b.Index) })
		}
	}
}

// inCatalogue returns the place of a method in the table of methods; those that
// are not there come last.
func inCatalogue(problem string) func(label string) int {
	var names []string
	if p, err := catalog.FindProblem(problem); err == nil {
		for _, m := range p.Methods() {
			names = append(names, m.Name)
		}
	}
	return func(label string) int {
		name, _, _ := strings.Cut(label, " ") // without the settings in brackets
		if k := slices.Index(names, name); k >= 0 {
			return k
		}
		return len(names)
	}
}

// kindOf is the kind of method of a row, by the catalogue if it has no result.
func kindOf(row *sweep.Row) solve.Kind {
	if row.Result != nil {
		return row.Result.Kind
	}
	if p, err := catalog.FindProblem(row.Task.Problem); err == nil {
		if m, err := catalog.FindMethod(p, row.Task.Method); err == nil {
			return m.Kind
		}
	}
	return ""
}

// fill fills in what the rows of the case have proved together, and with it the
// cells.
func (c *Case) fill(facts Facts, runOf map[*sweep.Row]*Run) {
	c.Bound, c.Best = runOf[facts.Bound(c.Key)], runOf[facts.Fastest(c.Key)]
	for _, cell := range c.Cells {
		for _, runs := range cell.Runs {
			if x, ok := Objective(runs.Row); ok && c.Bound != nil {
				gap := Gap(x, c.Bound.Result.Bound.Value)
				runs.Gap = &gap
			}
			if runs.Result != nil && runs.Result.Status == solve.Infeasible && c.Infeasible == nil {
				c.Infeasible = runs
			}
		}
		cell.takeMedians(c)
	}
}

// takeMedians takes the medians of the runs of the cell.
func (cell *Cell) takeMedians(c *Case) {
	cell.Objective, cell.Gap, cell.Ratio, cell.Time = math.Inf(1), math.NaN(), math.NaN(), math.NaN()
	n := len(cell.Runs)
	if n == 0 {
		return
	}
	var objectives, times, bounds []float64
	for _, runs := range cell.Runs {
		x, ok := Objective(runs.Row)
		if !ok {
			x = math.Inf(1)
		}
		objectives = append(objectives, x)
		times = append(times, Time(runs.Row))
		if Stopped(runs.Row) {
			cell.Stopped = true
		}
		if b, ok := Bound(runs.Row); ok {
			bounds = append(bounds, b.Value)
		}
	}
	cell.Objective, cell.Time = median(objectives), median(times)
	if c.Bound != nil {
		best := c.Bound.Result.Bound.Value
		if !math.IsInf(cell.Objective, 1) {
			cell.Gap = Gap(cell.Objective, best)
		}
		if len(bounds) > 0 && best > 0 {
			cell.Ratio = median(bounds) / best
		}
	}
	middle := slices.Clone(cell.Runs)
	slices.SortStableFunc(middle, func(a, b *Run) int { return cmp.Compare(rank(a), rank(b)) })
	cell.Outcome = middle[n/2].Outcome()
}

// rank orders runs from the best to the worst outcome.
func rank(r *Run) int {
	if r.Reason != "" {
		return 4
	}
	return slices.Index([]solve.Status{solve.Optimal, solve.Infeasible, solve.Feasible, solve.Limit}, r.Result.Status)
}

func (p *Problem) summarise(m *Method) {
	var all []timedRun
	var mine []*sweep.Row
	var times, toBest, bounds []float64
	for _, c := range p.Cases {
		cell := c.Cells[m.Index]
		if !cell.asked() {
			m.objectives, m.times = append(m.objectives, math.NaN()), append(m.times, math.NaN())
			continue
		}
		m.Cases++
		m.objectives = append(m.objectives, cell.Objective)
		if len(cell.Runs) == 0 {
			m.NotRun++
		}
		for _, runs := range cell.Runs {
			m.count(runs)
			mine = append(mine, runs.Row)
			all = append(all, timedRun{Time(runs.Row), !Stopped(runs.Row), runs.Task.TimeLimit})
		}
		if len(cell.Runs) > 0 && !cell.Stopped {
			times = append(times, cell.Time)
		}
		if !math.IsNaN(cell.Gap) {
			m.Gaps = append(m.Gaps, cell.Gap)
		}
		if !math.IsInf(cell.Objective, 1) && *c.Best.Result.Objective > 0 {
			toBest = append(toBest, cell.Objective / *c.Best.Result.Objective)
		}
		if !math.IsNaN(cell.Ratio) {
			bounds = append(bounds, cell.Ratio)
		}
		m.times = append(m.times, reached(cell, c))
	}
	m.Spread = SpreadOf(mine)
	slices.Sort(m.Gaps)
	m.ToBest = shiftedGeometricMean(toBest, 0)
	m.BoundRatio, m.Bounds = math.NaN(), len(bounds)
	if len(bounds) > 0 && slices.Min(bounds) > 0 {
		m.BoundRatio = shiftedGeometricMean(bounds, 0)
	}
	m.MeanTime, m.PAR10 = shiftedGeometricMean(times, timeShift), par10(all)
}

// reached returns the time of a cell whose plan is near the best of the case,
// else +Inf.
func reached(cell *Cell, c *Case) float64 {
	if math.IsInf(cell.Objective, 1) || cell.Objective > (1+near)**c.Best.Result.Objective {
		return math.Inf(1)
	}
	return max(cell.Time, timeShift)
}

func (m *Method) count(r *Run) {
	m.Runs++
	if _, ok := Objective(r.Row); ok {
		m.Plans++
	}
	if Proved(r.Row) {
		m.Proofs++
	}
	if b, ok := Bound(r.Row); ok && b.Proof == proof.Certified {
		m.Certified++
	}
	if r.Result != nil && len(r.Result.Claims) > 0 {
		m.Claimed++
	}
	switch {
	case r.Reason == NoPlan:
		m.NoPlan++
	case r.Reason != "":
		m.Failed++
	case r.Result.Status == solve.Infeasible:
		m.Infeasible++
	}
	if r.Reason == "" && Stopped(r.Row) {
		m.Stopped++
	}
}

// Quantile returns the q-quantile of the gaps.
func (m *Method) Quantile(q float64) float64 { return quantile(m.Gaps, q) }

// Spreads reports whether a method of the problem has several runs of a case.
func (p *Problem) Spreads() bool {
	return slices.ContainsFunc(p.Methods, func(m *Method) bool { return m.Spread != nil })
}

// OnlyBounds reports whether the method makes bounds and no plans.
func (m *Method) OnlyBounds() bool { return m.Kind == solve.Relaxed }

// wins counts on how many cases each method has the best plan.
func (p *Problem) wins() {
	for _, c := range p.Cases {
		least := math.Inf(1)
		for _, cell := range c.Cells {
			least = min(least, cell.Objective)
		}
		if math.IsInf(least, 1) {
			continue
		}
		var winners []*Method
		for k, cell := range c.Cells {
			if cell.Won = cell.Objective <= least*(1+equal); cell.Won {
				winners = append(winners, p.Methods[k])
			}
		}
		for _, m := range winners {
			m.Wins++
			if len(winners) == 1 {
				m.Alone++
			}
		}
	}
}

// failures gathers what failed, by method and reason.
func (p *Problem) failures() {
	for _, m := range p.Methods {
		by := map[string]*Failures{}
		var reasons []string
		for _, c := range p.Cases {
			for _, runs := range c.Cells[m.Index].Runs {
				if runs.Reason == "" {
					continue
				}
				if by[runs.Reason] == nil {
					by[runs.Reason] = &Failures{Method: m, Reason: runs.Reason, Detail: runs.Detail}
					reasons = append(reasons, runs.Reason)
				}
				by[runs.Reason].Runs = append(by[runs.Reason].Runs, runs)
			}
		}
		slices.Sort(reasons)
		for _, reason := range reasons {
			p.Failures = append(p.Failures, *by[reason])
		}
	}
}
