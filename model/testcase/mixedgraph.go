package testcase

import (
	"math"
	"math/rand/v2"

	"workbench/model/instance/graph"
	"workbench/model/testcase/random"
)

// MixedGraph returns [random.Graph] with sizes of any magnitude from 1 to 10¹², many of them within two units of a
// sum of others, and with times multiplied by a power of ten from 10⁻¹² to 10⁶. Methods that compare with a
// tolerance, and solvers, which have one, fail on such instances.
func MixedGraph(r *rand.Rand, forward int) *graph.Graph {
	g := random.Graph(r, forward)
	base := math.Round(math.Pow(10, 12*r.Float64()))
	size := func(small float64) float64 {
		switch r.IntN(5) {
		case 0:
			return small
		case 1:
			return math.Round(math.Pow(10, 12*r.Float64()))
		case 2:
			return max(0, small*base+float64(r.IntN(5)-2))
		default:
			return small * base
		}
	}
	if g.Input > 0 {
		g.Input = size(g.Input)
	}
	second := math.Pow10(r.IntN(19) - 12)
	for i := range g.Nodes {
		v := &g.Nodes[i]
		v.Time *= second
		if v.Memory > 0 {
			v.Memory = size(v.Memory)
		}
		if v.Overhead > 0 {
			v.Overhead = size(v.Overhead)
		}
	}
	return g
}
