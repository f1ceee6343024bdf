package compare

import (
	"cmp"
	"math"
	"slices"

	"workbench/bench/compare/stats"
	"workbench/bench/report/rows"
	"workbench/bench/sweep"
)

// Group is all tasks of a method with the same settings.
type Group struct {
	Problem string `json:"problem"`
	Method  string `json:"method"` // with the settings by which it differs from others
	Tasks   int    `json:"tasks"`
	// Objective, Bound and Time are over the tasks that have the number in both
	// nights.
	Objective Ratio `json:"objective"`
	Bound     Ratio `json:"bound"`
	Time      Ratio `json:"time"`
	// OldGap and NewGap are the shifted geometric means of the gaps to the best
	// bound of both nights, with a shift of 1 %.
	OldGap *float64 `json:"old_gap"`
	NewGap *float64 `json:"new_gap"`
	// OldPAR and NewPAR are the penalised average runtimes, PAR-10, in seconds.
	OldPAR *float64 `json:"old_par10"`
	NewPAR *float64 `json:"new_par10"`
	// OldStopped and NewStopped count tasks whose times are not known.
	OldStopped int `json:"old_stopped"`
	NewStopped int `json:"new_stopped"`
	// OldSpread and NewSpread are those of times over seeds and repetitions; nil: one
	// run a case.
	OldSpread *rows.Spread `json:"old_spread,omitempty"`
	NewSpread *rows.Spread `json:"new_spread,omitempty"`
}

// Ratio is the change of one measure over the tasks of a group: new over old.
type Ratio struct {
	Pairs int `json:"pairs"`
	// Mean is the geometric mean, Low and High its interval of 95 %; after Shift
	// was added to both numbers of each pair.
	Mean  *float64 `json:"mean"`
	Low   *float64 `json:"low"`
	High  *float64 `json:"high"`
	Shift float64  `json:"shift,omitempty"`
	// Worse and Better count pairs. Of a time that is known in one of the nights
	// only, it is known which is longer.
	Worse  int `json:"worse"`
	Better int `json:"better"`
	// SignedRank and Sign are p-values of the paired tests, Adjusted the first
	// after Holm's correction for all groups.
	SignedRank *float64 `json:"signed_rank"`
	Sign       *float64 `json:"sign"`
	Adjusted   *float64 `json:"adjusted"`
	// Verdict: worse, better, or empty for no change that counts.
	Verdict string `json:"verdict"`

	differences []float64 // of logarithms, ±Inf where only the sign is known
}

// Regressed reports whether a measure of the group got worse.
func (g *Group) Regressed() bool {
	return g.Objective.Verdict == "worse" || g.Bound.Verdict == "worse" || g.Time.Verdict == "worse"
}

// gapShift is the shift of means of gaps, of which many are 0.
const gapShift = 0.01

// confidence of the intervals.
const confidence = 0.95

// groups compares the methods over all their tasks.
func (c *Comparison) groups(pairs []pair) []Group {
	contestant := func(p pair) rows.Contestant {
		who := rows.ContestantOf(&p.new[0].Task)
		who.Version = ""
		return who
	}
	members := map[rows.Contestant][]pair{}
	var list []rows.Contestant
	var all [][]*sweep.Row
	for _, p := range pairs {
		who := contestant(p)
		if members[who] == nil {
			list = append(list, who)
		}
		members[who] = append(members[who], p)
		all = append(all, p.old, p.new)
	}
	labels := rows.Labels(list)
	facts := rows.FactsOf(all...)
	var groups []Group
	var times []float64
	for _, who := range list {
		g := c.group(members[who], facts)
		g.Problem, g.Method = who.Problem, labels[who]
		for _, d := range g.Time.differences {
			if !math.IsInf(d, 0) {
				times = append(times, d)
			}
		}
		groups = append(groups, g)
	}
	if len(times) > 0 {
		drift := math.Exp(stats.Median(times))
		c.Drift = &drift
	}
	o := &c.Options
	decide(groups, func(g *Group) *Ratio { return &g.Objective }, o.objective(), o.Tolerance, o.Alpha)
	decide(groups, func(g *Group) *Ratio { return &g.Bound }, o.bound(), o.Tolerance, o.Alpha)
	decide(groups, func(g *Group) *Ratio { return &g.Time }, o.time(), o.Time, o.Alpha)
	for k := range groups {
		if t := &groups[k].Time; !c.TimesJudged {
			t.Verdict = ""
		}
	}
	slices.SortStableFunc(groups, func(a, b Group) int {
		regressed := func(g *Group) int {
			if g.Regressed() {
				return 0
			}
			return 1
		}
		return cmp.Or(cmp.Compare(regressed(&a), regressed(&b)), cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Method, b.Method))
	})
	return groups
}

func (c *Comparison) group(pairs []pair, facts rows.Facts) Group {
	o := &c.Options
	g := Group{
		Tasks:     len(pairs),
		Objective: ratio(pairs, o.objective()),
		Bound:     ratio(pairs, o.bound()),
		Time:      ratio(pairs, o.time()),
	}
	var oldGaps, newGaps []float64
	var oldRuns, newRuns []stats.Run
	var oldRows, newRows []*sweep.Row
	m := o.objective()
	for _, p := range pairs {
		bound := facts.Bound(rows.CaseOf(&p.new[0].Task))
		old, new := m.of(p.old), m.of(p.new)
		if bound != nil && len(old) > 0 && len(new) > 0 {
			b := bound.Result.Bound.Value
			oldGaps = append(oldGaps, rows.Gap(stats.Median(old), b))
			newGaps = append(newGaps, rows.Gap(stats.Median(new), b))
		}
		oldRuns, newRuns = append(oldRuns, runs(p.old)...), append(newRuns, runs(p.new)...)
		oldRows, newRows = append(oldRows, p.old...), append(newRows, p.new...)
		if most(p.old, rows.Stopped) {
			g.OldStopped++
		}
		if most(p.new, rows.Stopped) {
			g.NewStopped++
		}
	}
	g.OldGap, g.NewGap = number(stats.ShiftedGeometricMean(oldGaps, gapShift)), number(stats.ShiftedGeometricMean(newGaps, gapShift))
	g.OldPAR, g.NewPAR = number(stats.PAR(oldRuns, 10)), number(stats.PAR(newRuns, 10))
	g.OldSpread, g.NewSpread = rows.SpreadOf(oldRows), rows.SpreadOf(newRows)
	return g
}

// Spreads reports whether a method has several runs of a case in one of the nights.
func (c *Comparison) Spreads() bool {
	return slices.ContainsFunc(c.Groups, func(g Group) bool { return g.OldSpread != nil || g.NewSpread != nil })
}

func runs(list []*sweep.Row) (out []stats.Run) {
	for _, r := range list {
		out = append(out, stats.Run{Time: rows.Time(r), Solved: !rows.Stopped(r), Limit: r.Task.TimeLimit})
	}
	return out
}

// number returns nil for what is no number.
func number(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

// ratio compares one measure over pairs, each by its medians.
func ratio(pairs []pair, m measure) (r Ratio) {
	var known [][2]float64
	for _, p := range pairs {
		old, new := m.of(p.old), m.of(p.new)
		switch {
		case len(old) > 0 && len(new) > 0:
			known = append(known, [2]float64{stats.Median(old), stats.Median(new)})
		case m.repeats || most(p.old, failed) || most(p.new, failed):
			// No plan or bound, or no run, is no longer time.
		case len(old) > 0:
			r.differences = append(r.differences, math.Inf(1))
		case len(new) > 0:
			r.differences = append(r.differences, math.Inf(-1))
		}
	}
	r.Shift = m.shift
	for _, x := range known {
		if m.shift == 0 && min(x[0], x[1]) <= 0 {
			r.Shift = shiftOf(known)
			break
		}
	}
	r.Pairs = len(known)
	var finite []float64
	for _, x := range known {
		d := math.Log((x[1] + r.Shift) / (x[0] + r.Shift))
		if math.Abs(d) < 1e-9 {
			d = 0 // what rounding leaves is no difference
		}
		finite = append(finite, d)
	}
	r.differences = append(r.differences, finite...)
	if len(finite) > 0 {
		e := stats.MeanInterval(finite, confidence)
		r.Mean, r.Low, r.High = number(math.Exp(e.Mean)), number(math.Exp(e.Low)), number(math.Exp(e.High))
	}
	for _, d := range r.differences {
		switch {
		case d*float64(m.up) > 0:
			r.Worse++
		case d*float64(m.up) < 0:
			r.Better++
		}
	}
	if len(r.differences) > 0 {
		r.SignedRank, r.Sign = number(stats.SignedRank(r.differences)), number(stats.Sign(r.Worse, r.Better))
	}
	return r
}

// shiftOf returns the shift of pairs of which some are 0: a hundredth of the
// mean.
func shiftOf(known [][2]float64) float64 {
	sum := 0.0
	for _, x := range known {
		sum += math.Abs(x[0]) + math.Abs(x[1])
	}
	if sum == 0 {
		return 1
	}
	return 0.01 * sum / float64(2*len(known))
}

// decide sets the verdicts of one measure over all groups: a geometric mean that
// changed by more than the threshold, and a signed-rank test that, adjusted for
// all groups, says that it is no chance.
func decide(groups []Group, of func(*Group) *Ratio, m measure, threshold, alpha float64) {
	var ps []float64
	var tested []*Ratio
	for k := range groups {
		if r := of(&groups[k]); r.SignedRank != nil {
			tested, ps = append(tested, r), append(ps, *r.SignedRank)
		}
	}
	for k, p := range stats.Holm(ps) {
		r := tested[k]
		r.Adjusted = &p
		if p > alpha || r.Mean == nil {
			continue
		}
		switch change := float64(m.up) * math.Log(*r.Mean); {
		case change > math.Log1p(threshold):
			r.Verdict = "worse"
		case change < -math.Log1p(threshold):
			r.Verdict = "better"
		}
	}
}
