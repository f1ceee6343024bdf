// Command tables measures those tables and figures of docs/benchmarks.md that need
// more than methods beside each other, which is what workbench bench report
// --table is for, and prints them as Markdown:
//
//	go run ./bench/tables budgets gpt6.json …   # PyTorch's activation_memory_budget
//	go run ./bench/tables claims 20s [NETWORK…]  # [004] 2.4.5
//	go run ./bench/tables joins                 # [004] 1.4
//	go run ./bench/tables strengthening 1m chain-milp+,checkmate 12GB/s 10,30 zoo:resnet50 zoo:vgg16?as=graph
//	go run ./bench/tables replicas vgg16.json … # PipeDream's stages on several GPUs
//	go run ./bench/tables pipeline-strength 30s # or: 30s without
//	go run ./bench/tables offload-bandwidths DIR zoo:resnet101 …   # [004] Figure 3.6
//	go run ./bench/tables remat-offload-divisors 20s [NETWORK…]  # [004] 4.4.1
//	go run ./bench/tables parts remat 1s,5s 25,50 zoo:resnet50 random:200 …
//	go run ./bench/tables memory pipeline 5s 10 zoo:resnet50 …
//	go run ./bench/tables dnn-partitioning 1m FILE…  # Tarnawski et al., NeurIPS 2020
//	go run ./bench/tables swap [-capacity SIZE] [-bandwidth RATE] [-device NAME] [-images DIR]  # [003] §5
//	go run ./bench/tables transformers 30s gpt.json …  # stages that flush, by placement
//	go test -run '^$' -bench Slots ./heuristics/remat | go run ./bench/tables growth docs/images
//
// Every plan behind a number was verified by replay; a method that fails says
// so in its cell.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"time"

	"workbench/bench/atomicfile"
	"workbench/bench/render/plots"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
)

func main() {
	backends.ServeChild()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := runs(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// A table is what the first argument asks for.
type table struct {
	name, usage string
	// arguments: the least number of them.
	arguments int
	write     func(m *measurer, args []string) error
}

// timed passes the first argument as a time limit.
func timed(write func(m *measurer, limit time.Duration, args []string) error) func(*measurer, []string) error {
	return func(m *measurer, args []string) error {
		limit, err := time.ParseDuration(args[0])
		if err != nil {
			return err
		}
		return write(m, limit, args[1:])
	}
}

var tables = []table{
	{"budgets", "INSTANCE…", 1, (*measurer).budgets},
	{"claims", "TIME [NETWORK…]", 1, timed((*measurer).claims)},
	{"joins", "", 0, (*measurer).joins},
	{"strengthening", "TIME FORMULATIONS RATE PERCENTS INSTANCE…", 5, timed((*measurer).strengthening)},
	{"offload-bandwidths", "DIR INSTANCE…", 2, (*measurer).offloadBandwidths},
	{"replicas", "INSTANCE…", 1, (*measurer).replicas},
	{"pipeline-strength", "TIME [without]", 1, timed((*measurer).pipelineStrength)},
	{"remat-offload-divisors", "TIME [NETWORK…]", 1, timed((*measurer).rematOffloadDivisors)},
	{"parts", "PROBLEM LIMITS PERCENTS INSTANCE…", 4, (*measurer).parts},
	{"memory", "PROBLEM LIMIT STEPS INSTANCE…", 4, (*measurer).memory},
	{"swap", "[FLAGS]", 0, (*measurer).swaps},
	{"transformers", "TIME CHAIN…", 2, timed((*measurer).transformers)},
	{"growth", "DIR", 1, (*measurer).growth},
}

func runs(ctx context.Context, args []string) error {
	var known []string
	for _, t := range tables {
		known = append(known, t.name+" "+t.usage)
		if len(args) == 0 || t.name != args[0] || len(args)-1 < t.arguments {
			continue
		}
		m := &measurer{ctx: ctx, setting: solve.Setting{Time: time.Minute, Threads: 2, Backend: backends.Default(), Slots: solve.DefaultSlots}}
		return t.write(m, args[1:])
	}
	return fmt.Errorf("name a table and its arguments: %s", strings.Join(known, ", "))
}

// measurer runs methods of a problem under one setting.
type measurer struct {
	ctx     context.Context
	problem *solve.Problem
	setting solve.Setting
}

// about makes m measure methods of a problem.
func (m *measurer) about(problem string) (err error) {
	m.problem, err = catalog.FindProblem(problem)
	return err
}

// method returns a method of the problem that is known to exist.
func (m *measurer) method(name string) *solve.Method {
	found, err := catalog.FindMethod(m.problem, name)
	if err != nil {
		panic(err)
	}
	return found
}

// draw writes a figure.
func draw(f *plots.Figure, name string) error {
	return atomicfile.Write(name, nil, func(w io.Writer) error { return f.Write(w, "svg") })
}
