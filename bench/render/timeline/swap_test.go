package timeline

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// outAndIn is a sequence and a plan by hand in which one variable goes out and
// comes back and another, of which the host has a copy, is dropped.
func outAndIn() (plan.Instance, *plan.Plan) {
	const mib = 1 << 20
	s := &functions.Sequence{
		Name: "four < five",
		Variables: []functions.Variable{
			{ID: "a", Size: 2 * mib}, {ID: "w", Size: mib, Initial: functions.Host}, {ID: "b", Size: 2 * mib},
		},
		Functions: []functions.Function{
			{Name: "one", Kind: functions.Forward, Time: 2, Uses: []int{0, 1}, Writes: []int{0}},
			{Name: "two", Kind: functions.Loss, Time: 2, Uses: []int{2}},
			{Name: "three", Kind: functions.Backward, Time: 1, Uses: []int{0, 1}, Writes: []int{0}},
		},
	}
	return s, &plan.Plan{
		Format: plan.Format, Problem: plan.Swap, Method: "by hand", Instance: plan.InstanceRef{Name: s.Name},
		Platform: platform.Platform{Memory: 3 * mib, Bandwidth: mib},
		Ops: []plan.Op{
			{Op: plan.OpIn, Variable: "w", Start: 0, End: 1},
			{Op: plan.OpRun, Function: 1, Start: 1, End: 3},
			{Op: plan.OpDrop, Variable: "w", Start: 3, End: 3},
			{Op: plan.OpOut, Variable: "a", Start: 3, End: 5},
			{Op: plan.OpRun, Function: 2, Start: 5, End: 7},
			{Op: plan.OpIn, Variable: "a", Start: 7, End: 9},
			{Op: plan.OpIn, Variable: "w", Start: 9, End: 10},
			{Op: plan.OpRun, Function: 3, Start: 10, End: 11},
		},
		Claims: plan.Claims{Makespan: 11, PeakMemory: 3 * mib},
	}
}

func TestSwapExampleIsValid(t *testing.T) {
	in, p := outAndIn()
	checkValid(t, in, p)
}

func TestSwapGolden(t *testing.T) {
	in, p := outAndIn()
	checkGolden(t, "swap", in, p)
}

// Every operation is in the picture and in the trace, whatever the plan is worth.
func TestSwapDrawsEverything(t *testing.T) {
	in, p := outAndIn()
	p.Ops[1].Function = 77 // there is none
	p.Ops[3].Variable = "nobody"
	p.Ops = append(p.Ops, plan.Op{Op: plan.OpOut, Variable: "b", Start: math.NaN(), End: 1})
	var b bytes.Buffer
	if err := drawSVG(&b, in, p, Options{Width: 400}); err != nil {
		t.Fatal(err)
	}
	checkPicture(t, b.String())
	for _, title := range []string{
		"run f_77:", "run f_2 (two):", "drop w, 1 MiB: at 3 s", "out nobody: 3 to 5 s", "in a, 2 MiB: 7 to 9 s",
		"four &lt; five",
	} {
		if !strings.Contains(b.String(), title) {
			t.Errorf("the picture does not say %q", title)
		}
	}
	b.Reset()
	if err := drawTrace(&b, in, p); err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct {
			Name  string `json:"name"`
			Phase string `json:"ph"`
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, e := range trace.TraceEvents {
		count[e.Phase]++
	}
	if count["X"] != 7 || count["i"] != 1 || count["C"] == 0 {
		t.Errorf("%d operations, %d drops, %d points of memory; %v", count["X"], count["i"], count["C"], trace.TraceEvents)
	}
}

func TestSwapOfNothing(t *testing.T) {
	in, p := outAndIn()
	p.Ops = nil
	if err := drawSVG(io.Discard, in, p, Options{}); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("a plan without operations: %v", err)
	}
	if err := drawTrace(io.Discard, nil, p); err == nil {
		t.Error("no instance, no error")
	}
}

// Transfers carry the names of their variables: across, upright, or not at all, as
// there is room.
func TestSwapNamesTransfers(t *testing.T) {
	in, p := outAndIn()
	for _, x := range []struct {
		width int
		want  string
	}{
		{1000, `>a</text>`},
		{left + right + 11*12, `font-size="8" transform="rotate\(-90 [^>]*>long-na`},
	} {
		s := *plan.As[*functions.Sequence](in)
		if x.width < 1000 {
			s.Variables = slices.Clone(s.Variables)
			s.Variables[0].ID = "long-name"
			for k := range p.Ops {
				if p.Ops[k].Variable == "a" {
					p.Ops[k].Variable = "long-name"
				}
			}
		}
		var b bytes.Buffer
		if err := drawSVG(&b, &s, p, Options{Width: x.width}); err != nil {
			t.Fatal(err)
		}
		if n := len(regexp.MustCompile(x.want).FindAllString(b.String(), -1)); n != 2 {
			t.Errorf("%d pixels wide, the picture says %q %d times, want 2:\n%s", x.width, x.want, n, b.String())
		}
	}
}
