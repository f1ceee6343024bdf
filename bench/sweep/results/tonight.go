package results

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"workbench/bench/sweep"
	"workbench/model/platform"
)

// Tonight returns the first lines of a report: what was done, what failed, what moved against the
// night before, the open gaps of each problem and the longest runs. Ten lines or a few more.
func (r *Report) Tonight() (lines []string) {
	add := func(format string, a ...any) { lines = append(lines, fmt.Sprintf(format, a...)) }
	add("Tasks: %d of %d done, %d without a plan.", r.Rows, r.Rows+r.Missing, r.NoPlan)
	add("Failed: %s.", r.failedByReason())
	if c := r.Comparison; c != nil {
		add("Plans: %s.", c.moved(WorsePlan, BetterPlan, MethodPlans))
		add("Bounds: %s.", c.moved(WeakerBound, StrongerBound, MethodBounds))
		add("Proofs: %s.", c.moved(ProofLost, ProofGained, ""))
		add("Times: %s%s.", c.moved(Slower, Faster, MethodSlower), c.drift())
	} else {
		add("No night to compare with%s.", r.unmatched)
	}
	add("Open gaps: %s.", r.openGaps())
	add("Longest: %s.", r.longest(3))
	return lines
}

func (r *Report) failedByReason() string {
	count := map[string]int{}
	for _, x := range r.runs {
		if x.Reason != "" && x.Reason != NoPlan {
			count[x.Reason]++
		}
	}
	return cmp.Or(strings.Join(counts(slices.Sorted(maps.Keys(count)), count), ", "), "none")
}

// Column is a night next to others.
type Column struct {
	Name                                                  string
	Versions                                              []string
	Started                                               time.Time
	Tasks, NoPlan, Failed, Missing, Proved, Open, Matched int
	// Time is that of the tasks which every night has, in seconds; Matched is their number.
	Time float64
}

// NewReportAfter reads a night, compares it with the latest of earlier ones, and lists all of them side by side. If the two
// have no task in common, as after a change of the specification, the report has no comparison and says so.
func NewReportAfter(n *Night, earlier []*Night, o Options) (*Report, error) {
	if len(earlier) == 0 {
		return NewReport(n, nil), nil
	}
	earlier = slices.Clone(earlier)
	slices.SortStableFunc(earlier, func(a, b *Night) int { return began(a).Compare(began(b)) })
	c, err := Compare(earlier[len(earlier)-1], n, o)
	if errors.Is(err, ErrUnmatched) {
		r := NewReport(n, nil)
		r.unmatched = ": " + err.Error()
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	r := NewReport(n, c)
	r.sideBySide(n, append(earlier, n))
	return r, nil
}

// sideBySide sets the columns of the nights, of which n is that of the report.
func (r *Report) sideBySide(n *Night, nights []*Night) {
	common := map[string]int{}
	tasks := make([]map[string][]*sweep.Row, len(nights))
	for k, night := range nights {
		tasks[k] = byTask(night.Rows)
		for key := range tasks[k] {
			common[key]++
		}
	}
	for k, night := range nights {
		x := r
		if night != n {
			x = NewReport(night, nil)
		}
		c := Column{
			Name: night.Name, Versions: x.Versions, Started: x.Started, Tasks: x.Rows, NoPlan: x.NoPlan, Failed: x.Failed, Missing: x.Missing,
		}
		for key, list := range tasks[k] {
			if common[key] == len(nights) {
				c.Time, c.Matched = c.Time+median(times(list)), c.Matched+1
			}
		}
		for _, row := range night.Rows {
			c.Proved += bit(Proved(row))
		}
		for _, p := range x.Problems {
			for _, y := range p.Cases {
				c.Open += bit(y.gap() > 0)
			}
		}
		r.Nights = append(r.Nights, c)
	}
}

func times(list []*sweep.Row) (out []float64) {
	for _, row := range list {
		out = append(out, Time(row))
	}
	return out
}

// moved counts the tasks that got worse and better, and the methods that got worse.
func (c *Comparison) moved(worse, better, method Kind) string {
	count := map[Kind]int{}
	for _, f := range c.Findings {
		count[f.Kind]++
	}
	s := fmt.Sprintf("%d worse, %d better", count[worse], count[better])
	if n := count[method]; method != "" && n > 0 {
		s += fmt.Sprintf(", over all tasks %s worse", platform.Count(n, "method"))
	}
	return s
}

func (c *Comparison) drift() string {
	if c.Drift == nil {
		return ""
	}
	return fmt.Sprintf(", all together ×%.3f", *c.Drift)
}

// openGaps counts the cases of each problem whose best plan is not proved optimal.
func (r *Report) openGaps() string {
	var parts []string
	for _, p := range r.Problems {
		open, worst := 0, 0.0
		for _, c := range p.Cases {
			if gap := c.gap(); gap > 0 {
				open, worst = open+1, max(worst, gap)
			}
		}
		if open > 0 {
			parts = append(parts, fmt.Sprintf("%s %d of %d (worst %s)", p.Name, open, len(p.Cases), percent(worst)))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// gap is that of the best plan to the best bound; 0 without one of them.
func (c *Case) gap() float64 {
	if c.Best == nil || c.Bound == nil {
		return 0
	}
	return Gap(*c.Best.Result.Objective, c.Bound.Result.Bound.Value)
}

func (r *Report) longest(n int) string {
	list := slices.Clone(r.runs)
	slices.SortStableFunc(list, func(a, b *Run) int { return cmp.Compare(Time(b.Row), Time(a.Row)) })
	var parts []string
	for _, x := range list[:min(n, len(list))] {
		parts = append(parts, fmt.Sprintf("%s %s on %s %s", x.Problem.Name, x.Method.Label, x.Case.Instance, platform.FormatSeconds(Time(x.Row))))
	}
	return strings.Join(parts, ", ")
}

// mostCurves are drawn on a small chart; the others are in the figures below.
const mostCurves = 8

// small is the chart of a problem on the first screen: the share of cases with a gap of at most x, of
// the methods with the most wins.
func (p *Problem) small() pageFigure {
	best := p.planners()
	slices.SortStableFunc(best, func(a, b *Method) int { return cmp.Or(cmp.Compare(b.Wins, a.Wins), cmp.Compare(a.ToBest, b.ToBest)) })
	best = best[:min(len(best), mostCurves)]
	slices.SortFunc(best, func(a, b *Method) int { return cmp.Compare(a.Index, b.Index) })
	f := p.shares("", p.Name, "gap of at most (%)", p.gaps(best))
	return f.page()
}

// leastGap is the gap below which there is none.
const leastGap = 1e-9

// percents returns gaps in percent.
func percents(gaps []float64) []float64 {
	out := make([]float64, len(gaps))
	for i, g := range gaps {
		out[i] = 100 * max(0, g)
	}
	return out
}
