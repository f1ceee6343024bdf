package weightoffload

import (
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/testcase"
	"workbench/model/testfile"
)

// TestChoose compares the choices with those of computing all benefits in every round.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 9))
	second := 0 // choices of the other gap of a layer
	for range testfile.Cases(3000) {
		x := testcase.RandomWeights(r, 1+r.IntN(12))
		in, err := newInstance(x.Chain(), x.Platform)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range everySelection {
			excess := make([]float64, in.N)
			got, want := make([]bool, in.N), make([]bool, in.N)
			ended := in.choose(got, in.Memory, v.own, v.discount, excess)
			if in.chooseSlowly(want, v, excess) != ended || !slices.Equal(got, want) {
				t.Fatalf("%v of %+v: %v, computing everything %v", v, x.In, got, want)
			}
			for k := range in.L {
				if got[2*k] && got[2*k+1] {
					second++
				}
			}
		}
	}
	if second == 0 {
		t.Error("no layer is chosen twice")
	}
}

// chooseSlowly is choose by its definition.
func (in *instance) chooseSlowly(away []bool, v selection, excess []float64) bool {
	for in.excess(away, in.Memory, v.own, excess) {
		best, at := 0.0, -1
		for g := range away {
			if w := in.W[g>>1]; !away[g] && w > 0 {
				profit := in.benefit(g, excess) / w
				if !v.discount || !away[g^1] {
					profit /= 2
				}
				if profit > best {
					best, at = profit, g
				}
			}
		}
		if at < 0 {
			return false
		}
		away[at] = true
	}
	return true
}
