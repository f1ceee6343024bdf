package ideals

import "slices"

// readers has the layers of a lattice that keep each value.
type readers struct {
	t       *Lattice
	wanters [][]int // by value: the layers whose twins read it
	sources []int   // layers that read nothing: they keep the input
}

func (t *Lattice) readers() *readers {
	v := t.View
	r := &readers{t: t, wanters: make([][]int, v.N)}
	for l := range v.N {
		for _, u := range v.kept[l] {
			r.wanters[u] = append(r.wanters[u], l)
		}
		if len(v.Pred[l]) == 0 {
			r.sources = append(r.sources, l)
		}
	}
	return r
}

// fresh returns what the given layers keep that no layer in k but not in j keeps already.
func (r *readers) fresh(j, k int, layers ...int) (sum float64) {
	v := r.t.View
	for n, l := range layers {
		already := func(w int) bool {
			return r.t.Has(k, w) && !r.t.Has(j, w) || slices.Contains(layers[:n], w)
		}
		for _, u := range v.kept[l] {
			if !slices.ContainsFunc(r.wanters[u], already) {
				sum += v.Out[u]
			}
		}
		if len(v.Pred[l]) == 0 && !slices.ContainsFunc(r.sources, already) {
			sum += v.Graph.Input
		}
	}
	return sum
}
