package results

import (
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/model/plan"
)

// result returns a row of a method on one case.
func result(method string, status solve.Status, objective, bound float64) *sweep.Row {
	t := sweep.Task{
		Format: sweep.TaskFormat, Problem: plan.Remat, Method: method, Instance: "a/net.json", SHA256: strings.Repeat("a", 64),
		Memory: 6, TimeLimit: 10,
	}
	r := &sweep.Row{Format: sweep.RowFormat, Task: t, ID: t.ID(), Result: &solve.Result{
		Problem: t.Problem, Method: method, Kind: solve.Heuristic, Status: status, WallTime: 1, Parameters: solve.Parameters{TimeLimit: 10},
	}}
	if objective > 0 {
		r.Result.Objective = number(objective)
	}
	if bound > 0 {
		r.Result.Bound = &solve.Bound{Value: bound, By: method}
	}
	return r
}

func TestOutcomes(t *testing.T) {
	killed := result("m", solve.Feasible, 1, 0)
	killed.Result, killed.Failure = nil, &sweep.Failure{Reason: sweep.OutOfMemory, Detail: "2 GiB"}
	relaxed := func(status solve.Status, bound float64) *sweep.Row {
		r := result("m", status, 0, bound)
		r.Result.Kind = solve.Relaxed
		return r
	}
	late := func(r *sweep.Row) *sweep.Row { r.Result.WallTime = 9.9; return r }
	for _, x := range []struct {
		name            string
		row             *sweep.Row
		reason          string
		proved, stopped bool
	}{
		{"plan", result("m", solve.Feasible, 2, 1), "", false, false},
		{"plan at the limit", late(result("m", solve.Feasible, 2, 1)), "", false, true},
		{"proof at the limit", late(result("m", solve.Optimal, 2, 2)), "", true, false},
		{"infeasible", result("m", solve.Infeasible, 0, 0), "", true, false},
		{"no plan", result("m", solve.Limit, 0, 1), NoPlan, false, true},
		{"error", result("m", solve.Failed, 0, 1), MethodFailed, false, true},
		{"error with a number", result("m", solve.Failed, 2, 1), MethodFailed, false, true},
		{"killed", killed, sweep.OutOfMemory, false, true},
		{"bound", relaxed(solve.Optimal, 1), "", true, false},
		{"bound at the limit", late(relaxed(solve.Limit, 1)), "", false, true},
		{"no bound", relaxed(solve.Limit, 0), NoPlan, false, true},
	} {
		reason, _ := Failure(x.row)
		if reason != x.reason || Proved(x.row) != x.proved || Stopped(x.row) != x.stopped {
			t.Errorf("%s: reason %q, proved %v, stopped %v", x.name, reason, Proved(x.row), Stopped(x.row))
		}
		if _, ok := Objective(x.row); ok != (x.reason == "" && x.row.Result.Objective != nil) {
			t.Errorf("%s: has an objective: %v", x.name, ok)
		}
	}
}

func TestBestBound(t *testing.T) {
	assuming := func(r *sweep.Row) *sweep.Row { r.Result.Bound.Assumptions = []string{"one-periodic"}; return r }
	for _, x := range []struct {
		name        string
		rows        []*sweep.Row
		by          string
		contradicts bool
	}{
		{
			"largest",
			[]*sweep.Row{result("a", solve.Feasible, 9, 3), result("b", solve.Feasible, 8, 5), result("c", solve.Feasible, 9, 4)},
			"b",
			false,
		},
		{"none", []*sweep.Row{result("a", solve.Feasible, 9, 0)}, "", false},
		{"of a method that failed", []*sweep.Row{result("a", solve.Feasible, 9, 3), result("b", solve.Failed, 0, 7)}, "a", false},
		{"under assumptions", []*sweep.Row{result("a", solve.Feasible, 9, 3), assuming(result("b", solve.Feasible, 9, 7))}, "b", false},
		{
			"under assumptions that a plan breaks",
			[]*sweep.Row{result("a", solve.Feasible, 6, 3), assuming(result("b", solve.Feasible, 9, 7))},
			"a", false,
		},
		{"beaten", []*sweep.Row{result("a", solve.Feasible, 6, 3), result("b", solve.Feasible, 9, 7)}, "b", true},
		{"beaten by rounding", []*sweep.Row{result("a", solve.Feasible, 7-1e-9, 3), result("b", solve.Feasible, 9, 7)}, "b", false},
		{"a plan of what is infeasible", []*sweep.Row{result("a", solve.Feasible, 6, 3), result("b", solve.Infeasible, 0, 0)}, "a", true},
	} {
		for range 2 {
			facts := FactsOf(x.rows)
			c := CaseOf(&x.rows[0].Task)
			by := ""
			if r := facts.Bound(c); r != nil {
				by = r.Task.Method
			}
			if by != x.by {
				t.Errorf("%s: best bound by %q", x.name, by)
			}
			if got := facts.Contradiction(c); (got != nil) != x.contradicts {
				t.Errorf("%s: contradiction %v", x.name, got)
			}
			slices.Reverse(x.rows)
		}
	}
}

func TestLabels(t *testing.T) {
	a := Configuration{Problem: "remat", Method: "milp", Backend: "highs", TimeLimit: 60, Threads: 1}
	b, c, d := a, a, a
	b.Backend = "lpsolve"
	c.Backend, c.TimeLimit = "lpsolve", 120
	d.Method = "greedy"
	e := d
	e.TaskMemory = 2 << 30
	x := Configuration{Problem: "pipeline", Method: "branch-and-bound"}
	y := x
	y.Threads = 2
	labels := Labels([]Configuration{a, b, c, d, e, x, y})
	for who, want := range map[Configuration]string{
		a: "milp (highs, 60 s)", b: "milp (lpsolve, 60 s)", c: "milp (lpsolve, 120 s)",
		d: "greedy (any memory)", e: "greedy (2 GiB a process)", x: "branch-and-bound (1 thread)", y: "branch-and-bound (2 threads)",
	} {
		if labels[who] != want {
			t.Errorf("%q, want %q", labels[who], want)
		}
	}
}

// A shell reads back the words of a command.
func TestCommandInAShell(t *testing.T) {
	task := sweep.Task{
		Problem: plan.Pipeline, Method: "milp", Instance: "it's a net; $(rm x) `y`\\?.json", Memory: 1.1e10 / 3, Bandwidth: 12e9, Processors: 4,
		Replicas:    true,
		MemoryModel: "task", Slots: 50, Backend: "highs", Threads: 2, TimeLimit: 0.25, Gap: 1e-4, Seed: 7,
	}
	command := Command(&task)
	out, err := exec.Command("sh", "-c", strings.Replace(command, "workbench", `printf '%s\n'`, 1)).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"solve", task.Instance, "--problem", "pipeline", "--method", "milp", "--memory", "3666666666.6666665", "--bandwidth", "12000000000",
		"--processors", "4", "--weight-copies", "0", "--replicas", "--memory-model", "task", "--slots", "50", "--backend", "highs", "--threads",
		"2",
		"--time-limit", "0.25", "--gap", "0.0001", "--seed", "7",
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n"); !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	if c := Command(&sweep.Task{
		Problem: plan.Remat, Method: "revolve", Instance: "zoo:vgg16",
		Memory: 6,
	}); c != "workbench solve zoo:vgg16 --problem remat --method revolve --memory 6 --time-limit none" {
		t.Error(c)
	}
}

func TestReadAndMissing(t *testing.T) {
	dir := t.TempDir()
	done := result("a", solve.Feasible, 9, 3)
	other := done.Task
	other.Method = "b"
	if err := store.WriteTasks(dir, &store.Sweep{Name: "night", Tasks: []sweep.Task{done.Task, other}}); err != nil {
		t.Fatal(err)
	}
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	done.Sweep, done.Attempt, done.Worker = "night", 1, "w"
	if err := s.Append(done, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	n, err := ReadNight(dir)
	if err != nil {
		t.Fatal(err)
	}
	if missing := n.Missing(); n.Name != "night" || len(n.Rows) != 1 || len(missing) != 1 || missing[0].Method != "b" {
		t.Errorf("%+v, missing %v", n, missing)
	}
	if n, err := ReadNight(dir + "/rows.jsonl"); err != nil || len(n.Rows) != 1 || n.Tasks != nil {
		t.Errorf("the file of rows: %+v, %v", n, err)
	}
	if _, err := ReadNight(dir + "/none"); err == nil {
		t.Error("nothing was read")
	}
}

func TestDigits(t *testing.T) {
	for x, want := range map[float64]string{
		0: "0", 242610995.2: "242610995.2", 1e-5: "0.00001", 1.5e-7: "1.5e-07", 1e18: "1e+18",
		-0.1: "-0.1",
	} {
		got := Digits(x)
		if back, err := strconv.ParseFloat(got, 64); got != want || err != nil || back != x {
			t.Errorf("%v: %s", x, got)
		}
	}
}

// Seeds and repetitions of a case are one sample; cases of one run say nothing.
func TestSpread(t *testing.T) {
	var list []*sweep.Row
	run := func(memory float64, seed, repetition int, time float64) {
		r := result("m", solve.Feasible, 1, 0)
		r.Task.Memory, r.Task.Seed, r.Task.Repetition, r.Result.WallTime = memory, seed, repetition, time
		list = append(list, r)
	}
	run(1, 0, 0, 5)
	if s := SpreadOf(list); s != nil || s.String() != "–" {
		t.Fatalf("one run has the spread %+v", s)
	}
	run(1, 1, 0, 2.5-0.0005)
	run(1, 1, 1, 3)
	run(2, 0, 0, 0.999)
	run(2, 2, 0, 3.999)
	run(3, 0, 0, 100)
	s := SpreadOf(list)
	if s == nil || s.Cases != 2 || math.Abs(s.Median-3) > 1e-3 || math.Abs(s.Most-4) > 1e-9 {
		t.Fatalf("spread %+v, want a median of 3 and at most 4 of two cases", s)
	}
	if got := s.String(); got != "×3 (×4)" {
		t.Errorf("written %s", got)
	}
}
