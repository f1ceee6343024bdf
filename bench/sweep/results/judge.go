package results

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"workbench/bench/sweep"
	"workbench/model/platform"
)

// measure is one of the numbers that rows are compared by.
type measure struct {
	value func(*sweep.Row) (float64, bool)
	// up is 1 if more is worse, −1 if less is.
	up int
	// repeats says that runs that end by themselves have the same value always.
	repeats bool
	// threshold is the least relative change that counts with repetitions or over a method, alone
	// that of one run, least the absolute one.
	threshold, alone, least float64
	// shift is added before logarithms are taken.
	shift float64
	// kinds of findings about a task that got worse or better, and about a method that got worse.
	worse, better, method Kind
	name                  string
}

// about reports whether findings of the kind are about the measure.
func (m *measure) about(k Kind) bool { return k == m.worse || k == m.better || k == m.method }

func objectives() measure {
	return measure{
		value: Objective, up: 1, repeats: true, threshold: 0.01, alone: 0.05,
		worse: WorsePlan, better: BetterPlan, method: MethodPlans, name: "plan",
	}
}

func bounds() measure {
	value := func(r *sweep.Row) (float64, bool) {
		if b, ok := Bound(r); ok {
			return b.Value, true
		}
		return 0, false
	}
	return measure{
		value: value, up: -1, repeats: true, threshold: 0.01, alone: 0.05,
		worse: WeakerBound, better: StrongerBound, method: MethodBounds, name: "bound",
	}
}

func (o *Options) times() measure {
	value := func(r *sweep.Row) (float64, bool) { return Time(r), !Stopped(r) }
	return measure{
		value: value, up: 1, threshold: o.Time, alone: 1, least: 1, shift: timeShift,
		worse: Slower, better: Faster, method: MethodSlower, name: "time",
	}
}

// values returns the values of the rows that have one; none if that is the minority,
// whose values say nothing of the others.
func (m *measure) values(list []*sweep.Row) (values []float64) {
	for _, r := range list {
		if v, ok := m.value(r); ok {
			values = append(values, v)
		}
	}
	if 2*len(values) < len(list) {
		return nil
	}
	return values
}

func (m *measure) log(v float64) float64 {
	return math.Log(max(v+m.shift, math.SmallestNonzeroFloat64))
}

// difference returns the logarithm of the ratio of the medians, new over old; what rounding leaves
// is no difference. ok is false if a night has no value.
func (m *measure) difference(p pair) (d float64, ok bool) {
	old, new := m.values(p.old), m.values(p.new)
	if len(old) == 0 || len(new) == 0 {
		return 0, false
	}
	if d = m.log(median(new)) - m.log(median(old)); math.Abs(d) < 1e-9 {
		d = 0
	}
	return d, true
}

// noise is the standard deviation of the changes of a measure from their median, by the decade of
// the value, since short times are noisier than long ones, and of all.
type noise struct {
	decades map[int][]float64
	all     []float64
	center  float64
	// repeated are the changes of tasks with repetitions in both nights, whose medians differ less.
	repeated []float64
}

// leastDecade is how many changes a decade needs to say what its noise is.
const leastDecade = 10

func (m measure) noiseOf(pairs []pair) noise {
	n := noise{decades: map[int][]float64{}}
	for _, p := range pairs {
		if d, ok := m.difference(p); ok && !m.constant(p) {
			k := m.decade(median(m.values(p.old)))
			n.decades[k], n.all = append(n.decades[k], d), append(n.all, d)
			if p.repeated() {
				n.repeated = append(n.repeated, d)
			}
		}
	}
	if len(n.all) > 0 {
		n.center = median(n.all)
	}
	return n
}

// repeated reports whether both nights have enough repetitions.
func (p pair) repeated() bool {
	return len(p.old) >= leastRepetitions && len(p.new) >= leastRepetitions
}

// decade returns the decade of a value of measures that have a shift; else all are of one.
func (m *measure) decade(v float64) int {
	if m.shift == 0 {
		return 0
	}
	return int(math.Floor(math.Log10(v + m.shift)))
}

// deviation returns the deviation of values of a decade, of all if it has too few.
func (n *noise) deviation(decade int) float64 {
	if d := n.decades[decade]; len(d) >= leastDecade {
		return deviation(d, n.center)
	}
	return deviation(n.all, n.center)
}

// count returns how many of the rows are so.
func count(list []*sweep.Row, is func(*sweep.Row) bool) (n int) {
	for _, r := range list {
		n += bit(is(r))
	}
	return n
}

// most reports whether more than half of the rows are so.
func most(list []*sweep.Row, is func(*sweep.Row) bool) bool { return 2*count(list, is) > len(list) }

func failed(r *sweep.Row) bool { reason, _ := Failure(r); return reason != "" }

// broken reports a failure that no limit explains.
func broken(r *sweep.Row) bool {
	reason, _ := Failure(r)
	return reason != "" && reason != NoPlan && reason != sweep.OutOfTime
}

// share returns the median share of their wall time that runs were on a processor; NaN if unknown.
func share(list []*sweep.Row) float64 {
	var shares []float64
	for _, r := range list {
		if r.Result != nil && r.Result.WallTime > 0 && r.Result.CPUTime > 0 {
			shares = append(shares, r.Result.CPUTime/r.Result.WallTime)
		}
	}
	return median(shares)
}

// starved reports whether what the new runs have to show depends on the clock, and they had so much
// less of a processor than the old ones that less is no fault of theirs.
func (p pair) starved() bool {
	limit := p.new[0].Task.TimeLimit
	long := func(r *sweep.Row) bool { return r.Result != nil && r.Result.WallTime >= limit/4 }
	if limit == 0 || !most(p.new, long) {
		return false
	}
	now, before := share(p.new), share(p.old)
	return now < starvedShare || now < shareLoss*before
}

// comparable reports whether the numbers of the pair may enter those of its method.
func (p pair) comparable() bool { return !p.starved() && !(pair{p.new, p.old}).starved() }

// groups compares the methods over all their tasks, and returns their names.
func (c *Comparison) groups(pairs []pair) map[Configuration]string {
	members := map[Configuration][]pair{}
	var list []Configuration
	for _, p := range pairs {
		who := configurationOf(&p.new[0].Task)
		if members[who] == nil {
			list = append(list, who)
		}
		members[who] = append(members[who], p)
	}
	labels := Labels(list)
	times := c.Options.times()
	c.noise = times.noiseOf(pairs)
	if len(c.noise.all) > 0 {
		c.Drift = number(math.Exp(c.noise.center))
	}
	shared := 0.0
	if len(list) >= leastMethods && c.Drift != nil {
		shared = c.noise.center
	}
	for _, who := range list {
		g := Group{Problem: who.Problem, Method: labels[who], Tasks: len(members[who]), first: members[who][0].new[0]}
		for _, p := range members[who] {
			g.OldStopped, g.NewStopped = g.OldStopped+bit(most(p.old, Stopped)), g.NewStopped+bit(most(p.new, Stopped))
		}
		g.Objective, g.Bound, g.Time = ratio(members[who], objectives()), ratio(members[who], bounds()), ratio(members[who], times)
		c.Groups = append(c.Groups, g)
	}
	c.decide(func(g *Group) *Ratio { return &g.Objective }, objectives(), exact, noise{}, 0)
	c.decide(func(g *Group) *Ratio { return &g.Bound }, bounds(), exact, noise{}, 0)
	c.decide(func(g *Group) *Ratio { return &g.Time }, times, c.Options.Time, c.noise, shared)
	if shared > math.Log(mostDrift) && c.TimesJudged {
		c.add(c.Groups[0].first, Finding{
			Kind: AllSlower, Change: number(math.Exp(shared) - 1),
			Detail: fmt.Sprintf("times of all methods together ×%.3f: the machine, or what methods share", math.Exp(shared)),
		})
		c.Findings[len(c.Findings)-1].Name = ""
	}
	slices.SortStableFunc(c.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(bit(b.Regressed()), bit(a.Regressed())), cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Method, b.Method))
	})
	return labels
}

// Regressed reports whether a measure of the group got worse.
func (g *Group) Regressed() bool {
	return g.Objective.Verdict == "worse" || g.Bound.Verdict == "worse" || g.Time.Verdict == "worse"
}

// ratio compares one measure over pairs, each by its medians.
func ratio(pairs []pair, m measure) (r Ratio) {
	r.repeated = !slices.ContainsFunc(pairs, func(p pair) bool { return !p.repeated() })
	var known []float64
	for _, p := range pairs {
		if !p.comparable() {
			continue
		}
		d, both := m.difference(p)
		switch {
		case both:
			known = append(known, d)
		case m.repeats || most(p.old, failed) || most(p.new, failed):
			// No plan or bound, or no run, is no longer time.
		case len(m.values(p.old)) > 0:
			r.differences = append(r.differences, math.Inf(1))
		case len(m.values(p.new)) > 0:
			r.differences = append(r.differences, math.Inf(-1))
		}
	}
	r.Pairs, r.differences = len(known), append(r.differences, known...)
	r.Mean, r.Low, r.High = logMean(known)
	for _, d := range r.differences {
		r.Worse, r.Better = r.Worse+bit(d*float64(m.up) > 0), r.Better+bit(d*float64(m.up) < 0)
	}
	return r
}

// decide sets the verdicts of one measure over all groups: a geometric mean and a median that
// changed by more than the threshold, both beyond what all methods share, and a test that, adjusted
// for all groups, says that it is no chance.
func (c *Comparison) decide(of func(*Group) *Ratio, m measure, threshold float64, n noise, shared float64) {
	var ps []float64
	var tested []*Group
	all, repeated, fewest := deviation(n.all, n.center), deviation(n.repeated, n.center), leastTasks
	if !m.repeats {
		fewest = leastTimes
	}
	for k := range c.Groups {
		r := of(&c.Groups[k])
		if len(r.differences) >= leastTasks && r.Worse+r.Better > 0 {
			r.Verdict = "~" // until a test decides
		}
		if len(r.differences) >= fewest {
			apart := make([]float64, len(r.differences))
			for i, d := range r.differences {
				apart[i] = d - shared
			}
			sigma := all
			if r.repeated && len(n.repeated) >= leastDecade {
				sigma = repeated
			}
			center, p := shiftTest(apart, sigma)
			r.center = center
			tested, ps = append(tested, &c.Groups[k]), append(ps, p)
		}
	}
	for k, p := range holm(ps) {
		g, r := tested[k], of(tested[k])
		r.P = &p
		if p > c.Options.Alpha || r.Mean == nil {
			continue
		}
		least, up := math.Log1p(threshold), float64(m.up)
		change := up * (math.Log(*r.Mean) - shared)
		switch middle := up * r.center; {
		case m.method == MethodSlower && !c.TimesJudged:
		case change > least && (middle > least || m.repeats):
			r.Verdict = "worse"
			c.add(g.first, Finding{
				Kind: m.method, Change: number(*r.Mean - 1), P: r.P,
				Detail: fmt.Sprintf("%ss of %s ×%.4f", m.name, platform.Count(len(r.differences), "task"), *r.Mean),
			})
			f := &c.Findings[len(c.Findings)-1]
			f.Name, f.Method = "", g.Method
		case change < -least:
			r.Verdict = "better"
		}
	}
}

// judge applies the rules to each pair of tasks.
func (c *Comparison) judge(pairs []pair) {
	times := c.Options.times()
	noises := []noise{objectives().noiseOf(pairs), bounds().noiseOf(pairs), c.noise}
	for _, p := range pairs {
		if c.failure(p) {
			continue
		}
		lost := c.proof(p)
		excuse := c.excuse(p)
		c.change(p, objectives(), noises[0], excuse)
		c.change(p, bounds(), noises[1], excuse)
		clocked := Kind("") // a run that the clock ended has the time that the machine gave it
		if !p.comparable() {
			clocked = Starved
		}
		if !c.change(p, times, noises[2], clocked) && !lost {
			c.stopped(p, excuse)
		}
	}
}

// excuse returns Starved or AtEdge where noise explains that the new runs show less, else "".
func (c *Comparison) excuse(p pair) Kind {
	switch {
	case p.starved():
		return Starved
	case c.edge(p):
		return AtEdge
	}
	return ""
}

// excused is kind, or what excuses it.
func excused(kind, excuse Kind) Kind {
	if excuse != "" {
		return excuse
	}
	return kind
}

// failure records that the task fails in one of the nights, and reports whether
// it does in any, so that there is nothing else to compare: more than half of its
// repetitions, or any of them by more than a limit where none did before.
func (c *Comparison) failure(p pair) bool {
	before, after := most(p.old, failed), most(p.new, failed)
	flaky := count(p.old, failed) == 0 && count(p.new, broken) > 0
	switch {
	case !before && (after || flaky):
		f := Finding{Kind: Fails, Detail: why(p.new)}
		if count(p.new, broken) == 0 {
			f.Kind = excused(Fails, c.excuse(p))
		}
		c.add(p.new[0], f)
	case before && !after:
		c.add(p.new[0], Finding{Kind: Recovered, Detail: "before: " + why(p.old)})
	}
	return before || after
}

// why says how a task fails.
func why(list []*sweep.Row) string {
	for _, r := range list {
		reason, detail := Failure(r)
		if reason == "" {
			continue
		}
		if detail != "" {
			reason += ": " + detail
		}
		if len(list) > 1 {
			reason += fmt.Sprintf(" (%d of %d repetitions)", count(list, failed), len(list))
		}
		return reason
	}
	return ""
}

// ended returns the median time of the runs that are so.
func ended(list []*sweep.Row, is func(*sweep.Row) bool) float64 {
	var times []float64
	for _, r := range list {
		if is(r) {
			times = append(times, Time(r))
		}
	}
	return median(times)
}

// proof records proofs lost and gained, and reports whether one was lost: most
// repetitions had it and none has. One that some still have, or that took nearly
// its whole limit, is at the edge.
func (c *Comparison) proof(p pair) (lost bool) {
	before, after := count(p.old, Proved), count(p.new, Proved)
	detail := fmt.Sprintf("proved in %d of %d runs, was in %d of %d", after, len(p.new), before, len(p.old))
	switch {
	case 2*before > len(p.old) && 2*after <= len(p.new):
		took := ended(p.old, Proved)
		f := Finding{Kind: ProofLost, Detail: fmt.Sprintf("%s, in %s of %s", detail, platform.FormatSeconds(took),
			platform.FormatSeconds(p.new[0].Task.TimeLimit))}
		certain := before >= leastRepetitions && len(p.new) >= leastRepetitions
		switch {
		case p.starved():
			f.Kind = Starved
		case after > 0 || most(p.new, Stopped) && c.atEdge(took, p) && !certain:
			f.Kind = AtEdge
		}
		c.add(p.new[0], f)
		return true
	case before == 0 && 2*after > len(p.new):
		c.add(p.new[0], Finding{Kind: ProofGained, Detail: detail})
	}
	return false
}

// edge reports whether runs came to their end just before their limit and are now
// stopped by it, which noise does: what they have to show then is less.
func (c *Comparison) edge(p pair) bool {
	running := func(r *sweep.Row) bool { return !Stopped(r) }
	n := count(p.old, running)
	certain := n >= leastRepetitions && len(p.new) >= leastRepetitions
	return most(p.new, Stopped) && most(p.old, running) && !certain && c.atEdge(ended(p.old, running), p)
}

// atEdge reports whether a run that took so long may use up its limit by noise: beyond a share of
// the time that the new runs had, less where the noise is large.
func (c *Comparison) atEdge(took float64, p pair) bool {
	limit := p.new[0].Task.TimeLimit
	if limit == 0 {
		return false
	}
	had := limit
	if t := ended(p.new, Stopped); t > 0 && share(p.new) < 1 {
		had = min(had, t)
	}
	m := c.Options.times()
	return took >= had*min(edge, math.Exp(-4*c.noise.deviation(m.decade(took))))
}

// change records what one measure of a pair changed by, if that counts, and reports whether it does.
// Runs that repeat exactly are judged by their values. Of others, with repetitions, the Mann–Whitney
// test must tell them apart; else the change must be large, and all runs of one night beyond all of the other. In any case
// it must stand out from
// the changes of all tasks of its size.
func (c *Comparison) change(p pair, m measure, n noise, excuse Kind) bool {
	d, ok := m.difference(p)
	if !ok || d == 0 {
		return false
	}
	old, new := m.values(p.old), m.values(p.new)
	x, y := median(old), median(new)
	size := math.Abs(d)
	var tested *float64
	counts := false
	switch {
	case m.constant(p):
		counts = math.Abs(y-x) > exact*max(math.Abs(x), math.Abs(y))
	default:
		away := math.Abs(d - n.center)
		usual := outlying * n.deviation(m.decade(x))
		if q := mannWhitney(old, new); len(old) >= leastRepetitions && len(new) >= leastRepetitions && q <= pairAlpha {
			tested, counts = &q, min(size, away) > max(math.Log1p(m.threshold), usual)
		}
		gap := m.log(slices.Min(new)) - m.log(slices.Max(old))
		if d < 0 {
			gap = m.log(slices.Min(old)) - m.log(slices.Max(new))
		}
		counts = counts || math.Abs(y-x) > m.least && min(gap, away) > max(math.Log1p(m.alone), usual)
	}
	if !counts {
		return false
	}
	f := Finding{Kind: m.better, Old: &x, New: &y, P: tested}
	if d*float64(m.up) > 0 {
		f.Kind = excused(m.worse, excuse)
	}
	f.Detail = fmt.Sprintf("%s %s, was %s", m.name, platform.FormatSeconds(y), platform.FormatSeconds(x))
	if max(len(p.old), len(p.new)) > 1 {
		f.Detail += fmt.Sprintf(" (medians of %d and %d repetitions)", len(p.old), len(p.new))
	}
	c.add(p.new[0], f)
	return true
}

// constant reports whether the measure has no noise in the pair: all runs came to their ends, with
// the same value in each night.
func (m *measure) constant(p pair) bool {
	same := func(list []*sweep.Row) bool {
		values := m.values(list)
		for _, v := range values {
			if math.Abs(v-values[0]) > exact*math.Abs(values[0]) {
				return false
			}
		}
		return count(list, Stopped) == 0
	}
	return m.repeats && same(p.old) && same(p.new)
}

// stopped records runs that came to their end and are now stopped by the limit,
// whose times are not known but known to be longer: unless the old ones were at
// the edge.
func (c *Comparison) stopped(p pair, excuse Kind) {
	limit := p.new[0].Task.TimeLimit
	if limit == 0 || !most(p.new, Stopped) || most(p.old, Stopped) {
		return
	}
	took := ended(p.old, func(*sweep.Row) bool { return true })
	if excuse == Starved || !c.atEdge(took, p) {
		c.add(p.new[0], Finding{
			Kind: excused(Slower, excuse), Old: &took, New: &limit,
			Detail: fmt.Sprintf("stopped by its limit of %s, took %s", platform.FormatSeconds(limit), platform.FormatSeconds(took)),
		})
	}
}
