package results

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/bench/sweep"
	"workbench/bench/sweep/results/resultstest"
	"workbench/model/testfile"
)

var small = resultstest.Size{Instances: 6, Limits: 3, Repetitions: 2}

func page(t testing.TB, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func csvText(t *testing.T, rows [][]string) string {
	t.Helper()
	var b bytes.Buffer
	if err := csvTable(rows)(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The numbers of the tables, and the pictures, are what they were.
func TestGolden(t *testing.T) {
	r := NewReport(madeNight(small, "b", 2), nil)
	testfile.Golden(t, "methods.csv", csvText(t, r.methodsTable()))
	testfile.Golden(t, "failures.csv", csvText(t, r.failuresTable()))
	testfile.Golden(t, "cases.csv", csvText(t, r.casesTable()))
	for _, f := range r.Problems[0].figures()[:4] {
		var b bytes.Buffer
		if err := f.figure.Write(&b, "svg"); err != nil {
			t.Fatal(err)
		}
		testfile.Golden(t, f.name+".svg", b.String())
	}
}

// Rows in another order, and other runs of the program, give the same bytes.
func TestSameBytes(t *testing.T) {
	n := madeNight(small, "b", 2)
	want := page(t, NewReport(n, nil))
	random := rand.New(rand.NewPCG(1, 1))
	for range 3 {
		random.Shuffle(len(n.Rows), func(i, j int) { n.Rows[i], n.Rows[j] = n.Rows[j], n.Rows[i] })
		if page(t, NewReport(n, nil)) != want {
			t.Fatal("the page depends on the order of rows")
		}
	}
}

// The definition, problem by problem and τ by τ.
func TestProfileAgainstDefinition(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		solvers, problems := rapid.IntRange(1, 4).Draw(t, "solvers"), rapid.IntRange(1, 6).Draw(t, "problems")
		values := make([][]float64, solvers)
		for s := range values {
			values[s] = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 1.5, 2, 3, 4, 7, math.Inf(1)}), problems, problems).Draw(t, "values")
		}
		functions := profile(values)
		for s := range values {
			for _, tau := range []float64{1, 1.2, 1.5, 2, 3, 4, 7, 100} {
				within := 0
				for p := range problems {
					best := math.Inf(1)
					for i := range values {
						best = min(best, values[i][p])
					}
					if !math.IsInf(values[s][p], 1) && values[s][p] <= tau*best {
						within++
					}
				}
				if got, want := at(functions[s], tau), float64(within)/float64(problems); got != want {
					t.Fatalf("ρ_%d(%v) = %v, by definition %v, of %v", s, tau, got, want, values)
				}
			}
		}
	})
}

// at evaluates a step function.
func at(f Steps, x float64) (y float64) {
	for i := range f.X {
		if f.X[i] <= x {
			y = f.Y[i]
		}
	}
	return y
}

// No method and no case is left out of any table, whatever became of it.
func TestNothingIsLeftOut(t *testing.T) {
	n := madeNight(small, "b", 2)
	r := NewReport(n, nil)
	p := r.Problems[0]
	if len(p.Methods) != len(resultstest.Methods) || len(p.Cases) != 18 {
		t.Fatalf("%d methods, %d cases", len(p.Methods), len(p.Cases))
	}
	text := page(t, r)
	cases := csvText(t, r.casesTable())
	for _, m := range p.Methods {
		if m.Runs+2*m.NotRun != 36 { // two repetitions
			t.Errorf("%s: %d runs, %d cases not run", m.Label, m.Runs, m.NotRun)
		}
		if m.Plans+m.NoPlan+m.Failed+m.Infeasible != m.Runs && !m.OnlyBounds() {
			t.Errorf("%s: %d plans, %d without, %d failed of %d runs", m.Label, m.Plans, m.NoPlan, m.Failed, m.Runs)
		}
		if !strings.Contains(text, ">"+m.Label+"</a>") {
			t.Errorf("%s is not on the page", m.Label)
		}
		if got := strings.Count(cases, ","+m.Label+","); got != 18 {
			t.Errorf("%s: %d cases in the table", m.Label, got)
		}
	}
	for _, reason := range []string{"memory", "crashed", "no-plan", "not-run"} {
		if !strings.Contains(text, reason) || !strings.Contains(cases, ","+reason+",") {
			t.Errorf("%q is not to be seen", reason)
		}
	}
	if want := strings.Count(text, `"`+"workbench solve "); want != len(n.Rows) {
		t.Errorf("%d commands for %d rows", want, len(n.Rows))
	}
	// What fails or was not run counts as not solving the case in figures.
	for _, f := range append(p.ObjectiveProfile(), p.GapDistribution()...) {
		k := slices.IndexFunc(p.Methods, func(m *Method) bool { return m.Label == f.Label })
		solved := 0
		for _, c := range p.Cases {
			if !math.IsInf(c.Cells[k].Objective, 1) {
				solved++
			}
		}
		if top := f.Y[len(f.Y)-1]; math.Abs(top-float64(solved)/18) > 1e-12 {
			t.Errorf("%s rises to %v, it has plans for %d of 18 cases", f.Label, top, solved)
		}
	}
}

// A method that was not to do a case is not blamed for it; one that has not done
// what it was to do is.
func TestNotAsked(t *testing.T) {
	n := madeNight(small, "b", 2)
	var left *sweep.Row
	for _, r := range n.Rows {
		n.Tasks = append(n.Tasks, r.Task)
		if r.Task.Method == "floating" && left == nil {
			left = r
		}
	}
	n.Rows = slices.DeleteFunc(n.Rows, func(r *sweep.Row) bool {
		return r.Task.Method == "floating" && CaseOf(&r.Task) == CaseOf(&left.Task)
	})
	p := NewReport(n, nil).Problems[0]
	curves := map[string]Steps{}
	for _, f := range p.GapDistribution() {
		curves[f.Label] = f
	}
	for _, x := range []struct {
		curve, method string
		cases, notRun int
		top           float64
	}{
		{"persistent", "persistent", 18, 0, 1},
		{"floating", "floating", 18, 1, 17. / 18},
		{"optimum (12 of 18)", "optimum", 12, 0, 1},
	} {
		m := p.Methods[slices.IndexFunc(p.Methods, func(m *Method) bool { return m.Label == x.method })]
		if m.Cases != x.cases || m.NotRun != x.notRun {
			t.Errorf("%s: %d cases, %d not run, want %d and %d", x.method, m.Cases, m.NotRun, x.cases, x.notRun)
		}
		f, ok := curves[x.curve]
		if !ok || math.Abs(f.Y[len(f.Y)-1]-x.top) > 1e-12 {
			t.Errorf("%s: %v, want a curve up to %v", x.curve, f, x.top)
		}
	}
}

// A summary by hand: two methods on two cases.
func TestSummaryByHand(t *testing.T) {
	n := madeNight(resultstest.Size{Instances: 1, Limits: 2, Repetitions: 1}, "b", 2)
	set := map[string][2]float64{"persistent": {12, 10}, "floating": {11, 10}, "optimum": {10, 0}}
	var list []int
	for i, r := range n.Rows {
		x, ok := set[r.Task.Method]
		if !ok {
			continue
		}
		list = append(list, i)
		value := x[0]
		if r.Task.MemoryName == "100%" {
			value = x[1]
		}
		r.Result.Objective, r.Result.Bound.Value, r.Result.CPUTime = &value, 8, 2
		if value == 0 {
			r.Result.Status, r.Result.Objective, r.Result.Bound = "limit", nil, nil
		}
	}
	kept := n.Rows[:0]
	for _, i := range list {
		kept = append(kept, n.Rows[i])
	}
	n.Rows = kept
	p := NewReport(n, nil).Problems[0]
	for _, m := range p.Methods {
		got := []float64{float64(m.Wins), float64(m.Alone), m.ToBest, m.Quantile(1), m.PAR10, float64(m.NoPlan)}
		want := map[string][]float64{
			"persistent": {1, 0, math.Sqrt(1.2), 1 - 8./12, 2, 0},
			"floating":   {1, 0, math.Sqrt(1.1), 1 - 8./11, 2, 0},
			"optimum":    {1, 1, 1, 0.2, 301, 1}, // (2 + 10·60)/2
		}[m.Label]
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-9 {
				t.Errorf("%s: %v, want %v", m.Label, got, want)
				break
			}
		}
	}
}

// A plan below another's bound is shown above everything else.
func TestContradictions(t *testing.T) {
	n := madeNight(small, "b", 2)
	if r := NewReport(n, nil); len(r.Contradictions) > 0 {
		t.Fatalf("%v", r.Contradictions)
	}
	for _, r := range n.Rows {
		if r.Task.Method == "chain-bound" && r.Result.Instance.Name == "net001" {
			r.Result.Bound.Value *= 1.5
		}
	}
	r := NewReport(n, nil)
	if len(r.Contradictions) == 0 || !strings.Contains(page(t, r), `id="contradictions"`) ||
		!strings.Contains(page(t, r), "the bound is wrong") {
		t.Errorf("%v", r.Contradictions)
	}
}

func TestMissingAndDamaged(t *testing.T) {
	n := madeNight(small, "b", 2)
	for _, r := range n.Rows {
		n.Tasks = append(n.Tasks, r.Task)
	}
	n.Rows, n.Damaged, n.Torn = n.Rows[:len(n.Rows)-5], 3, 1
	text := page(t, NewReport(n, nil))
	for _, want := range []string{"5 tasks of the list not run", "3 damaged lines", "1 line not written"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// Words of rows are text on the page, never markup or script.
func TestHostileWords(t *testing.T) {
	n := madeNight(small, "b", 2)
	const evil = `</script><script>document.title="owned"</script><img src=x onerror=alert(1)>`
	for _, r := range n.Rows {
		r.Sweep, r.Task.Instance, r.Task.MemoryName = evil, evil, evil
		if r.Result != nil {
			r.Result.Instance.Name, r.Result.Note = evil, evil
		} else {
			r.Failure.Detail = evil
		}
	}
	n.Name = evil
	text := page(t, NewReport(n, nil))
	if strings.Contains(text, "<img") || strings.Contains(text, `<script>document`) || strings.Count(text, "</script>") != 2 {
		t.Error("a row's words are markup")
	}
}

// The page asks for nothing beside itself.
func TestPageIsSelfContained(t *testing.T) {
	old, n := madeNight(small, "a", 1), madeNight(small, "b", 2)
	c, err := Compare(old, n, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	text := page(t, NewReport(n, c))
	if m := regexp.MustCompile(`(?i)(src|href)\s*=\s*["']?(https?:|//|file:)|@import|url\(|fetch\(|XMLHttpRequest|import\(`).FindString(
		text); m != "" {
		t.Errorf("the page has %q", m)
	}
	if !strings.Contains(text, "default-src 'none'") {
		t.Error("no content security policy")
	}
}

// Nights side by side are in their order, the last is that of the report, and times are of the tasks that all have.
func TestNightsSideBySide(t *testing.T) {
	nights := make([]*Night, 3)
	for k, source := range manyNights(3, func(k int, n *Night) { n.Rows = n.Rows[k:] }) {
		nights[k] = source.Night
	}
	r, err := NewReportAfter(nights[2], []*Night{nights[1], nights[0]}, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if r.Comparison.Old.Versions[0] != "v1" || len(r.Nights) != 3 {
		t.Fatalf("compared with %v, %d nights", r.Comparison.Old.Versions, len(r.Nights))
	}
	for k, c := range r.Nights {
		sum := 0.0
		for _, row := range nights[k].Rows[2-k:] {
			sum += Time(row)
		}
		if c.Versions[0] != "v"+string(rune('0'+k)) || c.Tasks != len(nights[k].Rows) || c.Matched != len(nights[2].Rows) ||
			math.Abs(c.Time-sum) > 1e-9*sum || c.NoPlan+c.Failed+c.Proved == 0 {
			t.Errorf("night %d: %+v, want %d tasks and %g s of %d", k, c, len(nights[k].Rows), sum, len(nights[2].Rows))
		}
	}
	if text := page(t, r); strings.Count(text, `<table id="side">`) != 1 || !strings.Contains(text, "cases with an open gap") {
		t.Error("no table of nights on the page")
	}
}

func TestEmptyNight(t *testing.T) {
	if text := page(t, NewReport(&Night{Name: "nothing"}, nil)); !strings.Contains(text, "0 runs") {
		t.Error(text[:200])
	}
}

// The library is what its page says it is.
func TestUPlotIsUnchanged(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join("uplot", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"uPlot.iife.min.js", "uPlot.min.css", "LICENSE"} {
		data, err := os.ReadFile(filepath.Join("uplot", name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		if !strings.Contains(string(readme), "| "+name+" | "+hex.EncodeToString(sum[:])+" |") {
			t.Errorf("%s has another sum than README.md says", name)
		}
	}
	if !strings.Contains(uplotJS, "(v1.6.32)") {
		t.Error("another version of uPlot")
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	if err := NewReport(madeNight(resultstest.Size{Instances: 2, Limits: 2, Repetitions: 1}, "b", 2), nil).WriteFolder(dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"index.html", "methods.csv", "cases.csv", "failures.csv", "runs.csv", "remat-gap.svg", "remat-gap.png", "remat-gap.csv",
		"remat-profile-makespan.svg", "remat-profile-time.svg", "remat-tradeoff-net000.svg", "remat-tradeoff-net001.png",
	} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNamesOfFiles(t *testing.T) {
	given := map[string]int{}
	for _, x := range []struct{ name, want string }{
		{"ResNet-50, 12 GB/s", "resnet-50-12-gb-s"},
		{"resnet 50 12 GB s", "resnet-50-12-gb-s-2"},
		{"../../etc", "etc"},
		{strings.Repeat("x", 200), strings.Repeat("x", 80)},
	} {
		if got := unique(given, slug(x.name)); got != x.want {
			t.Errorf("%q: %q, want %q", x.name, got, x.want)
		}
	}
}

// A bound for more memory holds for less.
func TestBoundOfTradeoff(t *testing.T) {
	n := madeNight(small, "b", 2)
	for _, r := range n.Rows {
		if r.Result != nil && r.Result.Bound != nil && r.Task.MemoryName != "100%" {
			r.Result.Bound.Value = 1e-3
		}
	}
	p := NewReport(n, nil).Problems[0]
	if len(p.Tradeoffs) != 6 {
		t.Fatalf("%d trade-offs", len(p.Tradeoffs))
	}
	for _, f := range p.Tradeoffs {
		for _, b := range f.bound() {
			if last := f.Cases[2].Bound.Result.Bound.Value; b != last {
				t.Errorf("%s: bound %v, that of all memory is %v", f.Name, b, strconv.FormatFloat(last, 'g', -1, 64))
			}
		}
	}
}

// Two instances of one name, as the chain and the training step of a network, are two cases that a reader can distinguish.
func TestInstancesOfOneName(t *testing.T) {
	n := madeNight(resultstest.Size{Instances: 2, Limits: 1, Repetitions: 1}, "a", 1)
	for _, r := range n.Rows {
		if r.Result != nil {
			r.Result.Instance.Name = "net"
		}
	}
	for _, p := range NewReport(n, nil).Problems {
		names := map[string]bool{}
		for _, c := range p.Cases {
			names[c.Instance] = true
		}
		if len(names) != 2 || names["net"] {
			t.Errorf("%s: %v", p.Name, names)
		}
	}
}
