package method_test

import (
	"errors"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/zoo"
)

// The word says which stages compute forward again; auto finds some where nothing else fits, and
// none where there is memory for everything.
func TestStages(t *testing.T) {
	t.Parallel()
	c, err := zoo.Load("zoo:gpt2?layers=6&seq=256")
	if err != nil {
		t.Fatal(err)
	}
	cutBy := func(word, memory string) (string, error) {
		p, _, err := method.Stages(t.Context(), c, stages.Cutting{Stages: 4, Weight: 0.5, WeightMemory: 0.5, Copies: 3},
			method.Choice{Recompute: word, Offload: "none", Memory: memory},
			platform.Platform{Processors: 2, MicroBatches: 4, Placement: plan.VShaped})
		if err != nil {
			return "", err
		}
		var b strings.Builder
		for i := range p.Stages {
			if p.Stages[i].RecomputeTime > 0 {
				b.WriteByte(byte('1' + i))
			}
		}
		return b.String(), nil
	}
	for _, x := range []struct{ word, memory, want string }{
		{"none", "", ""}, {"all", "", "1234"}, {"2,4", "", "24"}, {"auto", "100GB", ""},
	} {
		if got, err := cutBy(x.word, x.memory); err != nil || got != x.want {
			t.Errorf("%s: stages %q, %v", x.word, got, err)
		}
	}
	for _, x := range []struct {
		word, memory string
		want         error
	}{
		{"some", "", solve.ErrInput},
		{"0", "", solve.ErrInput},
		{"1,5", "", solve.ErrInput},
		{"auto", "", solve.ErrInput},
		{"auto", "50%", solve.ErrInput},
		{"auto", "1MB", plan.ErrNoPlan},
	} {
		if got, err := cutBy(x.word, x.memory); !errors.Is(err, x.want) {
			t.Errorf("%s with %q: stages %q, %v", x.word, x.memory, got, err)
		}
	}
	tight := 0
	for _, memory := range []string{"1.2GB", "1.5GB", "2GB", "3GB"} {
		got, err := cutBy("auto", memory)
		if err == nil && got != "" {
			tight++
		} else if err != nil && !errors.Is(err, plan.ErrNoPlan) {
			t.Error(err)
		}
	}
	if tight == 0 {
		t.Error("no stage computes forward again in any memory")
	}
}
