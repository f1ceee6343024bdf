package method

import (
	"context"
	"fmt"
	"slices"

	"workbench/bench/solve"
	"workbench/heuristics/pipeline"
	"workbench/heuristics/pipelinegraph"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
	"workbench/model/problem/pipeline/ideals"
	"workbench/model/proof"
)

// forward is what a graph is to a pipeline.
type forward struct {
	view    *ideals.View
	lattice *ideals.Lattice // nil: too many ideals, however coarse
	err     error
}

// forwardOf returns the view of an instance that is a graph and the lattice of its
// ideals, made once.
func forwardOf(in *solve.Instance) forward {
	type key struct{}
	return solve.Memo(in, key{}, func() (f forward) {
		if f.view, f.err = ideals.New(in.Graph()); f.err == nil {
			f.view.Stopped = func() bool { return in.Stop.Given() }
			f.lattice, _ = f.view.Lattice(pipelinegraph.MostIdeals) // without, the order of the file remains
		}
		return f
	})
}

// onLayers is a worker for chains and graphs from a method for chains: of a graph, in some
// orders of its operations, which share the time that there is, and after those that are
// to come first there. Of a graph with too many ideals it says what was left out.
func onLayers(name string, work pipelinegraph.Method, first ...pipelinegraph.Method) worker {
	chains := planned(func(ctx context.Context, in *solve.Instance, s solve.Setting) (*plan.Plan, error) {
		return work(in.Chain(), s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()})
	})
	return func(ctx context.Context, in *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
		if in.Graph() == nil {
			return chains(ctx, in, s)
		}
		f := forwardOf(in)
		if f.err != nil {
			return nil, inputError(f.err)
		}
		if err := f.view.Infeasible(s.Platform, s.MemoryModel, f.lattice); err != nil {
			return nil, inputError(err)
		}
		methods := append(slices.Clone(first), work)
		left := f.left()
		switch { // what search begins with, however short the time
		case name != searching:
		case s.Platform.Replicas:
			methods = slices.Insert(methods, 0, pipeline.PipeDream)
		case left != "": // the quickest: on a large graph 1F1B* alone may take all the time
			methods = slices.Insert(methods, 0, pipeline.PipeDreamStar)
		}
		p, cut, err := pipelinegraph.Plan(ctx, f.view, f.lattice, s.Platform, pipeline.Options{Model: s.MemoryModel, Stop: ctx.Done()},
			methods...)
		if err != nil {
			return nil, inputError(err)
		}
		p.Method = name
		out := &solve.Outcome{Plan: p, Stopped: cut || ctx.Err() != nil}
		if left != "" {
			out.Remark(left)
		}
		return out, nil
	}
}

// left says what the lattice leaves out, "": nothing.
func (f forward) left() string {
	switch {
	case f.lattice == nil:
		return fmt.Sprintf("the graph has more than %d ideals, however coarse: only the order of the file was tried, and no bound is proved "+
			"by its cuts", pipelinegraph.MostIdeals)
	case len(f.lattice.Atoms) == f.view.N:
		return ""
	}
	longest := 0.0
	for _, atom := range f.lattice.Atoms {
		work := 0.0
		for _, l := range atom {
			if len(atom) > 1 {
				work += f.view.F[l] + f.view.B[l]
			}
		}
		longest = max(longest, work)
	}
	return fmt.Sprintf("the graph has more than %s and was made coarser, %s in %s, of several up to %s long: inside parts, cuts were "+
		"looked for near the best others only, and no bound is proved by them",
		platform.Count(pipelinegraph.MostIdeals, "ideal"), platform.Count(f.view.N, "operation"), platform.Count(len(f.lattice.Atoms), "part"),
		platform.FormatSeconds(longest))
}

// leastOf returns a memory with which there is a pattern: of a graph, of the stages that
// need least; of a chain, the least.
func leastOf(in *solve.Instance, x *view.Instance) (float64, error) {
	if in.Graph() == nil {
		return x.Least().High, nil
	}
	f := forwardOf(in)
	if f.lattice == nil {
		return x.LeastContiguous(), nil
	}
	order, stages := f.lattice.LeastContiguous(x.Platform, x.Model, nil)
	if order == nil { // not found in time
		return x.LeastContiguous(), nil
	}
	y, err := view.New(f.view.Chain(order, ideals.Stages, stages), x.Platform, x.Model)
	if err != nil {
		return 0, err
	}
	return min(y.OneAtATime(stages), x.LeastContiguous()), nil
}

// layersOf returns the view of a pipeline on an instance: of a graph, in the order of the
// file, where every layer keeps what it reads.
func layersOf(in *solve.Instance, p platform.Platform, model string) (*view.Instance, error) {
	c := in.Chain()
	if in.Graph() != nil {
		f := forwardOf(in)
		if f.err != nil {
			return nil, f.err
		}
		c = f.view.Chain(f.view.Order(), ideals.Each, nil)
	}
	x, err := view.New(c, p, model)
	if err == nil {
		x.Stop = in.Stop
	}
	return x, err
}

// graphPipelineBounds are bounds on the period on a graph, in any order.
func graphPipelineBounds(in *solve.Instance, s solve.Setting) ([]solve.Bound, error) {
	f := forwardOf(in)
	if f.err != nil {
		return nil, f.err
	}
	if err := f.view.Infeasible(s.Platform, s.MemoryModel, f.lattice); err != nil {
		return nil, err
	}
	bounds := []solve.Bound{proof.BySearch(f.view.Largest(), "largest-layer")}
	if f.lattice != nil {
		bounds = append(bounds, proof.BySearch(f.lattice.Runs(s.Platform), "runs"),
			proof.BySearch(f.lattice.Held(s.Platform, s.MemoryModel != plan.StageModel), "held-memory"))
	}
	return bounds, nil
}
