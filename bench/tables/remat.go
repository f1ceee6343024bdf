package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"workbench/bench/run"
	"workbench/heuristics/remat"
	"workbench/model/chain"
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

// networks calls do for every of these networks, every image and batch of the thesis.
func (m *measurer) networks(nets []string, do func(net string, image, batch int, in *run.Instance) error) error {
	for _, net := range nets {
		for _, b := range batches {
			for _, batch := range b.batch {
				in, err := run.Load(fmt.Sprintf("zoo:%s?image=%d&batch=%d", net, b.image, batch), os.Stdin)
				if err != nil {
					return err
				}
				if err := do(net, b.image, batch, in); err != nil {
					return err
				}
				if m.ctx.Err() != nil {
					return m.ctx.Err()
				}
			}
		}
	}
	return nil
}

// mean is an average under way.
type mean struct {
	sum float64
	n   int
}

func (a *mean) add(x float64) {
	if !math.IsNaN(x) {
		a.sum, a.n = a.sum+x, a.n+1
	}
}

func (a *mean) value() float64 { return a.sum / float64(a.n) }

// claims tests what [004] 2.4.5 says of its networks: how much faster the best
// persistent plan is than the sequential strategy with the same memory, how far
// revolve stays behind, and whether persistent, floating and optimum differ.
// Without networks, those of the thesis.
func (m *measurer) claims(nets []string) error {
	if err := m.about(plan.Remat); err != nil {
		return err
	}
	if len(nets) == 0 {
		nets = vision
	}
	m.setting.Time = 20 * time.Second
	fmt.Println("| net | image | batch | N | store-all | best periodic: memory | s | persistent, s | throughput | all periodic | revolve | floating | optimum |")
	fmt.Println("|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|---|")
	var atBest, atAll, behind mean
	differ, proved, rows := 0, 0, 0
	err := m.networks(nets, func(net string, image, batch int, in *run.Instance) error {
		r, err := m.claim(in)
		if err != nil {
			return err
		}
		fmt.Printf("| %s | %d | %d | %d | %s | %s (%.0f %%) | %.4f | %.4f | %+.1f %% | %+.1f %% | %s | %s | %s |\n",
			net, image, batch, in.Chain().Len(), platform.FormatBytes(r.high), platform.FormatBytes(r.memory), 100*r.memory/r.high,
			r.periodic, r.persistent, 100*r.gain, 100*r.gains.value(), percentMore(r.revolve, r.persistent), r.floating, r.optimum)
		atBest.add(r.gain)
		atAll.add(r.gains.value())
		behind.add(r.revolve/r.persistent - 1)
		if strings.HasPrefix(r.floating, "−") {
			differ++
		}
		if strings.HasPrefix(r.optimum, "=") {
			proved++
		}
		rows++
		return nil
	})
	if rows > 0 {
		fmt.Printf("\nMean of %d rows: persistent has %.1f %% more throughput than the best periodic plan with its memory, %.1f %% more over all numbers of segments; revolve takes %.1f %% longer than persistent. Floating is better than persistent on %d rows; persistent is proved optimal on %d.\n",
			rows, 100*atBest.value(), 100*atAll.value(), 100*behind.value(), differ, proved)
	}
	return err
}

// claim is a row of the table of claims; times in seconds.
type claim struct {
	high                         float64 // memory of store-all
	memory, periodic, persistent float64 // of the fastest periodic plan that recomputes
	revolve                      float64 // NaN: no plan
	gain                         float64 // throughput of persistent over periodic, −1
	gains                        mean    // the same over all numbers of segments up to 2√N
	floating, optimum            string
}

func (m *measurer) claim(in *run.Instance) (*claim, error) {
	c := in.Chain()
	_, high := remat.Range(c)
	r := &claim{high: high, periodic: math.Inf(1), gain: math.NaN(), revolve: math.NaN()}
	// Ten numbers of segments from 2 to 2√N, as [004] 2.4.4.
	most := int(2 * math.Sqrt(float64(c.Len())))
	for k := range 10 {
		segments := 2 + k*max(most-2, 0)/9
		memory, makespan, err := replay(c, remat.PeriodicSegments(c, segments))
		if err != nil {
			return nil, err
		}
		best, err := m.makespan(in, "persistent", memory)
		if err != nil {
			return nil, err
		}
		r.gains.add(makespan/best - 1)
		if makespan < r.periodic {
			r.periodic, r.memory, r.persistent, r.gain = makespan, memory, best, makespan/best-1
		}
	}
	var err error
	if r.revolve, err = m.makespan(in, "revolve", r.memory); err != nil {
		return nil, err
	}
	floating, err := m.makespan(in, "floating", r.memory)
	switch {
	case err != nil:
		return nil, err
	case math.IsNaN(floating):
		r.floating = "none in time"
	case floating < r.persistent*(1-1e-9):
		r.floating = fmt.Sprintf("−%.3f %%", 100*(1-floating/r.persistent))
	default:
		r.floating = "="
	}
	s := m.at2(r.memory)
	o := run.Run(m.ctx, m.problem, m.method("optimum"), in, s)
	switch {
	case o.Status == run.Failed:
		r.optimum = o.Error
	case o.Objective == nil:
		r.optimum = "none in time"
	case *o.Objective < r.persistent*(1-1e-9):
		r.optimum = fmt.Sprintf("−%.3f %%", 100*(1-*o.Objective/r.persistent))
	case o.Status == run.Optimal:
		r.optimum = "="
	default:
		r.optimum = fmt.Sprintf("gap %.2f %%", 100**o.Gap)
	}
	return r, nil
}

// replay verifies a plan of a chain and returns its peak and its makespan. The
// limit is set to the peak.
func replay(c *chain.Chain, p *plan.Plan) (memory, makespan float64, err error) {
	p.Platform.Memory = math.MaxFloat64
	r, err := plan.VerifyRemat(c, p)
	if err == nil && !r.Valid() {
		err = &run.InvalidPlanError{Method: p.Method, Report: r}
	}
	if err != nil {
		return 0, 0, err
	}
	return r.PeakMemory, r.Makespan, nil
}

// at2 returns the setting for a memory in bytes.
func (m *measurer) at2(memory float64) run.Setting {
	s := m.setting
	s.Platform = platform.Platform{Memory: memory}
	return s
}

// makespan runs a method; NaN: it has no plan.
func (m *measurer) makespan(in *run.Instance, method string, memory float64) (float64, error) {
	r := run.Run(m.ctx, m.problem, m.method(method), in, m.at2(memory))
	var infeasible *plan.Infeasible
	switch {
	case r.Objective != nil:
		return *r.Objective, nil
	case errors.Is(r.Err, plan.ErrNoPlan), errors.As(r.Err, &infeasible):
		return math.NaN(), nil
	}
	return 0, r.Err
}

func percentMore(x, than float64) string {
	if math.IsNaN(x) {
		return "no plan"
	}
	return fmt.Sprintf("%+.1f %%", 100*(x/than-1))
}
