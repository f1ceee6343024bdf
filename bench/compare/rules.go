package compare

import (
	"fmt"
	"math"

	"workbench/bench/compare/stats"
	"workbench/bench/report/rows"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

// judge applies the rules to each pair of tasks.
func (c *Comparison) judge(pairs []pair) {
	o := &c.Options
	objectives := o.verdicts(pairs, o.objective())
	bounds := o.verdicts(pairs, o.bound())
	times := o.verdicts(pairs, o.time())
	c.noise = deviations(pairs, o.time())
	if s, df := c.noise.all(); df >= leastDegrees {
		c.Noise = &s
	}
	for k, p := range pairs {
		if c.failure(p) {
			continue
		}
		lost := c.proof(p)
		worse, weaker := WorsePlan, WeakerBound
		if c.edge(p) {
			worse, weaker = AtEdge, AtEdge
		}
		c.change(p, objectives[k], worse, BetterPlan, "plan")
		c.change(p, bounds[k], weaker, StrongerOne, "bound")
		if c.change(p, times[k], Slower, Faster, "time") || lost {
			continue
		}
		c.stopped(p)
	}
	if !c.TimesJudged {
		for k := range c.Findings {
			if f := &c.Findings[k]; f.Kind == Slower {
				f.Regression = false
			}
		}
	}
}

// count returns how many of the rows are so.
func count(list []*sweep.Row, is func(*sweep.Row) bool) (n int) {
	for _, r := range list {
		if is(r) {
			n++
		}
	}
	return n
}

// most reports whether more than half of the rows are so.
func most(list []*sweep.Row, is func(*sweep.Row) bool) bool { return 2*count(list, is) > len(list) }

func failed(r *sweep.Row) bool { reason, _ := rows.Failure(r); return reason != "" }

// broken reports a failure that no limit explains.
func broken(r *sweep.Row) bool {
	reason, _ := rows.Failure(r)
	return reason != "" && reason != rows.NoPlan && reason != sweep.OutOfTime
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
		if count(p.new, broken) == 0 && c.edge(p) {
			f.Kind = AtEdge
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
		reason, detail := rows.Failure(r)
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

// leastAgreeing is the number of repetitions that make a lost proof certain,
// however long it took: if it were one of two even chances, three against three
// would be one in 32.
const leastAgreeing = 3

// proof records proofs lost and gained, and reports whether one was lost: most
// repetitions had it and none has. One that some still have, or that took nearly
// its whole limit, is at the edge.
func (c *Comparison) proof(p pair) (lost bool) {
	before, after := count(p.old, rows.Proved), count(p.new, rows.Proved)
	detail := fmt.Sprintf("proved in %d of %d runs, was in %d of %d", after, len(p.new), before, len(p.old))
	switch {
	case 2*before > len(p.old) && 2*after <= len(p.new):
		var times []float64
		for _, r := range p.old {
			if rows.Proved(r) {
				times = append(times, rows.Time(r))
			}
		}
		took, limit := stats.Median(times), p.new[0].Task.TimeLimit
		f := Finding{Kind: ProofLost, Detail: fmt.Sprintf("%s, in %s of %s", detail, platform.FormatSeconds(took), platform.FormatSeconds(limit))}
		certain := before >= leastAgreeing && len(p.new) >= leastAgreeing
		if after > 0 || most(p.new, rows.Stopped) && c.atEdge(took, limit) && !certain {
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
	if !most(p.new, rows.Stopped) {
		return false
	}
	var times []float64
	for _, r := range p.old {
		if !rows.Stopped(r) {
			times = append(times, rows.Time(r))
		}
	}
	certain := len(times) >= leastAgreeing && len(p.new) >= leastAgreeing
	return 2*len(times) > len(p.old) && !certain && c.atEdge(stats.Median(times), p.new[0].Task.TimeLimit)
}

// edgeDeviations is how many deviations of the noise a run must be below its
// limit, so that not to come to its end is no noise.
const edgeDeviations = 4

// atEdge reports whether a run that took so long may use up its limit by noise:
// beyond the share of the limit that is stated, or that repetitions show.
func (c *Comparison) atEdge(took, limit float64) bool {
	if limit == 0 {
		return false
	}
	edge := c.Options.Edge
	m := c.Options.time()
	if sigma, degrees := c.noise.of(m.decade(took)); degrees >= leastDegrees {
		edge = min(edge, math.Exp(-edgeDeviations*sigma))
	}
	return took >= edge*limit
}

// change records what a verdict says, and reports whether it says anything.
func (c *Comparison) change(p pair, v verdict, worse, better Kind, what string) bool {
	f := Finding{Kind: worse, Old: &v.old, New: &v.new, P: v.p}
	switch {
	case v.direction == 0:
		return false
	case v.direction < 0:
		f.Kind = better
	}
	f.Detail = fmt.Sprintf("%s %s, was %s", what, platform.FormatSeconds(v.new), platform.FormatSeconds(v.old))
	if n := max(len(p.old), len(p.new)); n > 1 {
		f.Detail += fmt.Sprintf(" (medians of %d and %d repetitions)", len(p.old), len(p.new))
	}
	c.add(p.new[0], f)
	return true
}

// stopped records runs that came to their end and are now stopped by the limit,
// whose times are not known but known to be longer: unless the old ones were at
// the edge.
func (c *Comparison) stopped(p pair) {
	limit := p.new[0].Task.TimeLimit
	if limit == 0 || !most(p.new, rows.Stopped) || most(p.old, rows.Stopped) {
		return
	}
	var times []float64
	for _, r := range p.old {
		times = append(times, rows.Time(r))
	}
	if took := stats.Median(times); !c.atEdge(took, limit) {
		c.add(p.new[0], Finding{Kind: Slower, Old: &took, New: &limit, Detail: fmt.Sprintf("stopped by its limit of %s, took %s", platform.FormatSeconds(limit), platform.FormatSeconds(took))})
	}
}

// measure is one of the numbers that rows are compared by.
type measure struct {
	value func(*sweep.Row) (float64, bool)
	// up is 1 if more is worse, −1 if less is.
	up int
	// repeats says that runs that end by themselves have the same value always.
	repeats bool
	// threshold is the least relative change that counts with repetitions, alone
	// that without, least the absolute one without.
	threshold, alone, least float64
	// shift is added before logarithms are taken.
	shift float64
}

func (o *Options) objective() measure {
	return measure{value: rows.Objective, up: 1, repeats: true, threshold: o.Quality, alone: o.QualityAlone}
}

func (o *Options) bound() measure {
	value := func(r *sweep.Row) (float64, bool) {
		if b, ok := rows.Bound(r); ok {
			return b.Value, true
		}
		return 0, false
	}
	return measure{value: value, up: -1, repeats: true, threshold: o.Quality, alone: o.QualityAlone}
}

func (o *Options) time() measure {
	value := func(r *sweep.Row) (float64, bool) { return rows.Time(r), !rows.Stopped(r) }
	return measure{value: value, up: 1, threshold: o.Time, alone: o.TimeAlone, least: o.Least, shift: o.Shift}
}

// of returns the values of the rows that have one; none if that is the minority,
// whose values say nothing of the others.
func (m *measure) of(list []*sweep.Row) (values []float64) {
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

// verdict is what became of one measure of one pair.
type verdict struct {
	old, new  float64 // medians
	direction int     // 1: worse, −1: better, 0: no change that counts
	p         *float64
}

// leastDegrees is how many degrees of freedom an estimate of noise needs: with
// fewer it may be far too small.
const leastDegrees = 10

// verdicts judges one measure of all pairs.
//
// A pair whose runs repeat exactly is judged by its values. Of others, if both
// nights have repetitions, three things are asked for: medians that differ by the
// threshold, no overlap, and a p-value, adjusted by Holm for all pairs tested, of
// at most alpha. That is of the difference of the medians of logarithms over its
// standard error, with the larger deviation of the pair's own and of all pairs of
// its size together, and Student's distribution with the degrees of the latter. Without
// repetitions the change must be more than is stated for runs alone, and stand
// out from those of all pairs by five of their deviations.
func (o *Options) verdicts(pairs []pair, m measure) []verdict {
	verdicts := make([]verdict, len(pairs))
	noise := deviations(pairs, m)
	usual := m.usual(pairs)
	var tested []int
	var ps []float64
	for k, p := range pairs {
		v := &verdicts[k]
		old, new := m.of(p.old), m.of(p.new)
		if len(old) == 0 || len(new) == 0 {
			continue
		}
		v.old, v.new = stats.Median(old), stats.Median(new)
		pooled, degrees := noise.of(m.decade(v.old))
		sign := m.up
		if v.new < v.old {
			sign = -sign
		}
		size := math.Abs(v.new - v.old)
		switch {
		case v.new == v.old:
		case m.repeats && o.certain(p.old, old) && o.certain(p.new, new):
			if size > o.Tolerance*max(math.Abs(v.old), math.Abs(v.new)) {
				v.direction = sign
			}
		case len(old) > 1 && len(new) > 1 && degrees >= leastDegrees:
			a, b := m.logs(old), m.logs(new)
			x := math.Abs(stats.Median(b) - stats.Median(a))
			p := stats.TTail(x/standardError(a, b, pooled), degrees)
			tested, ps = append(tested, k), append(ps, p)
			v.p = &p
			if x > math.Log1p(m.threshold) && apart(a, b) {
				v.direction = sign
			}
		case size > m.least && math.Abs(m.log(v.new)-m.log(v.old)) > max(math.Log1p(m.alone), outlying*usual):
			v.direction = sign
		}
	}
	for i, p := range stats.Holm(ps) {
		v := &verdicts[tested[i]]
		v.p = &p
		if p > o.Alpha {
			v.direction = 0
		}
	}
	return verdicts
}

// certain reports whether the values are those of runs that came to their ends,
// and all the same.
func (o *Options) certain(list []*sweep.Row, values []float64) bool {
	for _, v := range values {
		if math.Abs(v-values[0]) > o.Tolerance*math.Abs(values[0]) {
			return false
		}
	}
	return count(list, rows.Stopped) == 0
}

func (m *measure) logs(values []float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = m.log(v)
	}
	return out
}

func (m *measure) log(v float64) float64 {
	return math.Log(max(v+m.shift, math.SmallestNonzeroFloat64))
}

// outlying is how many deviations a change without repetitions must be from
// none: normal noise does that once in two million times.
const outlying = 5

// usual returns the standard deviation of the logarithms of all changes, from
// their median absolute size: half of the pairs may have changed in any way and
// it is still that of the others.
func (m *measure) usual(pairs []pair) float64 {
	var sizes []float64
	for _, p := range pairs {
		if old, new := m.of(p.old), m.of(p.new); len(old) > 0 && len(new) > 0 {
			sizes = append(sizes, math.Abs(m.log(stats.Median(new))-m.log(stats.Median(old))))
		}
	}
	if len(sizes) == 0 {
		return 0
	}
	return 1.4826 * stats.Median(sizes)
}

// noise is what repetitions say of the deviations of logarithms: sums of squares
// and degrees of freedom, by decade, since short times are noisier than long ones.
type noise map[int]struct{ squares, degrees float64 }

// decade returns the decade of a value of measures that have a shift; else all
// are of one.
func (m *measure) decade(v float64) int {
	if m.shift == 0 {
		return 0
	}
	return int(math.Floor(math.Log10(v + m.shift)))
}

// of returns the standard deviation of values of a decade and its degrees of
// freedom, of all values if the decade has too few.
func (n noise) of(decade int) (sigma, degrees float64) {
	if d := n[decade]; d.degrees >= leastDegrees {
		return math.Sqrt(d.squares / d.degrees), d.degrees
	}
	return n.all()
}

func (n noise) all() (sigma, degrees float64) {
	squares := 0.0
	for decade := -10; decade <= 20; decade++ { // in order, so that sums are the same always
		squares += n[decade].squares
		degrees += n[decade].degrees
	}
	if degrees == 0 {
		return 0, 0
	}
	return math.Sqrt(squares / degrees), degrees
}

// deviations reads the noise off the repetitions of all pairs in both nights.
// Runs that repeat exactly tell nothing of the noise of those that do not.
func deviations(pairs []pair, m measure) noise {
	n := noise{}
	for _, p := range pairs {
		for _, list := range [][]*sweep.Row{p.old, p.new} {
			if m.repeats && count(list, rows.Stopped) == 0 {
				continue
			}
			if values := m.of(list); len(values) > 1 {
				k := m.decade(stats.Median(values))
				d := n[k]
				d.squares += squaresOf(m.logs(values))
				d.degrees += float64(len(values) - 1)
				n[k] = d
			}
		}
	}
	return n
}

// squaresOf returns the sum of the squares of the differences from the mean.
func squaresOf(x []float64) (squares float64) {
	mean := 0.0
	for _, v := range x {
		mean += v / float64(len(x))
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	return squares
}

// medianEfficiency is the ratio of the standard errors of median and mean of
// normal values: √(π/2) for many, less for few.
var medianEfficiency = math.Sqrt(math.Pi / 2)

// standardError returns the standard error of the difference of the medians.
func standardError(a, b []float64, pooled float64) float64 {
	own := math.Sqrt((squaresOf(a) + squaresOf(b)) / float64(len(a)+len(b)-2))
	return medianEfficiency * max(pooled, own, 1e-12) * math.Sqrt(1/float64(len(a))+1/float64(len(b)))
}

// apart reports whether all of one are above all of the other.
func apart(a, b []float64) bool {
	lowA, highA, lowB, highB := math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, v := range a {
		lowA, highA = min(lowA, v), max(highA, v)
	}
	for _, v := range b {
		lowB, highB = min(lowB, v), max(highB, v)
	}
	return lowB > highA || lowA > highB
}
