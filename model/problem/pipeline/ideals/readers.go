package ideals

import "slices"

// Readers say which layers of a lattice want what is kept.
type readers struct {
	t       *Lattice
	wanters [][]int // of a value: the layers whose twins read it
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

// fresh is what some layers keep that no layer of k does that is not in j.
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
