package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/method"
	"workbench/ilp"
	"workbench/ilp/formulation"
	"workbench/ilp/rematgraph"
	"workbench/model/platform"
)

// strengthening solves programs of instances, and their relaxations, without a start: those
// of FORMULATIONS, separated by commas, that are about the kind of instance, NAME+ also
// without each group that it has beyond its source; checkmate as printed and in steps up to
// what is solved here. RATE is that of links, PERCENTS are of the range of memory.
func (m *measurer) strengthening(limit time.Duration, args []string) error {
	rate, err := platform.ParseRate(args[1])
	if err != nil {
		return err
	}
	variantHead()
	for _, spec := range args[3:] {
		in, err := solve.Load(spec, os.Stdin)
		if err != nil {
			return err
		}
		for percent := range strings.SplitSeq(args[2], ",") {
			memory, err := platform.ParseMemory(percent + "%")
			if err != nil {
				return err
			}
			for name := range strings.SplitSeq(args[0], ",") {
				list, err := variants(in, name, memory, rate)
				if err != nil {
					return err
				}
				if err := m.solveVariants(fmt.Sprintf("%s, %s %%", strings.TrimPrefix(spec, "zoo:"), percent), list, limit); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// variants returns the models of a formulation; none if it is not about such instances.
func variants(in *solve.Instance, name string, memory platform.MemorySpec, rate float64) (list []variant, err error) {
	name, groups := strings.CutSuffix(name, "+")
	all := ilp.Formulations()
	k := slices.IndexFunc(all, func(f formulation.Formulation) bool { return f.Name == name })
	if k < 0 {
		return nil, fmt.Errorf("there is no formulation %s", name)
	}
	f := all[k]
	if f.Kind != in.Kind() {
		return nil, nil
	}
	problem, err := catalog.FindProblem(f.Problem)
	if err != nil {
		return nil, err
	}
	low, high := problem.Range(in)
	p := platform.Platform{Memory: in.Resolve(memory, low, high), Bandwidth: rate}
	if name == "checkmate" {
		return checkmates(in, p)
	}
	x, err := method.Build(f, in, p)
	if err != nil {
		return nil, err
	}
	list = []variant{{name, x.Model, x}}
	if groups {
		return without(list, f.Extra)
	}
	return list, nil
}

// checkmates are the program of Checkmate and what it is strengthened to.
func checkmates(in *solve.Instance, p platform.Platform) (list []variant, err error) {
	paper, err := rematgraph.Printed(in.Graph(), p)
	if err != nil {
		return nil, err
	}
	list = append(list, variant{"checkmate, the paper's", paper.Model, paper})
	for _, x := range []struct {
		name string
		o    rematgraph.Options
	}{
		{"strong: liveness for FREE and U", rematgraph.Options{}},
		{"… without the forward phase", rematgraph.Options{Backward: true}},
		{"… and without rows of recomputations", rematgraph.Options{Backward: true, Ends: true}},
		{"… and contracted", rematgraph.Options{Backward: true, Ends: true, Contract: true}},
	} {
		p, err := rematgraph.Strong(in.Graph(), p, x.o)
		if err != nil {
			return nil, err
		}
		list = append(list, variant{x.name, p.Model, p})
	}
	return list, nil
}
