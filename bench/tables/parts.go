package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/chain"
	"workbench/model/platform"
)

// parts compares the methods of a problem that are made of others with each of
// these alone under the same limit of time, and lists where one of them has the
// better plan or the better bound: PROBLEM LIMITS PERCENTS INSTANCE…, the lists
// separated by commas, random:N an instance with N layers. What solve takes by default
// is compared with all other methods. Where the machine had too little time for both of
// search and proof, the method is run again: see again.
func (m *measurer) parts(args []string) error {
	if err := m.about(args[0]); err != nil {
		return err
	}
	fmt.Println("| instance | memory | limit | method | ended | part | plan | its plan | bound | its bound | s | processor | its processor |")
	fmt.Println("|---|--:|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
	compared, worse := 0, 0
	for _, spec := range args[3:] {
		in, err := instanceNamed(spec)
		if err != nil {
			return err
		}
		for percent := range strings.SplitSeq(args[2], ",") {
			if err := m.give(in, percent); err != nil {
				return err
			}
			for limit := range strings.SplitSeq(args[1], ",") {
				if m.setting.Time, err = time.ParseDuration(limit); err != nil {
					return err
				}
				for _, x := range m.pairs(in) {
					compared++
					m.again(in, &x)
					if x.worse() {
						worse++
					}
					if x.worse() || x.late() {
						fmt.Printf("| %s | %s %% %s\n", in.Name, percent, &x)
					}
				}
				if m.ctx.Err() != nil {
					return m.ctx.Err()
				}
			}
		}
	}
	fmt.Printf("\n%d pairs, %d worse\n", compared, worse)
	return nil
}

// give gives each method so many percent of the range of memory of an instance.
func (m *measurer) give(in *solve.Instance, percent string) error {
	memory, err := platform.ParseMemory(percent + "%")
	low, high := m.problem.Range(in)
	m.setting.Slots = 0
	m.setting.Platform = platform.Platform{
		Memory: in.Resolve(memory, low, high), Bandwidth: 12e9, Processors: 4, WeightCopies: platform.DefaultWeightCopies,
	}
	return err
}

// A pair is a method made of others and one of these, alone.
type pair struct {
	limit       time.Duration
	whole, part *solve.Result
}

// pairs runs the methods that are made of others, and these alone.
func (m *measurer) pairs(in *solve.Instance) (all []pair) {
	alone := map[string]*solve.Result{}
	for _, whole := range catalog.MethodsFor(m.problem, in) {
		parts := whole.Parts
		if whole.Name == catalog.DefaultMethod(m.problem, in) {
			parts = m.others(in, whole)
		}
		if len(parts) == 0 {
			continue
		}
		r := solve.Run(m.ctx, m.problem, whole, in, m.setting)
		if errors.Is(r.Err, solve.ErrInput) {
			continue // too long for it
		}
		for _, name := range parts {
			part := m.method(name)
			if !part.Accepts(in) {
				continue // of a graph, and this is a chain
			}
			if alone[name] == nil {
				alone[name] = solve.Run(m.ctx, m.problem, part, in, m.setting)
			}
			all = append(all, pair{m.setting.Time, r, alone[name]})
		}
	}
	return all
}

// others are the methods for an instance but this one and those whose plans may not fit.
func (m *measurer) others(in *solve.Instance, but *solve.Method) (names []string) {
	for _, x := range catalog.MethodsFor(m.problem, in) {
		if x.Name != but.Name && !x.Unverified && x.Kind != solve.Relaxed {
			names = append(names, x.Name)
		}
	}
	return names
}

// doublings is how often again doubles the limit at most.
const doublings = 4

// again runs a method that is worse than its part again, with twice the limit each time,
// until it is not or has had what two idle cores would have given it: twice the processor
// time of the part, for search and proof, and the limit, which the part may have waited for
// less. It is worse only then.
func (m *measurer) again(in *solve.Instance, x *pair) {
	given := m.setting.Time
	defer func() { m.setting.Time = given }()
	for i := 0; i < doublings && x.worse() && x.whole.CPUTime < max(2*x.part.CPUTime, given.Seconds()); i++ {
		m.setting.Time *= 2
		x.whole = solve.Run(m.ctx, m.problem, m.method(x.whole.Method), in, m.setting)
		x.limit = m.setting.Time
	}
}

// worse reports whether the part alone has the better plan or bound.
func (x *pair) worse() bool {
	return planOf(x.part) < planOf(x.whole)*(1-solve.Exactness) || boundOf(x.part) > boundOf(x.whole)*(1+solve.Tolerance)
}

// late reports whether the method took longer than its limit, a tenth and a second.
func (x *pair) late() bool { return x.whole.WallTime > 1.1*x.limit.Seconds()+1 }

func (x *pair) String() string {
	return fmt.Sprintf("| %v | %s | %s %s | %s (%s) | %.9g | %.9g | %.9g | %.9g | %.1f | %.2f | %.2f |", x.limit, x.whole.Method, x.whole.Ended, x.whole.Error,
		x.part.Method, x.part.Ended, planOf(x.whole), planOf(x.part), boundOf(x.whole), boundOf(x.part), x.whole.WallTime, x.whole.CPUTime, x.part.CPUTime)
}

// planOf and boundOf are what a run has, infinite where it has none.
func planOf(r *solve.Result) float64 {
	if r.Objective == nil {
		return math.Inf(1)
	}
	return *r.Objective
}

func boundOf(r *solve.Result) float64 {
	if r.Bound == nil {
		return math.Inf(-1)
	}
	return r.Bound.Value
}

// instanceNamed is an instance as on the command line, or random:N, a chain of N
// layers that is the same every time.
func instanceNamed(spec string) (*solve.Instance, error) {
	number, random := strings.CutPrefix(spec, "random:")
	if !random {
		return solve.Load(spec, os.Stdin)
	}
	layers, err := strconv.Atoi(number)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	r := rand.New(rand.NewPCG(uint64(layers), 15))
	c := &chain.Chain{Name: spec}
	for range layers {
		f, a := 1e-3*(0.5+r.Float64()), 1e6*float64(1+r.IntN(400))
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: f, BackwardTime: f * (1.5 + r.Float64()), Activation: a, Saved: a * float64(1+r.IntN(3)), Gradient: a, Weight: 1e6 * float64(r.IntN(50)),
		})
	}
	return solve.NewInstance(c)
}
