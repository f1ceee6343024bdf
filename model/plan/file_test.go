package plan_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/plan"
	"workbench/model/plan/plantest"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

func read(s string) (*plan.Plan, error) { return plan.Read(strings.NewReader(s), "plan.json") }

func TestReadWrite(t *testing.T) {
	p, err := read(plantest.Small)
	if err != nil {
		t.Fatal(err)
	}
	period := 2.5
	want := &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: "by hand",
		Instance: plan.InstanceRef{Name: "one <layer> & a loss", SHA256: "00"},
		Platform: platform.Platform{Memory: 8 << 30, Bandwidth: 12e9}, Period: &period,
		Ops:    []plan.Op{plantest.Op("B", 1, 0, 1), {Op: "O", Tensor: "w", Layer: 1, Start: 1, End: 1.25}},
		Claims: plan.Claims{Makespan: 2.5, PeakMemory: 10},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	again := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(b.String())
	if diff := cmp.Diff(plantest.Small, again); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
}

// What is written is read back to the bit.
func TestRoundTrip(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		number := rapid.Float64Range(-platform.MaxTime, platform.MaxTime)
		text := rapid.String()
		p := &plan.Plan{
			Format: plan.Format, Problem: "p" + clean(text.Draw(t, "problem")), Method: clean(text.Draw(t, "method")),
			Instance: plan.InstanceRef{Name: clean(text.Draw(t, "name"))},
			Platform: platform.Platform{Memory: math.Abs(number.Draw(t, "memory")), Processors: rapid.IntRange(0, 9).Draw(t, "processors")},
			K:        rapid.IntRange(0, 3).Draw(t, "k"), MemoryModel: rapid.SampledFrom([]string{"", plan.StageModel, plan.TaskModel}).Draw(t,
				"model"),
			Ops: []plan.Op{}, Claims: plan.Claims{Makespan: number.Draw(t, "makespan")},
		}
		p.Platform.WeightCopies = rapid.IntRange(0, 9).Draw(t, "copies")
		for range rapid.IntRange(0, 2).Draw(t, "stages") {
			p.Allocation = append(p.Allocation, plan.Stage{
				Processor: rapid.Int().Draw(t, "processor"), From: rapid.Int().Draw(t, "from"),
				To: rapid.Int().Draw(t, "to"), Replicas: rapid.IntRange(0, 3).Draw(t, "replicas"),
			})
		}
		if x := math.Abs(number.Draw(t, "period")); x > 0 {
			p.Period = &x
		}
		for range rapid.IntRange(0, 5).Draw(t, "ops") {
			kind := rapid.SampledFrom([]string{"F", plan.OpC, plan.OpLoss, plan.OpRun, plan.OpIn}).Draw(t, "op")
			if kind == "F" {
				kind += clean(text.Draw(t, "op"))
			}
			o := plan.Op{
				Op: kind, Tensor: clean(text.Draw(t, "tensor")), Layer: rapid.OneOf(rapid.Int(), rapid.Just(0)).Draw(t, "layer"),
				Branch: rapid.OneOf(rapid.Int(), rapid.Just(0)).Draw(t, "branch"), Node: clean(text.Draw(t, "node")),
				Function: rapid.OneOf(rapid.Int(), rapid.Just(0)).Draw(t, "function"), Variable: clean(text.Draw(t, "variable")),
				Start: number.Draw(t, "start"), End: number.Draw(t, "end"),
				Resource: clean(text.Draw(t, "resource")), Shift: rapid.OneOf(rapid.Int(), rapid.Just(0)).Draw(t, "shift"),
			}
			p.Ops = append(p.Ops, o)
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		q, err := plan.Read(&b, "plan.json")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
	})
}

// clean replaces what is not Unicode, which JSON cannot hold.
func clean(s string) string { return strings.ToValidUTF8(s, "?") }

func TestReadErrors(t *testing.T) {
	for _, x := range []struct{ name, old, new, want string }{
		{"truncated", `"bandwidth": 12000000000
  },
  "period": 2.5,
` + plantest.Small[strings.Index(plantest.Small, `  "ops"`):], "", "plan.json:11: "},
		{"version", "plan/v1", "plan/v2", `plan.json:2: format: "workbench.plan/v2" is not understood here; it must be "workbench.plan/v1"`},
		{"unknown field", `"tensor"`, `"tensr"`, "plan.json:16: ops[1].tensr"},
		{"unknown field above", `"method"`, `"methods"`, "plan.json:4: methods"},
		{"no problem", `"problem": "weight-offload",`, ``, "plan.json:1: problem: missing"},
		{"no operations", plantest.Small[strings.Index(plantest.Small, `"ops"`):strings.Index(plantest.Small, `"claims"`)], ``, "plan.json:1: ops: missing"},
		{"operation without start", `"start":1,`, ``, "plan.json:16: ops[1]: start is missing"},
		{"operation without layer", `"B","layer":1`, `"B"`, "plan.json:15: ops[0]: layer is missing"},
		{"operation without kind", `"op":"B",`, ``, "plan.json:15: ops[0]: op is missing"},
		{"NaN", `"start":0`, `"start":NaN`, "plan.json:15: ops[0].start: "},
		{"out of range", `"start":0`, `"start":1e999`, "plan.json:15: ops[0].start: "},
		{"negative memory", `8589934592`, `-1`, "plan.json:10: platform.memory: -1 bytes is negative"},
		{"period", `"period": 2.5`, `"period": 0`, "plan.json:13: period: 0 s is not positive"},
		{"text for a number", `"period": 2.5`, `"period": "2.5"`, "plan.json:13: period: "},
		{"layer", `"layer":1,"start":0`, `"layer":1.5,"start":0`, "plan.json:15: ops[0].layer: "},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := strings.Replace(plantest.Small, x.old, x.new, 1)
			if s == plantest.Small {
				t.Fatal("the mutation changes nothing")
			}
			_, err := read(s)
			var located *strictjson.Error
			if !errors.As(err, &located) || !strings.HasPrefix(err.Error(), x.want) {
				t.Errorf("error %v\nwant  %s…", err, x.want)
			}
		})
	}
	if _, err := read(strings.Replace(plantest.Small, `"period"`, `"x-note": [1, "mine"], "period"`, 1)); err != nil {
		t.Errorf("a field of the user's: %v", err)
	}
}

// Operations of graphs, joins and swapping leave out the layer that they do not
// have.
func TestReadWriteOps(t *testing.T) {
	// Of a problem that is not known anything may be said.
	const head = `{"format":"workbench.plan/v1","problem":"another","platform":{"memory":1},"ops":[`
	for _, x := range []struct {
		op, again string
		want      plan.Op
	}{
		{`{"op":"C","node":"7","start":0,"end":1}`, "", plan.Op{Op: "C", Node: "7", End: 1}},
		{`{"op":"D","node":"conv","start":1,"end":1}`, "", plan.Op{Op: "D", Node: "conv", Start: 1, End: 1}},
		{
			`{"op":"D","layer":0,"node":"conv","start":1,"end":1}`, `{"op":"D","node":"conv","start":1,"end":1}`,
			plan.Op{Op: "D", Node: "conv", Start: 1, End: 1},
		},
		{`{"op":"C","layer":2,"node":"conv","start":0,"end":1}`, "", plan.Op{Op: "C", Layer: 2, Node: "conv", End: 1}},
		{`{"op":"LOSS","start":0,"end":1}`, "", plan.Op{Op: "LOSS", End: 1}},
		{`{"op":"S","layer":0,"branch":2,"start":0,"end":0}`, "", plan.Op{Op: "S", Branch: 2}},
		{`{"op":"D","tensor":"delta","layer":0,"branch":1,"start":0,"end":0}`, "", plan.Op{Op: "D", Tensor: "delta", Branch: 1}},
		{`{"op":"run","function":2,"start":0,"end":1}`, "", plan.Op{Op: "run", Function: 2, End: 1}},
		{`{"op":"drop","variable":"conv1","start":1,"end":1}`, "", plan.Op{Op: "drop", Variable: "conv1", Start: 1, End: 1}},
		{`{"op":"F_none","layer":3,"start":0,"end":2.5}`, "", plan.Op{Op: "F_none", Layer: 3, End: 2.5}},
	} {
		p, err := read(head + x.op + "]}")
		if err != nil {
			t.Errorf("%s: %v", x.op, err)
			continue
		}
		if diff := cmp.Diff([]plan.Op{x.want}, p.Ops); diff != "" {
			t.Errorf("%s (-want +got):\n%s", x.op, diff)
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if x.again == "" {
			x.again = x.op
		}
		if !strings.Contains(b.String(), x.again) {
			t.Errorf("%s is written\n%s", x.op, b.String())
		}
	}
	for _, x := range [][2]string{
		{`{"op":"C","start":0,"end":1}`, "ops[0]: node is missing"},
		{`{"op":"run","start":0,"end":1}`, "ops[0]: function is missing"},
		{`{"op":"out","start":0,"end":1}`, "ops[0]: variable is missing"},
		{`{"op":"in","variable":"","start":0,"end":1}`, "ops[0]: variable is empty; it is the id of a variable of the sequence"},
		{`{"op":"D","start":0,"end":1}`, "ops[0]: layer is missing"},
		{`{"op":"F","branch":1,"start":0,"end":1}`, "ops[0]: layer is missing"},
		{`{"op":"C","node":"","start":0,"end":1}`, "ops[0]: node is empty; it is the id of a node of the graph"},
		{`{"op":"C","node":null,"start":0,"end":1}`, "ops[0].node: null where a text is needed"},
		{`{"op":"C","node":7,"start":0,"end":1}`, "ops[0].node: a number where a text is needed"},
		{`{"op":"S","layer":0,"branch":"1","start":0,"end":0}`, "ops[0].branch: a text where an integer is needed"},
		{`{"op":"C","node":"a","end":1}`, "ops[0]: start is missing"},
		{`{"op":"LOSS","start":1}`, "ops[0]: end is missing"},
	} {
		if _, err := read(head + x[0] + "]}"); err == nil || !strings.HasPrefix(err.Error(), "plan.json:1: "+x[1]) {
			t.Errorf("%s: error %v, want %s", x[0], err, x[1])
		}
	}
}

func TestWriteErrors(t *testing.T) {
	_, p := plantest.TwoLayers()
	p.Ops[3].End = math.NaN()
	if err := p.Write(&bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), "ops[3], P w_1, runs from 4 to NaN") {
		t.Errorf("NaN: %v", err)
	}
	_, p = plantest.TwoLayers()
	p.Platform.Memory = math.Inf(1)
	if err := p.Write(&bytes.Buffer{}); err == nil {
		t.Error("infinite memory was written")
	}
}

func TestNew(t *testing.T) {
	c, _ := plantest.TwoLayers()
	p := plan.New(plan.WeightOffload, "m", c, platform.Platform{Memory: 1})
	digest, err := c.Digest()
	if err != nil {
		t.Fatal(err)
	}
	want := &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: "m", Platform: platform.Platform{Memory: 1},
		Instance: plan.InstanceRef{Name: "test", SHA256: digest},
	}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Error(diff)
	}
	c.Layers[0].Weight = math.NaN()
	if p := plan.New(plan.WeightOffload, "m", c, platform.Platform{}); p.Instance.SHA256 != "" {
		t.Errorf("digest %s of a chain with NaN", p.Instance.SHA256)
	}
}

// FuzzRead: nothing panics, and what is read is written and read to the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(plantest.Small))
	f.Add([]byte(strings.Replace(plantest.Small, "2.5", "null", 1)))
	f.Add([]byte(strings.Replace(plantest.Small, "O", "D", 1)))
	f.Add([]byte(strings.NewReplacer("weight-offload", "activation-offload", `"w"`, `"abar"`, "2.5", "null").Replace(plantest.Small)))
	f.Add([]byte(`{"format":"workbench.plan/v1","problem":"remat","platform":{},"period":null,"ops":[]}`))
	f.Add([]byte(strings.Replace(plantest.Small, `"B","layer":1`, `"C","node":"v"`, 1)))
	f.Add([]byte(strings.Replace(plantest.Small, `"B","layer":1`, `"LOSS"`, 1)))
	f.Add([]byte(strings.Replace(plantest.Small, `"B","layer":1`, `"S","branch":-1,"layer":0`, 1)))
	f.Add([]byte(strings.Replace(plantest.Small, `"period"`, `"k":2,"allocation":[{"processor":0,"from":1,"to":1}],"memory_model":"task","period"`, 1)))
	f.Add([]byte(strings.Replace(plantest.Small, `"B","layer":1`, `"CF","resource":"link0-1","shift":-1,"layer":1`, 1)))
	f.Add([]byte(`[`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := plan.Read(bytes.NewReader(data), "fuzz")
		if err != nil {
			return
		}
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		q, err := plan.Read(&b, "written")
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q); diff != "" {
			t.Fatal(diff)
		}
	})
}

// A pipeline's plan that does not say how often weights are stored has three
// copies of them; one without copies says so.
func TestWeightCopies(t *testing.T) {
	for _, x := range []struct {
		problem, platform string
		want              int
	}{
		{plan.Pipeline, `{"memory":8,"processors":2}`, platform.DefaultWeightCopies},
		{plan.Pipeline, `{"memory":8,"processors":2,"weight_copies":0}`, 0},
		{plan.Pipeline, `{"memory":8,"processors":2,"weight_copies":2}`, 2},
		{plan.WeightOffload, `{"memory":8}`, 0},
	} {
		text := fmt.Sprintf(`{"format":%q,"problem":%q,"method":"m","instance":{"name":"i"},"platform":%s,"period":null,"ops":[],"claims":{"makespan":1,"peak_memory":1}}`, plan.Format, x.problem, x.platform)
		p, err := plan.Read(strings.NewReader(text), "plan.json")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if p.Platform.WeightCopies != x.want {
				t.Errorf("%s on %s: %d copies, want %d", x.problem, x.platform, p.Platform.WeightCopies, x.want)
			}
			var b bytes.Buffer
			if err := p.Write(&b); err != nil {
				t.Fatal(err)
			}
			if p, err = plan.Read(&b, "written.json"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
