package torchtags

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	optimum "workbench/model/exhaustive/rematgraph"
	"workbench/model/instance/training"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// planOf runs nodes in an order, and fetches what +a writes.
func planOf(g *training.Graph, nodes string) *plan.Plan {
	p := plan.New(plan.Remat, "by hand", g, platform.Platform{Memory: 1000})
	for node := range strings.FieldsSeq(nodes) {
		if a, is := strings.CutPrefix(node, "+"); is {
			p.Ops = append(p.Ops, plan.Op{Op: plan.OpP, Storage: "of " + a})
			continue
		}
		p.Ops = append(p.Ops, plan.Op{Op: plan.OpC, Node: node})
	}
	return p
}

func TestByHand(t *testing.T) {
	g := &training.Graph{Name: "hand"}
	node := func(id, phase string, reads ...int) {
		g.Storages = append(g.Storages, training.Storage{ID: "of " + id, Bytes: 1, Kind: training.Value})
		g.Nodes = append(g.Nodes, training.Node{ID: id, Phase: phase, Reads: reads, Writes: []int{len(g.Storages) - 1}})
	}
	node("a", training.Forward)
	node("b", training.Forward, 0)
	node("c", training.Forward, 1)
	node("l", training.Loss, 2)
	node("dc", training.Backward, 3, 1)
	node("db", training.Backward, 4, 0)
	for _, c := range []struct {
		nodes string
		tags  map[string]string
		left  string
	}{
		{"a b c l dc db", map[string]string{"a": Save, "b": Save, "l": Save}, ""},
		{"a b c l b dc db", map[string]string{"a": Save, "b": Save, "l": Save}, "4 b it is recomputed before the backward begins"},
		{"a b c l dc a db", map[string]string{"a": Recompute, "b": Save, "l": Save}, ""},
		{"a b c l dc +a db", map[string]string{"a": Offload, "b": Save, "l": Save}, ""},
		{
			"a b c +a l +b dc +a db",
			map[string]string{"a": Save, "b": Save, "l": Save},
			"3 a it is fetched before the backward begins, 5 b it is fetched before the backward begins, 7 a it is fetched more than once",
		},
		{
			"a b c l dc a +a +dc db",
			map[string]string{"a": Recompute, "b": Save, "l": Save},
			"6 a it is fetched, and recomputed, 7 dc a value of the backward is fetched",
		},
		{
			"a b c l dc dc b a b db",
			map[string]string{"a": Recompute, "b": Recompute, "l": Save},
			"5 dc a node of the backward is recomputed, 8 b it is recomputed more than once",
		},
	} {
		got, err := FromPlan(planOf(g, c.nodes), g)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, x := range got.Left {
			all = append(all, strings.Join([]string{string(rune('0' + x.Op)), x.Node, x.Why}, " "))
		}
		if left := strings.Join(all, ", "); !maps.Equal(got.Tags, c.tags) || left != c.left {
			t.Errorf("%s: %v, left %q, want %v, left %q", c.nodes, got.Tags, left, c.tags, c.left)
		}
	}
	if _, err := FromPlan(planOf(g, "x"), g); !errors.Is(err, ErrFormat) {
		t.Errorf("a node of nobody: %v", err)
	}
	if _, err := FromPlan(planOf(g, "a +x"), g); !errors.Is(err, ErrFormat) {
		t.Errorf("a storage of nobody: %v", err)
	}
	resident := *g
	resident.Storages = append(slices.Clone(g.Storages), training.Storage{ID: "of w", Resident: true})
	if _, err := FromPlan(planOf(&resident, "a +w"), &resident); !errors.Is(err, ErrFormat) {
		t.Errorf("a resident storage: %v", err)
	}
	if err := Write(&strings.Builder{}, planOf(g, "a"), nil); !errors.Is(err, ErrFormat) {
		t.Errorf("no instance: %v", err)
	}
}

// Of optimal plans of random steps: what runs more than once is tagged or left, each run.
func TestNothingIsLost(t *testing.T) {
	r := testfile.Random(t, 5, 5)
	again := 0
	for range testfile.Cases(200) {
		g := random.Training(r, 1+r.IntN(3))
		least, err := optimum.LeastMemory(g, 1<<18)
		if err != nil {
			continue
		}
		_, p, err := optimum.Search(g, least, 1<<18)
		if err != nil {
			continue
		}
		tags, err := FromPlan(p, g)
		if err != nil {
			t.Fatal(err)
		}
		runs, said := 0, len(tags.Left)
		for k := range p.Ops {
			if p.Ops[k].Op == plan.OpC {
				runs++
			}
		}
		for node, tag := range tags.Tags {
			// Its second run may be left, too: it is the tag's or the other's.
			if tag == Recompute && !slices.ContainsFunc(tags.Left, func(x Left) bool { return x.Node == node && x.Why == left(2, true, false) }) {
				said++
			}
		}
		if runs-g.Len() != said {
			t.Fatalf("%s: %d runs again, %d said: %+v", g.Name, runs-g.Len(), said, tags)
		}
		again += runs - g.Len()
	}
	if again < testfile.Cases(30) {
		t.Errorf("%d nodes ran again", again)
	}
}
