package importer

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"workbench/model/testfile"
)

// acesoGPT has the form of a profile of GPT, with numbers of its own.
const acesoGPT = `op_name,forward-compute,backward-compute,input_size,output_size,weights,activations,fwd_reserved,bwd_reserved
encoder-embedding,700.0,2000.0,0.031,32.000,208.000,48.000,96.000,328.000
enc-attention,2000.0,4000.0,64.000,128.000,24.000,96.000,100.000,400.000
enc-mlp,3000.0,5000.0,64.000,32.000,64.000,160.000,0.000,500.000
final-layernorm,200.0,1500.0,32.000,32.000,0.000,64.000,0.000,128.000
gpt-post-process,37000.0, 39000.0,32.000,0.000,200.000,1600.000,800.000,0.000
`

func TestAceso(t *testing.T) {
	t.Parallel()
	c, warnings, err := Aceso([]byte(acesoGPT), "gpt_mbs4_tp2_algo0.csv", AcesoOptions{Layers: 3})
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if c.Len() != 6 || c.Samples != 4 || c.Name != "gpt_mbs4_tp2_algo0-l3" || c.Layers[3].Name != "enc-3" {
		t.Errorf("%d layers, %d samples, %q, %q", c.Len(), c.Samples, c.Name, c.Layers[3].Name)
	}
	l := &c.Layers[1]
	const mib = 1 << 20
	if math.Abs(l.ForwardTime-5e-3) > 1e-12 || math.Abs(l.BackwardTime-9e-3) > 1e-12 || l.Activation != 32*mib || l.Saved != 256*mib ||
		l.Weight != 88*mib ||
		l.ForwardOverhead != 128*mib || l.BackwardOverhead != 500*mib {
		t.Errorf("a layer is %+v", l)
	}
	ops, warnings, err := Aceso([]byte(acesoGPT), "gpt.csv", AcesoOptions{Layers: 3, Operations: true})
	if err != nil || len(warnings) != 1 {
		t.Fatal(err, warnings)
	}
	if ops.Len() != 9 || ops.Samples != 0 || math.Abs(ops.TotalTime()-c.TotalTime()) > 1e-12 || ops.Totals().Weight != c.Totals().Weight {
		t.Errorf("by operation: %d layers, %d samples, %v s", ops.Len(), ops.Samples, ops.TotalTime())
	}
	if l := &ops.Layers[1]; l.Name != "enc-attention1" || l.Activation != 128*mib || l.Saved != 128*mib {
		t.Errorf("an operation is %+v", l)
	}
}

func TestAcesoErrors(t *testing.T) {
	t.Parallel()
	for name, x := range map[string]struct {
		text   string
		layers int
	}{
		"no number of layers": {acesoGPT, 0},
		"nothing to repeat":   {strings.ReplaceAll(acesoGPT, "enc-", "x-"), 3},
		"empty":               {"", 1},
		"header":              {strings.Replace(acesoGPT, "weights", "weight", 1), 3},
		"a field is missing":  {strings.Replace(acesoGPT, ",0.000,128.000", ",0.000", 1), 3},
		"no number":           {strings.Replace(acesoGPT, "37000.0", "fast", 1), 3},
		"negative":            {strings.Replace(acesoGPT, "37000.0", "-1", 1), 3},
		"NaN":                 {strings.Replace(acesoGPT, "37000.0", "NaN", 1), 3},
	} {
		if _, _, err := Aceso([]byte(x.text), "gpt.csv", AcesoOptions{Layers: x.layers}); !errors.Is(err, ErrAceso) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The measured profiles, where they are, give chains as long as their networks.
func TestAcesoProfiles(t *testing.T) {
	t.Parallel()
	folder := testfile.Shared(t, "aceso")
	for name, x := range map[string]struct{ layers, chain int }{
		"gpt_1_3B_mbs4_tp1_algo0.csv": {24, 27}, "t5_770M_mbs8_tp1_algo0.csv": {24, 53}, "resnet_500M_mbs16_tp1_algo0.csv": {0, 0},
	} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		c, _, err := Aceso(data, name, AcesoOptions{Layers: x.layers})
		if err != nil || x.chain > 0 && c.Len() != x.chain {
			t.Errorf("%s: %d layers, %v", name, c.Len(), err)
		}
	}
}
