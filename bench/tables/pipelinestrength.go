package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"workbench/bench/solve"
	"workbench/ilp"
	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/exhaustive"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// A shortChain is a chain that the ILP of [004] chapter 6 can take.
type shortChain struct {
	name     string
	chain    *chain.Chain
	platform platform.Platform
}

// pipelineStrength solves the ILP of [004] chapter 6 as it is and strengthened,
// without a start: networks of [004] 6.5 glued to 4 to 8 layers, and random
// chains. With without, the strengthened one of one of them, and that with each group
// left out.
func (m *measurer) pipelineStrength(limit time.Duration, args []string) error {
	list, err := shortChains()
	if err != nil {
		return err
	}
	if len(args) > 0 {
		list = list[2:3]
	}
	variantHead()
	for _, x := range list {
		plain, err := ilppipeline.Patterns(x.chain, x.platform)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		strong, err := ilppipeline.Strong(x.chain, x.platform, ilppipeline.MemoryOption{})
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		models := []variant{{"pipeline", plain.Model, plain}, {"pipeline-strong", strong.Model, strong}}
		if len(args) > 0 {
			f := ilp.Formulations()
			k := slices.IndexFunc(f, func(f formulation.Formulation) bool { return f.Name == "pipeline-strong" })
			if models, err = without(models, f[k].Extra); err != nil {
				return err
			}
		}
		if err := m.solveVariants(x.name, models, limit); err != nil {
			return err
		}
	}
	return nil
}

// shortChains returns networks glued to few layers and random chains. Memory is
// one and a half times what every pattern needs at least, or three times.
func shortChains() (list []shortChain, err error) {
	add := func(name string, c *chain.Chain, processors int, bandwidth, share float64) error {
		p := platform.Platform{Memory: 1, Bandwidth: bandwidth, Processors: processors, WeightCopies: platform.DefaultWeightCopies}
		var least *plan.Infeasible
		if _, err := ilppipeline.Patterns(c, p); !errors.As(err, &least) {
			return fmt.Errorf("%s fits in a byte: %w", name, err)
		}
		p.Memory = share * least.Memory
		list = append(list, shortChain{fmt.Sprintf("%s, %s, P = %d, %s", name, platform.Count(c.Len(), "layer"), processors, platform.FormatBytes(p.Memory)), c, p})
		return nil
	}
	for _, net := range []string{"resnet18", "resnet50"} {
		in, err := solve.Load(fmt.Sprintf("zoo:%s?image=1000&batch=8", net), os.Stdin)
		if err != nil {
			return nil, err
		}
		for _, x := range []struct{ layers, processors int }{{4, 2}, {6, 3}, {8, 3}} {
			for _, share := range [2]float64{1.5, 3} {
				if err := add(net, glued(in.Chain(), x.layers), x.processors, 12e9, share); err != nil {
					return nil, err
				}
			}
		}
	}
	for seed := range uint64(3) {
		r := rand.New(rand.NewPCG(seed, 1))
		c := exhaustive.RandomChain(r, 5+int(seed%3))
		for i := range c.Layers {
			c.Layers[i].ForwardTime++
			c.Layers[i].BackwardTime++
			c.Layers[i].Weight = float64(r.IntN(2))
		}
		if err := add(fmt.Sprintf("random %d", seed), c, 2+int(seed%2), 4, 2); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// glued returns c with its layers joined to n, of about equal times: sums of
// times, weights and saved values, the output of the last layer of each.
func glued(c *chain.Chain, n int) *chain.Chain {
	out := &chain.Chain{Name: c.Name, Input: c.Input}
	total, done := c.TotalTime(), 0.0
	for i := range c.Layers {
		l := c.Layers[i]
		k := len(out.Layers)
		// A new layer where the next part of the time begins, or where there are
		// just as many layers left as are missing.
		if k == 0 || k < n && (done >= total*float64(k)/float64(n) || c.Len()-i == n-k) {
			out.Layers = append(out.Layers, l)
		} else {
			last := &out.Layers[k-1]
			last.ForwardTime += l.ForwardTime
			last.BackwardTime += l.BackwardTime
			last.Weight += l.Weight
			last.Saved += l.Saved
			last.Activation, last.Gradient = l.Activation, l.Gradient
		}
		done += l.ForwardTime + l.BackwardTime
	}
	return out
}
