package results

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// night makes rows by a stated truth and stated noise.
type night struct {
	instances, repetitions int
	methods                []string
	timeNoise              float64 // standard deviation of logarithms
	planNoise              float64 // of the plans of runs that are stopped
	random                 *rand.Rand
	version                string
	// change edits each row.
	change func(r *sweep.Row)
}

// stopsWithLess makes a run one that was stopped with a plan and a bound that are a
// tenth off.
func stopsWithLess(r *sweep.Row) {
	r.Result.Status, r.Result.WallTime = solve.Feasible, 60
	*r.Result.Objective *= 1.1
	r.Result.Bound.Value *= 0.9
}

// stoppedMethod always uses up its time limit, edgeMethod proves in most of it.
const (
	stoppedMethod = "milp"
	exactMethod   = "dynprog"
)

func (n night) rows() *Night {
	if n.random == nil {
		n.random = rand.New(rand.NewPCG(1, 2))
	}
	if n.repetitions == 0 {
		n.repetitions = 1
	}
	if n.methods == nil {
		n.methods = []string{"greedy", exactMethod, stoppedMethod}
	}
	out := &Night{Name: "simulated"}
	for i := range n.instances {
		for _, method := range n.methods {
			for rep := range n.repetitions {
				r := n.row(i, method, rep)
				if n.change != nil {
					n.change(r)
				}
				r.ID = r.Task.ID()
				out.Rows = append(out.Rows, r)
			}
		}
	}
	return out
}

func (n night) row(i int, method string, rep int) *sweep.Row {
	truth := rand.New(rand.NewPCG(uint64(i), uint64(len(method))))
	best := 1 + float64(i%7)
	noise := func(sd float64) float64 { return math.Exp(sd * n.random.NormFloat64()) }
	objective, seconds, status, kind := best, 0.2+20*truth.Float64(), solve.Feasible, solve.Heuristic
	bound := 0.9 * best
	switch method {
	case "greedy":
		objective *= 1 + 0.2*truth.Float64()
	case exactMethod:
		status, kind, bound = solve.Optimal, solve.Exact, best
	case stoppedMethod:
		objective *= 1.3 * noise(n.planNoise)
		kind = solve.Exact
	}
	seconds *= noise(n.timeNoise)
	if method == stoppedMethod {
		seconds = 60
	}
	t := sweep.Task{
		Format: sweep.TaskFormat, Problem: plan.Remat, Method: method, Instance: fmt.Sprintf("net%d.json", i), SHA256: fmt.Sprintf("%064x", i),
		Memory: 1e9, MemoryName: "40%", TimeLimit: 60, Repetition: rep, Version: n.version,
	}
	return &sweep.Row{Format: sweep.RowFormat, Sweep: "simulated", Task: t, Attempt: 1, Result: &solve.Result{
		Format: solve.ResultFormat, Problem: plan.Remat, Method: method, Kind: kind, Status: status, WallTime: seconds,
		Instance: plan.InstanceRef{Name: fmt.Sprintf("net%d", i)}, Objective: &objective, Bound: &solve.Bound{Value: bound, By: method},
	}}
}

func nights(t *testing.T, old, new *Night, o Options) *Comparison {
	t.Helper()
	c, err := Compare(old, new, o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// regressions lists the kinds of findings that are regressions, and what they are about.
func regressions(c *Comparison) (out []string) {
	for _, f := range c.Findings {
		if f.Regression {
			out = append(out, string(f.Kind)+" "+f.Task.Method+" "+f.Name)
		}
	}
	return out
}

func TestIdenticalNightsAreSilent(t *testing.T) {
	a := night{instances: 40, repetitions: 2, timeNoise: 0.1, planNoise: 0.01, version: "a"}.rows()
	c := nights(t, a, a, Defaults())
	if c.Regressed || len(c.Findings) > 0 {
		t.Errorf("findings: %v", regressions(c))
	}
	if c.Matched != 120 || len(c.Groups) != 3 {
		t.Errorf("%d tasks, %d groups", c.Matched, len(c.Groups))
	}
	for _, g := range c.Groups {
		if g.Time.Mean != nil && *g.Time.Mean != 1 {
			t.Errorf("%s: ratio %v", g.Method, *g.Time.Mean)
		}
	}
}

// Nights that differ by noise alone, over many draws: with and without
// repetitions, with much and little noise.
func TestNoiseIsNoRegression(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	alarms, draws := 0, 0
	for _, x := range []struct {
		repetitions     int
		time, objective float64
	}{{1, 0.05, 0.002}, {1, 0.15, 0.005}, {1, 0.3, 0.005}, {3, 0.05, 0.002}, {3, 0.15, 0.01}, {5, 0.3, 0.03}} {
		for range testfile.Cases(40) {
			draw := func(version string) *Night {
				return night{
					instances: 60, repetitions: x.repetitions, timeNoise: x.time, planNoise: x.objective, random: random,
					version: version,
				}.rows()
			}
			draws++
			if c := nights(t, draw("a"), draw("b"), Defaults()); c.Regressed {
				alarms++
				t.Logf("%+v: %v", x, regressions(c))
			}
		}
	}
	// Two tests at 1 % each: 5 of 240 expected at most.
	if alarms > 5 {
		t.Errorf("%d false alarms in %d nights", alarms, draws)
	}
}

// Noise with a heavy tail: now and then a run takes three times as long.
func TestSpikesAreNoRegression(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 9))
	spike := func(r *sweep.Row) {
		if random.Float64() < 0.02 && r.Result.WallTime < 20 {
			r.Result.WallTime *= 3
		}
	}
	for i := range testfile.Cases(40) {
		draw := func() *Night {
			return night{instances: 60, repetitions: 3, timeNoise: 0.03, random: random, change: spike}.rows()
		}
		if c := nights(t, draw(), draw(), Defaults()); c.Regressed {
			t.Errorf("draw %d: %v", i, regressions(c))
		}
	}
}

// planted changes rows of one method by a factor.
func planted(method string, time, objective float64, only ...string) func(*sweep.Row) {
	return func(r *sweep.Row) {
		if r.Task.Method == method && (len(only) == 0 || slices.Contains(only, r.Result.Instance.Name)) {
			r.Result.WallTime *= time
			*r.Result.Objective *= objective
		}
	}
}

func expect(t *testing.T, c *Comparison, want ...string) {
	t.Helper()
	got := regressions(c)
	for _, w := range want {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, w) }) {
			t.Errorf("%q not found: %v", w, got)
		}
	}
	if c.Regressed != (len(want) > 0) {
		t.Errorf("regressed: %v, with %v", c.Regressed, got)
	}
	for _, g := range got {
		if !slices.ContainsFunc(want, func(s string) bool { return strings.HasPrefix(g, s) }) {
			t.Errorf("%q found, too", g)
		}
	}
}

// 2 % longer plans are found: of a method that comes to its end in every task,
// in a single one; of one that is stopped over all tasks.
func TestPlantedQuality(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	draw := func(change func(*sweep.Row)) *Night {
		return night{instances: 30, timeNoise: 0.1, planNoise: 0.003, random: random, change: change}.rows()
	}
	for range testfile.Cases(20) {
		c := nights(t, draw(nil), draw(planted("greedy", 1, 1.02)), Defaults())
		expect(t, c, "worse-plan greedy", "method-worse-plans greedy")
		if n := strings.Count(strings.Join(regressions(c), "\n"), "worse-plan greedy"); n != 30 {
			t.Errorf("%d of 30 worse plans found", n)
		}
		expect(t, nights(t, draw(nil), draw(planted("greedy", 1, 1.02, "net4")), Defaults()), "worse-plan greedy net4")
		expect(t, nights(t, draw(nil), draw(planted(stoppedMethod, 1, 1.02)), Defaults()), "method-worse-plans "+stoppedMethod)
	}
}

// With repetitions a single task of a stopped method shows 2 %, too.
func TestPlantedQualityWithRepetitions(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	draw := func(change func(*sweep.Row)) *Night {
		return night{instances: 30, repetitions: 5, planNoise: 0.002, random: random, change: change}.rows()
	}
	for range 10 {
		expect(t, nights(t, draw(nil), draw(planted(stoppedMethod, 1, 1.02, "net7")), Defaults()), "worse-plan "+stoppedMethod+" net7")
	}
}

// 20 % more time is found: over all tasks of a method without repetitions, in a
// single task with them.
func TestPlantedTime(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 7))
	for range testfile.Cases(20) {
		draw := func(change func(*sweep.Row)) *Night {
			return night{instances: 30, timeNoise: 0.08, random: random, change: change}.rows()
		}
		expect(t, nights(t, draw(nil), draw(planted("greedy", 1.2, 1)), Defaults()), "method-slower greedy")
		repeated := func(change func(*sweep.Row)) *Night {
			return night{instances: 30, repetitions: 5, timeNoise: 0.015, random: random, change: change}.rows()
		}
		expect(t, nights(t, repeated(nil), repeated(planted("greedy", 1.2, 1, "net9")), Defaults()), "slower greedy net9")
	}
}

// Each rule, by one row that is changed.
func TestRules(t *testing.T) {
	base := night{instances: 8}
	for _, x := range []struct {
		name        string
		before      func(*sweep.Row)
		change      func(*sweep.Row)
		want        []string
		repetitions int
		remark      Kind // a finding that is no regression
	}{
		{name: "plan one part in 10⁵ worse", change: func(r *sweep.Row) { *r.Result.Objective *= 1 + 1e-5 }, want: []string{"worse-plan"}},
		{name: "plan one part in 10⁷ worse", change: func(r *sweep.Row) { *r.Result.Objective *= 1 + 1e-7 }},
		{name: "better plan", change: func(r *sweep.Row) { *r.Result.Objective *= 1 - 1e-5 }, remark: BetterPlan},
		{name: "weaker bound", change: func(r *sweep.Row) { r.Result.Bound.Value *= 0.999 }, want: []string{"weaker-bound"}},
		{name: "stronger bound", change: func(r *sweep.Row) { r.Result.Bound.Value *= 1.001 }, remark: StrongerBound},
		{
			name: "proof lost", before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 44 },
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Feasible, 60 }, want: []string{"proof-lost"},
		},
		{
			name: "proof lost at the edge", before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 46 },
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Feasible, 60 }, remark: AtEdge,
		},
		{
			name:   "proof lost at the edge three times of three",
			before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 46 },
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Feasible, 60 }, repetitions: 3, want: []string{"proof-lost"},
		},
		{
			name:   "plan and bound of a run that is stopped now, at the edge",
			before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 46 },
			change: stopsWithLess, remark: AtEdge,
		},
		{
			name:   "plan and bound of a run that is stopped now, early",
			before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 30 },
			change: stopsWithLess, want: []string{"proof-lost", "weaker-bound", "worse-plan"},
		},
		{
			name: "no plan at the edge", before: tookSeconds(46), remark: AtEdge,
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime, r.Result.Objective = solve.Limit, 60, nil },
		},
		{
			name: "no plan early", before: tookSeconds(30), want: []string{"fails"},
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime, r.Result.Objective = solve.Limit, 60, nil },
		},
		{
			name: "proof lost early", before: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Optimal, 50 },
			change: func(r *sweep.Row) { r.Result.Status, r.Result.WallTime = solve.Feasible, 50 }, want: []string{"proof-lost"},
		},
		{name: "proof gained", change: func(r *sweep.Row) { r.Result.Status = solve.Optimal }, remark: ProofGained},
		{
			name: "proof of infeasibility lost", before: infeasible,
			change: func(r *sweep.Row) { infeasible(r); r.Result.Status = solve.Limit }, want: []string{"fails", "contradiction"},
		},
		{name: "a plan where there is none", before: infeasible, want: []string{"contradiction", "proof-lost"}},
		{
			name: "a plan below the other night's bound", before: func(
				r *sweep.Row,
			) {
				r.Result.Bound.Value = *r.Result.Objective * 1.1
				*r.Result.Objective *= 1.2
			},
			want: []string{"contradiction", "weaker-bound"},
		},
		{name: "crash", change: func(r *sweep.Row) { r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed} }, want: []string{"fails"}},
		{
			name: "killed", change: func(r *sweep.Row) { r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.OutOfTime} },
			want: []string{"fails"},
		},
		{name: "invalid plan", change: func(r *sweep.Row) { r.Result.Status, r.Result.Objective = solve.Failed, nil }, want: []string{"fails"}},
		{name: "no plan", change: func(r *sweep.Row) { r.Result.Status, r.Result.Objective = solve.Limit, nil }, want: []string{"fails"}},
		{name: "recovered", before: func(r *sweep.Row) { r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed} }, remark: Recovered},
		{
			name: "one crash of three", repetitions: 3, want: []string{"fails"},
			change: func(r *sweep.Row) {
				if r.Task.Repetition == 1 {
					r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed}
				}
			},
		},
		{
			name: "one of three without a plan", repetitions: 3,
			change: func(r *sweep.Row) {
				if r.Task.Repetition == 1 {
					r.Result.Status, r.Result.Objective = solve.Limit, nil
				}
			},
		},
		{
			name:   "crashed before, too",
			before: func(r *sweep.Row) { r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed} },
			change: func(r *sweep.Row) { r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed} },
		},
		{
			name: "one of two without a plan", repetitions: 2,
			change: func(r *sweep.Row) {
				if r.Task.Repetition == 1 {
					r.Result.Status, r.Result.Objective = solve.Limit, nil
				}
			},
		},
		{
			name: "one of three quick, the others stopped", repetitions: 3, before: tookSeconds(30), want: []string{"slower"},
			change: func(r *sweep.Row) {
				r.Result.WallTime = 60
				if r.Task.Repetition == 1 {
					r.Result.WallTime = 5
				}
			},
		},
		{
			name: "proof lost in one of three", repetitions: 3, before: func(r *sweep.Row) { r.Result.Status = solve.Optimal },
			change: func(r *sweep.Row) {
				if r.Task.Repetition > 0 {
					r.Result.Status = solve.Optimal
				}
			},
		},
		{
			name: "proof lost in two of three", repetitions: 3, before: func(r *sweep.Row) { r.Result.Status = solve.Optimal }, remark: AtEdge,
			change: func(r *sweep.Row) {
				if r.Task.Repetition > 1 {
					r.Result.Status = solve.Optimal
				}
			},
		},
		{
			name: "proof gained in one of two", repetitions: 2,
			change: func(r *sweep.Row) {
				if r.Task.Repetition == 1 {
					r.Result.Status = solve.Optimal
				}
			},
		},
		{name: "twice the time and a second more", before: tookSeconds(4), change: tookSeconds(8.5), want: []string{"slower"}},
		{name: "twice the time and half a second more", before: tookSeconds(0.4), change: tookSeconds(0.9)},
		{name: "nearly twice the time", before: tookSeconds(4), change: tookSeconds(7.9)},
		{name: "a third of the time", before: tookSeconds(9), change: tookSeconds(3), remark: Faster},
		{name: "far less than half the time", before: tookSeconds(30), change: tookSeconds(0.1), remark: Faster},
		{name: "stopped by the limit", before: tookSeconds(30), change: tookSeconds(60), want: []string{"slower"}},
		{name: "stopped by the limit, at the edge", before: tookSeconds(50), change: tookSeconds(60)},
	} {
		t.Run(x.name, func(t *testing.T) {
			one := func(edit func(*sweep.Row)) func(*sweep.Row) {
				return func(r *sweep.Row) {
					if edit != nil && r.Task.Method == "greedy" && r.Result.Instance.Name == "net3" {
						edit(r)
					}
				}
			}
			n := base
			n.repetitions = x.repetitions
			n.change = one(x.before)
			old := n.rows()
			n.change = one(x.change)
			c := nights(t, old, n.rows(), Defaults())
			expect(t, c, x.want...)
			if x.remark != "" && !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Kind == x.remark && !f.Regression }) {
				t.Errorf("no remark %q: %v", x.remark, c.Findings)
			}
			for i := 1; i < len(c.Findings); i++ {
				if c.Findings[i].Regression && !c.Findings[i-1].Regression {
					t.Error("a regression stands behind a remark")
				}
			}
		})
	}
}

func tookSeconds(x float64) func(*sweep.Row) { return func(r *sweep.Row) { r.Result.WallTime = x } }

func infeasible(r *sweep.Row) {
	r.Result.Status, r.Result.Objective, r.Result.Bound = solve.Infeasible, nil, nil
}

func TestMissingTasks(t *testing.T) {
	whole := night{instances: 8}.rows()
	part := &Night{Name: "part", Rows: whole.Rows[:len(whole.Rows)-2]}
	expect(t, nights(t, whole, part, Defaults()), "not-run dynprog net7", "not-run milp net7")
	o := Defaults()
	o.Partial = true
	if c := nights(t, whole, part, o); c.Regressed || len(c.Findings) != 2 {
		t.Errorf("%v", c.Findings)
	}
	if c := nights(t, part, whole, Defaults()); c.Regressed || len(c.Findings) != 2 || c.Findings[0].Kind != Added {
		t.Errorf("%v", c.Findings)
	}
	if _, err := Compare(whole, &Night{}, Defaults()); err == nil || !strings.Contains(err.Error(), "no task is in both") {
		t.Errorf("error %v", err)
	}
}

// What may differ between nights does not keep tasks apart, what may not does.
func TestMatching(t *testing.T) {
	for _, x := range []struct {
		name   string
		change func(*sweep.Task)
		same   bool
	}{
		{"version", func(t *sweep.Task) { t.Version = "next" }, true},
		{"name of the memory", func(t *sweep.Task) { t.MemoryName = "1GB" }, true},
		{"where the instance lies", func(t *sweep.Task) { t.Instance = "elsewhere/" + t.Instance }, true},
		{"repetitions", func(t *sweep.Task) { t.Repetition += 7 }, true},
		{"memory", func(t *sweep.Task) { t.Memory *= 1.01 }, false},
		{"rounding of a percentage", func(t *sweep.Task) { t.Memory *= 1 + 1e-9 }, true},
		{"a byte of a size", func(t *sweep.Task) { t.Memory, t.MemoryName = t.Memory+1, "1GB" }, false},
		{"instance", func(t *sweep.Task) { t.SHA256 = strings.Repeat("f", 64) }, false},
		{"seed", func(t *sweep.Task) { t.Seed++ }, false},
		{"backend", func(t *sweep.Task) { t.Backend = "lpsolve" }, false},
		{"time limit", func(t *sweep.Task) { t.TimeLimit *= 2 }, false},
	} {
		a := night{instances: 3}.rows()
		b := night{instances: 3, change: func(r *sweep.Row) {
			if r.Task.Method == "greedy" {
				x.change(&r.Task)
			}
		}}.rows()
		want := 9
		if !x.same {
			want = 6
		}
		if c := nights(t, a, b, Defaults()); c.Matched != want {
			t.Errorf("%s: %d tasks matched, %d expected", x.name, c.Matched, want)
		}
	}
}

// Times of different machines are shown and not judged; plans are.
func TestDifferentMachines(t *testing.T) {
	on := func(cpu string, change func(*sweep.Row)) *Night {
		n := night{instances: 30, timeNoise: 0.05, change: change}.rows()
		for _, r := range n.Rows {
			r.Environment = cpu
		}
		n.Environments = map[string]sweep.Environment{cpu: {Digest: cpu, CPU: cpu, Cores: 8}}
		return n
	}
	slow := planted("greedy", 3, 1)
	c := nights(t, on("a", nil), on("b", slow), Defaults())
	if c.Regressed || c.TimesJudged || c.TimesWhy == "" {
		t.Errorf("times of other machines: %v", regressions(c))
	}
	if c := nights(t, on("a", nil), on("a", slow), Defaults()); !c.Regressed || !c.TimesJudged {
		t.Error("the same machine three times slower is no regression")
	}
	if c := nights(t, on("a", nil), on("b", planted("greedy", 1, 1.02)), Defaults()); !c.Regressed {
		t.Error("a worse plan of another machine is no regression")
	}
}

// With repetitions three things are asked for; each alone keeps a change from
// counting.
func TestRepeatedTimes(t *testing.T) {
	for _, x := range []struct {
		name  string
		noise float64
		times func(rep int) float64
		want  []string
	}{
		{"15 % more", 0.003, func(int) float64 { return 1.15 }, []string{"slower greedy net9"}},
		{"7 % more, below the threshold", 0.003, func(int) float64 { return 1.07 }, nil},
		{"20 % more in half of the runs", 0.003, func(rep int) float64 {
			if rep%2 == 0 {
				return 0.98
			}
			return 1.25
		}, nil},
		{"15 % more in noise of 30 %", 0.3, func(int) float64 { return 1.15 }, nil},
		{"30 % less", 0.003, func(int) float64 { return 0.7 }, nil},
	} {
		random := rand.New(rand.NewPCG(4, 4))
		draw := func(times func(int) float64) *Night {
			return night{instances: 20, repetitions: 10, timeNoise: x.noise, random: random, change: func(r *sweep.Row) {
				if r.Task.Method == "greedy" && r.Result.Instance.Name == "net9" && times != nil {
					r.Result.WallTime *= times(r.Task.Repetition)
				}
			}}.rows()
		}
		c := nights(t, draw(nil), draw(x.times), Defaults())
		t.Run(x.name, func(t *testing.T) { expect(t, c, x.want...) })
	}
}

// A proof that took half its limit may be lost where noise is large, and may not
// where it is small.
func TestEdgeFollowsTheNoise(t *testing.T) {
	for _, x := range []struct {
		noise float64
		want  []string
	}{{0.02, []string{"proof-lost greedy net3"}}, {0.3, nil}} {
		random := rand.New(rand.NewPCG(4, 4))
		draw := func(status solve.Status, took float64) *Night {
			return night{instances: 20, repetitions: 2, timeNoise: x.noise, random: random, change: func(r *sweep.Row) {
				if r.Task.Method == "greedy" && r.Result.Instance.Name == "net3" {
					r.Result.Status, r.Result.WallTime = status, took
				}
			}}.rows()
		}
		expect(t, nights(t, draw(solve.Optimal, 30), draw(solve.Feasible, 60), Defaults()), x.want...)
	}
}

// The spread of three or four times says nothing of noise: whatever they are, there is no verdict of the method. (Two real nights of
// one program, loaded otherwise, had three tasks of 2 ms at ×1.32.)
func TestFewTimesAreNoVerdict(t *testing.T) {
	for tasks, want := range map[int]string{3: "~", 4: "~", 6: "worse"} {
		draw := func(change func(*sweep.Row)) *Night {
			n, kept := night{instances: 30, change: change}.rows(), 0
			n.Rows = slices.DeleteFunc(n.Rows, func(r *sweep.Row) bool {
				kept += bit(r.Task.Method == "greedy")
				return r.Task.Method == "greedy" && kept > tasks
			})
			return n
		}
		for _, g := range nights(t, draw(nil), draw(planted("greedy", 1.4, 1)), Defaults()).Groups {
			if got := g.Time.Verdict; g.Method == "greedy" && (g.Tasks != tasks || got != want) {
				t.Errorf("%d of %d tasks 40 %% longer: %q, want %q", g.Tasks, tasks, got, want)
			}
		}
	}
}

// All tasks of a method 7 % slower are certain and below the threshold; failed
// runs are no longer times.
func TestGroupThreshold(t *testing.T) {
	draw := func(change func(*sweep.Row)) *Night { return night{instances: 30, change: change}.rows() }
	c := nights(t, draw(nil), draw(planted("greedy", 1.07, 1)), Defaults())
	expect(t, c)
	expect(t, nights(t, draw(nil), draw(planted("greedy", 1.12, 1)), Defaults()), "method-slower greedy")
	failing := draw(func(r *sweep.Row) {
		if r.Task.Method == "greedy" {
			r.Result, r.Failure = nil, &sweep.Failure{Reason: sweep.Crashed}
		}
	})
	for _, g := range nights(t, draw(nil), failing, Defaults()).Groups {
		if g.Method == "greedy" && (g.Time.Worse > 0 || g.Time.Pairs > 0) {
			t.Errorf("crashes are times: %+v", g.Time)
		}
	}
}

// What is written is of the schema.
func TestComparisonSchema(t *testing.T) {
	validate := testfile.Schema(t, "comparison-v2.json")
	old := night{instances: 12, repetitions: 3, timeNoise: 0.1, version: "a"}.rows()
	new := night{instances: 13, repetitions: 3, timeNoise: 0.1, planNoise: 0.05, version: "b", change: planted("greedy", 2, 0.5)}.rows()
	new.Rows = new.Rows[:len(new.Rows)-2]
	for _, pair := range [][2]*Night{{old, new}, {new, old}, {old, old}} {
		b, err := json.Marshal(nights(t, pair[0], pair[1], Defaults()))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(b)); err != nil {
			t.Error(err)
		}
		for _, x := range []struct{ old, new string }{
			{`"regressed"`, `"regresed"`},
			{`"matched":`, `"matched":-`},
			{`comparison/v2`, `comparison/v3`},
			{`"verdict":""`, `"verdict":"bad"`},
		} {
			s := strings.Replace(string(b), x.old, x.new, 1)
			if s == string(b) {
				t.Fatalf("%s is not there", x.old)
			}
			if validate(s) == nil {
				t.Errorf("the schema takes %s", x.new)
			}
		}
	}
}

// What was stopped enters no mean of ratios, PAR-10 counts ten times its limit.
func TestStoppedTimesEnterNoMean(t *testing.T) {
	old := night{instances: 10}.rows()
	new := night{instances: 10, change: func(r *sweep.Row) {
		if r.Task.Method == "greedy" && r.Result.Instance.Name == "net2" {
			r.Result.WallTime = 60
		}
	}}.rows()
	c := nights(t, old, new, Defaults())
	for _, g := range c.Groups {
		switch g.Method {
		case "greedy":
			if g.Time.Pairs != 9 || *g.Time.Mean != 1 || g.Time.Worse != 1 || g.NewStopped != 1 {
				t.Errorf("greedy: %+v", g)
			}
		case stoppedMethod:
			if g.Time.Pairs != 0 || g.Time.Mean != nil {
				t.Errorf("milp: %+v", g)
			}
		}
	}
}

func TestZeros(t *testing.T) {
	zero := func(r *sweep.Row) {
		if r.Task.Method == "greedy" {
			*r.Result.Objective = 0
			r.Result.Bound.Value = 0
		}
	}
	a := night{instances: 5, change: zero}.rows()
	c := nights(t, a, a, Defaults())
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	// A worse plan than one of no time at all has no finite ratio without a shift.
	b := night{instances: 5, change: func(r *sweep.Row) {
		zero(r)
		if r.Task.Method == "greedy" && r.Result.Instance.Name == "net1" {
			*r.Result.Objective = 1
		}
	}}.rows()
	c = nights(t, a, b, Defaults())
	if _, err := json.Marshal(c); err != nil {
		t.Error(err)
	}
	if !slices.ContainsFunc(c.Findings, func(f Finding) bool { return f.Kind == WorsePlan && f.Name == "net1" }) {
		t.Errorf("%v", c.Findings)
	}
}

// The order of rows does not matter, and the output is always the same.
func TestOrderOfRows(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	old := night{instances: 12, repetitions: 3, timeNoise: 0.1, planNoise: 0.02}.rows()
	new := night{instances: 13, repetitions: 3, timeNoise: 0.1, planNoise: 0.05, change: planted("greedy", 2, 0.5)}.rows()
	want, err := json.Marshal(nights(t, old, new, Defaults()))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		for _, n := range []*Night{old, new} {
			random.Shuffle(len(n.Rows), func(i, j int) { n.Rows[i], n.Rows[j] = n.Rows[j], n.Rows[i] })
		}
		got, err := json.Marshal(nights(t, old, new, Defaults()))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatal("the comparison depends on the order of rows")
		}
	}
}

func BenchmarkNights(b *testing.B) {
	old := night{instances: 667, repetitions: 5, timeNoise: 0.1}.rows()
	new := night{instances: 667, repetitions: 5, timeNoise: 0.1, random: rand.New(rand.NewPCG(8, 8))}.rows()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compare(old, new, Defaults()); err != nil {
			b.Fatal(err)
		}
	}
}

// The same tasks on a loaded machine: half of a processor each, and processor times that are a
// little longer. Whatever is lost by that is starved or at the edge, in both directions.
func TestLoadIsNoRegression(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 6))
	draw := func(loaded bool) *Night {
		return night{instances: 40, timeNoise: 0.05, planNoise: 0.003, random: random, change: func(r *sweep.Row) {
			x := r.Result
			x.CPUTime = x.WallTime
			if !loaded {
				return
			}
			x.CPUTime *= 1.08
			if x.WallTime = 2 * x.CPUTime; x.WallTime >= 60 {
				x.WallTime, x.CPUTime, x.Status = 60, 30, solve.Feasible
				*x.Objective *= 1.1
				x.Bound.Value *= 0.95
			}
		}}.rows()
	}
	for range testfile.Cases(10) {
		quiet, loaded := draw(false), draw(true)
		expect(t, nights(t, quiet, loaded, Defaults()))
		expect(t, nights(t, loaded, quiet, Defaults()))
	}
}

// A generator that has changed is one line an instance.
func TestAnotherInstance(t *testing.T) {
	a := night{instances: 12}.rows()
	b := night{instances: 12, change: func(r *sweep.Row) {
		if r.Task.Instance == "net3.json" || r.Task.Instance == "net4.json" {
			r.Task.SHA256 = "e" + r.Task.SHA256[1:]
		}
	}}.rows()
	c := nights(t, a, b, Defaults())
	if c.Regressed || len(c.Findings) != 2 || c.Findings[1].Detail != "net3.json is another instance now: 3 tasks not compared" {
		t.Errorf("%+v", c.Findings)
	}
}

// The last line counts and names regressions, and remarks apart from them.
func TestVerdict(t *testing.T) {
	a := night{instances: 8, version: "abc"}.rows()
	b := night{instances: 8, version: "def", change: planted("greedy", 1, 1.02)}.rows()
	want := "REGRESSION abc..def: 8 worse-plan, 1 method-worse-plans: worse-plan remat greedy on net"
	v := nights(t, a, b, Defaults()).Verdict()
	if !strings.HasPrefix(v, want) || !strings.HasSuffix(v, "; and 4 more") || strings.Count(v, "(+2 %)") != named {
		t.Error(v)
	}
	if v := nights(t, b, a, Defaults()).Verdict(); v != "no regression: 8 better-plan" {
		t.Error(v)
	}
}
