// Soak runs every method of the catalogue on random instances, for as long as
// one likes, and holds what they say against exhaustive search and against each
// other:
//
//	go run ./bench/soak --for 30m --seed 7
//
// Instances have few layers, for exhaustive search has to answer, and are hard
// for arithmetic: sizes from 1 to 10¹² in one instance, memory at a breakpoint
// or a few bytes beside, a unit of time from 10⁻¹² to 10⁶ seconds. Each is
// written to a file and read again, as are the plans, which the verifier has to
// accept as it did before. Methods that solve a MILP run on every backend that
// is there. What is held against what is said at [judge]. With every instance goes a
// random small program for every backend, see [mips].
//
// A contradiction is made smaller as long as it stays one, written to a file,
// and printed with the command that shows it; the program goes on and ends with
// exit 1. Trial n of seed S is that of seed S+n: --seed of a finding and --for 0
// repeat it alone.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/solvers"
)

func main() {
	length := flag.Duration("for", time.Minute, "how long; 0: one instance of every problem")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1e9, "of the first instance")
	only := flag.String("problem", "", "this problem alone; milp: random programs on every backend")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	s := &soak{
		backends: available(), folder: os.TempDir(), seen: map[string]bool{}, answers: map[string]int{},
		statuses: map[string]map[solve.Status]int{},
	}
	fmt.Printf("soak: seed %d, for %v\n", *seed, *length)
	trials, programs := 0, newMIPs()
	for start := time.Now(); ctx.Err() == nil && (trials == 0 || time.Since(start) < *length); trials++ {
		for _, p := range catalog.Problems() {
			if *only == "" || p.Name == *only {
				s.try(ctx, p, *seed+uint64(trials))
			}
		}
		if *only == "" || *only == "milp" {
			programs.try(ctx, *seed+uint64(trials))
		}
	}
	fmt.Printf("soak: %d trials; exhaustive search answered, and the methods said:\n", trials)
	for _, p := range catalog.Problems() {
		if says := s.statuses[p.Name]; says != nil {
			fmt.Printf("  %-20s %6d  %v\n", p.Name, s.answers[p.Name], says)
		}
	}
	programs.report()
	contradictions := len(s.seen) + len(programs.contradictions)
	fmt.Printf("soak: %d contradictions\n", contradictions)
	if contradictions > 0 {
		os.Exit(1)
	}
}

// A soak is a run of the program.
type soak struct {
	backends map[string]solvers.Backend
	folder   string          // for the instances that contradict
	seen     map[string]bool // problem, method and kind of contradiction
	answers  map[string]int  // by problem, how many trials exhaustive search answered
	statuses map[string]map[solve.Status]int
}

// available are the backends that are there, in this process.
func available() map[string]solvers.Backend {
	all := map[string]solvers.Backend{}
	for _, b := range backends.All() {
		if b.Available() == nil {
			all[b.Name] = solvers.New(b.Engine)
		}
	}
	return all
}

// try draws an instance and reports what is wrong.
func (s *soak) try(ctx context.Context, p *solve.Problem, seed uint64) {
	t := draw(p, source(seed))
	found, answered := s.run(ctx, t, "", "")
	if answered {
		s.answers[p.Name]++
	}
	for _, f := range found {
		key := strings.Join([]string{p.Name, f.method, f.kind}, " ")
		if s.seen[key] || ctx.Err() != nil {
			continue
		}
		s.seen[key] = true
		small, f := s.shrink(ctx, t, f)
		file := filepath.Join(s.folder, fmt.Sprintf("soak-%s-%s-%d.json", p.Name, f.method, seed))
		if err := small.write(file); err != nil {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
		fmt.Printf("\n%s: %s\n  %s\n  --seed %d --for 0 --problem %s\n", p.Name, f.kind, f.says, seed, p.Name)
		method := ""
		if f.method != "" {
			method = " --method " + f.method
		}
		fmt.Printf("  bin/workbench solve --problem %s %s%s%s\n", p.Name, file, method, small.flags(f.backend))
	}
}
