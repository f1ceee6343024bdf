// Package placement has the methods that find offsets for buffers without a MILP
// solver: greedy ones, a local search, and a search that proves the least height.
package placement

import (
	"context"
	"math/rand/v2"

	"workbench/model/placement"
)

// Found is what a search came to.
type Found struct {
	Offsets []int64 // nil: none within the limits
	Height  int64
	Bound   int64 // no placement is lower
}

// Goal says when a search is done.
type Goal struct {
	// Enough ends the search at a height no larger; 0: it goes on to the least.
	Enough int64
	Memory int64 // that there is
	Seed   uint64
	// Rounds ends [Least] after so many, at the same placement on every machine; 0: as
	// many as ctx allows.
	Rounds int
	// OnProgress hears of every better placement or bound. It may be nil.
	OnProgress func(height, bound int64)
}

// Least is a method of our own after Moffitt, "MiniMalloc: A Lightweight Memory
// Allocator for Hardware-Accelerated Machine Learning", 2023, and the search for
// strips of Côté, Dell'Amico and Iori, 2014. It looks for the least height and proves
// it, as far as ctx allows, in rounds, each with twice the work of the one before: the
// order of first fit is repaired ([repairer]); [tree] is searched at one height after the other,
// between the bounds and the best placement so far, by turns with several orders and rules
// of branching; and windows of time are searched for a proof that the bound is not met there
// ([part.raise]). MiniMalloc asks for one height only, that of the
// memory. Parts of the instance that no buffer joins are searched apart. Exponential;
// the greedy methods take O(n²) before.
func Least(ctx context.Context, in *placement.Instance, goal Goal) Found {
	f := Found{Offsets: start(ctx, in)}
	parts := split(in, f.Offsets, goal.Seed)
	report := func() {
		f.Height, f.Bound = 0, 0
		for _, p := range parts {
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
		}
		if !open {
			break
		}
	}
	for _, p := range parts {
		for i, b := range p.buffers {
			f.Offsets[b] = p.offsets[i]
		}
	}
	return f
}

// mostSkyline is up to how many buffers the skyline is tried, too.
const mostSkyline = 5_000

// start returns the lower of first fit and the skyline.
func start(ctx context.Context, in *placement.Instance) []int64 {
	offsets := Greedy(ctx, in, FirstFit)
	if len(in.Buffers) > mostSkyline || in.Height(offsets) <= in.Load() {
		return offsets
	}
	if other := Greedy(ctx, in, Skyline); in.Height(other) < in.Height(offsets) {
		return other
	}
	return offsets
}

// part is a set of buffers that none of the others meets, an instance of its own.
type part struct {
	in      *placement.Instance
	buffers []int // in the whole
	offsets []int64
	height  int64
	bound   int64
	rises   placement.Rises
	mender  *repairer // nil: it does not help
	share   int       // of the placings of the whole, of what is repaired in the first round
	tree    *tree     // nil: too large for one, or not needed yet
	tried   int       // attempts of the tree so far
}

// split returns the parts of an instance with their offsets.
func split(in *placement.Instance, offsets []int64, seed uint64) []*part {
	ends := make([]int, in.Sections) // the last section of what lives in one
	for i := range in.Buffers {
		b := &in.Buffers[i]
		ends[b.First] = max(ends[b.First], b.Last)
	}
	of, parts := make([]*part, in.Sections), []*part{}
	for s, reach := 0, -1; s < in.Sections; s++ {
		if s > reach {
			parts = append(parts, &part{})
		}
		of[s], reach = parts[len(parts)-1], max(reach, ends[s])
	}
	for i := range in.Buffers {
		p := of[in.Buffers[i].First]
		p.buffers = append(p.buffers, i)
		p.offsets = append(p.offsets, offsets[i])
	}
	for _, p := range parts {
		p.in = in.Of(p.buffers)
		p.height, p.rises = p.in.Height(p.offsets), p.in.Rises()
		p.bound = p.rises.Up(p.in.Load())
		p.mender = newRepairer(p.in, seed)
		p.share = max(1, int(float64(placings(in))*float64(len(p.buffers))/float64(len(in.Buffers))))
	}
	return parts
}

// take keeps offsets that are lower.
func (p *part) take(offsets []int64) { p.offsets, p.height = offsets, p.in.Height(offsets) }

// repair mends the order of first fit, until that helps no more: where nothing is to spare, the
// tree is better.
func (p *part) repair(ctx context.Context, round int, enough int64) {
	if p.mender == nil || round >= mostRounds {
		return
	}
	if better := p.mender.improve(ctx, max(p.bound, enough), p.height, p.share<<round); better != nil {
		p.take(better)
	} else if round > 0 {
		p.mender = nil
	}
}

// firstNodes is how many nodes, beside those of one dive, an attempt has in the
// first round; firstVisits how many sections and buffers all attempts look at there.
const firstNodes, firstVisits = 500, 10_000_000

// shares of what lies between bound and height, upside down, are the heights that are tried.
var shares = []int64{0, 16, 4, 2}

// search tries heights from the bound up to the height there is.
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
		nodes := int64(len(p.buffers)) + firstNodes<<min(cycle, 40)
		verdict := p.tree.run(ctx, target, nodes)
		visits -= p.tree.visits + 1
		switch verdict {
		case complete:
			offsets := make([]int64, len(p.buffers))
			p.tree.offsets(offsets)
			p.take(offsets)
		case refuted:
			p.bound = max(p.bound, p.rises.Up(target+1))
		}
	}
}

// tries is how many ways there are to search in a round.
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
