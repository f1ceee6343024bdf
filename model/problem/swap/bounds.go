package swap

import (
	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
)

// Bounds returns lower bounds on the makespan of any plan, the best first. The
// errors are those of the methods. O(functions² + uses).
//
// The sum of the functions: they run one at a time.
//
// That of the transfers that memory forces is proved as follows. Let S_i and E_i be
// the start and the end of f_i in some plan, and A_i the variables that f_i does not
// use and that have been used before or are initially on the host or on the device,
// and are used later. While f_i runs, what it uses is on the GPU, so of A_i at least
//
//	X_i = Σ_{A_i} b_v + (what f_i uses) − M
//
// bytes are neither on the GPU nor on their way in, at its start and at its end.
//
// (1) Of those away at its start, let w(v) be the last function before f_i that
// wrote or made v. If there is one, or if v is initially on the device, an out that
// started at E_w(v) or later, at 0 or later, ended at S_i or before: the host needs
// the value. The others are no more than the sum C_i of the variables of A_i that
// are initially on the host and not written before f_i. So for each j < i, as the
// link carries one out at a time, and those with w(v) ≥ j start at E_j or later,
//
//	S_i ≥ E_j + (X_i − C_i − Σ{b_v : v ∈ A_i \ C_i, w(v) < j}) / β,
//
// and the same with 0 for E_j and without the last sum.
//
// (2) Those away at its end come in by transfers that start at E_i or later, and
// end before the next function that uses the variable starts. So for each j > i
//
//	S_j ≥ E_i + (X_i − Σ{b_v : v ∈ A_i, not used by f_{i+1..j}}) / β.
//
// The same holds at time 0, where X is the sum of the variables on the host.
//
// (3) S_{i+1} ≥ E_i = S_i + u_i.
//
// All of these say that an S is at least some earlier one plus a number. Taking
// equality where the largest of them is reached gives the least times that
// satisfy all, by induction no later than those of any plan; the bound is the last E.
func Bounds(s *functions.Sequence, p platform.Platform) ([]proof.Bound, error) {
	in, err := New(s, p)
	if err != nil {
		return nil, err
	}
	return in.Bounds(), nil
}

// Bounds returns those of the function of this name.
func (in *Instance) Bounds() []proof.Bound {
	return proof.BestFirst(proof.BySearch(in.memoryBound(), "the transfers that memory forces"),
		proof.BySearch(plan.RoundDown(in.Sequence.TotalTime(), in.N), "the sum of the functions"))
}

// BestBound returns the best lower bound, seconds.
func (in *Instance) BestBound() float64 { return in.Bounds()[0].Value }

// memoryBound is the first bound of Bounds.
func (in *Instance) memoryBound() float64 {
	n, beta := in.N, in.Platform.Bandwidth
	start := make([]float64, n) // what is known of S_i
	end := make([]float64, n+1) // E_i at i+1, 0 at 0
	// Of A_i: bytes by the next function that uses them, by that which wrote
	// them last plus 1 (0: on the device from the start), and those that no
	// function has written and the host holds.
	byNext, byWrite := make([]float64, n+1), make([]float64, n+1)
	clean, alive := 0.0, 0.0
	// written is one more than the last function that wrote v; -1: none, and the
	// host holds it; next the next that uses it.
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
	there := make([]bool, len(in.Size)) // in A_i before f_i
	fetch := make([]float64, n+1)       // from the host, by first use
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
			for j := 0; j <= i && left > 0 && end[i]+left/beta > S; j++ { // no end is later than E_{i-1}
				S = max(S, end[j]+left/beta)
				left -= byWrite[j]
			}
		}
		end[i+1] = S + in.Times[i]
		if left := x; left > 0 { // (2), from the last one back
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
