package method

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"workbench/bench/solve"
	"workbench/heuristics/activationoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
	"workbench/model/testfile"
)

// A part is one that finds a plan or a bound, or nothing, after so many seconds of a
// clock that only the test turns.
type part struct {
	takes time.Duration
	plan  float64 // 0: none
	bound float64 // 0: none
}

// work takes the time of the part, at most until ctx ends, and says whether it has
// come to its end.
func (x part) work(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(x.takes):
		return true
	}
}

// found is what the part has when it has ended.
func (x part) found(s *solve.Setting) (*solve.Outcome, error) {
	out := &solve.Outcome{}
	p := solve.Progress{Objective: math.NaN(), Bound: x.bound}
	if x.plan > 0 {
		p.Objective = x.plan
		out.Plan = lasting(x.plan)
	}
	if x.bound > 0 {
		out.Bounds = []solve.Bound{proof.BySearch(x.bound, "a part")}
	}
	s.OnProgress(p)
	if out.Plan == nil && out.Bounds == nil {
		return nil, fmt.Errorf("nothing: %w", plan.ErrNoPlan)
	}
	return out, nil
}

// step is an instance whose plans take as long as one likes.
var step = &chain.Chain{Name: "step", Layers: []chain.Layer{{ForwardTime: 1, BackwardTime: 1, Activation: 1, Saved: 1, Gradient: 1}}}

// lasting is a plan of step with so many seconds, nearly all of them idle.
func lasting(seconds float64) *plan.Plan {
	p, err := activationoffload.Greedy(context.Background(), step, trialPlatform)
	if err != nil {
		panic(err)
	}
	last := &p.Ops[len(p.Ops)-1]
	last.Start, last.End = seconds-last.End+last.Start, seconds
	p.Claims.Makespan = seconds
	return p
}

var trialPlatform = platform.Platform{Memory: 100, Bandwidth: 1}

// A trial is a combination of such parts under a limit of time, 0: none.
type trial struct {
	limit         time.Duration
	closed        float64 // bound in closed form
	quick, search []part
	proof         part
}

// optimum is what no part of a trial is better than.
const optimum = 100

func randomTrial(r *rand.Rand) *trial {
	one := func(most int) part {
		x := part{takes: time.Duration(1+r.IntN(most)) * time.Second}
		if r.IntN(6) > 0 {
			x.plan = float64(optimum + r.IntN(5))
		}
		return x
	}
	x := &trial{limit: time.Duration(r.IntN(60)) * time.Second, closed: float64(optimum - r.IntN(50))}
	for range 1 + r.IntN(3) {
		x.quick = append(x.quick, one(5))
	}
	for range 1 + r.IntN(6) {
		x.search = append(x.search, one(20))
	}
	x.proof = one(40)
	if r.IntN(4) > 0 {
		x.proof.bound = float64(optimum - r.IntN(3))
	}
	return x
}

// combination makes the trial's. It notes when each part ended, after the start.
func (x *trial) combination(ended map[string]time.Duration) *combination {
	start := time.Now()
	done := func(name string) { ended[name] = time.Since(start) }
	c := &combination{
		name: "trial", rounds: len(x.search),
		bound: func(*solve.Instance, solve.Setting) solve.Bound { return proof.BySearch(x.closed, "closed form") },
		prove: func(j *joint) error {
			if !x.proof.work(j.ctx) {
				return nil
			}
			out, err := x.proof.found(&j.s)
			j.addOutcome("proof", out, err)
			done("proof")
			return nil
		},
		search: func(j *joint, round int) bool {
			if x.search[round].work(j.ctx) {
				out, err := x.search[round].found(&j.s)
				j.addOutcome("search", out, err)
				done(fmt.Sprint("search ", round))
			}
			return round+1 < len(x.search)
		},
	}
	for i, q := range x.quick {
		c.quick = append(c.quick, &solve.Method{
			Name: fmt.Sprint("quick ", i),
			Run: func(ctx context.Context, _ *solve.Instance, s solve.Setting) (*solve.Outcome, error) {
				if !q.work(ctx) {
					return nil, context.Cause(ctx)
				}
				done(fmt.Sprint("quick ", i))
				return q.found(&s)
			},
		})
	}
	return c
}

// A combination has what each of its parts has within the same limit, but for the
// time that the quick ones take: they come first, a search gets all the time that
// they leave, whatever the proof does beside it, and a proof all but a quarter of
// that, until plan and bound meet. Nothing takes longer than the limit, and what is
// said on the way never gets worse. No case depends on the machine: the clock is a
// test's.
func TestCombinationHasWhatItsPartsHave(t *testing.T) {
	met, late, none := 0, 0, 0
	for seed := range uint64(testfile.Cases(2000)) {
		x := randomTrial(rand.New(rand.NewPCG(seed, 15)))
		synctest.Test(t, func(t *testing.T) {
			out, ended, took := x.run(t, seed)
			if out == nil {
				none++
				return
			}
			x.judge(t, seed, out, ended)
			value, bound := out.Plan.Claims.Makespan, x.bound(out)
			switch {
			case value == bound:
				met++
			case x.limit > 0 && took == x.limit:
				late++
			case took < x.all():
				t.Errorf("seed %d: %v against %v after %v, the parts take %v: %+v", seed, value, bound, took, x.all(), x)
			}
		})
	}
	t.Logf("plan and bound met %d times, the limit came first %d times, there was no plan %d times", met, late, none)
	if cases := testfile.Cases(2000); met < cases/20 || late < cases/4 || none == 0 {
		t.Error("too few cases of a kind")
	}
}

// A proof that looks for plans of another kind does so to its end when plan and bound have
// met, whether that was before it began or meanwhile, and then proves nothing more.
func TestProofsEndWhenTheSearchHasMet(t *testing.T) {
	for _, x := range []struct{ search, others, want time.Duration }{
		{5 * time.Second, 10 * time.Second, 15 * time.Second},  // the proof begins after it
		{20 * time.Second, 10 * time.Second, 25 * time.Second}, // or after a quarter of the limit
		{40 * time.Second, 10 * time.Second, 40 * time.Second}, // when it proves
		{70 * time.Second, 10 * time.Second, 60 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			in, err := solve.NewInstance(step)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			looked := false
			found := part{takes: x.search, plan: optimum, bound: optimum}
			c := &combination{
				name: "trial", always: true,
				bound: func(*solve.Instance, solve.Setting) solve.Bound { return proof.BySearch(1, "closed form") },
				search: func(j *joint, _ int) bool {
					if found.work(j.ctx) {
						out, err := found.found(&j.s)
						j.addOutcome("search", out, err)
					}
					return false
				},
				prove: func(j *joint) error {
					looked = part{takes: x.others}.work(ctx)
					if j.unproved() {
						<-j.ctx.Done()
					}
					return nil
				},
			}
			start := time.Now()
			_, err = c.run(ctx, in, solve.Setting{Platform: trialPlatform, OnProgress: func(solve.Progress) {}})
			if took := time.Since(start); took != x.want || !looked {
				t.Errorf("a search of %v: %v, looked for others: %v; want %v (%v)", x.search, took, looked, x.want, err)
			}
		})
	}
}

// run runs the combination of a trial, nil if it has no plan.
func (x *trial) run(t *testing.T, seed uint64) (*solve.Outcome, map[string]time.Duration, time.Duration) {
	in, err := solve.NewInstance(step)
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	if x.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.limit)
		defer cancel()
	}
	last := solve.Progress{Objective: math.Inf(1), Bound: math.Inf(-1)}
	said := func(p solve.Progress) {
		if p.Objective > last.Objective || p.Bound < last.Bound || p.Elapsed < last.Elapsed {
			t.Errorf("seed %d: %+v after %+v", seed, p, last)
		}
		if math.IsNaN(p.Objective) {
			p.Objective = last.Objective
		}
		last = p
	}
	start, ended := time.Now(), map[string]time.Duration{}
	out, err := x.combination(ended).run(ctx, in, solve.Setting{Platform: trialPlatform, OnProgress: said})
	took := time.Since(start)
	if x.limit > 0 && took > x.limit {
		t.Errorf("seed %d: %v of %v", seed, took, x.limit)
	}
	if err != nil {
		if !errors.Is(err, plan.ErrNoPlan) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("seed %d: %v", seed, err)
		}
		return nil, nil, took
	}
	if out.Plan == nil {
		return nil, nil, took
	}
	for _, r := range out.Refused {
		t.Errorf("seed %d: %v", seed, r.Err)
	}
	return out, ended, took
}

// judge compares what came of a combination with what its parts have.
func (x *trial) judge(t *testing.T, seed uint64, out *solve.Outcome, ended map[string]time.Duration) {
	value, bound := out.Plan.Claims.Makespan, x.bound(out)
	end := x.limit
	if end == 0 {
		end = math.MaxInt64
	}
	// has says that a part that begins then has its plan and bound by the limit.
	has := func(name string, begin time.Duration, y part) {
		if begin+y.takes >= end || value == bound {
			return
		}
		if at, ok := ended[name]; !ok || at > begin+y.takes {
			t.Errorf("seed %d: %s would end after %v, not %v (%v): %+v", seed, name, begin+y.takes, at, ok, x)
		}
		if y.plan > 0 && value > y.plan || y.bound > bound {
			t.Errorf("seed %d: %v against %v, %s has %+v", seed, value, bound, name, y)
		}
	}
	var at time.Duration
	for i, y := range x.quick {
		has(fmt.Sprint("quick ", i), at, y)
		at += y.takes
	}
	wait := time.Minute
	if x.limit > 0 {
		wait = time.Duration(0.25 * float64(x.limit-at))
	}
	has("proof", at+min(wait, x.search[0].takes), x.proof)
	for round, y := range x.search {
		if x.limit == 0 && round == 1 {
			return // after the proof
		}
		has(fmt.Sprint("search ", round), at, y)
		at += y.takes
	}
}

// bound is the best that is proved.
func (x *trial) bound(out *solve.Outcome) float64 {
	best := x.closed
	for _, b := range out.Bounds {
		best = max(best, b.Value)
	}
	return best
}

// all is how long the parts take together.
func (x *trial) all() time.Duration {
	var quick, search time.Duration
	for _, y := range x.quick {
		quick += y.takes
	}
	for _, y := range x.search {
		search += y.takes
	}
	first := x.search[0].takes
	if x.limit == 0 {
		return quick + x.proof.takes + search
	}
	wait := min(first, time.Duration(headStart*float64(x.limit-quick)))
	return quick + max(search, wait+x.proof.takes)
}
