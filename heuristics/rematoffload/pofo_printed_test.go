package rematoffload

import (
	"context"
	"math"
	"slices"
	"testing"

	"workbench/model/plan"
	view "workbench/model/problem/rematoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyrematoffload "workbench/model/verify/rematoffload"
)

// printed is [004] 4.2 as it is printed, by recursion on real numbers, but for
// δ_L in the forward phase: no gradient is stored before the loss.
type printed struct {
	*instance
	only only
	c    map[[4]float64]float64
	oc   map[[5]float64]float64
}

// backward is C_Δ(s,t,A,Δ).
func (p *printed) backwardPhase(s, t int, kept, back float64) float64 {
	key := [4]float64{float64(s), float64(t), kept, back}
	if x, known := p.c[key]; known {
		return x
	}
	m, beta := p.Memory, p.Bandwidth
	needAll, needB := p.Delta[t]+p.NeedAll(s), p.NeedBackward(s)
	best := math.Inf(1)
	if all := max(needAll, needB) <= m-kept; s == t && all {
		wait := max((needAll-beta*p.UB[s]-m+kept+back)/beta, (needB-m+kept+back)/beta, 0)
		best = p.UF[s] + p.UB[s] + wait
	} else if s < t {
		if all { // Case 1
			waitB := max((needB-m+kept+back)/beta, 0)
			back1 := max(back-(p.UB[s]+waitB)*beta, 0)
			inner := p.backwardPhase(s+1, t, kept+p.Abar[s], back1)
			back2 := max(back1-inner*beta, 0)
			best = p.UF[s] + inner + p.UB[s] + waitB + max((needAll-m+kept+back2)/beta, 0)
		}
		for h := s; h < t && p.only != onlyOffload; h++ { // Case 2
			wave, fits := math.Inf(-1), true
			for k := s; k <= h; k++ {
				need := p.Delta[t] + p.A[k] + p.OC[k]
				if k > s {
					need += p.A[k-1]
				}
				fits = fits && need <= m-kept
				wave = max(wave, need-beta*(p.Until[h]-p.Until[k]))
			}
			if !fits {
				break
			}
			left := p.backwardPhase(s, h, kept, back)
			if math.IsInf(left, 1) {
				continue
			}
			back2 := max(back-left*beta, 0)
			right := p.backwardPhase(h+1, t, kept+p.A[h], back2)
			back3 := max(back2-right*beta, 0)
			best = min(best, p.Until[h]-p.Until[s-1]+left+right+max((wave-m+kept+back3)/beta, 0))
		}
	}
	p.c[key] = best
	return best
}

// forwardPhase is OC_x(s,A,Δ_F,Δ_B).
func (p *printed) forwardPhase(s int, x bool, kept, out, back float64) float64 {
	key := [5]float64{float64(2*s + index(x)), kept, out, back}
	if y, known := p.oc[key]; known {
		return y
	}
	m, beta := p.Memory, p.Bandwidth
	input := p.Input(s, x)
	best := math.Inf(1)
	after := func(t int, forward, backward float64, x, keep bool) float64 {
		f, b := forward*beta, backward*beta
		rest := math.Inf(1)
		if keep {
			rest = p.forwardPhase(t, x, kept+input, max(out-f, 0), max(back-b, 0))
		}
		if p.only != onlyRecompute {
			rest = min(rest, p.forwardPhase(t, x, kept, max(out+input-f, 0), max(back-b, 0)+input))
		}
		return forward + backward + rest
	}
	if needAll, needB := p.NeedAll(s), p.NeedBackward(s); max(needAll, needB)+input <= m-kept {
		forward := p.UF[s] + max((needAll-m+kept+out+input)/beta, 0)
		backward := p.UB[s] + max((needB-m+kept+back+input)/beta, 0)
		if s == p.N {
			best = forward + backward + (max(out-forward*beta, 0)+max(back-backward*beta, 0))/beta
		} else {
			best = after(s+1, forward, backward, true, true)
		}
	}
	for t := s; t < p.N && p.only != onlyOffload; t++ {
		wave, fits, keep := math.Inf(-1), true, true
		for k := s; k <= t; k++ {
			need := p.A[k] + p.OC[k]
			if k > s {
				need += p.A[k-1]
			}
			keep = keep && need+input <= m-kept
			fits = fits && need <= m-kept && (k > s || need+input <= m-kept)
			wave = max(wave, need-beta*(p.Until[k-1]-p.Until[s-1]))
		}
		inner := math.Inf(1)
		if fits {
			inner = p.backwardPhase(s, t, kept+input, back)
		}
		if !math.IsInf(inner, 1) {
			forward := p.Until[t] - p.Until[s-1] + max((wave-m+kept+out+input)/beta, 0)
			best = min(best, after(t+1, forward, inner, false, keep))
		}
	}
	p.oc[key] = best
	return best
}

// Where nothing is rounded, the program finds the value of the printed
// recursion; and so do those that are restricted to a pure strategy, which are
// never better.
func TestPOFOIsThePrintedRecursion(t *testing.T) {
	r := testfile.Random(t, 13, 14)
	ctx := context.Background()
	solved, better := 0, 0
	for range 1500 {
		c := random.Chain(r, 1+r.IntN(6))
		p := randomPlatform(r, c)
		p.Bandwidth = float64(1 + r.IntN(2))
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		slots := max(1, int(p.Memory))
		d, _ := newTails(ctx, in, slots, 0, math.Inf(1), tableLimit)
		var values [3]float64
		for _, which := range [...]only{both, onlyRecompute, onlyOffload} {
			q := printed{in, which, map[[4]float64]float64{}, map[[5]float64]float64{}}
			want := q.forwardPhase(1, false, 0, 0, 0)
			found, err := in.pofoWith(ctx, d, which, math.Inf(1), grids)
			got := math.Inf(1)
			if err == nil {
				got = found[0].claim
			}
			if math.Abs(got-want) > 1e-6*want || math.IsInf(got, 1) != math.IsInf(want, 1) {
				t.Fatalf("only %d: %.9g, the recursion %.9g, in %g at %g\n%+v", which, got, want, p.Memory, p.Bandwidth, c)
			}
			values[which] = got
			if err != nil {
				continue
			}
			solved++
			for _, v := range found[0].levels {
				if which == onlyRecompute && v.offload || which == onlyOffload && !v.all {
					t.Fatalf("only %d: %+v", which, found[0].levels)
				}
			}
		}
		if values[both] > min(values[onlyRecompute], values[onlyOffload])*(1+1e-9) {
			t.Fatalf("%g, alone %g and %g", values[both], values[onlyRecompute], values[onlyOffload])
		}
		if values[both] < min(values[onlyRecompute], values[onlyOffload])*(1-1e-9) {
			better++
		}
	}
	t.Log(solved, better)
	if solved < 3000 || better < 100 {
		t.Error("too few")
	}
}

// fluid is the plan of an outline in the model of Assumptions 4, in which
// transfers take and free memory byte by byte.
func (o *outline) fluid() *plan.Plan {
	in := o.in
	p := plan.New(view.Problem, "pofo, its own model", in.Chain, in.Platform)
	r, _ := view.NewProfile(in.Instance, o.steps())
	gaps := o.gaps(r)
	type transfer struct {
		gap        view.Gap
		start, end float64
	}
	// run times the steps of one phase in the order given. What moves leaves from
	// the start of step gap.from on, after: from its end on, in this order, at β.
	run := func(steps []int, need func(i int) float64, moved []transfer, after bool) (starts []float64, end float64) {
		clock, link := 0.0, 0.0
		next := 0
		starts = make([]float64, len(r.Steps))
		for _, i := range steps {
			// What is left of all that has been started by now.
			for {
				left := 0.0
				for _, m := range moved[:next] {
					left += min(max(m.end-clock, 0)*in.Bandwidth, in.Size(m.gap.Tensor))
				}
				if over := need(i) + left - in.Memory; over > 1e-9*in.Memory && left > 0 {
					clock += min(over, left) / in.Bandwidth
					continue
				}
				break
			}
			starts[i] = clock
			if after {
				clock += r.Took[i]
			}
			for next < len(moved) && moved[next].gap.From == i {
				m := &moved[next]
				m.start = max(link, clock)
				m.end = m.start + in.Size(m.gap.Tensor)/in.Bandwidth
				link = m.end
				next++
			}
			if !after {
				clock += r.Took[i]
			}
		}
		return starts, max(clock, link)
	}
	var order []int
	var out []transfer
	for i := range r.Loss {
		order = append(order, i)
	}
	slices.SortStableFunc(gaps, func(x, y view.Gap) int { return x.From - y.From })
	for _, g := range gaps {
		out = append(out, transfer{gap: g})
	}
	need := func(i int) float64 {
		x := r.During[i]
		for _, g := range gaps {
			if g.From < i && i < g.To {
				x -= in.Size(g.Tensor)
			}
		}
		return x
	}
	starts, half := run(order, need, out, false)
	var reversed []int
	var back []transfer
	for i := len(r.Steps) - 1; i >= r.Loss; i-- {
		reversed = append(reversed, i)
	}
	slices.SortStableFunc(gaps, func(x, y view.Gap) int { return y.To - x.To })
	for _, g := range gaps {
		g.From = g.To // in reversed time
		back = append(back, transfer{gap: g})
	}
	late, whole := run(reversed, need, back, true)
	whole += half
	for i, s := range r.Steps {
		op := s.Op()
		op.Start = starts[i]
		if i >= r.Loss {
			op.Start = whole - late[i] - r.Took[i]
		}
		op.End = op.Start + r.Took[i]
		p.Ops = append(p.Ops, op)
	}
	for _, kind := range [...]string{plan.OpO, plan.OpP} {
		list := out
		if kind == plan.OpP {
			list = back
		}
		for _, m := range list {
			op := plan.Op{Op: kind, Tensor: plan.TensorA, Layer: int(m.gap.Tensor >> 1), Start: m.start, End: m.end}
			if m.gap.Tensor&1 == 1 {
				op.Tensor = plan.TensorAbar
			}
			if kind == plan.OpP {
				// Prefetches end when they are needed at the latest.
				op.Start, op.End = whole-m.end, whole-m.start
			}
			p.Ops = append(p.Ops, op)
		}
	}
	return p
}

// The claim is the makespan of a plan that is valid when transfers take and free
// memory byte by byte.
func TestPOFOClaimIsReached(t *testing.T) {
	r := testfile.Random(t, 15, 16)
	ctx := context.Background()
	moved := 0
	for range 2000 {
		c := random.Chain(r, 1+r.IntN(8))
		p := randomPlatform(r, c)
		in, err := newInstance(c, p)
		if err != nil {
			t.Fatal(err)
		}
		found, err := in.pofo(ctx, 1+r.IntN(20), both)
		if err != nil {
			continue
		}
		o := found[r.IntN(len(found))] // not only of the best
		claim := o.claim
		f := o.fluid()
		report, err := verifyrematoffload.VerifyFractional(c, f)
		if err != nil {
			t.Fatal(err)
		}
		if !report.Valid() || math.Abs(report.Makespan-claim) > 1e-6*claim {
			t.Fatalf("claim %g, replay %g: %v\n%+v\n%+v\n%+v", claim, report.Makespan, report.Violations, f.Ops, o.levels, c)
		}
		if len(f.Ops) > len(o.steps()) {
			moved++
		}
	}
	t.Log(moved)
	if moved < 500 {
		t.Error("too few with transfers")
	}
}
