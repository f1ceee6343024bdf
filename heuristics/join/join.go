// Package join plans rematerialization of joins ([004] chapter 1): K branches of
// equal operations that meet in one loss, in a memory of unit slots.
//
// DP is Theorem 3, which is optimal; inside it is Theorem 1, its case K = 1. Both
// count forwards instead of seconds: a plan runs every backward once and the
// loss once, so that its makespan is k_F·u_F + ΣL·u_B + u_L with the fewest
// forwards k_F (Definition 6), whatever the costs are.
package join

import (
	"fmt"

	"workbench/model/instance/join"
	"workbench/model/plan"
)

// Problem is the name of the problem in plans and errors.
const Problem = plan.Join

// Limits on what is built. Beyond maxLayers a number of forwards may not fit in
// an entry of the tables (ΣL·(ΣL+1)/2 < none).
const (
	maxBytes  = 4 << 30 // of tables, and of a plan
	maxLayers = 40_000  // ΣL
	opBytes   = 128     // about the size of an operation of a plan
)

// none stands for "no schedule" in the tables. Two of them and a number of
// layers still fit in 32 bits.
const none = 1_000_000_000

// Point is one point of the trade-off: Slots slots allow a makespan of Makespan
// seconds.
type Point struct {
	Slots    int
	Makespan float64
}

// check refuses joins that no method can read.
func check(j *join.Join) error {
	if j.K() == 0 {
		return fmt.Errorf("join: %q has no branch: give at least one length", j.Name)
	}
	if len(j.Keep) != j.K() {
		return fmt.Errorf("join: %q has %d branches and %d entries of keep: give one for each", j.Name, j.K(), len(j.Keep))
	}
	total := 0
	for k, l := range j.Branches {
		if l < 0 {
			return fmt.Errorf("join: %q: branch %d has length %d: lengths are at least 0", j.Name, k+1, l)
		}
		if l > maxLayers || total+l > maxLayers {
			return fmt.Errorf("join: %q has more than %d layers: the tables of the dynamic program would not hold their numbers of forwards; "+
				"shorten the branches", j.Name, maxLayers)
		}
		total += l
	}
	for _, c := range []struct {
		name  string
		value float64
	}{{"forward_time", j.ForwardTime}, {"backward_time", j.BackwardTime}, {"loss_time", j.LossTime}} {
		if !(c.value >= 0 && c.value-c.value == 0) {
			return fmt.Errorf("join: %q: %s is %v: times are finite and at least 0", j.Name, c.name, c.value)
		}
	}
	return nil
}

// layers returns ΣL.
func layers(j *join.Join) int {
	n := 0
	for _, l := range j.Branches {
		n += l
	}
	return n
}

// makespan returns the time of a schedule with so many forwards.
func makespan(j *join.Join, forwards int) float64 {
	return float64(forwards)*j.ForwardTime + float64(layers(j))*j.BackwardTime + j.LossTime
}

// LeastSlots returns m_min of [004] Lemma 2: with fewer slots no schedule exists.
// Every branch that is not empty needs a_0 and a_L at the loss; after it one
// more slot is needed unless some branch can go on with what it has, or frees
// its δ_0. O(K).
func LeastSlots(j *join.Join) int {
	slots, spare, empty := j.K(), false, true
	for k, l := range j.Branches {
		if l > 0 {
			slots++
			empty = false
		}
		if l == 1 || l == 0 && !j.Keep[k] {
			spare = true
		}
	}
	if empty || spare {
		return slots
	}
	return slots + 1
}

// StoreAllSlots returns the least number of slots with which nothing is computed
// twice: a_0..a_L of every branch. O(K).
func StoreAllSlots(j *join.Join) int { return layers(j) + j.K() }

// infeasible is the error below m_min.
func infeasible(j *join.Join, slots int) error {
	return &plan.Infeasible{
		Problem: Problem, Memory: float64(LeastSlots(j)), Given: float64(slots),
		Why: "[004] Lemma 2, in slots: a_0 and a_L of every branch at the loss, and room for the first backward",
	}
}

// refuse is the error for tables or plans that would not fit.
func refuse(what string, bytes float64, hint string) error {
	return fmt.Errorf("join: %s would take %.3g GiB, the limit is %d GiB: %s", what, bytes/(1<<30), maxBytes>>30, hint)
}
