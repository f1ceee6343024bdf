package formulate

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/ilp/check"
	"workbench/model/platform"
	"workbench/model/testcase"
)

// Check is the result of a check of a formulation.
type Check struct {
	Format      string   `json:"format"`
	Formulation string   `json:"formulation"`
	Promise     string   `json:"promise"`
	Without     []string `json:"without"` // groups that were left out
	Backends    []string `json:"backends"`
	Cases       int      `json:"cases"`
	Skipped     int      `json:"skipped"` // too hard for exhaustive search
	Equal       int      `json:"equal"`   // to the optimum of exhaustive search
	Starts      int      `json:"starts"`  // plans converted to starts
	Plans       int      `json:"plans"`   // plans of solutions that were replayed
	Hints       int      `json:"hints"`   // hints derived from solutions
	Layers      int      `json:"layers"`  // of the largest instances
	Large       int      `json:"large"`   // instances beyond exhaustive search, with plans of heuristics
	// First is Equal of the first instances, which are the same on every machine. Expected is its value when the
	// formulation was added; 0: not known.
	First    int       `json:"first_equal"`
	Expected int       `json:"expected_equal"`
	Failures []Failure `json:"failures"`
}

// Failure is one violation of a formulation's promise.
type Failure struct {
	Kind           string `json:"kind"`
	Count          int    `json:"count"`
	Counterexample string `json:"counterexample"` // the smallest
}

// CheckOf converts a report.
func CheckOf(r *check.Report, without []string) *Check {
	c := &Check{
		Format: CheckFormat, Formulation: r.Formulation.Name, Promise: r.Formulation.Promise.String(), Without: append([]string{}, without...),
		Backends: r.Backends,
		Cases:    r.Cases, Skipped: r.Skipped, Equal: r.Tight, Starts: r.Starts, Plans: r.Plans, Hints: r.Hints,
		Layers: r.Layers, Large: r.Large, First: r.First, Expected: r.Expected, Failures: []Failure{},
	}
	for _, f := range r.Failures {
		c.Failures = append(c.Failures, Failure{string(f.Kind), f.Count, f.Smallest.String()})
	}
	return c
}

// KnownPlans returns, of an instance, the plans of a problem's heuristics that need no backend.
func KnownPlans(p *solve.Problem) func(context.Context, *testcase.Trial) []check.KnownPlan {
	return func(ctx context.Context, t *testcase.Trial) (list []check.KnownPlan) {
		in := &solve.Instance{Instance: t.In, Name: "random"}
		for _, m := range catalog.MethodsFor(p, in) {
			if m.Kind != solve.Heuristic || m.Solver {
				continue
			}
			s := solve.Setting{Time: time.Second / 4, Threads: 1}
			s.Platform = t.Platform
			if r := solve.Run(ctx, p, m, in, s); r.Plan != nil {
				list = append(list, check.KnownPlan{Method: m.Name, Plan: r.Plan})
			}
		}
		return list
	}
}

// Text prints the number of instances, how often the optima agree, and each kind of failure with its smallest
// counterexample.
func (c *Check) Text(w io.Writer) {
	name := c.Formulation
	if len(c.Without) > 0 {
		name += " without " + strings.Join(c.Without, ", ")
	}
	fmt.Fprintf(w, "%s (%s) on %s, by %s\n", name, c.Promise, platform.Count(c.Cases, "random instance"), strings.Join(c.Backends, " and "))
	fmt.Fprintf(w, "  equal to the optimum of exhaustive search: %d\n", c.Equal)
	if c.Expected > 0 {
		fmt.Fprintf(w, "  of the first %d: equal %d, expected %d\n", check.DefaultCases, c.First, c.Expected)
	}
	fmt.Fprintf(w, "  tried: %s as starts, %s and %s of solutions\n", platform.Count(c.Starts, "plan"), platform.Count(c.Plans, "plan"),
		platform.Count(c.Hints, "hint"))
	if c.Large > 0 {
		fmt.Fprintf(w, "  tried: plans of heuristics on %s beyond exhaustive search\n", platform.Count(c.Large, "instance"))
	}
	if c.Skipped > 0 {
		fmt.Fprintf(w, "  too hard for exhaustive search: %d\n", c.Skipped)
	}
	if len(c.Failures) == 0 {
		fmt.Fprintln(w, "  counterexamples: none")
	}
	for _, f := range c.Failures {
		if f.Counterexample == "" {
			fmt.Fprintf(w, "  %s: %d less\n", f.Kind, f.Count)
			continue
		}
		fmt.Fprintf(w, "  %s: %d, the smallest being\n", f.Kind, f.Count)
		for line := range strings.Lines(f.Counterexample) {
			fmt.Fprintf(w, "    %s", line)
		}
		fmt.Fprintln(w)
	}
}
