// Package rematoffload has the verifier of plans with offloading for chains: activation
// offloading, and rematerialization with offloading.
package rematoffload

import (
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify/replay"
)

// Verify replays p, a plan of [plan.ActivationOffload] or [plan.RematOffload], on c
// in the integral model ([004] Assumptions 1): an offload frees its tensor as a
// whole when it has ended, a prefetch reserves it as a whole from its start.
//
// Computations and discards stand in the plan in the order in which they run,
// one at a time; between them the device may idle. Transfers may stand anywhere
// among them: at their place in time, or all of them at the end. They use one
// link, one at a time in either direction, and take size/bandwidth each.
//
// Activation offloading: F_all and B of each layer once, transfers of ā_0..ā_{N-1},
// where ā_0 = a_0. F_all ℓ needs ā_{ℓ-1} and adds ā_ℓ; B_ℓ needs ā_{ℓ-1}, ā_ℓ
// and δ_ℓ, consumes ā_ℓ and δ_ℓ (B_1 also a_0) and adds δ_{ℓ-1}. Rematerialization
// with offloading: the operations of remat.Verify with D, and transfers of any
// a_ℓ or ā_ℓ; ā_0 is named a_0. In both, δ_N counts from the start of B_N on.
//
// An offload may start once its tensor is stored, and it stays usable until the
// transfer and the computations that use it have ended: those that run when the
// transfer ends, in activation offloading also F_{i+1} if it is still to come.
// Then the tensor is gone from the device; what would have consumed it before
// frees nothing earlier. A computation that can read a_{ℓ-1} or ā_{ℓ-1} uses the
// one that is not being offloaded, a_{ℓ-1} if that leaves both or none. D of what
// is being offloaded is refused. The host keeps what it has been sent until the
// end, so a second offload of it is allowed and costs its transfer. A prefetch
// needs a copy on the host and none on the device. What is stored is a set: a
// value that is computed again while it is stored, or coming, takes its space
// twice until the computation, or the prefetch, has ended.
//
// A tensor of no bytes may be transferred at any time, in no time; nothing frees
// it but what consumes it. Without transfers of anything else the bandwidth may
// be 0.
//
// Memory at an instant is what is stored or coming, and the outputs and the
// overhead of the computation that runs. Instants closer than 1e-9 of the
// makespan are simultaneous; of such, what began before ends first, then
// operations start in the order of the plan (an offload may wait until its
// tensor is there), and prefetches that take time come last. So operations that
// take no time happen one after the other, as the plan lists them.
//
// The makespan is the end of the last computation. A transfer that ends later is
// of no use, breaks no rule and does not count.
//
// After a broken rule the replay goes on as if the operation had had what it
// needs. The error wraps [plan.ErrUnreadable] where there is nothing to replay.
// O(operations · log operations + layers).
func Verify(c *chain.Chain, p *plan.Plan) (*plan.Report, error) {
	v, err := replayOffload(c, p, false)
	if err != nil {
		return nil, err
	}
	return v.Report.Converted(c.Unit, p.Unit), nil
}

// VerifyFractional replays p as [Verify] does, but counts memory in the
// model of fractional communications: OFF_comm, [004] Assumptions 3, O.7″, which
// OR.5 takes over for rematerialization with offloading. The claims of a dynamic
// program that works in that model are held against this replay.
//
// Transfers are whole operations as before: each moves its whole tensor without
// interruption, and a tensor is usable from the end of its prefetch. What differs
// is the memory while a transfer from s to e of a tensor of size x runs:
//
//   - a prefetch holds x·(t−s)/(e−s) at time t, not x;
//   - an offload holds x·(e−t)/(e−s), but x until the last computation that uses
//     the tensor while it is being sent has ended, in activation offloading also
//     F_{i+1}. What has been sent by then is freed at once.
//
// Memory is then linear between events; each is looked at from both sides. No
// plan needs more memory than in the integral model, and what is valid there is
// valid here. The makespan and all other rules are the same. (Rules that the
// program itself assumes, as that transfers are ordered, are not checked.)
//
// O(operations · log operations + layers) if transfers do not overlap.
func VerifyFractional(c *chain.Chain, p *plan.Plan) (*plan.Report, error) {
	v, err := newOffload(c, p, false)
	if err != nil {
		return nil, err
	}
	v.fractional = true
	v.run()
	return v.Report.Converted(c.Unit, p.Unit), nil
}

// Profile returns the memory in use over time, in the unit of the instance: see package
// verify.
func Profile(c *chain.Chain, p *plan.Plan) ([]replay.MemoryStep, error) {
	v, err := replayOffload(c, p, true)
	if err != nil {
		return nil, err
	}
	return v.Steps, nil
}

// Allocate replays a valid p as [Verify] does, and reports the blocks of memory that it takes and gives back: each a, ā
// and δ, and what a computation needs while it runs.
func Allocate(c *chain.Chain, p *plan.Plan, blocks replay.Blocks) error {
	v, err := newOffload(c, p, false)
	if err != nil {
		return err
	}
	v.blocks = blocks
	v.run()
	return nil
}

// kinds describes the operations of the problem, for errors.
func kinds(activation bool) string {
	if activation {
		return fmt.Sprintf("%s, %s, %s and %s", plan.OpFAll, plan.OpB, plan.OpO, plan.OpP)
	}
	return fmt.Sprintf("%s, %s, %s, %s, %s, %s and %s", plan.OpFAll, plan.OpFCk, plan.OpFNone, plan.OpB, plan.OpD, plan.OpO, plan.OpP)
}

// Summarize replays p, a plan of [plan.ActivationOffload] or [plan.RematOffload],
// and sums it up. The error is that of [Verify].
func Summarize(c *chain.Chain, p *plan.Plan) (*replay.OffloadSummary, error) {
	v, err := replayOffload(c, p, false)
	if err != nil {
		return nil, err
	}
	s := &replay.OffloadSummary{Summary: *replay.Summarize(c, c.Len(), p, v.Replay), Bandwidth: p.Unit.Bytes(p.Platform.Bandwidth)}
	all := c.Input.Activation
	for i := range c.Layers[:c.Len()-1] {
		all += c.Layers[i].Saved
	}
	s.AddTransfers(p, c.Unit.Bytes(all), func(k int) (bytes float64, meant bool) {
		return c.Unit.Bytes(v.actions[k].size), v.actions[k].Meant
	})
	return s, nil
}
