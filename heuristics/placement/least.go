// Package placement holds the methods that find offsets for buffers without a MILP solver: greedy ones, a local
// search, and a search that proves the minimum height.
package placement

import (
	"cmp"
	"context"
	"encoding/binary"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"

	"workbench/model/problem/placement"
	"workbench/model/proof"
)

// Found is the result of a search.
type Found struct {
	Offsets []int64 // nil: none within the limits
	Height  int64
	Bound   int64         // no placement is lower
	Why     []proof.Share // which argument excluded which part of the search that proved it
}

// Goal is the stopping criterion of a search.
type Goal struct {
	// Enough ends the search at a height no larger; 0: it continues to the minimum.
	Enough int64
	// Fit ends the search at a placement within the capacity: see [Method.Place].
	Fit  bool
	Seed uint64
	// Rounds is the maximum number of rounds of [Least], which makes the placement equal on every
	// machine; 0: as many as ctx allows.
	Rounds int
	// OnProgress receives every better placement or bound. It may be nil.
	OnProgress func(height, bound int64)
}

// Least searches for the minimum height and proves it, after Moffitt, "MiniMalloc: A
// Lightweight Memory Allocator for Hardware-Accelerated Machine Learning", 2023, and the
// strip packing search of Côté, Dell'Amico and Iori, 2014. Parts of the instance that no
// buffer joins are solved one by one. Every part starts from the best of all constructive
// heuristics ([constructive]). Then it is improved in rounds, each with twice the work of
// the one before: the order of first fit is repaired ([repairer]) and annealed
// ([anneal]); [tree] is searched at heights between the bound and the best placement,
// with several orders and branching rules in turn; and windows of time are searched for a
// proof that the bound is not attained there ([part.raise]). MiniMalloc decides a single
// height, that of the memory. Exponential; the constructive heuristics take O(n²).
func Least(ctx context.Context, in *placement.Instance, goal Goal) Found {
	f := Found{Offsets: make([]int64, len(in.Buffers))}
	parts := split(in, goal.Seed)
	for _, p := range parts {
		f.Bound = max(f.Bound, p.bound)
	}
	for _, p := range parts {
		p.construct(ctx, max(f.Bound, goal.Enough))
	}
	report := func() {
		f.Height, f.Bound = 0, 0
		for _, p := range parts {
			if p.bound > f.Bound {
				f.Why = p.why
			}
			f.Height, f.Bound = max(f.Height, p.height), max(f.Bound, p.bound)
		}
		if goal.OnProgress != nil {
			goal.OnProgress(f.Height, f.Bound)
		}
	}
	report()
	for round := 0; ctx.Err() == nil && (goal.Rounds == 0 || round < goal.Rounds); round++ {
		open := false
		for _, p := range parts {
			enough := max(f.Bound, goal.Enough)
			if p.height <= enough || round >= mostRounds && p.tree == nil {
				continue
			}
			open = true
			p.repair(ctx, round, enough)
			report()
			p.search(ctx, round, max(f.Bound, goal.Enough), goal.Seed)
			report()
			p.raise(ctx, round)
			report()
			p.anneal(ctx, round, max(f.Bound, goal.Enough), goal.Seed)
			report()
		}
		if !open {
			break
		}
	}
	for _, p := range parts {
		for _, same := range p.equal {
			for k, i := range same {
				f.Offsets[i] = p.offsets[p.order[k]]
			}
		}
	}
	return f
}

// constructive returns the heuristics that place each buffer once.
func constructive() []func(*placement.Instance, []int) []int64 {
	return []func(*placement.Instance, []int) []int64{FirstFit, Skyline, BestFit}
}

// part is a set of buffers whose lifetimes overlap no other buffer, as a separate instance, with all sets that are
// equal to it up to a shift in time.
type part struct {
	in      *placement.Instance
	equal   [][]int // by set: its buffers in the complete instance, sorted by lifetime and size
	order   []int   // the buffers of in, in the same order
	offsets []int64
	height  int64
	bound   int64
	why     []proof.Share // of bound
	rises   placement.Rises
	mender  *repairer // nil: repair does not help
	share   int       // its share of the placements in the first round of repairs
	tree    *tree     // nil: too large, or not needed yet
	tried   int       // attempts of the tree so far
}

// split returns the parts of an instance without offsets. O(n log n).
func split(in *placement.Instance, seed uint64) []*part {
	ends := make([]int, in.Sections) // the last section of the buffers that live in one
	for i := range in.Buffers {
		b := &in.Buffers[i]
		ends[b.First] = max(ends[b.First], b.Last)
	}
	of, sets := make([]int, in.Sections), 0
	for s, reach := 0, -1; s < in.Sections; s++ {
		if s > reach {
			sets++
		}
		of[s], reach = sets-1, max(reach, ends[s])
	}
	buffers := make([][]int, sets)
	for i := range in.Buffers {
		set := of[in.Buffers[i].First]
		buffers[set] = append(buffers[set], i)
	}
	var parts []*part
	known := map[string]*part{}
	for _, set := range buffers {
		key, sorted, order := signature(in, set)
		if p := known[key]; p != nil {
			p.equal = append(p.equal, sorted)
			continue
		}
		p := &part{in: in.Subset(set), equal: [][]int{sorted}, order: order}
		p.rises = p.in.Rises()
		p.bound = p.rises.Up(p.in.Load())
		p.mender = newRepairer(p.in, seed)
		p.share = max(1, int(float64(placings(in))*float64(len(set))/float64(len(in.Buffers))))
		known[key], parts = p, append(parts, p)
	}
	return parts
}

// signature returns a key that equal parts share, their lifetimes in sections relative to the first and their
// sizes. It also returns the buffers of a part sorted by these, and their positions in it.
func signature(in *placement.Instance, set []int) (key string, sorted, order []int) {
	order = make([]int, len(set))
	first := math.MaxInt
	for k, i := range set {
		order[k], first = k, min(first, in.Buffers[i].First)
	}
	slices.SortStableFunc(order, func(k, l int) int {
		a, b := &in.Buffers[set[k]], &in.Buffers[set[l]]
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Size, b.Size))
	})
	var text []byte
	for _, k := range order {
		b := &in.Buffers[set[k]]
		sorted = append(sorted, set[k])
		text = binary.AppendVarint(binary.AppendVarint(binary.AppendVarint(text, int64(b.First-first)), int64(b.Last-first)), b.Size)
	}
	return string(text), sorted, order
}

// construct starts the part with the best of the constructive heuristics in all usual
// orders, one after the other until one is low enough. Once ctx has ended, the first
// one remains.
func (p *part) construct(ctx context.Context, enough int64) {
	p.height = math.MaxInt64
	for _, place := range constructive() {
		for _, o := range Orders() {
			if p.offsets != nil && (ctx.Err() != nil || p.height <= max(p.bound, enough)) {
				return
			}
			if offsets := place(p.in, Sorted(p.in, o)); p.in.Height(offsets) < p.height {
				p.updateIncumbent(offsets)
			}
		}
	}
}

// firstAnneal is the first round with annealing: parts that the tree closes early need none.
const firstAnneal = 2

// anneal improves the order of first fit by a schedule of [anneal] that takes as long as a repair.
func (p *part) anneal(ctx context.Context, round int, enough int64, seed uint64) {
	if round < firstAnneal || round >= mostRounds || p.height <= max(p.bound, enough) {
		return
	}
	f := Found{Offsets: p.offsets, Height: p.height, Bound: p.bound}
	steps := min(iterations, p.share<<round/len(p.in.Buffers))
	if anneal(ctx, p.in, &f, Goal{Enough: enough, Seed: seed + uint64(round)}, steps); f.Height < p.height {
		p.updateIncumbent(f.Offsets)
	}
}

// updateIncumbent keeps offsets that are lower.
func (p *part) updateIncumbent(offsets []int64) { p.offsets, p.height = offsets, p.in.Height(offsets) }

// repair repairs the order of first fit until that helps no more; for tight instances, the tree is better.
func (p *part) repair(ctx context.Context, round int, enough int64) {
	if p.mender == nil || round >= mostRounds {
		return
	}
	if better := p.mender.improve(ctx, max(p.bound, enough), p.height, p.share<<round); better != nil {
		p.updateIncumbent(better)
	} else if round > 0 {
		p.mender = nil
	}
}

// firstNodes is the number of nodes, in addition to those of one dive, of an attempt in the first
// round; firstVisits is the number of sections and buffers that all attempts visit there.
const firstNodes, firstVisits = 500, 10_000_000

// shares are the tried heights, as inverse fractions of the distance between bound and height; 0: the bound.
var shares = []int64{0, 16, 4, 2}

// search tries heights from the bound up to the current height.
func (p *part) search(ctx context.Context, round int, enough int64, seed uint64) {
	if p.tree == nil && round == 0 {
		p.tree = newTree(p.in)
	}
	if p.tree == nil {
		return
	}
	for visits := int64(firstVisits) << min(round, 40); visits > 0; p.tried++ {
		bound := max(p.bound, min(enough, p.height-1))
		if p.height <= bound || ctx.Err() != nil {
			return
		}
		cycle := p.tried / (tries * len(shares))
		target := bound
		if share := shares[p.tried/tries%len(shares)]; share > 0 {
			target = p.rises.Up(bound + (p.height-bound)/share)
		}
		if target >= p.height {
			continue
		}
		p.tree.prepare(p.tried%tries, cycle, seed)
		nodes := int64(len(p.in.Buffers)) + firstNodes*restart(cycle)
		verdict := p.tree.run(ctx, target, nodes)
		visits -= p.tree.visits + 1
		switch verdict {
		case complete:
			offsets := make([]int64, len(p.in.Buffers))
			p.tree.offsets(offsets)
			p.updateIncumbent(offsets)
		case refuted:
			p.raiseTo(p.rises.Up(target+1), p.tree)
		}
	}
}

// raiseTo raises the bound to one that a tree has proved.
func (p *part) raiseTo(bound int64, t *tree) {
	if bound > p.bound {
		p.bound, p.why = bound, t.why.Shares()
	}
}

// restart returns the length of a cycle, relative to the first: 1, 2, then the sequence of Luby, Sinclair and
// Zuckerman (Optimal Speedup of Las Vegas Algorithms, 1993), most of whose terms are small. A dive finds what
// another misses, and failed states remain known.
func restart(cycle int) int64 {
	if cycle < 2 {
		return 1 << cycle
	}
	for k := cycle - 1; ; {
		power := bits.Len(uint(k))
		if k == 1<<power-1 {
			return 1 << (power - 1)
		}
		k -= 1<<(power-1) - 1
	}
}

// tries is the number of search strategies of a round.
const tries = int(sectionBys) * 3

// prepare chooses the rule and the order of an attempt: buffers of long lifetime,
// of large area, or of loaded sections first, from the second round on with noise.
func (t *tree) prepare(try, round int, seed uint64) {
	t.rule = sectionBy(try % int(sectionBys))
	r := rand.New(rand.NewPCG(seed, uint64(try)<<32|uint64(round)))
	for i := range t.items {
		x := &t.items[i]
		l := &t.in.Lifetimes.Buffers[x.buffer]
		length := float64(l.Upper - l.Lower)
		switch try / int(sectionBys) {
		case 0:
			t.rank[i] = length
		case 1:
			t.rank[i] = length * float64(x.size)
		case 2:
			t.rank[i] = float64(x.size)
		}
		if round > 0 {
			t.rank[i] *= 0.7 + 0.6*r.Float64()
		}
	}
}
