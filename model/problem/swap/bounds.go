package swap

import (
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Bounds returns lower bounds on the makespan of any plan, the best first. The errors are those of
// [New]. O(functions² + uses).
//
// The first bound is the sum of the functions, which run one at a time. The second is that of the
// transfers that memory forces, proved as follows.
//
// Let S_i and E_i be the start and end of f_i in some plan. Let A_i be the variables that f_i does
// not use, that were used before or are initially on the host or the device, and that are used
// later. While f_i runs, what it uses is on the GPU. So of A_i at least
//
//	X_i = Σ_{A_i} b_v + (what f_i uses) − M
//
// bytes are neither on the GPU nor on their way in, at its start and at its end.
//
// (1) Consider those on the host at its start. Let w(v) be the last function before f_i that wrote
// or made v. If it exists, or if v is initially on the device, a transfer out that started at
// E_w(v), or at 0, or later, has ended by S_i, since the host needs the value. The others are at
// most the sum C_i of the variables of A_i that are initially on the host and not written before
// f_i. The link carries one transfer out at a time, and those with w(v) ≥ j start at E_j or later.
// So for each j < i
//
//	S_i ≥ E_j + (X_i − C_i − Σ{b_v : v ∈ A_i \ C_i, w(v) < j}) / β,
//
// and the same with 0 for E_j and without the last sum.
//
// (2) Those on the host at its end come in by transfers that start at E_i or later and end before
// the next function that uses the variable starts. So for each j > i
//
//	S_j ≥ E_i + (X_i − Σ{b_v : v ∈ A_i, not used by f_{i+1..j}}) / β.
//
// The same holds at time 0, where X is the sum of the variables on the host.
//
// (3) S_{i+1} ≥ E_i = S_i + u_i.
//
// Each inequality states that some S is at least an earlier time plus a constant. Their minimum
// solution is found in order of i. By induction no plan has an earlier time; the bound is the last
// E.
func Bounds(s *functions.Sequence, p platform.Platform) ([]proof.Bound, error) {
	in, err := New(s, p)
	if err != nil {
		return nil, err
	}
	return in.Bounds(), nil
}

// Bounds returns the bounds of the function [Bounds].
func (in *Instance) Bounds() []proof.Bound {
	return proof.BestFirst(proof.BySearch(in.memoryBound(), "the transfers that memory forces"),
		proof.BySearch(plan.RoundDown(in.Sequence.TotalTime(), in.N), "the sum of the functions"))
}

// BestBound returns the best lower bound, seconds.
func (in *Instance) BestBound() float64 { return in.Bounds()[0].Value }

// memoryBound returns the bound of the transfers that memory forces.
func (in *Instance) memoryBound() float64 {
	n, beta := in.N, in.Platform.Bandwidth
	start := make([]float64, n) // lower bounds on S_i so far
	end := make([]float64, n+1) // E_i at i+1, 0 at 0
	// Bytes of A_i: by the next function that uses them; by the function that last wrote them plus
	// 1 (0: on the device from the start); and clean ones that no function has written and the host
	// holds.
	byNext, byWrite := make([]float64, n+1), make([]float64, n+1)
	clean, alive := 0.0, 0.0
	// written is one more than the last function that wrote v; -1: none, and the host holds v.
	written := make([]int, len(in.Size))
	move := func(v int, sign float64, next int) {
		bytes := sign * in.Size[v]
		alive += bytes
		byNext[next] += bytes
		if written[v] < 0 {
			clean += bytes
		} else {
			byWrite[written[v]] += bytes
		}
	}
	there := make([]bool, len(in.Size)) // by variable: in A_i before f_i
	fetch := make([]float64, n+1)       // bytes from the host, by first use
	for v, where := range in.Initial {
		if where == functions.Nowhere || in.Size[v] == 0 {
			continue
		}
		if where == functions.Host {
			written[v] = -1
			fetch[in.First[v]] += in.Size[v]
		}
		there[v] = true
		move(v, 1, in.First[v])
	}
	sum := 0.0
	for j := range n {
		sum += fetch[j]
		start[j] = sum / beta
	}
	for i := range n {
		for _, v := range in.Use[in.At[i]:in.At[i+1]] {
			if there[v] {
				move(v, -1, i)
			}
		}
		S := max(start[i], end[i])
		x := alive + in.Own(i) - in.Memory
		if left := x - clean; left > 0 { // (1), j at j+1
			for j := 0; j <= i && left > 0 && end[i]+left/beta > S; j++ { // E_{i-1} is the latest end
				S = max(S, end[j]+left/beta)
				left -= byWrite[j]
			}
		}
		end[i+1] = S + in.Times[i]
		if left := x; left > 0 { // (2), backwards from the last j
			for j := n - 1; j > i && left > 0; j-- {
				start[j] = max(start[j], end[i+1]+left/beta)
				left -= byNext[j]
			}
		}
		for k := in.At[i]; k < in.At[i+1]; k++ {
			v := in.Use[k]
			if in.Writes[k] {
				written[v] = i + 1
			}
			there[v] = in.Next[k] < n
			if there[v] {
				move(v, 1, in.Next[k])
			}
		}
	}
	return plan.RoundDown(end[n], 4*(n+1)) // a quotient and three sums for each function
}
