package layout_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/instance/layout"
)

// file is an embedding, 32 blocks and a head in four stages.
func file() *layout.File {
	f := &layout.File{Chain: "llama", Cuts: []int{9, 9, 9, 7}, Placement: []int{0, 1, 2, 3}, MicroBatches: 8, Objective: "makespan"}
	for range 34 {
		f.Layers, f.Options = append(f.Layers, "layer"), append(f.Options, "none")
	}
	return f
}

func TestRoundTrips(t *testing.T) {
	f := file()
	var b bytes.Buffer
	if err := f.Write(&b); err != nil {
		t.Fatal(err)
	}
	if !layout.Is(b.Bytes()) {
		t.Error("not seen as a layout")
	}
	got, err := layout.Read(b.Bytes(), "x.json")
	if err != nil || !cmp.Equal(got, f) {
		t.Fatal(err, cmp.Diff(f, got))
	}
	text, flags, err := f.Megatron()
	if err != nil || text != "Et*8|t*9|t*9|t*6L" || flags != nil {
		t.Errorf("Megatron: %q %v %v", text, flags, err)
	}
	stages, err := layout.ReadMegatron(text)
	if err != nil || len(stages) != 4 {
		t.Fatal(stages, err)
	}
	var lists [][]string
	titan, setting, err := f.Torchtitan()
	if err != nil || setting != `activation_checkpoint.mode = "none"` || json.Unmarshal([]byte(titan), &lists) != nil {
		t.Fatal(titan, err)
	}
	for k, run := range stages {
		if len(run) != f.Cuts[k] {
			t.Errorf("Megatron's stage %d is %q, %d layers were written", k, run, f.Cuts[k])
		}
		if n := len(lists[k]); n != f.Cuts[k] && !(k == 3 && n == f.Cuts[k]+1) {
			t.Errorf("torchtitan's part %d has %v", k, lists[k])
		}
	}
	if lists[0][0] != "tok_embeddings" || lists[3][7] != "output" || lists[1][0] != "layers.8" {
		t.Error(titan)
	}
	speed, setting, err := f.DeepSpeed()
	if err != nil || setting != "activation_checkpoint_interval=0" || !strings.Contains(speed, "self.parts = [0,9,18,27,34]") {
		t.Error(speed, err)
	}
}

func TestTargets(t *testing.T) {
	f := file()
	for i := range 9 {
		f.Options[i] = "full"
	}
	if _, _, err := f.Megatron(); !errors.Is(err, layout.ErrTarget) || !strings.Contains(err.Error(), "[9 0 0 0]") {
		t.Errorf("options that differ: %v", err)
	}
	for k, from := range []int{0, 9, 18, 27} {
		for i := from; i < from+f.Cuts[k]; i++ {
			if f.Options[i] = "none"; i < from+3 {
				f.Options[i] = "full"
			}
		}
	}
	_, flags, err := f.Megatron()
	if want := []string{"--recompute-granularity", "full", "--recompute-method", "block", "--recompute-num-layers", "3"}; err != nil ||
		!slices.Equal(flags, want) {
		t.Errorf("three on each stage: %v %v", flags, err)
	}
	f.Placement = []int{0, 1, 1, 0}
	if _, _, err := f.Megatron(); !errors.Is(err, layout.ErrTarget) {
		t.Errorf("a V: %v", err)
	}
	if _, _, err := f.DeepSpeed(); !errors.Is(err, layout.ErrTarget) {
		t.Errorf("a V: %v", err)
	}
}

// Programs with one setting for all blocks are given plans that recompute nothing or all blocks in full, and no other.
func TestRecomputationIsNotDropped(t *testing.T) {
	f := file()
	for i := 1; i < len(f.Options)-1; i++ {
		f.Options[i] = "full"
	}
	if _, setting, err := f.Torchtitan(); err != nil || setting != `activation_checkpoint.mode = "full"` {
		t.Errorf("torchtitan: %q %v", setting, err)
	}
	if _, setting, err := f.DeepSpeed(); err != nil || !strings.HasPrefix(setting, "activation_checkpoint_interval=1") {
		t.Errorf("DeepSpeed: %q %v", setting, err)
	}
	for _, change := range []struct {
		layer        int
		option, want string
	}{{0, "full", "[9 9 9 6] (full)"}, {8, "none", "[7 9 9 6] (full)"}, {33, "full", "[8 9 9 7] (full)"}, {9, "selective", "[0 1 0 0] (selective)"}} {
		was := f.Options[change.layer]
		f.Options[change.layer] = change.option
		if _, _, err := f.Torchtitan(); !errors.Is(err, layout.ErrTarget) || !strings.Contains(err.Error(), change.want) {
			t.Errorf("torchtitan, layer %d %s: %v", change.layer, change.option, err)
		}
		if _, _, err := f.DeepSpeed(); !errors.Is(err, layout.ErrTarget) || !strings.Contains(err.Error(), change.want) {
			t.Errorf("DeepSpeed, layer %d %s: %v", change.layer, change.option, err)
		}
		f.Options[change.layer] = was
	}
}

func TestReadMegatron(t *testing.T) {
	for text, want := range map[string][]string{
		"Et*2|t,t|(tt)*2|L": {"Ett", "tt", "tttt", "L"},
		"E||tL":             {"E", "", "tL"},
		"Et|mL":             {"Et", "mL"},
	} {
		if got, err := layout.ReadMegatron(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q %v, want %q", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"Et*2|x|L": "character 6 is \"x\"", "tE|L": "one E", "Et|t": "one L", "Et*|L": "does not repeat", "E(t|L": "does not repeat",
		"Et*99999|L": "from 0 to",
	} {
		if _, err := layout.ReadMegatron(text); !errors.Is(err, layout.ErrFormat) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
