package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"workbench/bench/solve"
	"workbench/heuristics/remat"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// vision are the networks of [004] 2.4.4 with their batches for images of 224,
// 500 and 1000 pixels.
var vision = []string{
	"resnet18", "resnet34", "resnet50", "resnet101", "resnet152",
	"densenet121", "densenet161", "densenet169", "densenet201", "inception",
}

var batches = []struct {
	image int
	batch []int
}{{224, []int{8, 32}}, {500, []int{4, 16}}, {1000, []int{1, 4}}}

// networks calls do for every of these networks, those of the thesis if there are none,
// with its instances: every image and batch.
func (m *measurer) networks(nets []string, do func(net string, instances []*solve.Instance) error) error {
	if len(nets) == 0 {
		nets = vision
	}
	for _, net := range nets {
		var list []*solve.Instance
		for _, b := range batches {
			for _, batch := range b.batch {
				in, err := solve.Load(fmt.Sprintf("zoo:%s?image=%d&batch=%d", net, b.image, batch), os.Stdin)
				if err != nil {
					return err
				}
				list = append(list, in)
			}
		}
		if err := do(net, list); err != nil {
			return err
		}
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
	}
	return nil
}

// claims tests what [004] 2.4.5 says of its networks: how much faster the best
// persistent plan is than the sequential strategy with the same memory, how far
// revolve stays behind, and whether persistent, floating and optimum differ. A row a
// network, in the mean of its instances, the limit that of floating and of optimum.
func (m *measurer) claims(limit time.Duration, nets []string) error {
	if err := m.about(plan.Remat); err != nil {
		return err
	}
	m.setting.Time = limit
	fmt.Println("| net | N | instances | memory of the best periodic | throughput | all periodic | revolve | floating better | optimum better | by at most | proved equal |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	var all claim
	err := m.networks(nets, func(net string, instances []*solve.Instance) error {
		var sum claim
		for _, in := range instances {
			c, err := m.claim(in)
			if err != nil {
				return fmt.Errorf("%s: %w", in.Name, err)
			}
			sum.add(c)
		}
		all.add(&sum)
		fmt.Printf("| %s | %d | %s\n", net, instances[0].Chain().Len(), &sum)
		return nil
	})
	fmt.Printf("| **all** | | %s\n", &all)
	return err
}

// A claim is what was found on so many instances. Shares of 1 are sums over them.
type claim struct {
	instances      int
	memory         float64 // of the fastest periodic plan that recomputes, of store-all's
	gain           float64 // throughput of persistent with that memory over it, −1
	gains          float64 // the same over all numbers of segments up to 2√N
	revolve        float64 // its makespan over persistent's, −1
	slower         int     // instances with a plan of revolve
	floats, beaten int     // on which floating and optimum are better than persistent
	least          float64 // by how much optimum is, at most
	proved         int     // on which optimum proves persistent
}

func (c *claim) add(x *claim) {
	c.instances, c.slower, c.floats, c.beaten, c.proved = c.instances+x.instances, c.slower+x.slower, c.floats+x.floats, c.beaten+x.beaten, c.proved+x.proved
	c.memory, c.gain, c.gains, c.revolve, c.least = c.memory+x.memory, c.gain+x.gain, c.gains+x.gains, c.revolve+x.revolve, max(c.least, x.least)
}

func (c *claim) String() string {
	n := float64(c.instances)
	return fmt.Sprintf("%d | %.0f %% | %+.1f %% | %+.1f %% | %+.1f %% | %d | %d | %.2f %% | %d |", c.instances, 100*c.memory/n, 100*c.gain/n, 100*c.gains/n,
		100*c.revolve/float64(c.slower), c.floats, c.beaten, 100*c.least, c.proved)
}

// claim measures one instance.
func (m *measurer) claim(in *solve.Instance) (*claim, error) {
	c := in.Chain()
	_, high := remat.Range(c)
	// Ten numbers of segments from 2 to 2√N, as [004] 2.4.4.
	most := int(2 * math.Sqrt(float64(c.Len())))
	r, periodic, memory, persistent := &claim{instances: 1}, math.Inf(1), 0.0, 0.0
	for k := range 10 {
		peak, makespan, err := replay(c, remat.PeriodicSegments(c, 2+k*max(most-2, 0)/9))
		if err != nil {
			return nil, err
		}
		best, err := m.makespan(in, "persistent", peak)
		if err != nil {
			return nil, err
		}
		r.gains += (makespan/best - 1) / 10
		if makespan < periodic {
			periodic, memory, persistent = makespan, peak, best
		}
	}
	r.memory, r.gain = memory/high, periodic/persistent-1
	revolve, err := m.makespan(in, "revolve", memory)
	if err != nil {
		return nil, err
	}
	if !math.IsNaN(revolve) {
		r.slower, r.revolve = 1, revolve/persistent-1
	}
	floating, err := m.makespan(in, "floating", memory)
	if err != nil {
		return nil, err
	}
	if floating < persistent*(1-1e-9) { // not if it is none
		r.floats = 1
	}
	o := solve.Run(m.ctx, m.problem, m.method("optimum"), in, m.at2(memory))
	switch {
	case o.Status == solve.Failed:
		return nil, o.Err
	case o.Objective == nil:
	case *o.Objective < persistent*(1-1e-9):
		r.beaten, r.least = 1, 1-*o.Objective/persistent
	case o.Status == solve.Optimal:
		r.proved = 1
	}
	return r, nil
}

// replay verifies a plan of a chain and returns its peak and its makespan. The
// limit is set to the peak.
func replay(c *chain.Chain, p *plan.Plan) (memory, makespan float64, err error) {
	p.Platform.Memory = math.MaxFloat64
	r, err := plan.VerifyRemat(c, p)
	if err == nil && !r.Valid() {
		err = &solve.InvalidPlanError{Method: p.Method, Report: r}
	}
	if err != nil {
		return 0, 0, err
	}
	return r.PeakMemory, r.Makespan, nil
}

// at2 returns the setting for a memory in bytes.
func (m *measurer) at2(memory float64) solve.Setting {
	s := m.setting
	s.Platform = platform.Platform{Memory: memory}
	return s
}

// makespan runs a method; NaN: it has no plan.
func (m *measurer) makespan(in *solve.Instance, method string, memory float64) (float64, error) {
	r := solve.Run(m.ctx, m.problem, m.method(method), in, m.at2(memory))
	var infeasible *plan.Infeasible
	switch {
	case r.Objective != nil:
		return *r.Objective, nil
	case errors.Is(r.Err, plan.ErrNoPlan), errors.As(r.Err, &infeasible):
		return math.NaN(), nil
	}
	return 0, r.Err
}
