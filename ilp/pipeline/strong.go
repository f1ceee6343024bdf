package pipeline

import (
	"workbench/ilp/formulation"
	"workbench/model/instance/chain"
	"workbench/model/milp"
	"workbench/model/platform"
)

// pipelineCuts are the groups that [Strong] adds to those of [004].
var pipelineCuts = []string{
	"load", "all loads", "load of a link", "pigeonhole", "not sent", "no cycle",
}

// Strong builds the strengthened ILP of [004] chapter 6. Its optimum is that of [Patterns]. Its patterns are the
// same, too; only columns that do not affect the pattern may differ.
//
// F_ℓ and B_ℓ share their columns z, f, σ and b, and the communications over a cut share their link columns. z
// does not distinguish processors, so that the model has no processor symmetry. Shifts are fixed where nothing is
// sent ("not sent"). Every big-M row has its own constant (tight.go). The other groups are valid inequalities,
// each of which can be left out.
//
// The model has some 17 N² columns, 5 N³ rows, half of them "no cycle", and some 20 N² others.
func Strong(c *chain.Chain, p platform.Platform, o MemoryOption) (*formulation.Program, error) {
	f, err := newPipelineStrong(c, p, o.MemoryModel)
	if err != nil {
		return nil, err
	}
	return f.program(strongName), nil
}

func newPipelineStrong(c *chain.Chain, p platform.Platform, model string) (*strongILP, error) {
	in, err := newWholePipeline(c, p, model)
	if err != nil {
		return nil, err
	}
	return newStrong(in), nil
}

// strongILP is a pipelineILP whose tasks share columns, with a big-M constant for each row and valid inequalities.
type strongILP struct{ *pipelineILP }

func newStrong(in *pipelineInstance) *strongILP {
	f := &strongILP{newColumns(strongName, in, in.horizon, in.late(in.horizon), in.n)}
	f.build()
	return f
}

// strengthen adds the groups pipelineCuts.
func (f *strongILP) strengthen() {
	f.loads()
	f.linkLoads()
	f.pigeonholes()
	f.unsent()
	f.cycles()
}

// work returns the total duration of F_s and B_s.
func (f *strongILP) work(s int) float64 { return f.d[s] + f.d[2*f.n-1-s] }

// shortest returns a lower bound on T: the average load of the processors or the largest load of a layer.
func (f *strongILP) shortest() float64 {
	least := 0.0
	for _, d := range f.d {
		least += d
	}
	least *= less / float64(min(f.platform.Processors, f.n))
	for s := range f.n {
		least = max(least, f.work(s))
	}
	return least
}

// less is a factor that weakens computed positive constants by more than their rounding error, so that no row is
// stronger than exact arithmetic allows. Rows whose constants are counts get the same slack.
const less = 1 - 0x1p-40

// loads adds that a processor does all its work in each period, T ≥ Σ_s z_{r,s} U_s, and that P processors do all
// the work, P·T ≥ Σ_s U_s.
func (f *strongILP) loads() {
	g := f.m.Group("load", "[004] 5.1.1")
	for r := range f.n {
		f.e.Reset().Add(1, f.period)
		for s := range f.n {
			f.same(-f.work(s), r, s)
		}
		g.AtLeast(&f.e, 0)
	}
	g = f.m.Group("all loads", "[004] 5.1.1")
	g.AtLeast(f.e.Reset().Add(1, f.period), f.shortest())
}

// linkLoads adds that a link carries all its communications in each period. z~ of a communication with itself is 1
// if it is sent.
func (f *strongILP) linkLoads() {
	g := f.m.Group("load of a link", "[004] 6.2.3")
	for l := range f.n - 1 {
		f.e.Reset().Add(1, f.period)
		for t := range 2*f.n - 1 {
			if t != f.n-1 {
				f.e.Add(-f.comm[t], f.zt.pair(l, t))
			}
		}
		g.AtLeast(&f.e, 0)
	}
}

// pigeonholes adds that two of any P+1 stages are on one processor. Of all N stages, at least as many pairs share
// a processor as in an even distribution (Turán). With two processors, both have a buffer at every cut.
//
// Subsets of P+1 stages are left out where there are more than N³.
func (f *strongILP) pigeonholes() {
	g := f.m.Group("pigeonhole", "ours")
	n, p := f.n, f.platform.Processors
	together := func(stages []int) {
		f.e.Reset()
		for i, s := range stages {
			for _, r := range stages[:i] {
				f.e.Add(1, f.z.pair(r, s))
			}
		}
	}
	all := make([]int, n)
	for s := range all {
		all[s] = s
	}
	q, rest := n/p, n%p
	if pairs := rest*(q+1)*q/2 + (p-rest)*q*(q-1)/2; pairs > 1 {
		together(all)
		g.AtLeast(&f.e, float64(pairs))
	}
	count := 1.0
	for i := range p + 1 {
		count *= float64(n-i) / float64(i+1)
	}
	if p < n && count <= float64(n*n*n) {
		subset := make([]int, 0, p+1)
		var grow func(next int)
		grow = func(next int) {
			if len(subset) == p+1 {
				together(subset)
				g.AtLeast(&f.e, 1)
				return
			}
			for s := next; s < n; s++ {
				subset = append(subset, s)
				grow(s + 1)
				subset = subset[:len(subset)-1]
			}
		}
		grow(0)
	}
	if p == 2 {
		for r := range n {
			for u := range 2*n - 1 {
				if u != n-1 {
					g.AtLeast(f.e.Reset().Add(1, f.b.At(r, u)).Add(-1, f.zt.pair(u, u)), 0)
				}
			}
		}
	}
}

// unsent fixes the communication between t and t+1 if both are on one processor, where its time is open. Let it be
// at the end of t; then v_t = v'_t = 0. By (6.20), t+1 is at most one period late, so v~'_t = 0. It is late if and
// only if it comes first: v~_t = w_{t+1,t}, of which "later than before" contains ≥. τ~ + T is not before the end
// of t if the communication takes no time: v'_t = 0.
func (f *strongILP) unsent() {
	g := f.m.Group("not sent", "ours")
	for t := range 2*f.n - 1 {
		for _, v := range [3]milp.Var{f.v.At(t), f.v2.At(t), f.vt2.At(t)} {
			f.e.Reset().Add(1, v)
			f.same(1, t, t+1)
			g.AtMost(&f.e, 1)
		}
		g.AtMost(f.e.Reset().Add(1, f.vt.At(t)).Add(1, f.w.At(t, t+1)), 1)
		if f.comm[t] == 0 {
			g.AtMost(f.e.Reset().Add(1, f.v2.At(t)), 0)
		}
	}
}

// cycles adds the cyclic-order inequalities. Of three tasks on one processor, w_{t,u} + w_{u,x} + w_{x,t} is 1 or
// 2, because w orders them. If exactly two share a processor it is at most 1, and otherwise 0. It is therefore at
// most 1 + z of any of the pairs.
func (f *strongILP) cycles() {
	g := f.m.Group("no cycle", "ours")
	for t := range f.d {
		for u := t + 1; u < len(f.d); u++ {
			for x := u + 1; x < len(f.d); x++ {
				for _, c := range [2][3]int{{t, u, x}, {t, x, u}} {
					f.e.Reset().Add(1, f.w.At(c[0], c[1])).Add(1, f.w.At(c[1], c[2])).Add(1, f.w.At(c[2], c[0]))
					f.same(-1, t, u)
					g.AtMost(&f.e, 1)
				}
			}
		}
	}
}
