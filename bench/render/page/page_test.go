package page_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"workbench/bench/render/page"
	"workbench/bench/render/timeline"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// planned returns a plan of the first method that is named, for the page.
func planned(t *testing.T, problem, method, spec string, memory float64) page.Plan {
	t.Helper()
	in, err := solve.Load(spec, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalog.FindProblem(problem)
	if err != nil {
		t.Fatal(err)
	}
	m, err := catalog.FindMethod(p, method)
	if err != nil {
		t.Fatal(err)
	}
	var s solve.Setting
	s.Platform.Memory, s.Platform.Bandwidth = memory, 12e9
	if p.Bandwidth == "" {
		s.Platform.Bandwidth = 0
	}
	if p.Scheduled {
		s.Platform.MicroBatches, s.Platform.Processors, s.Platform.Placement, s.Platform.Objective = 4, 4, plan.Straight, plan.SpanObjective
	}
	r := solve.Run(t.Context(), p, m, in, s)
	if r.Plan == nil {
		t.Fatalf("%s by %s: %v", problem, method, r.Err)
	}
	return page.Plan{
		Name: problem, Summary: "a plan </script> of a test", Instance: in.Instance, Plan: r.Plan, Timeline: p.Timeline,
		Tensors: p.Tensors,
	}
}

func plans(t *testing.T) map[string][]page.Plan {
	return map[string][]page.Plan{
		"chain":     {planned(t, "remat", "persistent", "zoo:resnet18", 6e8)},
		"graph":     {planned(t, "remat", "store-all", "zoo:resnet18?as=graph", 4e9)},
		"schedule":  {planned(t, "flush", "1f1b", "zoo:gpt2?as=stages", 1e12)},
		"placement": {planned(t, "placement", "first-fit", "zoo:resnet18?as=lifetimes", 4e9)},
		"two":       {planned(t, "remat", "persistent", "zoo:resnet18", 6e8), planned(t, "activation-offload", "greedy", "zoo:resnet18", 6e8)},
	}
}

var embedded = regexp.MustCompile(`(?s)<script type="application/json" id="data">(.*?)</script>`)

// The page refers to nothing outside itself, its data are the plans', and recomputed operations are marked.
// Every kind of operation that the script names has a colour.
func TestKindsHaveColours(t *testing.T) {
	script, err := os.ReadFile("page.js")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile(`(?s)const kinds = \{(.*?)\};`).FindSubmatch(script)
	if block == nil {
		t.Fatal("no kinds in page.js")
	}
	kinds := regexp.MustCompile(`(\w+): \[`).FindAllSubmatch(block[1], -1)
	if len(kinds) != 7 {
		t.Errorf("%d kinds, want 7", len(kinds))
	}
	for _, k := range kinds {
		if timeline.Colours()[string(k[1])] == "" {
			t.Errorf("%s has no colour", k[1])
		}
	}
}

func TestWrite(t *testing.T) {
	for name, list := range plans(t) {
		var b bytes.Buffer
		if err := page.Write(&b, name, list...); err != nil {
			t.Fatal(err)
		}
		if outside := regexp.MustCompile(`(src|href)=|https?://|import\(`).Find(b.Bytes()); outside != nil {
			t.Errorf("%s: refers to the outside: %s", name, outside)
		}
		var data struct {
			Plans []struct {
				Limit    float64
				Resident []struct{ Bytes int64 }
				Boxes    [][]any
				Rects    [][]any
			}
		}
		found := embedded.FindSubmatch(b.Bytes())
		if found == nil || json.Unmarshal(found[1], &data) != nil || len(data.Plans) != len(list) {
			t.Fatalf("%s: no data of %d plans", name, len(list))
		}
		recomputed := 0
		for _, p := range data.Plans {
			if len(p.Resident) == 0 || len(p.Resident) > 10 || len(p.Boxes)+len(p.Rects) == 0 {
				t.Errorf("%s: %d tensors, %d operations, %d buffers", name, len(p.Resident), len(p.Boxes), len(p.Rects))
			}
			for _, box := range p.Boxes {
				if args, ok := box[5].(map[string]any); ok && args["recomputed"] == true {
					recomputed++
				}
			}
		}
		if again := map[string]bool{"chain": true, "two": true}[name]; again != (recomputed > 0) {
			t.Errorf("%s: %d recomputed operations", name, recomputed)
		}
	}
}

// Five thousand operations take less than a megabyte.
func TestSize(t *testing.T) {
	c := &chain.Chain{Name: "long"}
	for k := range 2500 {
		c.Layers = append(c.Layers, chain.Layer{
			Name: fmt.Sprint("layer", k), ForwardTime: 1e-3, BackwardTime: 2e-3, Activation: 1 << 20,
			Saved: 2 << 20, Gradient: 1 << 20,
		})
	}
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	problem, err := catalog.FindProblem(plan.Remat)
	if err != nil {
		t.Fatal(err)
	}
	m, err := catalog.FindMethod(problem, "store-all")
	if err != nil {
		t.Fatal(err)
	}
	var s solve.Setting
	s.Platform.Memory = 1e12
	r := solve.Run(t.Context(), problem, m, in, s)
	if r.Plan == nil {
		t.Fatal(r.Err)
	}
	var b bytes.Buffer
	if err := page.Write(&b, "long", page.Plan{
		Name: "long", Instance: c, Plan: r.Plan, Timeline: problem.Timeline,
		Tensors: problem.Tensors,
	}); err != nil {
		t.Fatal(err)
	}
	if len(r.Plan.Ops) < 5000 || b.Len() > 1<<20 {
		t.Errorf("%d operations take %d bytes", len(r.Plan.Ops), b.Len())
	}
}

// A browser opens the pages from a file without an error, and draws every operation.
func TestInBrowser(t *testing.T) {
	testfile.Long(t)
	chromium, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium here: what the page does in a browser is not tested")
	}
	all := plans(t)
	for name, list := range plans(t) {
		all["slider over "+name] = append(list[:1:1], list...)
	}
	for name, list := range all {
		file := filepath.Join(t.TempDir(), "plan.html")
		var b bytes.Buffer
		err := page.Write(&b, name, list...)
		slider := strings.HasPrefix(name, "slider")
		if slider {
			b.Reset()
			err = page.WriteSlider(&b, name, "memory", list)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr",
			"--virtual-time-budget=3000", "--dump-dom", "file://"+file).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		ready := regexp.MustCompile(`data-ready="(\d+)"`).FindSubmatch(out)
		if slider != strings.Contains(string(out), `type="range"`) || slider != strings.Contains(string(out), `<section hidden="">`) {
			t.Errorf("%s: a slider that shows one of its plans is %v", name, slider)
		}
		if strings.Contains(string(out), "CONSOLE") || ready == nil || string(ready[1]) == "0" {
			t.Errorf("%s: ready %s\n%s", name, ready, regexp.MustCompile(`.*CONSOLE.*`).FindAll(out, 5))
		}
	}
}
