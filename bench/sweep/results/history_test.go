package results

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/results/resultstest"
	"workbench/model/testfile"
)

// nights are so many of the same tasks, a day apart, by versions v0, v1, …; change may
// make the rows of night k worse.
func manyNights(count int, change func(k int, n *Night)) (list []Source) {
	for k := range count {
		version := "v" + string(rune('0'+k))
		n := madeNight(resultstest.Size{Instances: 4, Limits: 2, Repetitions: 1}, version, uint64(k))
		for _, r := range n.Rows {
			r.Started = r.Started.AddDate(0, 0, k)
			r.Finished = r.Finished.AddDate(0, 0, k)
		}
		change(k, n)
		list = append(list, Source{Folder: version, Night: n})
	}
	return list
}

// worse makes the plan of the first row of a method slower by a tenth, and returns its task.
func worse(n *Night, method string) string {
	for _, r := range n.Rows {
		if r.Task.Method == method && r.Result != nil && r.Result.Objective != nil && r.Result.Status == solve.Feasible && !Stopped(r) {
			x := *r.Result.Objective * 1.1
			r.Result.Objective = &x
			return Key(r.Task)
		}
	}
	panic("no row to make worse")
}

func find(h *History, kind Kind, method string) []Change {
	return slices.DeleteFunc(slices.Clone(h.Changes), func(c Change) bool { return c.Kind != kind || c.Task.Method != method })
}

// A plan that got worse in the third of five nights and stayed so is found with that night
// and its version; one that recovered does not stand.
func TestRegressionsAreDated(t *testing.T) {
	t.Parallel()
	sources := manyNights(5, func(k int, n *Night) {
		if k >= 2 {
			worse(n, "persistent")
		}
		if k == 1 {
			worse(n, "revolve")
		}
	})
	slices.Reverse(sources) // the order of arguments is not that of nights
	h, err := NewHistory(sources, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if got := []string{h.Nights[0].Folder, h.Nights[4].Folder}; !slices.Equal(got, []string{"v0", "v4"}) {
		t.Errorf("nights from %s to %s, want v0 to v4", got[0], got[1])
	}
	standing := find(h, WorsePlan, "persistent")
	if len(standing) != 1 || !standing[0].Stands || standing[0].Night != 2 || h.Nights[standing[0].Night].Versions[0] != "v2" {
		t.Errorf("persistent: %+v, want one that stands since night 2 of version v2", standing)
	}
	over := find(h, WorsePlan, "revolve")
	if len(over) != 1 || over[0].Stands || over[0].Night != 1 {
		t.Errorf("revolve: %+v, want one in night 1 that is over", over)
	}
	if h.Standing() != 1 || !h.Changes[0].Stands || !h.Changes[0].Regression {
		t.Errorf("%d regressions stand, want 1, listed first", h.Standing())
	}
	for _, m := range h.Methods {
		if m.Method == allMethods || m.Method == "chain-bound" {
			continue
		}
		if len(m.Objective) != 5 || m.Objective[0] == nil || *m.Objective[0] != 1 {
			t.Errorf("%s: %v, want five nights from 1 on", m.Method, m.Objective)
		}
		if last := m.Objective[4]; m.Method == "persistent" && (last == nil || *last <= 1) {
			t.Errorf("persistent ends at %v, want above 1", last)
		}
	}
}

// A plan that got worse behind a hole, a night that did not run the task or in which it
// failed, is found with the night that has it first; and it still stands when the last night has
// a hole. Three nights with one regression have one.
func TestRegressionsBehindHoles(t *testing.T) {
	t.Parallel()
	key := ""
	without := func(n *Night) {
		n.Rows = slices.DeleteFunc(n.Rows, func(r *sweep.Row) bool { return Key(r.Task) == key })
	}
	failed := func(n *Night) {
		for i, r := range n.Rows {
			if Key(r.Task) == key {
				x := *r
				x.Result, x.Failure = nil, &sweep.Failure{Reason: sweep.Crashed, Detail: "for the test"}
				n.Rows[i] = &x
			}
		}
	}
	for name, x := range map[string]struct {
		holes []int
		hole  func(*Night)
	}{
		"not run":       {[]int{2}, without},
		"failed":        {[]int{2}, failed},
		"not run twice": {[]int{1, 2}, without},
		"last not run":  {[]int{2, 5}, without},
	} {
		sources := manyNights(6, func(k int, n *Night) {
			if k >= 3 {
				key = worse(n, "persistent")
			}
		})
		for _, k := range x.holes {
			x.hole(sources[k].Night)
		}
		h, err := NewHistory(sources, Defaults())
		if err != nil {
			t.Fatal(err)
		}
		found := find(h, WorsePlan, "persistent")
		if len(found) != 1 || found[0].Night != 3 || !found[0].Stands || h.Nights[found[0].Night].Versions[0] != "v3" {
			t.Errorf("%s: %+v, want one that stands since night 3 of version v3", name, found)
		}
	}
}

// What a method does is listed before tasks that came or went, though these are newer.
func TestTasksThatCameOrWentAreLast(t *testing.T) {
	t.Parallel()
	h, err := NewHistory(manyNights(3, func(k int, n *Night) {
		if k == 1 {
			worse(n, "revolve")
		}
		if k == 2 {
			n.Rows = n.Rows[:len(n.Rows)-3]
		}
	}), Defaults())
	if err != nil {
		t.Fatal(err)
	}
	count := len(h.Changes)
	if count < 4 || h.Changes[0].Kind == NotRun {
		t.Fatalf("%+v, want the worse plan first", h.Changes)
	}
	for _, c := range h.Changes[count-3:] {
		if c.Kind != NotRun || !c.Stands {
			t.Errorf("%s, standing %v, among the last three, want not-run only, which stands", c.Kind, c.Stands)
		}
	}
}

func TestEqualNightsHaveNoHistory(t *testing.T) {
	t.Parallel()
	h, err := NewHistory(manyNights(3, func(int, *Night) {}), Defaults())
	if err != nil {
		t.Fatal(err)
	}
	if h.Standing() != 0 {
		t.Errorf("%+v stands", h.Changes[0])
	}
}

func TestHistoryNeedsTwoNightsWithCommonTasks(t *testing.T) {
	t.Parallel()
	two := manyNights(2, func(k int, n *Night) {
		for _, r := range n.Rows {
			r.Task.SHA256 += string(rune('a' + k))
		}
	})
	for _, sources := range [][]Source{two[:1], two} {
		if _, err := NewHistory(sources, Defaults()); !errors.Is(err, solve.ErrInput) {
			t.Errorf("%d nights: %v, want an error of the user's", len(sources), err)
		}
	}
}

// The page is well-formed, has every night, and needs nothing beside itself.
func TestPage(t *testing.T) {
	t.Parallel()
	sources := manyNights(3, func(k int, n *Night) {
		if k == 2 {
			worse(n, "floating")
		}
	})
	h, err := NewHistory(sources, Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := h.WriteHTML(&b, sources); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"1 regression stands", "v2", "worse-plan", "<polyline",
		"remat objective, ratio to the first night", ">night</text>", ">×1</text>", ">×1.0", "REGRESSION stands: 1 worse-plan", "default-src &#39;none&#39;",
	} {
		if !strings.Contains(strings.ReplaceAll(b.String(), "'none'", "&#39;none&#39;"), want) {
			t.Errorf("no %q on the page", want)
		}
	}
	if strings.Contains(b.String(), "http") && strings.Contains(b.String(), "src=") {
		t.Error("the page asks for something")
	}
	d := xml.NewDecoder(&b)
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := testfile.Schema(t, "history-v2.json")(string(data)); err != nil {
		t.Error(err)
	}
}

// Nine nights with times of one method that grow by 5 % a night: each night alone is below the
// threshold, and the line is a slope that the verdict names.
func TestDriftIsASlope(t *testing.T) {
	t.Parallel()
	h, err := NewHistory(manyNights(9, func(k int, n *Night) {
		for _, r := range n.Rows {
			if r.Task.Method == "persistent" && r.Result != nil {
				r.Result.CPUTime *= math.Pow(1.05, float64(k))
			}
		}
	}), Defaults())
	if err != nil {
		t.Fatal(err)
	}
	_, steps := h.standing()
	if len(steps) != 1 || !steps[0].Slope || steps[0].Method != "persistent" || math.Abs(steps[0].Change-0.05) > 0.01 {
		t.Errorf("%+v, want a slope of 5 %% a night of persistent", steps)
	}
	if v := h.Verdict(); !strings.Contains(v, "persistent: times +") || !strings.Contains(v, "a night since night 0 (v0..v8)") {
		t.Error(v)
	}
}

// Times ×1.5 from one night to the next are a regression for history as for compare, of one method
// and of all together.
func TestHistorySeesWhatCompareSees(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"persistent", ""} {
		sources := manyNights(2, func(k int, n *Night) {
			for _, r := range n.Rows {
				if k == 1 && r.Result != nil && (method == "" || r.Task.Method == method) {
					r.Result.CPUTime *= 1.5
				}
			}
		})
		c, err := Compare(sources[0].Night, sources[1].Night, Defaults())
		if err != nil {
			t.Fatal(err)
		}
		h, err := NewHistory(sources, Defaults())
		if err != nil {
			t.Fatal(err)
		}
		if !c.Regressed || h.Standing() == 0 || !strings.Contains(h.Verdict(), "(v0..v1)") ||
			!strings.HasPrefix(c.Verdict(), "REGRESSION v0..v1: ") {
			t.Errorf("%q: compare %q, history %q", method, c.Verdict(), h.Verdict())
		}
	}
}

// All charts of a measure have one scale, whose ends are the smallest and the largest ratio, and name 1.
func TestChartsHaveOneScale(t *testing.T) {
	t.Parallel()
	x := func(values ...float64) (list []*float64) {
		for _, v := range values {
			list = append(list, number(v))
		}
		return list
	}
	h := &History{Nights: make([]HistoryNight, 3), Methods: []Line{
		{"remat", "a", x(1, 1, 1), x(1, 1, 1), x(1, 1.5, math.NaN())},
		{"remat", "b", x(1, 1, 2), x(1, 1, 1), x(1, 1, 1)},
		{"swap", "c", x(1, 0.5, 0.5), x(math.NaN(), math.NaN(), math.NaN()), x(1, 1, 1)},
	}}
	var got []string
	for _, c := range h.charts() {
		ends := ""
		for _, m := range regexp.MustCompile(`class="end">([^<]*)<`).FindAllStringSubmatch(string(c.Picture), -1) {
			ends += " " + m[1]
		}
		got = append(got, c.Title+ends+" "+strings.Join(c.Legend, " "))
	}
	want := []string{"remat objective ×1 ×0.5 ×2 b", "swap objective ×1 ×0.5 ×2 c", "remat processor time ×1 ×1.5 a"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
