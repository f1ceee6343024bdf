package picture

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func values(a Axis, n int) (list []float64) {
	for _, t := range a.Ticks(n) {
		list = append(list, t.Value)
	}
	return list
}

func TestTicks(t *testing.T) {
	for _, x := range []struct {
		most float64
		n    int
		want []float64
	}{
		{10, 5, []float64{0, 2, 4, 6, 8, 10}},
		{23.9, 5, []float64{0, 5, 10, 15, 20}},
		{1, 4, []float64{0, 0.5, 1}},
		{999, 10, []float64{0, 100, 200, 300, 400, 500, 600, 700, 800, 900}},
	} {
		if got := values(Axis{High: x.most}, x.n); !slices.Equal(got, x.want) {
			t.Errorf("ticks(%g, %d) = %v, want %v", x.most, x.n, got, x.want)
		}
	}
	testfile.Property(t, func(t *rapid.T) {
		most := math.Exp(rapid.Float64Range(-40, 40).Draw(t, "ln most"))
		n := rapid.IntRange(1, 20).Draw(t, "n")
		if got := values(Axis{High: most}, n); len(got) < 1+n/3 || len(got) > n+1 {
			t.Fatalf("ticks(%g, %d) = %v", most, n, got)
		}
	})
}
