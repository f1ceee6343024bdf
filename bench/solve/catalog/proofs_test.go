package catalog_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/model/plan"
)

// TestProofsDocument: docs/bounds.md has a row for every formulation whose programs
// bound anything, with the assumptions of those that have some, and names the others
// as ones that bound nothing.
func TestProofsDocument(t *testing.T) {
	text, err := os.ReadFile("../../../docs/bounds.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{} // of plans that keep what
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		for name := range strings.SplitSeq(cells[1], ",") {
			rows[strings.TrimSpace(name)] = strings.TrimSpace(cells[3])
		}
	}
	_, nothing, _ := strings.Cut(string(text), "Nothing is bounded by")
	nothing, _, _ = strings.Cut(nothing, "\n\n")
	for _, f := range ilp.Formulations() {
		problem, err := catalog.FindProblem(f.Problem)
		if err != nil {
			t.Fatal(err)
		}
		rng, built := rand.New(rand.NewPCG(6, 6)), 0
		for range 40 {
			trial, err := problem.SubjectOf(f).Random(rng, 3)
			if err != nil {
				t.Fatal(err)
			}
			program, err := f.Build(trial.In, trial.Platform, nil)
			if errors.As(err, new(*plan.Infeasible)) {
				continue
			}
			if err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			built++
			keep, row := rows[f.Name]
			bounds := program.Promise == formulation.Equal || program.Promise == formulation.LowerBound
			switch {
			case bounds && !row || !bounds && row:
				t.Errorf("%s is a %s, and has a row: %v", f.Name, program.Promise, row)
			case !bounds && !strings.Contains(nothing, "`"+f.Name+"`"):
				t.Errorf("%s is not named among those that bound nothing: %q", f.Name, nothing)
			case len(program.Assumptions) > 0 && (keep == "–" || keep == ""):
				t.Errorf("%s supposes %v, its row nothing", f.Name, program.Assumptions)
			}
			if t.Failed() {
				break
			}
		}
		if built == 0 {
			t.Errorf("%s: nothing was built", f.Name)
		}
	}
}
