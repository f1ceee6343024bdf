package join

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	optimumjoin "workbench/model/exhaustive/join"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyjoin "workbench/model/verify/join"
)

// unit returns a join in which every cost is 1 and keep is the same for all.
func unit(keep bool, lengths ...int) *join.Join {
	j := &join.Join{
		Name: fmt.Sprint(lengths), Branches: lengths, Keep: make([]bool, len(lengths)), ForwardTime: 1, BackwardTime: 1,
		LossTime: 1,
	}
	for k := range j.Keep {
		j.Keep[k] = keep
	}
	return j
}

// verify fails the test unless the plan passes the verifier with its claims.
func verify(t *testing.T, j *join.Join, p *plan.Plan) *plan.Report {
	t.Helper()
	r, err := verifyjoin.Verify(j, p)
	if err != nil {
		t.Fatalf("%v keep %v m=%v: %v", j.Branches, j.Keep, p.Platform.Memory, err)
	}
	if !r.Valid() || len(r.ClaimErrors) > 0 {
		t.Fatalf("%v keep %v m=%v: %s: %v %v", j.Branches, j.Keep, p.Platform.Memory, p.Method, r.Violations, r.ClaimErrors)
	}
	return r
}

func dp(t *testing.T, j *join.Join, slots int) *plan.Plan {
	t.Helper()
	p, err := DP(context.Background(), j, slots)
	if err != nil {
		t.Fatalf("%v keep %v m=%d: %v", j.Branches, j.Keep, slots, err)
	}
	return p
}

// The values of exhaustive search known beforehand.
func TestKnownValues(t *testing.T) {
	for _, v := range []struct {
		lengths []int
		slots   int
		want    float64
	}{
		{[]int{2, 3}, 5, 13},
		{[]int{2, 3}, 6, 12},
		{[]int{3, 4}, 6, 18},
		{[]int{2, 2, 3}, 8, 17},
		{[]int{4, 10, 12}, 9, 74},
	} {
		j := unit(false, v.lengths...)
		p := dp(t, j, v.slots)
		if r := verify(t, j, p); r.Makespan != v.want {
			t.Errorf("%v, m = %d: %v, want %v", v.lengths, v.slots, r.Makespan, v.want)
		}
	}
}

// The toy example of [004] 1.2.1: the first decision printed there, (9, 3), is
// not optimal.
func TestToyExample(t *testing.T) {
	c, err := DPCurve(context.Background(), unit(false, 4, 10, 12))
	if err != nil {
		t.Fatal(err)
	}
	const m = 9
	var optimal []string
	printed := 0
	for k, l := range c.j.Branches {
		for i := 1; i <= l; i++ {
			forwards := i + int(c.row(c.states - 1 - i*c.stride[k])[m-1-3]) + int(c.rev.row(i - 1)[m])
			switch makespan := forwards + 26 + 1; {
			case makespan == 74:
				optimal = append(optimal, fmt.Sprintf("(%d,%d)", i, k+1))
			case i == 9 && k == 2:
				printed = makespan
			}
		}
	}
	if got := strings.Join(optimal, " "); got != "(8,2) (7,3) (8,3)" {
		t.Errorf("optimal first decisions %s, want (8,2) (7,3) (8,3)", got)
	}
	if printed != 75 {
		t.Errorf("first decision (9,3) gives %d, want 75", printed)
	}
}

// all calls f on every join of at most three branches, ΣL ≤ total, every b.
func all(total int, f func(*join.Join)) {
	for K := 1; K <= 3; K++ {
		lengths := make([]int, K)
		var rec func(k, left int)
		rec = func(k, left int) {
			if k == K {
				for b := range 1 << K {
					j := unit(false, slices.Clone(lengths)...)
					for i := range K {
						j.Keep[i] = b>>i&1 == 1
					}
					f(j)
				}
				return
			}
			for l := 0; l <= left; l++ {
				lengths[k] = l
				rec(k+1, left-l)
			}
		}
		rec(0, total)
	}
}

// Theorem 3 and Lemma 2 against the search over all states.
func TestExhaustive(t *testing.T) {
	costs := [][3]float64{{1, 1, 1}, {1, 0, 2}, {3, 2, 0}, {0, 1, 1}}
	total, cases := 7, 0
	if testing.Short() {
		total = 6
	}
	all(total, func(j *join.Join) {
		least := LeastSlots(j)
		if _, err := DP(context.Background(), j, least-1); !isInfeasible(err, least) {
			t.Fatalf("%v keep %v, m = %d: %v", j.Branches, j.Keep, least-1, err)
		}
		if want, err := optimumjoin.LeastSlots(j, 1<<22); err != nil || want != least {
			t.Fatalf("%v keep %v: m_min = %d, the search needs %d slots (%v)", j.Branches, j.Keep, least, want, err)
		}
		c := costs[cases%len(costs)]
		j.ForwardTime, j.BackwardTime, j.LossTime = c[0], c[1], c[2]
		for m := least; m <= least+3; m++ {
			cases++
			p := dp(t, j, m)
			r := verify(t, j, p)
			want, _, err := optimumjoin.Search(j, m, 1<<22)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(r.Makespan-want) > 1e-9 {
				t.Fatalf("%v keep %v costs %v m = %d: DP %v, optimum %v", j.Branches, j.Keep, c, m, r.Makespan, want)
			}
		}
	})
	t.Logf("%d cases", cases)
}

func isInfeasible(err error, least int) bool {
	var inf *plan.Infeasible
	return errors.As(err, &inf) && (least < 0 || inf.Memory == float64(least))
}

// Larger random joins: what the curve says is what its plans take, the curve
// does not increase and ends at Σu, and the order of branches does not matter.
func TestCurve(t *testing.T) {
	r := testfile.Random(t, 1, 2)
	for range 60 {
		j := random.Join(r, 1+r.IntN(4), r.IntN(15))
		c, err := DPCurve(context.Background(), j)
		if err != nil {
			t.Fatal(err)
		}
		points := c.Points()
		if points[0].Slots != LeastSlots(j) || points[len(points)-1].Slots != StoreAllSlots(j) {
			t.Fatalf("%v: curve from %d to %d slots, want %d to %d", j.Branches, points[0].Slots, points[len(points)-1].Slots, LeastSlots(j),
				StoreAllSlots(j))
		}
		turned := *j
		turned.Branches, turned.Keep = slices.Clone(j.Branches), slices.Clone(j.Keep)
		slices.Reverse(turned.Branches)
		slices.Reverse(turned.Keep)
		for i, pt := range points {
			p, err := c.Plan(pt.Slots)
			if err != nil {
				t.Fatal(err)
			}
			if got := verify(t, j, p).Makespan; got != pt.Makespan {
				t.Fatalf("%v m=%d: the plan takes %v, the curve says %v", j.Branches, pt.Slots, got, pt.Makespan)
			}
			if i > 0 && pt.Makespan > points[i-1].Makespan {
				t.Fatalf("%v: the curve rises at %d slots", j.Branches, pt.Slots)
			}
			for _, other := range []*plan.Plan{dp(t, j, pt.Slots), dp(t, &turned, pt.Slots)} {
				if other.Claims.Makespan != pt.Makespan {
					t.Fatalf("%v m=%d: DP %v, curve %v", j.Branches, pt.Slots, other.Claims.Makespan, pt.Makespan)
				}
			}
		}
		if want := makespan(j, layers(j)); points[len(points)-1].Makespan != want {
			t.Fatalf("%v: store-all takes %v, Σu is %v", j.Branches, points[len(points)-1].Makespan, want)
		}
		if _, err := c.Plan(LeastSlots(j) - 1); !isInfeasible(err, LeastSlots(j)) {
			t.Fatalf("below m_min: %v", err)
		}
		if p, err := c.Plan(StoreAllSlots(j) + 7); err != nil || p.Platform.Memory != float64(StoreAllSlots(j)+7) {
			t.Fatalf("more slots than store-all: %v, %v", p, err)
		}
	}
}

// Theorem 3 as its remark would compute it, with b sorted and an index of the
// table, written without the program's tables.
type sortedKey struct {
	lengths [4]int
	ones    int // b is 1 for so many first branches
	m       int
}

type sorted struct {
	K    int
	memo map[sortedKey]int
	opt0 map[[2]int]int
}

func (s *sorted) adjchain(l, m int) int {
	switch {
	case m < 2 || l > 0 && m < 3:
		return none
	case l == 0:
		return 0
	case m == 3: // (1.2)
		return l * (l + 1) / 2
	}
	key := [2]int{l, m}
	if v, ok := s.opt0[key]; ok {
		return v
	}
	best := none
	for i := 1; i <= l; i++ {
		best = min(best, i+s.adjchain(l-i, m-1)+s.adjchain(i-1, m))
	}
	s.opt0[key] = best
	return best
}

func (s *sorted) solve(key sortedKey) int {
	L := key.lengths[:s.K]
	// The loss needs a slot for each branch; (1.4) does the rest of Lemma 2.
	if key.m < s.K {
		return none
	}
	if slices.Max(L) == 0 {
		return 0
	}
	slices.SortFunc(L[:key.ones], func(a, b int) int { return b - a })
	slices.SortFunc(L[key.ones:], func(a, b int) int { return b - a })
	if v, ok := s.memo[key]; ok {
		return v
	}
	best := none
	for k := range L {
		b := 0
		if k < key.ones {
			b = 1
		}
		for i := 1; i <= L[k]; i++ {
			next := sortedKey{lengths: key.lengths, ones: key.ones + 1 - b, m: key.m - 1}
			next.lengths[k] -= i
			if b == 0 { // move the branch to those with b = 1
				n := next.lengths[:s.K]
				n[k], n[key.ones] = n[key.ones], n[k]
			}
			if rest := s.solve(next); rest < none {
				best = min(best, i+rest+s.adjchain(i-1, key.m-(key.ones-b)))
			}
		}
	}
	s.memo[key] = best
	return best
}

func TestSortedB(t *testing.T) {
	r := testfile.Random(t, 3, 4)
	for range 40 {
		K := 1 + r.IntN(4)
		j := unit(false, make([]int, K)...)
		for k := range K {
			j.Branches[k], j.Keep[k] = r.IntN(8-K), r.IntN(2) == 0
		}
		s := &sorted{K: K, memo: map[sortedKey]int{}, opt0: map[[2]int]int{}}
		key := sortedKey{}
		at, end := 0, K
		for k, l := range j.Branches {
			if j.Keep[k] {
				key.lengths[at] = l
				at++
			} else {
				end--
				key.lengths[end] = l
			}
		}
		key.ones = at
		c, err := DPCurve(context.Background(), j)
		if err != nil {
			t.Fatal(err)
		}
		for m := K; m <= StoreAllSlots(j); m++ {
			key.m = m
			if got, want := int(c.row(c.states - 1)[m-K]), s.solve(key); got != want {
				t.Fatalf("%v keep %v m = %d: %d forwards, with b sorted %d", j.Branches, j.Keep, m, got, want)
			}
			if finite := s.solve(key) < none; finite != (m >= LeastSlots(j)) {
				t.Fatalf("%v keep %v m = %d: finite %v, m_min %d", j.Branches, j.Keep, m, finite, LeastSlots(j))
			}
		}
	}
}

// K = 1: Theorem 3 is Theorem 1, and both are the closed form of Griewank and
// Walther.
func TestRevolve(t *testing.T) {
	ctx := context.Background()
	for l := range 40 {
		for _, keep := range []bool{false, true} {
			j := unit(keep, l)
			c, err := DPCurve(ctx, j)
			if err != nil {
				t.Fatal(err)
			}
			for _, pt := range c.Points() {
				p, err := Revolve(ctx, j, pt.Slots)
				if err != nil {
					t.Fatal(err)
				}
				if got := verify(t, j, p).Makespan; got != pt.Makespan {
					t.Fatalf("L = %d, m = %d: Revolve %v, Theorem 3 %v", l, pt.Slots, got, pt.Makespan)
				}
				if l == 0 {
					continue
				}
				if want := makespan(j, 1+closedForm(l-1, pt.Slots)); pt.Makespan != want {
					t.Fatalf("L = %d, m = %d: %v, closed form %v", l, pt.Slots, pt.Makespan, want)
				}
			}
			if _, err := Revolve(ctx, j, LeastSlots(j)-1); !isInfeasible(err, LeastSlots(j)) {
				t.Fatalf("L = %d: below m_min: %v", l, err)
			}
		}
	}
}

// closedForm is Opt_0(ℓ, m) for u_F = 1 and u_B = 0 by Griewank and Walther: n =
// ℓ+1 backwards with s = m-2 checkpoints, a_0 among them, take
// r·n - C(s+r, r-1) forwards, r being the least with C(s+r, s) ≥ n.
func closedForm(l, m int) int {
	if l == 0 {
		return 0
	}
	n, s := l+1, m-2
	binomial := func(a, b int) int {
		v := 1
		for i := 1; i <= b; i++ {
			v = v * (a - b + i) / i
		}
		return v
	}
	r := 0
	for binomial(s+r, s) < n {
		r++
	}
	return r*n - binomial(s+r, r-1)
}

// [004] 1.4: halving the memory costs about 25 % of time, and m_min+2 slots less
// than double it.
func TestHalfTheMemory(t *testing.T) {
	for _, L := range []int{5, 10, 15} {
		for _, v := range []struct {
			name    string
			lengths []int
		}{{"CM", []int{L, 5 * L}}, {"SNN", []int{2 * L, 2 * L, 2 * L}}, {"RNN", []int{6 * L}}} {
			j := unit(false, v.lengths...)
			c, err := DPCurve(context.Background(), j)
			if err != nil {
				t.Fatal(err)
			}
			span := float64(12*L + 1)
			points := c.Points()
			if got := points[len(points)-1]; got.Makespan != span || points[len(points)-2].Makespan == span {
				t.Errorf("%s L = %d: Span* = %v is first reached elsewhere than with %d slots", v.name, L, span, got.Slots)
			}
			half := StoreAllSlots(j) / 2
			at := func(m int) float64 { return points[m-points[0].Slots].Makespan / span }
			t.Logf("%s L = %d: %d of %d slots: %.3f Span*; m_min = %d: %.3f, m_min+2: %.3f", v.name, L, half, StoreAllSlots(j), at(half),
				points[0].Slots, at(points[0].Slots), at(points[0].Slots+2))
			if x := at(half); x < 1.15 || x > 1.35 {
				t.Errorf("%s L = %d: half the slots take %.3f Span*", v.name, L, x)
			}
		}
	}
}

// The variants differ where they should: b = ∅ is never slower than b = δ, and
// sometimes faster.
func TestVariants(t *testing.T) {
	faster := false
	for m := 7; m < 12; m++ {
		none, delta := dp(t, unit(false, 4, 5, 5), m), dp(t, unit(true, 4, 5, 5), m)
		if none.Claims.Makespan > delta.Claims.Makespan {
			t.Errorf("m = %d: ∅ takes %v, δ %v", m, none.Claims.Makespan, delta.Claims.Makespan)
		}
		faster = faster || none.Claims.Makespan < delta.Claims.Makespan
	}
	if !faster {
		t.Error("∅ is never faster than δ")
	}
}

func TestBadInput(t *testing.T) {
	ctx := context.Background()
	cancelled, cancel := context.WithCancel(ctx)
	cancel()
	for _, v := range []struct {
		name string
		ctx  context.Context
		j    *join.Join
		m    int
		want string
	}{
		{"no branch", ctx, unit(false), 3, "no branch"},
		{"negative", ctx, unit(false, 2, -1), 3, "branch 2 has length -1"},
		{"too long", ctx, unit(false, 1_000_000), 10, "more than 40000 layers"},
		{"too long together", ctx, unit(false, math.MaxInt, math.MaxInt), 10, "more than 40000 layers"},
		{"table", ctx, unit(false, 300, 300, 300), 300, "GiB"},
		{"schedule", ctx, unit(false, 8_000), 3, "the schedule would take"},
		{"keep", ctx, &join.Join{Branches: []int{1, 2}}, 5, "2 branches and 0 entries of keep"},
		{"time", ctx, &join.Join{Branches: []int{1}, Keep: []bool{true}, ForwardTime: math.NaN()}, 5, "forward_time is NaN"},
		{"cancelled", cancelled, unit(false, 3, 3), 7, "canceled"},
		{"no slots", ctx, unit(false, 3, 3), 0, "at least 5 "},
	} {
		_, err := DP(v.ctx, v.j, v.m)
		if err == nil || !strings.Contains(err.Error(), v.want) {
			t.Errorf("%s: %v, want %q", v.name, err, v.want)
		}
	}
	if _, err := Revolve(ctx, unit(false, 1, 2), 9); err == nil || !strings.Contains(err.Error(), "2 branches") {
		t.Errorf("Revolve of two branches: %v", err)
	}
	if _, err := DP(cancelled, unit(false, 3, 3), 7); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("cancelled: %v, want ErrNoPlan", err)
	}
}

func BenchmarkDPCurve(b *testing.B) {
	for _, lengths := range [][]int{{90}, {15, 75}, {30, 30, 30}, {60, 60, 60}, {16, 16, 16, 16}} {
		b.Run(strings.ReplaceAll(fmt.Sprint(lengths), " ", ","), func(b *testing.B) {
			for b.Loop() {
				if _, err := DPCurve(context.Background(), unit(false, lengths...)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRevolve(b *testing.B) {
	j := unit(false, 1000)
	for b.Loop() {
		if _, err := Revolve(context.Background(), j, 40); err != nil {
			b.Fatal(err)
		}
	}
}
