package stages_test

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

const small = `{
  "format": "workbench.stages/v1",
  "name": "toy",
  "communication_time": 0.5,
  "stages": [
    {"name": "one", "forward_time": 2, "backward_time": 3, "weight_time": 1, "forward_memory": 5, "backward_memory": -3, "weight_memory": -2, "weight": 7},
    {"forward_time": 1, "backward_time": 4, "forward_memory": 2}
  ],
  "source": {"by": "hand"}
}
`

const own = `{"format": "workbench.stages/v1", "x-note": 1, "runtime": "torch", "stages": [{"forward_time": 1, "backward_time": 2, "forward_memory": 2.5, "weight_memory": -0.25, "x-why": "b"}]}`

func smallPartition() *stages.Partition {
	return &stages.Partition{
		Name: "toy", CommunicationTime: 0.5, Source: map[string]any{"by": "hand"},
		Stages: []stages.Stage{
			{Name: "one", ForwardTime: 2, BackwardTime: 3, WeightTime: 1, ForwardMemory: 5, BackwardMemory: -3, WeightMemory: -2, Weight: 7},
			{ForwardTime: 1, BackwardTime: 4, ForwardMemory: 2, BackwardMemory: -2},
		},
	}
}

var format = testfile.Format[*stages.Partition]{
	Name: "stages", Read: stages.Read, Good: []string{small, own}, Bad: []testfile.Bad{
		{Name: "no time", Old: `"forward_time": 2, `, New: ``, Want: "6: stages[0]: forward_time or backward_time is missing"},
		{Name: "no memory", Old: `, "forward_memory": 2`, New: ``, Want: "7: stages[1]: forward_memory is missing"},
		{Name: "negative time", Old: `"weight_time": 1`, New: `"weight_time": -1`, Want: "6: stages[0].weight_time: -1 is negative"},
		{Name: "negative way", Old: `0.5`, New: `-0.5`, Want: "4: communication_time: -0.5 is negative"},
		{Name: "negative memory", Old: `"forward_memory": 5`, New: `"forward_memory": -5`, Want: "6: stages[0].forward_memory: -5 is negative"},
		{Name: "weight takes", Old: `"weight_memory": -2`, New: `"weight_memory": 2`, Want: "6: stages[0].weight_memory: 2 is positive"},
		{Name: "no runtime", Old: `"name": "toy"`, New: `"name": "toy", "runtime": "jax"`, Want: "3: runtime: \"jax\"; there is \"torch\""},
		{
			Name: "no balance", Old: `-3`, New: `-1`, Want: "6: stages[0].backward_memory: forward, backward and weight change the memory by 2",
			Semantic: true,
		},
		{
			Name: "more sent than there is", Old: `"weight": 7`, New: `"offload_memory": 6, "weight": 7`,
			Want: "6: stages[0].offload_memory: 6 are more than forward_memory, 5", Semantic: true,
		},
		{Name: "negative copy", Old: `"weight": 7`, New: `"offload_time": -1, "weight": 7`, Want: "6: stages[0].offload_time: -1 is negative"},
		{Name: "too large", Old: `"weight": 7`, New: `"weight": 1e15`, Want: "5: stages: all sizes together are", Semantic: true},
	},
	Parts: func(p *stages.Partition) (*[]strictjson.Extra, *map[string]any) { return &p.Extra, &p.Source },
}

func TestRead(t *testing.T) {
	p, err := format.Parse(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(smallPartition(), p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	fine, err := format.Parse(own)
	if err != nil {
		t.Fatal(err)
	}
	if s := fine.Stages[0]; fine.Unit != 2 || s.ForwardMemory != 250 || s.BackwardMemory != -225 || !s.Split() || p.Stages[1].Split() {
		t.Errorf("unit %d, %+v", fine.Unit, s)
	}
}

func TestReadErrors(t *testing.T) { format.ReadErrors(t) }

func TestSchema(t *testing.T) { format.Schema(t) }

func TestRoundTrip(t *testing.T) {
	format.RoundTrip(t, rapid.Custom(func(t *rapid.T) *stages.Partition {
		p := &stages.Partition{Name: rapid.String().Draw(t, "name"), CommunicationTime: testfile.Seconds().Draw(t, "way")}
		torch := rapid.Bool().Draw(t, "torch")
		if torch {
			p.Runtime = stages.Torch
		}
		for range rapid.IntRange(1, 5).Draw(t, "stages") {
			time := testfile.Seconds()
			s := stages.Stage{
				Name: rapid.String().Draw(t, "stage"), ForwardTime: time.Draw(t, "F"), BackwardTime: time.Draw(t, "B"), WeightTime: time.Draw(t, "W"),
				ForwardMemory: float64(rapid.Int64Range(0, 1e12).Draw(t, "memory")), Weight: float64(rapid.Int64Range(0, 1e12).Draw(t, "weights")),
				Overhead: float64(rapid.Int64Range(0, 1e12).Draw(t, "overhead")),
			}
			if !torch {
				s.OffloadMemory, s.OffloadTime = math.Floor(s.ForwardMemory*rapid.Float64Range(0, 1).Draw(t, "sent")), time.Draw(t, "O")
			}
			s.RecomputeTime = s.BackwardTime * float64(rapid.IntRange(0, 1).Draw(t, "again"))
			s.WeightMemory = 0 - math.Floor(s.ForwardMemory*rapid.Float64Range(0, 1).Draw(t, "part"))
			if torch {
				s.WeightMemory -= float64(rapid.Int64Range(0, 1e6).Draw(t, "gradients"))
			}
			s.BackwardMemory = 0 - s.ForwardMemory - s.WeightMemory
			p.Stages = append(p.Stages, s)
		}
		return p
	}))
}

func FuzzRead(f *testing.F) { format.Fuzz(f) }

// A cut leaves nothing out, and no other cut has a shorter longest stage.
func TestCut(t *testing.T) {
	t.Parallel()
	testfile.Property(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "layers")
		c := &chain.Chain{Name: "drawn", Input: chain.Input{Activation: 3}}
		for range n {
			x := rapid.IntRange(0, 9)
			c.Layers = append(c.Layers, chain.Layer{
				ForwardTime: float64(x.Draw(t, "F")), BackwardTime: float64(x.Draw(t, "B")), Activation: 2, Gradient: 2,
				Saved: float64(2 + x.Draw(t, "saved")), Weight: float64(x.Draw(t, "w")),
			})
		}
		k := rapid.IntRange(1, n).Draw(t, "stages")
		p, err := stages.Cut(c, stages.Cutting{Stages: k, Weight: 0.5, WeightMemory: 0.25, Bandwidth: 4, Copies: 2})
		if err != nil {
			t.Fatal(err)
		}
		longest, weights, held := 0.0, 0.0, 0.0
		for i := range p.Stages {
			s := &p.Stages[i]
			longest = max(longest, s.ForwardTime+s.BackwardTime+s.WeightTime)
			weights += s.Weight
			held += s.ForwardMemory
		}
		totals := c.Totals()
		if math.Abs(p.TotalTime()-c.TotalTime()) > 1e-9 || weights != 2*totals.Weight || held != totals.Saved+3+2*float64(k-1) {
			t.Fatalf("%v s of %v, weights %v of %v, held %v", p.TotalTime(), c.TotalTime(), weights, totals.Weight, held)
		}
		again := make([]bool, k)
		for i := range again {
			again[i] = rapid.Bool().Draw(t, "again")
		}
		q, err := stages.Cut(c, stages.Cutting{Stages: k, Weight: 0.5, WeightMemory: 0.25, Bandwidth: 4, Copies: 2, Recompute: again})
		if err != nil {
			t.Fatal(err)
		}
		for i := range q.Stages {
			x, y := &p.Stages[i], &q.Stages[i]
			input := 2.0
			if i == 0 {
				input = 3
			}
			if again[i] && (y.ForwardMemory != input || y.Split() || y.ForwardMemory+y.Overhead != x.ForwardMemory+x.Overhead ||
				math.Abs(y.BackwardTime-x.ForwardTime-x.BackwardTime-x.WeightTime) > 1e-9 || y.RecomputeTime != x.ForwardTime ||
				y.Weight != x.Weight) || !again[i] && *x != *y {
				t.Fatalf("stage %d, forward again %v: %+v of %+v", i, again[i], y, x)
			}
		}
		sends, err := stages.Cut(c, stages.Cutting{
			Stages: k, Weight: 0.5, WeightMemory: 0.25, Bandwidth: 4, Copies: 2, Send: again,
			SendShare: 0.5, HostBandwidth: 3,
		})
		if err != nil {
			t.Fatal(err)
		}
		for i := range sends.Stages {
			x, y := p.Stages[i], sends.Stages[i]
			if again[i] {
				x.OffloadMemory = math.Floor(x.ForwardMemory / 2)
				x.OffloadTime = x.OffloadMemory / 3
			}
			if x != y {
				t.Fatalf("stage %d, sends %v: %+v of %+v", i, again[i], y, p.Stages[i])
			}
		}
		if want := shortest(c, 0, k); math.Abs(longest-want) > 1e-9 {
			t.Fatalf("the longest stage takes %v, %v is possible", longest, want)
		}
		if (p.CommunicationTime == 0.5) != (k > 1) {
			t.Fatalf("%d stages, on the way %v", k, p.CommunicationTime)
		}
	})
	for _, o := range []stages.Cutting{
		{Stages: 0},
		{Stages: 2},
		{Stages: 1, Weight: 1},
		{Stages: 1, Weight: -1},
		{Stages: 1, Copies: 0.5},
		{Stages: 1, Recompute: make([]bool, 2)},
		{Stages: 1, Send: make([]bool, 2), SendShare: 1, HostBandwidth: 1},
		{Stages: 1, Send: make([]bool, 1), SendShare: 2, HostBandwidth: 1},
		{Stages: 1, Send: make([]bool, 1), SendShare: 1},
	} {
		if _, err := stages.Cut(&chain.Chain{Layers: make([]chain.Layer, 1)}, o); !errors.Is(err, stages.ErrCut) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// shortest tries all cuts of the layers from one on.
func shortest(c *chain.Chain, from, stages int) float64 {
	sum, best := 0.0, math.Inf(1)
	for to := from; to < c.Len(); to++ {
		sum += c.Layers[to].ForwardTime + c.Layers[to].BackwardTime
		if stages == 1 {
			best = sum
			continue
		}
		best = min(best, max(sum, shortest(c, to+1, stages-1)))
	}
	if stages == 1 && from == c.Len() {
		return math.Inf(1)
	}
	return best
}

// In the runtime of PyTorch nothing is freed before W, and the first stage computes no gradient of its input.
func TestTorchCut(t *testing.T) {
	c := &chain.Chain{Name: "nine", Input: chain.Input{Activation: 32768}}
	saved := []float64{131072, 131072, 32768, 33792, 528384, 65536, 65536, 16384, 16384}
	for i, a := range []float64{131072, 131072, 32768, 32768, 32768, 65536, 65536, 16384, 16384} {
		c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 2, Activation: a, Gradient: a, Saved: saved[i]})
	}
	p, err := stages.Cut(c, stages.Cutting{Stages: 3, Weight: 0.5, WeightMemory: 1, Torch: true})
	if err != nil {
		t.Fatal(err)
	}
	first, last := p.Stages[0], p.Stages[2]
	if p.Runtime != stages.Torch || first.BackwardTime != 0 || first.WeightTime != 6 || first.BackwardMemory != 0 ||
		first.WeightMemory != -first.ForwardMemory {
		t.Errorf("%s: %+v", p.Runtime, first)
	}
	if last.BackwardTime != 3 || last.WeightTime != 3 || last.BackwardMemory != 0 {
		t.Errorf("%+v", last)
	}
}
