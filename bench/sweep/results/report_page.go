package results

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/model/platform"
)

//go:embed report.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// uPlot draws the figures of the page: see uplot/README.md.
var (
	//go:embed uplot/uPlot.iife.min.js
	uplotJS string
	//go:embed uplot/uPlot.min.css
	uplotCSS string
)

// WriteHTML writes the page. It holds all it shows and needs no network: its
// content security policy forbids one. O(rows).
func (r *Report) WriteHTML(w io.Writer) error {
	t, err := template.New("page").Funcs(functions).Parse(pageHTML)
	if err != nil {
		return err
	}
	data, err := json.Marshal(r.data()) // < and > are escaped in it
	if err != nil {
		return err
	}
	return t.Execute(w, map[string]any{
		"R":      r,
		"Style":  template.CSS(uplotCSS + pageCSS),
		"Script": template.JS(uplotJS + "\n" + pageJS),
		"Data":   template.JS(data),
	})
}

var functions = template.FuncMap{
	"percent": percent, "seconds": seconds, "bytes": platform.FormatBytes, "command": Command, "count": platform.Count[int],
	"float64":  func(n int64) float64 { return float64(n) },
	"task":     func(f Finding) *sweep.Task { return &f.Task },
	"ratio":    factor,
	"day":      func(r *Report) string { return r.Started.UTC().Format("2006-01-02 15:04") },
	"moment":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04") },
	"clock":    func(r *Report) string { return r.Finished.UTC().Format("2006-01-02 15:04 MST") },
	"value":    value,
	"some":     func(f []Finding) []Finding { return f[:min(len(f), mostFindings)] },
	"run":      (*Report).runOf,
	"change":   change,
	"p":        pValue,
	"sentence": func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
	"average":  average,
	"spread":   (*Spread).String,
	"verdict":  func(g Group) string { return g.verdict() },
	"times":    func(x *float64) string { return written(*x, "×%.3f") },
}

// mostFindings are listed on the page; the rest is in the comparison's JSON.
const mostFindings = 500

// written writes a number, and – for what is none.
func written(x float64, format string) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return fmt.Sprintf(format, x)
}

func factor(x float64) string { return written(x, "%.4f") }

// percent writes a share in percent.
func percent(x float64) string { return written(100*x, "%.3f %%") }

func seconds(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return "–"
	}
	return platform.FormatSeconds(x)
}

// value is what a table sorts by: numbers as they are, none last.
func value(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return strconv.FormatFloat(x, 'g', 9, 64)
}

// change writes a relative change with its sign.
func change(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%+.3g %%", 100**x)
}

func pValue(x *float64) string {
	if x == nil {
		return ""
	}
	return fmt.Sprintf("%.2g", *x)
}

// average writes a mean ratio with its interval.
func average(r Ratio) string {
	if r.Mean == nil {
		return "–"
	}
	s := fmt.Sprintf("×%.4f", *r.Mean)
	if r.Low != nil && r.High != nil && *r.High > *r.Low {
		s += fmt.Sprintf(" [%.4f, %.4f]", *r.Low, *r.High)
	}
	return s
}

// runOf returns the run of a finding's task, nil if this night has none.
func (r *Report) runOf(f Finding) *Run {
	if r.byID == nil {
		r.byID = make(map[string]*Run, len(r.runs))
		for _, runs := range r.runs {
			r.byID[runs.ID] = runs
		}
	}
	return r.byID[f.Task.ID()]
}

// numbers of a run as tables show them.
type numbers struct {
	objective, bound, cpu, peak *float64
	claimed                     *float64 // the best that a solver claims and nobody checked
	proof, ended                string
	time                        float64
	by                          string
}

func (r *Run) numbers() (n numbers) {
	n.time = Time(r.Row)
	if x, ok := Objective(r.Row); ok {
		n.objective = &x
	}
	if b, ok := Bound(r.Row); ok {
		n.bound, n.by, n.proof = &b.Value, b.By, string(b.Proof)
	}
	if r.Result != nil {
		n.cpu, n.peak, n.ended = &r.Result.CPUTime, r.Result.PeakMemory, string(r.Result.Ended)
		for i := range r.Result.Claims {
			if c := &r.Result.Claims[i].Value; n.claimed == nil || *c > *n.claimed {
				n.claimed = c
			}
		}
	}
	return n
}

// pageData is what the page's script draws from. Lists instead of objects keep
// it small.
type pageData struct {
	Problems []pageProblem `json:"problems"`
	// Runs are the columns of all runs, each by index, under the letters of [Run.cells].
	Runs map[string][]any `json:"runs"`
}

type pageProblem struct {
	Name    string   `json:"name"`
	Word    string   `json:"word"`
	Methods []string `json:"methods"`
	Bounds  []bool   `json:"bounds"` // whether the method makes only bounds
	// Cases are instance, limits, best bound, by whom, and for each method
	// outcome, gap and first run, -1 if none.
	Cases     []pageCase   `json:"cases"`
	Figures   []pageFigure `json:"figures"`
	Tradeoffs []pageFigure `json:"tradeoffs"`
	Small     pageFigure   `json:"small"` // on the first screen
}

type pageCase struct {
	Instance string     `json:"i"`
	Limits   string     `json:"l"`
	Memory   float64    `json:"m"`
	Bound    *float64   `json:"b"`
	BoundRun int        `json:"r"`
	Outcomes []string   `json:"o"`
	Gaps     []*float64 `json:"g"`
	First    []int      `json:"f"`
}

type pageFigure struct {
	Title  string       `json:"title"`
	X      string       `json:"x"`
	Y      string       `json:"y"`
	Log    bool         `json:"log"`
	Series []pageSeries `json:"series"`
}

type pageSeries struct {
	Name  string     `json:"name"`
	Style int        `json:"style"`
	Steps int        `json:"steps"` // 1: holds up to the next x, -1: from the one before, 0: joined by lines
	X     []float64  `json:"x"`
	Y     []*float64 `json:"y"`
	Runs  []int      `json:"runs,omitempty"` // of the points
}

// short rounds a number to nine digits, so that the page is not made of digits
// that nobody reads; nil for what is none.
func short(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	v, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 9, 64), 64)
	if err != nil {
		return nil
	}
	return &v
}

func shorter(x *float64) *float64 {
	if x == nil {
		return nil
	}
	return short(*x)
}

func (r *Report) data() pageData {
	d := pageData{Problems: []pageProblem{}, Runs: map[string][]any{}}
	for _, p := range r.Problems {
		d.Problems = append(d.Problems, p.data())
	}
	for _, x := range r.runs {
		for name, v := range x.cells() {
			d.Runs[name] = append(d.Runs[name], v)
		}
	}
	return d
}

func (p *Problem) data() pageProblem {
	d := pageProblem{Name: p.Name, Word: p.Word, Cases: []pageCase{}, Tradeoffs: []pageFigure{}}
	for _, m := range p.Methods {
		d.Methods, d.Bounds = append(d.Methods, m.Label), append(d.Bounds, m.OnlyBounds())
	}
	for _, c := range p.Cases {
		x := pageCase{Instance: c.Instance, Limits: c.Limits, Memory: c.Key.Memory, Bound: short(c.bound()), BoundRun: c.boundRun()}
		for _, cell := range c.Cells {
			first := -1
			if len(cell.Runs) > 0 {
				first = cell.Runs[0].Index
			}
			x.Outcomes, x.Gaps, x.First = append(x.Outcomes, cell.Outcome), append(x.Gaps, short(cell.Gap)), append(x.First, first)
		}
		d.Cases = append(d.Cases, x)
	}
	d.Small = p.small()
	for _, f := range p.figures() {
		if f.runs == nil {
			d.Figures = append(d.Figures, f.page())
		} else {
			d.Tradeoffs = append(d.Tradeoffs, f.page())
		}
	}
	return d
}

// failed returns 1 if the run did not end as it should, 2 if it ended without plan or bound.
func (r *Run) failed() int {
	switch r.Reason {
	case "":
		return 0
	case NoPlan:
		return 2
	}
	return 1
}

// cells are what the page's script shows of a run, by its letters for them.
func (r *Run) cells() map[string]any {
	n := r.numbers()
	detail := r.Detail
	if detail == "" && r.Result != nil {
		detail = r.Result.Note
	}
	return map[string]any{
		"p": r.Problem.Index, "m": r.Method.Index, "c": r.Case.Index,
		"o": r.Outcome(), "d": detail, "cmd": r.Command(), "id": r.ID,
		"v": shorter(n.objective), "b": shorter(n.bound), "by": n.by, "g": shorter(r.Gap),
		"pf": n.proof, // of the bound
		"cl": shorter(n.claimed), "en": n.ended,
		"t": short(n.time), "cpu": shorter(n.cpu), "pk": shorter(n.peak), "rss": r.PeakRSS,
		"s": r.Task.Seed, "n": r.Task.Repetition,
		"st":  bit(Stopped(r.Row)), // the time is where it was stopped
		"fl":  r.failed(),
		"pr":  bit(Proved(r.Row)),
		"win": bit(r.Case.Cells[r.Method.Index].Won),
	}
}

// slots reports whether the problem counts memory in slots.
func slots(problem string) bool {
	p, err := catalog.FindProblem(problem)
	return err == nil && p.Slots
}
