package swap

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyswap "workbench/model/verify/swap"
)

// states is how many states the searches of these tests visit at most.
const states = 1 << 22

// checkSwap wants a plan that the verifier accepts, claims included.
func checkSwap(t *testing.T, s *functions.Sequence, p *plan.Plan) {
	t.Helper()
	r, err := verifyswap.Verify(s, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %q\n%+v\n%+v", r.Violations, r.ClaimErrors, s, p.Ops)
	}
}

// there and back: x is used first and last, big in between.
func between(size, time float64, writes bool) *functions.Sequence {
	s := &functions.Sequence{
		Variables: []functions.Variable{{ID: "x", Size: size}, {ID: "big", Size: 5}},
		Functions: []functions.Function{{Time: 1, Uses: []int{0}}, {Time: time, Uses: []int{1}}, {Time: 1, Uses: []int{0}}},
	}
	if !writes {
		s.Functions[0].Writes = []int{}
	}
	return s
}

func TestSwapByHand(t *testing.T) {
	// f_2 reads w, which is to be gone during f_3: its out may begin before f_2 if
	// it ends after the start of f_2.
	overlap := &functions.Sequence{
		Variables: []functions.Variable{{ID: "w", Size: 4, Initial: functions.Device}, {ID: "y", Size: 4}},
		Functions: []functions.Function{
			{Time: 10, Uses: nil}, {Time: 2, Uses: []int{0}, Writes: []int{}}, {Time: 1, Uses: []int{1}}, {Time: 1, Uses: []int{0}},
		},
	}
	host := between(2, 3, true)
	host.Variables[0].Initial = functions.Host
	for _, x := range []struct {
		name                    string
		s                       *functions.Sequence
		memory, bandwidth, want float64 // -1: no plan
	}{
		{"all memory", between(2, 3, true), 7, 0, 5},
		{"x leaves", between(2, 3, true), 6, 1, 1 + 2 + 3 + 2 + 1},
		{"x is made, so it is written", between(2, 3, false), 6, 1, 9},
		{"x from the host", host, 6, 1, 2 + 1 + 2 + 3 + 2 + 1},
		{"no links", between(2, 3, true), 6, 0, -1},
		{"big does not fit", between(2, 3, true), 4.9, 1, -1},
		{"a longer function hides nothing", between(2, 9, true), 6, 1, 15},
		{"an out across a start", overlap, 4, 1, 10 + 2 + 1 + 4 + 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			got, p, err := Search(x.s, x.memory, x.bandwidth, 1, states)
			if x.want < 0 {
				if !errors.Is(err, exhaustive.ErrInfeasible) {
					t.Fatalf("makespan %g, error %v; want %v", got, err, exhaustive.ErrInfeasible)
				}
				return
			}
			if err != nil || got != x.want {
				t.Fatalf("makespan %g, error %v; want %g", got, err, x.want)
			}
			checkSwap(t, x.s, p)
		})
	}
}

// The out of x, made by f_1, must end after the start of f_3, which only reads it,
// and that of y, which f_2 writes, come after: the sooner the first ends the
// better, but not at the start itself. No grid has the least makespan, and all have
// the same greatest lower bound.
func TestSwapFinerGrid(t *testing.T) {
	s := &functions.Sequence{
		Variables: []functions.Variable{{ID: "x", Size: 4}, {ID: "y", Size: 3}, {ID: "big", Size: 7}},
		Functions: []functions.Function{
			{Time: 1, Uses: []int{0}},
			{Time: 4, Uses: []int{1}},
			{Time: 1, Uses: []int{0}, Writes: []int{}},
			{Time: 1, Uses: []int{2}},
			{Time: 1, Uses: []int{0, 1}},
		},
	}
	for _, x := range []struct{ unit, time, want float64 }{{1, 1, 17}, {0.5, 1, 17}, {0.25, 1, 17}, {1, 0, 17}, {0.25, 0, 17}} {
		s.Functions[2].Time = x.time
		got, p, err := Search(s, 7, 1, x.unit, 1e6)
		if err != nil || got != x.want {
			t.Fatalf("unit %g: makespan %g, error %v; want %g", x.unit, got, err, x.want)
		}
		checkSwap(t, s, p)
	}
}

// Plans are valid and between the bounds, there is one from the least memory
// on and none below, and a finer grid has nothing better.
func TestSwapRandom(t *testing.T) {
	waits, moments, drops := 0, 0, 0
	for seed := range uint64(testfile.Cases(1500)) {
		r := rand.New(rand.NewPCG(seed, 7))
		s, memory, bandwidth := random.Swap(r, 5, 5)
		got, p, err := Search(s, memory, bandwidth, 1, 1e6)
		if fits := memory >= s.LeastMemory(); fits != (err == nil) {
			t.Fatalf("seed %d: memory %g, least %g, error %v", seed, memory, s.LeastMemory(), err)
		}
		if err != nil {
			continue
		}
		checkSwap(t, s, p)
		full, q, err := Search(s, 1e9, bandwidth, 1, 1e6)
		if err != nil || got < full || full < s.TotalTime() {
			t.Errorf("seed %d: %g, with more memory %g (%v), functions alone %g", seed, got, full, err, s.TotalTime())
		}
		checkSwap(t, s, q)
		if got > full {
			waits++
		}
		if p.Claims.Makespan > got*(1+plan.Tolerance) {
			moments++
		}
		for _, o := range p.Ops {
			if o.Op == plan.OpDrop {
				drops++
				break
			}
		}
		if seed%4 > 0 {
			continue
		}
		for _, unit := range []float64{0.5, 0.25} {
			finer, h, err := Search(s, memory, bandwidth, unit, 1e6)
			if err != nil || finer != got {
				t.Errorf("seed %d: %g, on a grid of %g %g (%v)", seed, got, unit, finer, err)
			}
			checkSwap(t, s, h)
		}
	}
	t.Logf("%d wait for transfers, %d for a moment more, %d drop", waits, moments, drops)
	if waits < testfile.Cases(300) || drops < testfile.Cases(10) || moments < testfile.Cases(3) {
		t.Error("the random sequences are too easy")
	}
}

// No plan with up to two moves, at whatever whole times, is both valid and
// shorter; all of them are tried.
func TestSwapAgainstAllPlans(t *testing.T) {
	tried, valid := 0, 0
	for seed := uint64(0); tried < testfile.Cases(40); seed++ {
		r := rand.New(rand.NewPCG(seed, 11))
		s, memory, bandwidth := random.Swap(r, 3, 2)
		best, _, err := Search(s, memory, bandwidth, 1, 1e6)
		if err != nil || best == s.TotalTime() || best > 7 {
			continue
		}
		tried++
		a := &allPlans{
			t: t, s: s, p: plan.New(plan.Swap, "all", s, platform.Platform{Memory: memory, Bandwidth: bandwidth}),
			best: best,
		}
		a.functions(0, 0)
		valid += a.valid
	}
	t.Logf("%d valid plans", valid)
	if valid == 0 {
		t.Error("none of the plans is valid")
	}
}

// allPlans tries plans that are no longer than the best.
type allPlans struct {
	t     *testing.T
	s     *functions.Sequence
	p     *plan.Plan
	best  float64
	valid int
}

// functions adds function i and those after it, not before the given time, in
// every way, then the moves.
func (a *allPlans) functions(i int, from float64) {
	if i == a.s.Len() {
		a.moves(2, 0)
		return
	}
	d := a.s.Functions[i].Time
	for t := from; t+d <= a.best; t++ {
		a.p.Ops = append(a.p.Ops, plan.Op{Op: plan.OpRun, Function: i + 1, Start: t, End: t + d})
		a.functions(i+1, t+d)
		a.p.Ops = a.p.Ops[:len(a.p.Ops)-1]
	}
}

func (a *allPlans) moves(more, from int) {
	r, err := verifyswap.Verify(a.s, a.p)
	if err != nil {
		a.t.Fatal(err)
	}
	if r.Valid() {
		a.valid++
		if r.Makespan < a.best {
			a.t.Errorf("makespan %g, the search finds %g: %+v", r.Makespan, a.best, a.p.Ops)
		}
	}
	if more == 0 {
		return
	}
	kinds := [...]string{plan.OpIn, plan.OpOut, plan.OpDrop}
	times := int(a.best)
	for k := from; k < len(a.s.Variables)*len(kinds)*times; k++ {
		v, kind, t := k%len(a.s.Variables), k/len(a.s.Variables)%len(kinds), k/len(a.s.Variables)/len(kinds)
		o := plan.Op{Op: kinds[kind], Variable: a.s.Variables[v].ID, Start: float64(t), End: float64(t)}
		if o.Op != plan.OpDrop {
			o.End += a.s.Variables[v].Size / a.p.Platform.Bandwidth
		}
		a.p.Ops = append(a.p.Ops, o)
		a.moves(more-1, k+1)
		a.p.Ops = a.p.Ops[:len(a.p.Ops)-1]
	}
}

func TestSwapErrors(t *testing.T) {
	s := between(2, 3, true)
	half := between(0.5, 3, true)
	long := between(2, 40, true)
	many := &functions.Sequence{Functions: make([]functions.Function, MaxFunctions+1)}
	wide := &functions.Sequence{Functions: make([]functions.Function, 1)}
	for v := range MaxVariables + 1 {
		wide.Variables = append(wide.Variables, functions.Variable{ID: fmt.Sprint(v), Size: 1})
		wide.Functions[0].Uses = append(wide.Functions[0].Uses, v)
	}
	for _, x := range []struct {
		s                       *functions.Sequence
		memory, bandwidth, unit float64
		limit                   int
		want                    error
	}{
		{s, -1, 1, 1, states, exhaustive.ErrTooHard},
		{s, 1, -1, 1, states, exhaustive.ErrTooHard},
		{s, 7, 1, 0, states, exhaustive.ErrTooHard},
		{half, 7, 1, 1, states, exhaustive.ErrTooHard},
		{long, 7, 1, 1, states, exhaustive.ErrTooHard},
		{many, 7, 1, 1, states, exhaustive.ErrTooHard},
		{wide, 7, 1, 1, states, exhaustive.ErrTooHard},
		{&functions.Sequence{}, 7, 1, 1, states, exhaustive.ErrTooHard},
		{s, 7, 1, 1, 1, exhaustive.ErrLimit},
		{s, 0, 1, 1, states, exhaustive.ErrInfeasible},
	} {
		if _, _, err := Search(x.s, x.memory, x.bandwidth, x.unit, x.limit); !errors.Is(err, x.want) {
			t.Errorf("memory %g, bandwidth %g, unit %g: %v; want %v", x.memory, x.bandwidth, x.unit, err, x.want)
		}
	}
}

func BenchmarkSwap(b *testing.B) {
	for _, n := range []int{3, 5, 7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := rand.New(rand.NewPCG(1, uint64(n)))
			for b.Loop() {
				s, memory, bandwidth := random.Swap(r, n, n)
				_, _, err := Search(s, memory, bandwidth, 1, 1e7)
				if err != nil && !errors.Is(err, exhaustive.ErrInfeasible) {
					b.Fatal(err)
				}
			}
		})
	}
}
