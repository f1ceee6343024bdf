package activationoffload

import (
	"context"
	"errors"
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/activationoffload"
)

// ErrGap is the error of a rule for ε_G that is not known.
var ErrGap = errors.New("unknown rule for the time between the phases")

// DynProgStates is the maximum number of states of a layer in DynProg.
const DynProgStates = 4096

// Claim is the result of a dynamic program: a set of activations to offload, and the makespan of
// the ordered no-wait schedule that offloads it in the model of fractional communications ([004]
// Problem 10), in which the memory of a tensor is freed and allocated as it is transferred.
//
// Of sets with the same makespan it has the one whose plan, with whole tensors, is shortest, as far
// as known; the paper does not specify which.
//
// It is no bound on the integral problem, nor on Problem 10, although Theorem 10 states the latter:
// schedules in which a prefetch precedes an offload can be shorter (finding 17).
type Claim struct {
	Makespan float64 // seconds
	Offload  []int   // i of ā_i, increasing
	// Within is proved: Makespan is at most this many seconds above that of any other set, in the
	// same model and with the same rule for ε_G. Rounding of up to 1e-9 of the computations is not
	// counted.
	Within float64
	States int // the most in one layer
	// Of a program over memory slots: the makespan that it had with sizes rounded
	// to slots, and how often the rounding was repaired.
	Rounded float64
	Repairs int
}

// DynProg is DYNPROG ([004] 3.3) in exact arithmetic, without memory slots: it
// offloads the set that is best in the model of fractional communications, with
// the two rules for ε_G, and returns the better of the two plans. On long chains
// the set need not be the best; DynProgClaim says by how much.
//
// If the context ends it returns the plan of the best sets found. The errors are
// those of the methods; a plan is found whenever there is one. The time is that
// of two DynProgClaims.
func DynProg(ctx context.Context, c *chain.Chain, p platform.Platform) (*plan.Plan, error) {
	return betterGap("dynprog", c, p, func(gap Gap) (*Claim, error) { return DynProgClaim(ctx, c, p, gap) })
}

// betterGap returns the better plan of the two rules for ε_G.
func betterGap(method string, c *chain.Chain, p platform.Platform, claim func(Gap) (*Claim, error)) (*plan.Plan, error) {
	var best *plan.Plan
	var failed error
	for _, gap := range [...]Gap{GapOverlap, GapSimple} {
		k, err := claim(gap)
		if err != nil {
			failed = err
			continue
		}
		x, err := view.Schedule(c, p, method, view.Choice{Offload: k.Offload})
		if err != nil {
			failed = err
			continue
		}
		if best == nil || x.Claims.Makespan < best.Claims.Makespan {
			best = x
		}
	}
	if best == nil {
		return nil, failed
	}
	return best, nil
}

// DynProgClaim returns the result of Algorithm 5 of [004] with real numbers for states, without
// states that cannot lead to a better result; type commSearch has the proof. The set is optimal, in
// the sense of Claim, up to 1e-9 of the computations, unless a layer has more than DynProgStates
// states. Then states within some distance of others are dropped too, the smallest distance that
// suffices. The possible losses add up in Claim.Within. If ctx ends, the set is the best of the
// form {ā_0..ā_k}, and Within covers that too.
//
// The errors are those of the methods. The number of states grows with the number of different sums
// of sizes. O(N · states · log states) time and, in the worst case of dominance, O(N · states²);
// O(N · states) memory.
func DynProgClaim(ctx context.Context, c *chain.Chain, p platform.Platform, gap Gap) (*Claim, error) {
	in, err := newInstance(c, p)
	if err != nil {
		return nil, err
	}
	return in.claim(ctx, gap, DynProgStates)
}

func (in *instance) claim(ctx context.Context, gap Gap, limit int) (*Claim, error) {
	if gap < GapOverlap || gap > GapPrinted {
		return nil, errGap(gap)
	}
	z := newComm(in)
	total := in.Chain.TotalTime()
	s := newSearch(z, gap, limit, plan.Tolerance*total*in.Bandwidth)
	done := s.run(ctx)
	away := s.pick(in)
	if away == nil { // only by rounding, at the minimum memory
		return nil, fmt.Errorf("offload: dynprog: no set fits in %s: %w", in.Chain.Unit.Exactly(in.Platform.Memory), plan.ErrNoPlan)
	}
	k := in.claimed(away, z.idle(away, gap))
	k.States = s.states
	k.Within = max(0, s.best-s.bound(1, &commState{})) / in.Bandwidth
	if done && s.loss <= s.gain {
		k.Within = 0
	} else if done {
		k.Within = min(k.Within, s.loss/in.Bandwidth)
	}
	return k, nil
}

// claimed returns the claim of a set with the given idle time, in bytes.
func (in *instance) claimed(away []bool, idle float64) *Claim {
	k := &Claim{Makespan: in.Chain.TotalTime() + idle/in.Bandwidth}
	for i, yes := range away {
		if yes {
			k.Offload = append(k.Offload, i)
		}
	}
	return k
}

func errGap(gap Gap) error {
	return fmt.Errorf("%w: the rule for the time between the phases is %d, it must be %d (GapOverlap), %d (GapSimple) or %d (GapPrinted)",
		ErrGap, int(gap), int(GapOverlap), int(GapSimple), int(GapPrinted))
}
