// Package resultstest makes nights for tests of what reads them: of any size, with
// every outcome a run can have, always the same.
package resultstest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/model/plan"
)

// Size of a night: instances × limits × methods × repetitions rows.
type Size struct{ Instances, Limits, Repetitions int }

// Environment is where the rows were made.
var Environment = sweep.Environment{
	Format: sweep.EnvironmentFormat, Digest: "e0", Version: "0123456789ab", Go: "go1.26.0", System: "linux/amd64", CPU: "test processor",
	Cores: 8, Memory: 32 << 30, Backends: map[string]string{"highs": "1.10.0"}, Isolated: true, Jobs: 2,
}

// Methods of the night: two heuristics, an exact one that is often stopped, one
// that proves bounds only, one that fails now and then, and one that is not made
// for every instance and has no rows of them.
var Methods = []string{"persistent", "floating", "chain-milp", "chain-bound", "revolve", "optimum"}

// Rows makes the rows of a night. Times vary with the seed, nothing else does.
func Rows(s Size, version string, seed uint64) (rows []*sweep.Row) {
	random := rand.New(rand.NewPCG(seed, 1))
	start := time.Date(2026, 11, 20, 22, 0, 0, 0, time.UTC)
	for i := range s.Instances {
		for l := range s.Limits {
			for _, method := range Methods {
				if method == "optimum" && i%3 == 2 {
					continue
				}
				for rep := range s.Repetitions {
					r := row(i, l, s.Limits, method, rep, version, random)
					r.Started = start.Add(time.Duration(len(rows)) * 10 * time.Second)
					r.Finished = r.Started.Add(10 * time.Second)
					rows = append(rows, r)
				}
			}
		}
	}
	return rows
}

func row(i, l, limits int, method string, rep int, version string, random *rand.Rand) *sweep.Row {
	truth := rand.New(rand.NewPCG(uint64(i), 17))
	size := math.Exp(3 * truth.Float64()) // seconds of computing once
	share := float64(l+1) / float64(limits)
	best := size * (1 + 0.6*(1-share)*(1-share))
	memory := math.Round((1 + 7*share) * (1 << 30))
	name := fmt.Sprintf("net%03d", i)
	t := sweep.Task{
		Format: sweep.TaskFormat, Problem: plan.Remat, Method: method,
		Instance: fmt.Sprintf("zoo:%s?batch=8&image=224", name), SHA256: fmt.Sprintf("%064x", i+1),
		Memory: memory, MemoryName: fmt.Sprintf("%g%%", math.Round(1000*share)/10), TimeLimit: 60, Repetition: rep, Version: version,
	}
	r := &sweep.Row{Format: sweep.RowFormat, Sweep: "nightly", Attempt: 1, Worker: "w1", Environment: "e0", PeakRSS: 90 << 20}
	noise := math.Exp(0.05 * random.NormFloat64())
	res := &solve.Result{
		Format: solve.ResultFormat, Problem: t.Problem, Method: method, Kind: solve.Heuristic, Status: solve.Feasible,
		Instance: plan.InstanceRef{Name: name, SHA256: t.SHA256, Source: t.Instance}, Parameters: solve.Parameters{TimeLimit: 60},
		Bound: &solve.Bound{Value: size, By: "the sum of the computations", Assumptions: []string{}}, WallTime: 0.02 * size * noise,
	}
	objective := best
	mix := rand.New(rand.NewPCG(uint64(i*100+l), uint64(len(method))))
	switch method {
	case "persistent":
		objective *= 1 + 0.08*mix.Float64()
	case "floating":
		if mix.Float64() < 0.6 {
			objective *= 1 + 0.03*mix.Float64()
		}
	case "revolve":
		objective *= 1.15 + 0.3*mix.Float64()
		if l == 0 {
			res.Status, res.Error = solve.Limit, "revolve: no plan within the limits"
		}
	case "chain-milp":
		t.Backend, t.Threads = "highs", 1
		nodes := int64(1000 * mix.Float64())
		res.Kind, res.Nodes, res.Backend = solve.Exact, &nodes, &solve.BackendRef{Name: "highs", Version: "1.10.0"}
		res.WallTime, res.Bound.Value, res.Bound.By = 60, 0.97*best, "the MILP chain-milp"
		switch {
		case i%7 == 3:
			r.Failure = &sweep.Failure{Reason: sweep.OutOfMemory, Detail: "the child took more than 2 GiB"}
		case i%7 == 5 && l == 0:
			r.Failure = &sweep.Failure{Reason: sweep.Crashed, Detail: "signal: segmentation fault"}
		case size < 6:
			res.Status, res.WallTime, res.Bound.Value = solve.Optimal, 4*size*noise, best
		default:
			objective *= 1.01
		}
	case "chain-bound":
		t.Backend, t.Threads = "highs", 1
		res.Kind, res.Status, res.WallTime, res.Bound.Value, res.Bound.By = solve.Relaxed, solve.Optimal, 0.5*size*noise, 0.99*best,
			"the MILP chain-bound"
	case "optimum":
		res.Kind, res.WallTime = solve.Exact, 0.3*size*noise
		res.Status, res.Bound.Value, res.Bound.By = solve.Optimal, best, "the search for the optimum"
	}
	if method != "chain-bound" && res.Status != solve.Limit {
		peak, gap := 0.93*memory, 1-res.Bound.Value/objective
		res.Objective, res.Makespan, res.PeakMemory, res.Gap = &objective, &objective, &peak, &gap
	}
	res.CPUTime = res.WallTime
	r.Task, r.ID = t, t.ID()
	if r.Failure == nil {
		r.Result = res
	}
	return r
}
