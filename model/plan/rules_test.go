package plan

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/platform"
)

// common are the fields that every operation, and every plan, has.
var commonOp, commonPlan = []string{"Op", "Start", "End"},
	[]string{"Format", "Problem", "Method", "Instance", "Platform", "Period", "Ops", "Claims", "Unit"}

// jsonName returns the name of a field in files.
func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// fill returns a value of a type that is zero nowhere.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("x")
	case reflect.Int:
		v.SetInt(3)
	case reflect.Float64:
		v.SetFloat(2)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic("a field of a new kind: " + v.Type().String())
	}
}

// Every field of a plan and of its operations comes back from a file where the
// rules of the problem declare it, and is refused by Write and Read where they do
// not. A field that is new is one of these, or this fails.
func TestEveryFieldIsDeclared(t *testing.T) {
	for _, rules := range problems {
		blank := func() *Plan {
			return &Plan{Format: Format, Problem: rules.Problem, Platform: platform.Platform{Memory: 1}, Ops: []Op{}}
		}
		for _, f := range reflect.VisibleFields(reflect.TypeFor[Plan]()) {
			p := blank()
			if set(t, reflect.ValueOf(p).Elem(), f, commonPlan) {
				if p.MemoryModel != "" {
					p.MemoryModel = StageModel
				}
				survives(t, p, jsonName(f), strings.Contains(rules.Fields.String(), jsonName(f)))
			}
		}
		for _, x := range rules.Ops {
			for _, f := range reflect.VisibleFields(reflect.TypeFor[Op]()) {
				p := blank()
				p.Ops = []Op{{Op: x.Op, Start: 1, End: 2}}
				// What an operation is about must be said; another field stands beside it.
				for name, field := range map[string]Fields{
					"Layer": FieldLayer, "Node": FieldNode, "Function": FieldFunction,
					"Variable": FieldVariable,
				} {
					if x.Fields&field != 0 {
						fill(reflect.ValueOf(&p.Ops[0]).Elem().FieldByName(name))
					}
				}
				if set(t, reflect.ValueOf(&p.Ops[0]).Elem(), f, commonOp) {
					survives(t, p, jsonName(f), strings.Contains(x.Fields.String(), jsonName(f)))
				}
			}
		}
	}
}

// set fills a field of v, false if it is one that all have.
func set(t *testing.T, v reflect.Value, f reflect.StructField, common []string) bool {
	t.Helper()
	for _, name := range common {
		if f.Name == name {
			return false
		}
	}
	if !strings.Contains(strings.Join(fieldNames[:], " "), jsonName(f)) {
		t.Errorf("%s is in no rule: add a Field constant with its name to fieldNames and to the problems that have it (rules.go), the field to "+
			"the file's mirror of Plan or Op (plan.go), to docs/schema/plan-v1.json and to the table of docs/files.md", f.Name)
	}
	fill(v.FieldByIndex(f.Index))
	return true
}

// survives writes and reads a plan in which a field is set.
func survives(t *testing.T, p *Plan, field string, declared bool) {
	t.Helper()
	what := p.Problem + " " + field
	if len(p.Ops) > 0 {
		what = p.Problem + " " + p.Ops[0].Op + " " + field
	}
	data, err := json.Marshal(p) // as results hold it, declared or not
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := p.Write(&b); (err == nil) != declared {
		t.Errorf("%s, declared %v: Write says %v", what, declared, err)
	}
	for _, s := range []string{string(data), b.String()} {
		if s == "" {
			continue
		}
		q, err := Read(strings.NewReader(s), "plan.json")
		switch {
		case (err == nil) != declared:
			t.Errorf("%s, declared %v: Read says %v", what, declared, err)
		case err == nil && !cmp.Equal(p.Ops, q.Ops) || err == nil &&
			!(cmp.Equal(p.Allocation, q.Allocation) && p.K == q.K && p.MemoryModel == q.MemoryModel):
			t.Errorf("%s comes back different: %s", what, cmp.Diff(p, q))
		case err != nil && !strings.Contains(err.Error(), field):
			t.Errorf("%s: the error does not name it: %v", what, err)
		}
	}
}
