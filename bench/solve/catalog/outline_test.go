package catalog_test

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// The peak of an outline is what remat takes to keep everything, what is held adds up to
// it, and all of it is of the schema.
func TestOutlines(t *testing.T) {
	validate := testfile.Schema(t, "outline-v1.json")
	for _, spec := range []string{
		"zoo:resnet18?as=training", "zoo:rnn?seq=3&as=graph", "zoo:gpt2?layers=2&as=training", "zoo:resnet18", "zoo:siamese?length=2&as=join",
		"zoo:resnet18?as=functions", "../../../testdata/examples/fork.graph.json",
	} {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		o := catalog.OutlineOf(in)
		data, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(string(data)); err != nil {
			t.Errorf("%s: %v", spec, err)
		}
		if len(o.Ranges) == 0 {
			t.Errorf("%s is for no problem", spec)
		}
		g := catalog.Step(in)
		if g == nil {
			continue
		}
		held := o.Step.Workspace + g.Unit.Bytes(g.Input)
		for _, h := range o.Step.Held {
			held += h.Bytes
		}
		if math.Abs(held-o.Step.Peak) > 1e-6*held {
			t.Errorf("%s: %g bytes are held at the peak of %g", spec, held, o.Step.Peak)
		}
		for _, r := range o.Ranges {
			if r.Problem == plan.Remat && r.Most != o.Step.Peak {
				t.Errorf("%s: keeping everything peaks at %g, remat says %g", spec, o.Step.Peak, r.Most)
			}
		}
		var dot bytes.Buffer
		if err := g.WriteDOT(&dot); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(dot.String(), "fillcolor="); n != g.Len() || !strings.HasSuffix(dot.String(), "}\n") {
			t.Errorf("%s: %d nodes of %d are drawn", spec, n, g.Len())
		}
	}
}
