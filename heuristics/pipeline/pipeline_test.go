package pipeline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/pipeline/pipelinetest"
	"workbench/model/testfile"
	verifypipeline "workbench/model/verify/pipeline"
)

var models = []string{plan.StageModel, plan.TaskModel}

// methods are all that take a chain and a platform alone.
var methods = map[string]func(*chain.Chain, platform.Platform, Options) (*plan.Plan, error){
	"1f1b-star":             OneFOneBStar,
	"pipedream-star":        PipeDreamStar,
	"pipedream-star-memory": PipeDreamStarMemory,
	"1f1b":                  OneFOneB,
	"pipedream":             PipeDream,
	"gpipe":                 GPipe,
	"k-periodic":            KPeriodic,
	"eager":                 Eager,
	"madpipe":               MadPipe,
	"search":                Search,
}

// randomChain returns small integer data; zero reports whether layers may take
// no time.
func randomChain(r *rand.Rand, n int, zero bool) *chain.Chain {
	low := 1
	if zero {
		low = 0
	}
	c := &chain.Chain{Name: "random", Input: chain.Input{Activation: float64(r.IntN(4))}}
	c.Input.Gradient = c.Input.Activation
	for range n {
		a := float64(r.IntN(4))
		c.Layers = append(c.Layers, chain.Layer{
			ForwardTime: float64(low + r.IntN(4)), BackwardTime: float64(low + r.IntN(4)),
			Activation: a, Saved: a, Gradient: float64(r.IntN(4)), Weight: float64(r.IntN(3)),
		})
	}
	c.Layers[0].ForwardTime++
	return c
}

func randomPlatform(r *rand.Rand) platform.Platform {
	return platform.Platform{
		Memory: float64(4 + r.IntN(40)), Bandwidth: []float64{0.7, 1, 2, 1e9}[r.IntN(4)], Processors: 1 + r.IntN(4),
		WeightCopies: r.IntN(4),
	}
}

// verified replays a plan and returns its T/k.
func verified(t *testing.T, c *chain.Chain, p *plan.Plan) float64 {
	t.Helper()
	r, err := verifypipeline.Verify(c, p)
	if err != nil {
		t.Fatalf("%s: %v", p.Method, err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%s, %s model, %+v: violations %v, claims %v\nchain %+v\nallocation %v, T = %v, k = %d\n%s",
			p.Method, p.MemoryModel, p.Platform, r.Violations, r.ClaimErrors, c.Layers, p.Allocation, *p.Period, p.K, dump(p))
	}
	return r.Makespan
}

func dump(p *plan.Plan) string {
	s := ""
	for _, o := range p.Ops {
		s += fmt.Sprintf("%s %s_%d [%v, %v) shift %d\n", o.Resource, o.Op, o.Layer, o.Start, o.End, o.Shift)
	}
	return s
}

// Every method's plans pass the verifier, in both models, and none beats a
// bound.
func TestMethodsVerified(t *testing.T) {
	t.Parallel()
	plans, infeasible := map[string]int{}, 0
	for seed := range uint64(testfile.Cases(100)) {
		r := rand.New(rand.NewPCG(seed, 4))
		c, p := randomChain(r, 1+r.IntN(7), seed%3 == 0), randomPlatform(r)
		for _, model := range models {
			bounds, boundErr := boundsOf(c, p, Options{Model: model})
			for name, method := range methods {
				q, err := method(c, p, Options{Model: model})
				var proved *plan.Infeasible
				if errors.As(err, &proved) != errors.As(boundErr, &proved) {
					t.Fatalf("seed %d, %s: %v, but the bounds say %v", seed, name, err, boundErr)
				}
				if errors.As(err, &proved) {
					infeasible++
					continue
				}
				if errors.Is(err, plan.ErrNoPlan) {
					continue
				}
				if err != nil {
					t.Fatalf("seed %d, %s: %v", seed, name, err)
				}
				plans[name]++
				period := verified(t, c, q)
				for _, b := range bounds {
					applies := true
					for _, a := range b.Assumes {
						meets, known := q.Meets(a)
						if !known {
							t.Fatalf("bound that assumes %q", a)
						}
						applies = applies && meets
					}
					if applies && period < b.Value*(1-1e-9) {
						t.Fatalf("seed %d, %s, %s: period %v below the bound %v (%s)", seed, name, model, period, b.Value, b.By)
					}
				}
			}
		}
	}
	for name := range methods {
		if plans[name] < testfile.Cases(40)/2 {
			t.Errorf("%s: only %d plans", name, plans[name])
		}
	}
	if infeasible == 0 {
		t.Error("no instance is infeasible")
	}
}

// KPeriodic is never worse than OneFOneBStar, nor that than PipeDreamStar.
func TestOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 5))
		c, p := randomChain(r, 1+r.IntN(8), false), randomPlatform(r)
		for _, model := range models {
			value := func(method func(*chain.Chain, platform.Platform, Options) (*plan.Plan, error)) float64 {
				q, err := method(c, p, Options{Model: model})
				if err != nil {
					return math.Inf(1)
				}
				return q.Claims.Makespan
			}
			k, star, dream := value(KPeriodic), value(OneFOneBStar), value(PipeDreamStar)
			if k > star*(1+1e-9) || star > dream*(1+1e-9) {
				t.Fatalf("seed %d, %s: k-periodic %v, 1f1b-star %v, pipedream-star %v", seed, model, k, star, dream)
			}
		}
	}
}

// eachSmall calls f with random instances whose processors hold a few layers.
func eachSmall(t *testing.T, f func(*chain.Chain, platform.Platform)) {
	for seed := range uint64(testfile.Cases(80)) {
		r := rand.New(rand.NewPCG(seed, 6))
		f(randomChain(r, 1+r.IntN(6), seed%4 == 0), randomPlatform(r))
	}
}

// boundsOf returns the bounds in closed form, unless it is proved that nothing fits.
func boundsOf(c *chain.Chain, p platform.Platform, o Options) ([]pipelinetest.Bound, error) {
	in, err := newInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	return pipelinetest.Bounds(in.Instance), nil
}
