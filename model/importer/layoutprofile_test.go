package importer_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"workbench/model/importer"
	"workbench/model/instance/chain"
	"workbench/model/testfile"
)

const smallLayoutProfile = `3 0.5
embed 1 0 1 10 10 10 0 0 60 0
t0 2 3 1 20 70 50 0.25 2 40 0
head 4 3 2 20 90 90 0 0 60 30
`

// A layer saves its output in addition to what it holds beyond its input; options are in the order of what they save.
func TestLayoutProfile(t *testing.T) {
	t.Parallel()
	c, warnings, err := importer.LayoutProfile([]byte(smallLayoutProfile), "folder/small.txt")
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "0.5 s") {
		t.Fatal(err, warnings)
	}
	want := chain.Layer{
		Name: "t0", ForwardTime: 2, BackwardTime: 4, WeightGradientTime: 1, Activation: 20, Gradient: 20, Saved: 70, Weight: 40,
		Recompute: []chain.Recomputation{
			{Name: "selective", Saved: 50, ForwardTime: 0.25, Splits: true}, {Name: "full", Saved: 20, ForwardTime: 2},
		},
	}
	if diff := cmp.Diff(want, c.Layers[1]); c.Name != "small" || c.Input.Activation != 10 || diff != "" {
		t.Errorf("%s, input %v:\n%s", c.Name, c.Input, diff)
	}
	if last := c.Layers[2]; last.Activation != 0 || last.Saved != 70 || last.BackwardOverhead != 30 || len(last.Recompute) != 1 {
		t.Errorf("%+v", last)
	}
}

func TestLayoutProfileErrors(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "x.txt:1:", "2": "x.txt:1:", "0 1\n": "x.txt:1: 0 layers",
		"4 0.5\n" + smallLayoutProfile[6:]:                         "x.txt:1: 4 layers, and there are 3",
		strings.Replace(smallLayoutProfile, "0.25", "x", 1):        `x.txt:3: selective recomputation is "x"`,
		strings.Replace(smallLayoutProfile, "4 3 2", "4 2", 1):     "x.txt:4: 10 fields",
		strings.Replace(smallLayoutProfile, "4 3 2", "NaN 3 2", 1): `x.txt:4: forward is "NaN"`,
	} {
		if _, _, err := importer.LayoutProfile([]byte(text), "x.txt"); !errors.Is(err, importer.ErrLayoutProfile) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestLayoutProfilesOfSharedData(t *testing.T) {
	t.Parallel()
	folder := testfile.Shared(t, "layout")
	for name, layers := range map[string]int{"llama8b.txt": 34, "llama70b.txt": 82, "llama70b-tp4.txt": 82} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := importer.LayoutProfile(data, name)
		if err != nil || c.Len() != layers || c.Layers[layers-1].Name != "head" {
			t.Errorf("%s: %v, %d layers", name, err, c.Len())
		}
	}
}
