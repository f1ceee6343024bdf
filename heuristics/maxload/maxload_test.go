package maxload_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	split "workbench/heuristics/maxload"
	"workbench/model/importer"
	"workbench/model/maxload"
	"workbench/model/maxload/maxloadtest"
	"workbench/model/plan"
	"workbench/model/testfile"
)

// pipelined reports whether the devices can be put in an order in which none needs a
// later one.
func pipelined(in *maxload.Instance, device []int) bool {
	n := in.Devices()
	after := make([][]bool, n)
	for d := range after {
		after[d] = make([]bool, n)
	}
	for _, e := range in.Before {
		if a, b := device[e[0]], device[e[1]]; a != b {
			after[a][b] = true
		}
	}
	for k := range n {
		for i := range n {
			for j := range n {
				after[i][j] = after[i][j] || after[i][k] && after[k][j]
			}
		}
	}
	return !slices.ContainsFunc(after, func(row []bool) bool {
		return slices.Contains(row, true) && row[slices.IndexFunc(after, func(x []bool) bool { return &x[0] == &row[0] })]
	})
}

// The program's split is the best of all splits that are pipelines.
func TestContiguous(t *testing.T) {
	r := testfile.Random(t, 18, 1)
	found, none, cyclic := 0, 0, 0
	for range testfile.Cases(600) {
		in := maxloadtest.Random(r, 1+r.IntN(6))
		want := maxloadtest.Best(in, func(device []int) bool { return pipelined(in, device) })
		if loose := maxloadtest.Best(in, in.Contiguous); loose > want {
			t.Fatalf("contiguous splits have %v, pipelines %v: %+v", loose, want, in)
		} else if loose < want {
			cyclic++
		}
		device, load, whole, err := split.Contiguous(in)
		switch {
		case errors.Is(err, plan.ErrNoPlan) && math.IsInf(want, 1):
			none++
			continue
		case err != nil:
			t.Fatalf("%v, and there is a split of %v: %+v", err, want, in)
		}
		found++
		if !whole || math.Abs(load-want) > 1e-9 || !pipelined(in, device) {
			t.Fatalf("%v (%v), the best split has %v: %+v", device, load, want, in)
		}
	}
	t.Logf("%d splits, %d instances without, %d with better sets that need each other", found, none, cyclic)
	if found < testfile.Cases(300) || none < testfile.Cases(20) {
		t.Errorf("%d splits, %d instances without", found, none)
	}
}

// The authors' answers for their own files, in ms.
func TestReference(t *testing.T) {
	folder := testfile.Shared(t, "dnn-partitioning")
	for name, want := range map[string]float64{
		"LayerGraphs-bert24_inference":      17.78990625,
		"LayerGraphs-bert24_training":       41.7458125,
		"LayerGraphs-resnet50_inference":    33.774666015625,
		"OperatorGraphs-bert_l-3_inference": 27.9185676799,
		"OperatorGraphs-resnet50_inference": 124.3488497740,
	} {
		if testing.Short() && strings.HasPrefix(name, "OperatorGraphs") {
			continue // takes long: left to the full run
		}
		f, err := os.Open(filepath.Join(folder, name+".json"))
		if err != nil {
			t.Fatal(err)
		}
		in, err := importer.DNNMaxLoad(f, f.Name())
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		device, load, whole, err := split.Contiguous(in)
		if err != nil || !whole || !in.Contiguous(device) || math.Abs(load-want) > 1e-10 {
			t.Errorf("%s: %.10f (%v, %v), the authors have %.10f", name, load, whole, err, want)
		}
	}
}

// Networks with too many ideals are made coarser, and the split says so.
func TestCoarse(t *testing.T) {
	testfile.Long(t)
	r := rand.New(rand.NewPCG(18, 2))
	in := maxloadtest.Random(r, 40)
	in.Before, in.Memory = nil, math.Inf(1) // 2^40 ideals
	for i := 1; i < 40; i++ {
		if i != 20 {
			in.Before = append(in.Before, [2]int{0, i})
		}
	}
	if _, _, whole, err := split.Contiguous(in); whole {
		t.Errorf("all of 2^39 ideals were looked at (%v)", err)
	}
}
