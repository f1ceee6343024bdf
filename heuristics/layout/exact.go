package layout

import (
	"context"
	"slices"

	heuristics "workbench/heuristics/flush"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/layout"
)

// mostLayouts is the maximum number of layouts that [Exact] enumerates.
const mostLayouts = 20_000

// Exact is [LocalSearch] and then, if there are no more than mostLayouts of them, all layouts in the order of the bounds of their
// schedules, each that is not excluded by its bound with the exact method of flush. proved says that no layout is better.
// Exponential in the layers.
func Exact(ctx context.Context, in *layout.Instance, g Goal) (found *Found, proved bool) {
	list, ok := layouts(in)
	if !ok { // all the time for one search: what it finds is no worse than by local-search alone
		found = LocalSearch(ctx, in, g)
		return found, found != nil && found.Objective <= g.Bound*(1+1e-9)
	}
	found = LocalSearch(ctx, in, Goal{Bound: g.Bound, Seed: g.Seed, Steps: 2000, OnProgress: g.OnProgress})
	if found != nil && found.Objective <= g.Bound*(1+1e-9) {
		return found, true
	}
	type leaf struct {
		layout *layout.Layout
		bound  float64
	}
	var leaves []leaf
	for i := range list {
		if v, err := view(in, &list[i]); err == nil && v.Fits() == nil {
			leaves = append(leaves, leaf{&list[i], v.Bound().Value})
		}
	}
	slices.SortStableFunc(leaves, func(a, b leaf) int {
		if a.bound < b.bound {
			return -1
		}
		return 1
	})
	proved = true
	for _, x := range leaves {
		if found != nil && platform.Closed(found.Objective, x.bound, plan.Tolerance) {
			break // and all that follow
		}
		if ctx.Err() != nil {
			return found, false
		}
		v, err := view(in, x.layout)
		if err != nil {
			return found, false // never seen: it has been viewed above
		}
		f := heuristics.Exact(ctx, v, heuristics.Goal{Bound: x.bound, Steps: 2000})
		s, err := v.Schedule(f.Order)
		if f.Order == nil || err != nil { // that no schedule is found in its memory does not prove that there is none
			proved = false
			continue
		}
		found = better(found, &Found{x.layout, v, f.Order, s.Objective})
		if max(f.Bound, x.bound) < min(found.Objective, s.Objective)*(1-1e-8) {
			proved = false
		}
		if found.Objective == s.Objective && g.OnProgress != nil {
			g.OnProgress(s.Objective)
		}
	}
	return found, proved && found != nil && ctx.Err() == nil
}

// layouts lists all layouts; false: there are too many.
func layouts(in *layout.Instance) ([]layout.Layout, bool) {
	n := len(in.Layers)
	cuts := [][]int{nil}
	for k := range in.Stages {
		var next [][]int
		for _, ends := range cuts {
			from := 0
			if k > 0 {
				from = ends[k-1]
			}
			for to := from + 1; to <= n-(in.Stages-1-k); to++ {
				if k == in.Stages-1 && to < n {
					continue
				}
				next = append(next, append(slices.Clone(ends), to))
			}
		}
		if cuts = next; len(cuts) > mostLayouts {
			return nil, false
		}
	}
	options := [][]int{nil}
	for i := range in.Layers {
		var next [][]int
		for _, o := range options {
			for k := range in.Layers[i].Options {
				next = append(next, append(slices.Clone(o), k))
			}
		}
		if options = next; len(options)*len(cuts) > mostLayouts {
			return nil, false
		}
	}
	var list []layout.Layout
	for _, ends := range cuts {
		for _, o := range options {
			list = append(list, layout.Layout{Ends: ends, Options: o})
		}
	}
	return list, true
}
