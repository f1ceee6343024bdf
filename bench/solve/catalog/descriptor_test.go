package catalog_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/model/plan"
	"workbench/model/verify"
)

// optional are the fields of a problem that may be empty: most have none of it.
var optional = []string{
	"Slots", "Parallel", "Models", "Scheduled", "Objectives", "Moved", "Bandwidth", "OwnMemory", "Meets", "Late",
	"Apart", "Holds",
}

// Every problem says all that the commands ask of it, and its plans have rules and a
// document.
func TestEveryProblemIsDescribed(t *testing.T) {
	contents, err := os.ReadFile("../../../docs/contents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range catalog.Problems() {
		v := reflect.ValueOf(p).Elem()
		for _, f := range reflect.VisibleFields(v.Type()) {
			if v.FieldByIndex(f.Index).IsZero() && !slices.Contains(optional, f.Name) && !(f.Name == "Tiny" && !formulated(p)) {
				t.Errorf("%s says nothing of %s", p.Name, f.Name)
			}
		}
		if reflect.ValueOf(p.Timeline).Field(0).IsNil() {
			t.Errorf("%s has no picture and no trace", p.Name)
		}
		rules := plan.RulesOf(p.Name)
		if rules == nil || len(rules.Ops) == 0 && rules.Fields == 0 {
			t.Errorf("%s has no rules of its plans in package plan", p.Name)
			continue
		}
		if rules.Slots != p.Slots || rules.Link != (p.Bandwidth != "") || rules.Copies && !p.Parallel {
			t.Errorf("%s: its plans and its flags differ in what there is: %+v", p.Name, rules)
		}
		for _, kind := range p.Takes {
			if !slices.ContainsFunc(solve.Formats(), func(f solve.Format) bool { return f.Kind == kind }) {
				t.Errorf("%s takes a %s, which no file can be", p.Name, kind)
			}
		}
		if _, err := os.Stat(filepath.Join("../../../docs", p.Name+".md")); err != nil || !strings.Contains(string(contents), "("+p.Name+".md)") {
			t.Errorf("%s has no document docs/%s.md in docs/contents.md", p.Name, p.Name)
		}
		drawn := map[string]bool{}
		for _, s := range p.Subjects {
			if s.Draw == nil {
				continue
			}
			drawn[s.Kind] = true
			in := s.Draw(rand.New(rand.NewPCG(1, 1))).In
			if _, err := verify.Replay(in, &plan.Plan{Problem: p.Name}); errors.Is(err, plan.ErrProblem) {
				t.Errorf("%s takes a %s, of which no plan can be replayed", p.Name, s.Kind)
			}
		}
		for _, kind := range p.Takes {
			if !drawn[kind] {
				t.Errorf("%s takes a %s, and has no subject that soak draws", p.Name, kind)
			}
		}
	}
}

// formulated reports whether there are formulations of a problem.
func formulated(p *solve.Problem) bool {
	for _, f := range ilp.Formulations() {
		if f.Problem == p.Name {
			return true
		}
	}
	return false
}

// Every formulation has a problem that says on what it is checked and shown.
func TestEveryFormulationHasASubject(t *testing.T) {
	for _, f := range ilp.Formulations() {
		p, err := catalog.FindProblem(f.Problem)
		switch {
		case err != nil:
			t.Errorf("%s: %v", f.Name, err)
		case p.SubjectOf(f) == nil:
			t.Errorf("%s is checked on nothing", f.Name)
		case p.Tiny[f.Kind] == "":
			t.Errorf("%s is shown on nothing", f.Name)
		}
	}
}
