package join

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"workbench/model/exhaustive"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyjoin "workbench/model/verify/join"
)

// states is how many states the searches of these tests visit at most.
const states = 1 << 22

// joinOf returns a join in which every operation takes a second and no
// gradient is kept.
func joinOf(branches ...int) *join.Join {
	return &join.Join{
		Name: fmt.Sprint(branches), Branches: branches, Keep: make([]bool, len(branches)),
		ForwardTime: 1, BackwardTime: 1, LossTime: 1,
	}
}

func checkJoin(t *testing.T, j *join.Join, p *plan.Plan) {
	t.Helper()
	r, err := verifyjoin.Verify(j, p)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Valid() || r.ClaimErrors != nil {
		t.Errorf("%+v %v\n%+v\n%+v", r.Violations, r.ClaimErrors, j, p.Ops)
	}
}

func TestJoinByHand(t *testing.T) {
	for _, x := range []struct {
		j     *join.Join
		slots int
		want  float64 // 0: no plan
	}{
		{joinOf(2, 3), 5, 13},
		{joinOf(2, 3), 6, 12},
		{joinOf(3, 4), 6, 18},
		{joinOf(2, 2, 3), 8, 17},
		{joinOf(0), 1, 1},
		{joinOf(0, 0), 1, 0},
		// a_0 and a_1 before the loss, after it a_0 and δ_1.
		{joinOf(1), 2, 3},
		{joinOf(1), 1, 0},
		// a_0, a_1 and a_2 before the loss.
		{joinOf(2), 3, 5},
		{joinOf(2), 2, 0},
		{joinOf(3), 4, 7},
		{joinOf(3), 3, 8},
	} {
		got, p, err := Search(x.j, x.slots, states)
		if x.want == 0 {
			if !errors.Is(err, exhaustive.ErrInfeasible) {
				t.Errorf("%v in %d slots: makespan %g, error %v; want %v", x.j.Branches, x.slots, got, err, exhaustive.ErrInfeasible)
			}
			continue
		}
		if err != nil || got != x.want {
			t.Errorf("%v in %d slots: makespan %g, %v; want %g", x.j.Branches, x.slots, got, err, x.want)
			continue
		}
		checkJoin(t, x.j, p)
	}
}

// One branch is the adjoint chain of [004] Theorem 1: Opt_0(L−1, m) + u_F + u_L.
func TestJoinTheorem1(t *testing.T) {
	const uF, uB, uL = 2, 3, 5
	var opt func(l, m int) float64
	opt = func(l, m int) float64 {
		switch {
		case l == 0:
			return uB // (1.1)
		case m == 3:
			return float64(l*(l+1)/2*uF + (l+1)*uB) // (1.2)
		}
		best := math.Inf(1)
		for i := 1; i <= l; i++ { // (1.3)
			best = min(best, float64(i*uF)+opt(l-i, m-1)+opt(i-1, m))
		}
		return best
	}
	for l := 1; l <= 9; l++ {
		for m := 3; m <= 7; m++ {
			j := joinOf(l)
			j.ForwardTime, j.BackwardTime, j.LossTime = uF, uB, uL
			got, _, err := Search(j, m, states)
			if want := opt(l-1, m) + uF + uL; err != nil || got != want {
				t.Errorf("L = %d, m = %d: %g, %v; want %g", l, m, got, err, want)
			}
		}
	}
}

// copies is a state in the words of the rules: how many copies of a_i and of
// δ_i of each branch are stored.
type copies struct{ a, delta [2][4]int8 }

// joinByRules returns the least makespan in the slots, +Inf if there is no
// plan, for up to two branches of up to three forwards. It takes every
// operation of [004] Table 1.1, sensible or not, and each B and the LOSS once.
func joinByRules(j *join.Join, slots int) float64 {
	type state struct {
		copies
		done [2][4]bool // B_i
		loss bool
	}
	var start state
	for b := range j.Branches {
		start.a[b][0] = 1
	}
	size := func(x *state) (n int) {
		for b := range x.a {
			for i := range x.a[b] {
				n += int(x.a[b][i] + x.delta[b][i])
			}
		}
		return n
	}
	cost, queue := map[state]float64{start: 0}, []state{start}
	for len(queue) > 0 { // in any order, until nothing improves
		x := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		now := cost[x]
		reach := func(y state, duration float64) {
			if max(size(&x), size(&y)) > slots {
				return
			}
			if old, ok := cost[y]; !ok || now+duration < old {
				cost[y] = now + duration
				queue = append(queue, y)
			}
		}
		all := !x.loss
		afterLoss := x
		afterLoss.loss = true
		for b, length := range j.Branches {
			for i := range length + 1 {
				if x.a[b][i] > 0 {
					y := x
					y.a[b][i]++
					reach(y, 0) // S
					y.a[b][i] -= 2
					reach(y, 0) // D
					if i < length {
						y.a[b][i+1]++
						reach(y, j.ForwardTime)
					}
				}
				if i > 0 && x.delta[b][i] > 0 && x.a[b][i-1] > 0 && !x.done[b][i] {
					y := x
					y.delta[b][i]--
					y.a[b][i-1]--
					y.delta[b][i-1]++
					y.done[b][i] = true
					reach(y, j.BackwardTime)
				}
			}
			if x.delta[b][0] > 0 && !j.Keep[b] {
				y := x
				y.delta[b][0]--
				reach(y, 0)
			}
			all = all && x.a[b][length] > 0
			afterLoss.a[b][length]--
			afterLoss.delta[b][length]++
		}
		if all {
			reach(afterLoss, j.LossTime)
		}
	}
	best := math.Inf(1)
	for x, c := range cost {
		var end copies
		ends := x.loss
		for b, length := range j.Branches {
			if j.Keep[b] {
				end.delta[b][0] = 1
			}
			for i := 1; i <= length; i++ {
				ends = ends && x.done[b][i]
			}
		}
		if ends && x.copies == end {
			best = min(best, c)
		}
	}
	return best
}

// One copy of each value is enough, and the other short cuts cost nothing.
func TestJoinLeavesNothingOut(t *testing.T) {
	r := testfile.Random(t, 4, 4)
	for range 60 {
		j := random.Join(r, 1+r.IntN(2), r.IntN(4))
		least, err := LeastSlots(j, states)
		if err != nil {
			t.Fatal(err)
		}
		for m := least - 1; m <= least+1; m++ {
			got, _, err := Search(j, m, states)
			if errors.Is(err, exhaustive.ErrInfeasible) {
				got = math.Inf(1)
			} else if err != nil {
				t.Fatal(err)
			}
			if want := joinByRules(j, m); got != want {
				t.Fatalf("%d slots: makespan %g, by the rules %g: %+v", m, got, want, j)
			}
		}
	}
}

func TestJoinRandom(t *testing.T) {
	r := testfile.Random(t, 5, 5)
	recomputed := 0
	for range 300 {
		j := random.Join(r, 1+r.IntN(3), r.IntN(8))
		least, err := LeastSlots(j, states)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := Search(j, least-1, states); !errors.Is(err, exhaustive.ErrInfeasible) {
			t.Fatalf("%d slots: %v, want %v: %+v", least-1, err, exhaustive.ErrInfeasible, j)
		}
		last := math.Inf(1)
		for m := least; ; m++ {
			makespan, p, err := Search(j, m, states)
			if err != nil {
				t.Fatal(err)
			}
			checkJoin(t, j, p)
			if makespan > last || makespan < j.TotalTime() {
				t.Fatalf("%d slots: makespan %g, with one less %g, computations %g", m, makespan, last, j.TotalTime())
			}
			if makespan > j.TotalTime() {
				recomputed++
			}
			if last = makespan; makespan == j.TotalTime() {
				break
			}
		}
	}
	if recomputed < 300 {
		t.Errorf("only %d optima recompute", recomputed)
	}
}

func TestJoinTooHard(t *testing.T) {
	nan := joinOf(1)
	nan.LossTime = math.NaN()
	keep := joinOf(1)
	keep.Keep = nil
	for name, x := range map[string]struct {
		j     *join.Join
		limit int
		want  error
	}{
		"no branch":     {joinOf(), states, exhaustive.ErrTooHard},
		"many branches": {joinOf(1, 1, 1, 1, 1, 1, 1), states, exhaustive.ErrTooHard},
		"long":          {joinOf(12, 12), states, exhaustive.ErrTooHard},
		"negative":      {joinOf(-1), states, exhaustive.ErrTooHard},
		"NaN":           {nan, states, exhaustive.ErrTooHard},
		"keep":          {keep, states, exhaustive.ErrTooHard},
		"limit":         {joinOf(3, 3), 2, exhaustive.ErrLimit},
	} {
		if _, _, err := Search(x.j, 9, x.limit); !errors.Is(err, x.want) {
			t.Errorf("%s: error %v, want %v", name, err, x.want)
		}
	}
}

func BenchmarkJoin(b *testing.B) {
	for _, branches := range [][]int{{3, 4}, {2, 2, 3}, {4, 5, 6}} {
		j := joinOf(branches...)
		least, err := LeastSlots(j, states)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(j.Name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := Search(j, least+1, states); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
