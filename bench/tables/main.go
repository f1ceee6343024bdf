// Command tables measures the tables of docs/benchmarks.md and prints them as
// Markdown:
//
//	go run ./bench/tables table1     # [001] Table 1
//	go run ./bench/tables bandwidth  # [001] Figure 4
//	go run ./bench/tables backends   # HiGHS and lp_solve on growing models
//	go run ./bench/tables profiles DIR
//	go run ./bench/tables claims [NETWORK…]     # [004] 2.4.5
//	go run ./bench/tables chains zoo:resnet50 …
//	go run ./bench/tables checkmate 5m checkmate,checkmate-plain zoo:vgg16?as=graph …
//	go run ./bench/tables strengthening 1m 30 zoo:resnet50 zoo:vgg16?as=graph
//	go run ./bench/tables pipelines 1m [NETWORK…]    # [004] 6.5
//	go run ./bench/tables pipeline-strength 30s # or: 30s without
//	go run ./bench/tables pipeline-decomposition 1m [NETWORK…]
//	go run ./bench/tables pipeline-claims -profiles DIR   # [004] 7.3
//	go run ./bench/tables offload [-alpha LIST] [-bandwidth RATE] [-images DIR] [NETWORK…]  # [004] 3.4
//	go run ./bench/tables offload-gaps 2m zoo:resnet18 …
//	go run ./bench/tables offload-bandwidths DIR zoo:resnet101 …   # [004] Figure 3.6
//	go run ./bench/tables remat-offload [-alpha LIST] [-bandwidth RATE] [-images DIR] [NETWORK…]  # [004] 4.4
//	go run ./bench/tables remat-offload-divisors [NETWORK…]  # [004] 4.4.1
//	go run ./bench/tables swap [-capacity SIZE] [-bandwidth RATE] [-device NAME] [-images DIR]  # [003] §5
//	go test -run '^$' -bench Slots ./heuristics/remat | go run ./bench/tables growth docs/images
//
// Every plan behind a number was verified by replay; a method that fails says
// so in its cell.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/model/plan"
	"workbench/model/platform"
)

func main() {
	run.ServeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runs(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

func runs(ctx context.Context, args []string) error {
	const known = "table1, bandwidth, backends, profiles DIR, claims [NETWORK…], chains INSTANCE…, checkmate TIME METHODS GRAPH…, strengthening TIME PERCENT INSTANCE…, pipelines TIME [NETWORK…], pipeline-strength TIME [without], pipeline-decomposition TIME [NETWORK…], pipeline-claims [FLAGS], offload [FLAGS] [NETWORK…], offload-gaps TIME INSTANCE…, offload-bandwidths DIR INSTANCE…, remat-offload [FLAGS] [NETWORK…], remat-offload-divisors [NETWORK…], swap [FLAGS] and growth DIR"
	if len(args) == 0 {
		return fmt.Errorf("name a table: %s", known)
	}
	if args[0] == "growth" && len(args) == 2 {
		return growth(os.Stdin, args[1])
	}
	name := plan.WeightOffload
	if slices.Contains([]string{"claims", "chains", "checkmate", "strengthening", "offload-bandwidths"}, args[0]) {
		name = plan.Remat
	}
	if args[0] == "pipelines" || args[0] == "pipeline-claims" || args[0] == "pipeline-decomposition" {
		name = plan.Pipeline
	}
	if args[0] == "offload" || args[0] == "offload-gaps" {
		name = plan.ActivationOffload
	}
	if args[0] == "remat-offload" || args[0] == "remat-offload-divisors" {
		name = plan.RematOffload
	}
	if args[0] == "swap" {
		name = plan.Swap
	}
	backend, err := run.Backend("highs", true)
	if err != nil {
		return err
	}
	p, err := catalog.FindProblem(name)
	if err != nil {
		return err
	}
	m := &measurer{ctx: ctx, problem: p, setting: run.Setting{Time: time.Minute, Threads: 2, Backend: backend, Slots: run.DefaultSlots}}
	switch args[0] {
	case "table1":
		return m.table1()
	case "bandwidth":
		return m.bandwidth()
	case "backends":
		return m.backends()
	case "profiles":
		if len(args) == 2 {
			return m.profiles(args[1:])
		}
	case "claims":
		return m.claims(args[1:])
	case "chains":
		return m.chains(args[1:])
	case "pipelines":
		if len(args) >= 2 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return m.pipelines(limit, args[2:])
		}
	case "pipeline-decomposition":
		if len(args) > 1 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return m.pipelineDecomposition(limit, args[2:])
		}
	case "pipeline-claims":
		return m.pipelineClaims(args[1:])
	case "pipeline-strength":
		if len(args) > 1 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return m.pipelineStrength(limit, len(args) > 2 && args[2] == "without")
		}
	case "swap":
		return m.swaps(args[1:])
	case "offload":
		return m.offloads(args[1:])
	case "remat-offload":
		return m.rematOffloads(args[1:])
	case "remat-offload-divisors":
		return m.rematOffloadDivisors(args[1:])
	case "offload-bandwidths":
		if len(args) > 2 {
			return m.offloadBandwidths(args[1], args[2:])
		}
	case "offload-gaps":
		if len(args) > 2 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return m.offloadGaps(limit, args[2:])
		}
	case "strengthening":
		if len(args) > 3 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			percent, err := strconv.ParseFloat(args[2], 64)
			if err != nil {
				return err
			}
			return m.strengthening(limit, percent, args[3:])
		}
	case "checkmate":
		if len(args) > 3 {
			limit, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			return m.checkmate(args[3:], strings.Split(args[2], ","), limit)
		}
	}
	return fmt.Errorf("unknown table %q or wrong arguments: known are %s", args[0], known)
}

// paper is a row of [001] Table 1, in milliseconds.
type paper struct {
	net                         string
	depth, batch                int
	compute, greedy, l2l, twice float64
}

var papers = []paper{
	{"gpt2", 74, 64, 47421, 47493, 52707, 47493},
	{"gpt2", 56, 64, 35553, 35625, 39542, 35625},
	{"gpt2", 38, 64, 23694, 23838, 26387, 23838},
	{"gpt2", 74, 32, 23697, 23769, 28983, 23769},
	{"gpt2", 56, 32, 17762, 17834, 21751, 17834},
	{"gpt2", 38, 32, 11840, 11948, 14533, 11948},
	{"gpt2", 74, 16, 11612, 11684, 16898, 11715},
	{"gpt2", 56, 16, 8697, 8769, 12686, 8800},
	{"gpt2", 38, 16, 5794, 5902, 8487, 5934},
	{"bert", 144, 64, 34486, 34499, 38379, 34499},
	{"bert", 96, 64, 22965, 22978, 25577, 22978},
	{"bert", 144, 32, 17443, 17483, 21336, 17483},
	{"bert", 96, 32, 11617, 11657, 14230, 11657},
	{"bert", 144, 16, 9090, 9183, 12983, 9215},
	{"bert", 96, 16, 6058, 6085, 8670, 6085},
}

// percents are the memory limits, in percent of each instance's range.
var percents = []float64{10, 25, 60}

func (r paper) spec() string {
	return fmt.Sprintf("zoo:table1-%s?depth=%d&batch=%d", r.net, r.depth, r.batch)
}

// measurer runs methods under one setting.
type measurer struct {
	ctx     context.Context
	problem *run.Problem
	setting run.Setting
}

// at returns the instance and the setting for a memory in percent of the
// instance's range and a bandwidth.
func (m *measurer) at(spec string, percent, bandwidth float64) (*run.Instance, run.Setting, error) {
	in, err := run.Load(spec, os.Stdin)
	if err != nil {
		return nil, run.Setting{}, err
	}
	s := m.setting
	s.Platform.Memory = run.ResolveMemory(m.problem, in, platform.MemorySpec{Percent: true, Value: percent})
	s.Platform.Bandwidth = bandwidth
	return in, s, nil
}

func (m *measurer) runs(method string, in *run.Instance, s run.Setting) *run.Result {
	found, err := catalog.FindMethod(m.problem, method)
	if err != nil {
		return &run.Result{Method: method, Status: run.Failed, Err: err, Error: err.Error()}
	}
	return run.Run(m.ctx, m.problem, found, in, s)
}

// cell formats the objective of a result in milliseconds, or says why there is
// none.
func cell(r *run.Result) string {
	if r.Objective == nil {
		return string(r.Status)
	}
	return ms(*r.Objective)
}

func ms(x float64) string { return fmt.Sprintf("%.1f", 1e3*x) }

func (m *measurer) table1() error {
	fmt.Println("| net | depth | batch | memory | Σu | Σu in [001] | MILP, no start | proved in s | Greedy | printed | in [001] | Greedy* | in [001] | L2L | in [001] | first half | best | gap | s |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	total := make([]float64, len(percents))
	for _, r := range papers {
		for k, percent := range percents {
			in, s, err := m.at(r.spec(), percent, 12e9)
			if err != nil {
				return err
			}
			bound := m.runs("nested-bound", in, s)
			total[k] += bound.WallTime
			best := m.runs("milp", in, s)
			run.JudgeTogether([]*run.Result{best, bound})
			fmt.Printf("| %s | %d | %d | %s | %s | %.0f | %s | %.2f | %s | %s | %.0f | %s | %.0f | %s | %.0f | %s | %s | %s | %.2f |\n",
				r.net, r.depth, r.batch, memory(percent, s), ms(in.Chain.TotalTime()), r.compute,
				proved(bound), bound.WallTime,
				cell(m.runs("greedy", in, s)), cell(m.runs("greedy-printed", in, s)), r.greedy, cell(m.runs("greedy-nodiscount", in, s)), r.twice,
				cell(m.runs("l2l", in, s)), r.l2l, cell(m.runs("first-half", in, s)),
				cell(best), gap(best), best.WallTime)
			if m.ctx.Err() != nil {
				return m.ctx.Err()
			}
		}
	}
	fmt.Println()
	for k, percent := range percents {
		fmt.Printf("All 15 MILPs at %g %%: %.1f s.\n", percent, total[k])
	}
	return nil
}

func memory(percent float64, s run.Setting) string {
	return fmt.Sprintf("%g %%, %s", percent, platform.FormatBytes(s.Platform.Memory))
}

// proved formats a bound and whether the MILP was solved to the end.
func proved(r *run.Result) string {
	if r.OwnBound == nil {
		return string(r.Status)
	}
	if r.Status == run.Limit {
		return ms(r.OwnBound.Value) + " (limit)"
	}
	return ms(r.OwnBound.Value)
}

func gap(r *run.Result) string {
	if r.Gap == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f %%", 100**r.Gap)
}

func (m *measurer) bandwidth() error {
	fmt.Println("| depth | batch | memory | GB/s | Σu | bound | Greedy | over bound | Greedy* | L2L | best | gap | s |")
	fmt.Println("|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, r := range papers {
		if r.net != "gpt2" {
			continue
		}
		for _, percent := range percents {
			for _, rate := range []float64{0.5, 1, 2, 4, 8, 12} {
				if err := m.rate(r, percent, rate); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// rate prints a row of the bandwidth table.
func (m *measurer) rate(r paper, percent, rate float64) error {
	in, s, err := m.at(r.spec(), percent, rate*1e9)
	if err != nil {
		return err
	}
	best, greedy := m.runs("milp", in, s), m.runs("greedy", in, s)
	run.JudgeTogether([]*run.Result{best, greedy})
	fmt.Printf("| %d | %d | %s | %g | %s | %s | %s | %s | %s | %s | %s | %s | %.1f |\n",
		r.depth, r.batch, memory(percent, s), rate, ms(in.Chain.TotalTime()), ms(best.Bound.Value),
		cell(greedy), gap(greedy), cell(m.runs("greedy-nodiscount", in, s)), cell(m.runs("l2l", in, s)),
		cell(best), gap(best), best.WallTime)
	return m.ctx.Err()
}
