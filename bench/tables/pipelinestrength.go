package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"time"

	"workbench/bench/method"
	"workbench/bench/run"
	"workbench/heuristics/pipeline"
	"workbench/ilp"
	"workbench/ilp/formulation"
	ilppipeline "workbench/ilp/pipeline"
	"workbench/model/chain"
	"workbench/model/exhaustive"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/solvers"
)

// A shortChain is a chain that the ILP of [004] chapter 6 can take.
type shortChain struct {
	name     string
	chain    *chain.Chain
	platform platform.Platform
}

// pipelineStrength solves the ILP of [004] chapter 6 as it is and strengthened,
// without a start: networks of [004] 6.5 glued to 4 to 8 layers, and random
// chains. With without, also the strengthened one with each group left out, on
// two of them.
func (m *measurer) pipelineStrength(limit time.Duration, args []string) error {
	without := len(args) > 0 && args[0] == "without"
	list, err := shortChains()
	if err != nil {
		return err
	}
	if without {
		list = list[2:4]
	}
	fmt.Println("| chain | P | M | model | columns | integers | rows | LP, ms | bound, ms | best, ms | gap | nodes | s |")
	fmt.Println("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for _, x := range list {
		models, unit, err := pipelineModels(x, without)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		for _, v := range models {
			if err := m.pipelineVariant(x, v, unit, limit); err != nil {
				return err
			}
			if m.ctx.Err() != nil {
				return m.ctx.Err()
			}
		}
	}
	return nil
}

// pipelineModels returns the plain and the strengthened ILP, and the seconds that
// a unit of their time is.
func pipelineModels(x shortChain, without bool) ([]variant, float64, error) {
	plain, err := ilppipeline.Patterns(x.chain, x.platform)
	if err != nil {
		return nil, 0, err
	}
	strong, err := ilppipeline.Strong(x.chain, x.platform)
	if err != nil {
		return nil, 0, err
	}
	list := []variant{{"pipeline", plain.Model}, {"pipeline-strong", strong.Model}}
	if !without {
		return list, strong.Unit, nil
	}
	var extra []string
	for _, f := range ilp.Formulations() {
		if f.Name == "pipeline-strong" {
			extra = f.Extra
		}
	}
	add := func(name string, groups ...string) error {
		less, err := strong.Model.Without(groups...)
		list = append(list, variant{name, less})
		return err
	}
	for _, group := range extra {
		if err := add("… without "+group, group); err != nil {
			return nil, 0, err
		}
	}
	return list, strong.Unit, add("… without all of these", extra...)
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
		list = append(list, shortChain{fmt.Sprintf("%s, %d layers", name, c.Len()), c, p})
		return nil
	}
	for _, net := range []string{"resnet18", "resnet50"} {
		in, err := run.Load(fmt.Sprintf("zoo:%s?image=1000&batch=8", net), os.Stdin)
		if err != nil {
			return nil, err
		}
		for _, x := range []struct{ layers, processors int }{{4, 2}, {6, 3}, {8, 2}, {8, 3}} {
			for _, share := range [2]float64{1.5, 3} {
				if err := add(net, glued(in.Chain(), x.layers), x.processors, 12e9, share); err != nil {
					return nil, err
				}
			}
		}
	}
	for seed := range uint64(6) {
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

// pipelineVariant prints the row of one model.
func (m *measurer) pipelineVariant(x shortChain, v variant, unit float64, limit time.Duration) error {
	lp, r, err := m.rootAndBest(v.model, limit)
	if err != nil {
		return fmt.Errorf("%s on %s: %w", v.name, x.name, err)
	}
	best, gap := "–", "–"
	if y, ok := r.Objective(); ok {
		best = fmt.Sprintf("%.4g", 1e3*y*unit)
		gap = fmt.Sprintf("%.2f %%", 100*solvers.Gap(y, r.Bound))
	}
	fmt.Printf("| %s | %d | %s | %s | %d | %d | %d | %.4g | %.4g | %s | %s | %d | %.1f |\n", x.name, x.platform.Processors,
		platform.FormatBytes(x.platform.Memory), v.name, v.model.NumCols(), v.model.NumIntegers(), v.model.NumRows(),
		1e3*lp.Bound*unit, 1e3*r.Bound*unit, best, gap, r.Nodes, r.Wall.Seconds())
	return nil
}

// rootAndBest solves the relaxation of a model and the model.
func (m *measurer) rootAndBest(model *milp.Model, limit time.Duration) (lp, r *solvers.Result, err error) {
	o := solvers.Options{Threads: solvers.Some(2), RelGap: solvers.Some(1e-4), Time: limit}
	relaxed := o
	relaxed.Relax = true
	if lp, err = m.setting.Backend.Solve(m.ctx, model, relaxed); err != nil {
		return nil, nil, err
	}
	r, err = m.setting.Backend.Solve(m.ctx, model, o)
	return lp, r, err
}

// pipelineDecomposition prints what the decomposition claims on the networks of
// [004] 6.5, from the best 1-periodic plan of the search and no bound, with nothing certified: two threads, limit for each.
func (m *measurer) pipelineDecomposition(limit time.Duration, nets []string) error {
	fmt.Println("| net | P | M, GB | start | period | bound | gap | s |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|")
	return m.thesisPipelines(nets, func(net string, in *run.Instance, p platform.Platform) error {
		return m.decomposed(net, in, p, limit)
	})
}

// decomposed prints the row of one platform.
func (m *measurer) decomposed(net string, in *run.Instance, p platform.Platform, limit time.Duration) error {
	s := m.setting
	s.Platform, s.Certify = p, formulation.Off
	start, err := pipeline.SearchOnePeriodic(in.Chain(), p, pipeline.Options{Stop: m.ctx.Done()})
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := context.WithTimeout(m.ctx, limit)
	defer cancel()
	r, err := method.Decompose(ctx, s.Task(in, "allocations", start), in.Chain(), p, "", run.Tolerance)
	if err != nil {
		return err
	}
	spent := time.Since(begin).Seconds()
	fmt.Printf("| %s | %d | %g | %.2f | %.2f | %.2f | %.2f %% | %.1f |\n", net, p.Processors, p.Memory/1e9,
		1e3*start.Claims.Makespan, 1e3*r.Objective, 1e3*r.Claimed(), 100*solvers.Gap(r.Objective, r.Claimed()), spent)
	return nil
}
