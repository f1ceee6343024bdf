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
// it, as far as ctx allows: [tree] at one height after the other, between the bounds
// and the best placement so far, by turns with several orders and rules of branching
// and more nodes in every round. MiniMalloc asks for one height only, that of the
// memory. Parts of the instance that no buffer joins are searched apart. Exponential;
// the greedy methods take O(n²) before.
func Least(ctx context.Context, in *placement.Instance, goal Goal) Found {
	f := Found{Offsets: Greedy(ctx, in, FirstFit)}
	f.Height, f.Bound = in.Height(f.Offsets), in.Load()
	parts := split(in, f.Offsets)
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
			if p.height <= max(f.Bound, goal.Enough) || p.tree == nil && round > 0 {
				continue
			}
			open = true
			p.improve(ctx, round, max(goal.Enough, f.Bound), goal.Seed, report)
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

// part is a set of buffers that none of the others meets.
type part struct {
	in      *placement.Instance
	buffers []int
	offsets []int64 // by place in buffers
	height  int64
	bound   int64
	grain   int64
	tree    *tree   // nil: too large for one, or not needed yet
	loads   []int64 // by section
	scratch []int64 // by buffer of the instance
}

// split returns the parts of an instance with their offsets.
func split(in *placement.Instance, offsets []int64) []*part {
	ends := make([]int, in.Sections) // the last section of what lives in one
	for i := range in.Buffers {
		b := &in.Buffers[i]
		ends[b.First] = max(ends[b.First], b.Last)
	}
	of, parts := make([]*part, in.Sections), []*part{}
	loads, grain := in.Loads(), in.Grain()
	scratch := make([]int64, len(in.Buffers))
	for s, reach := 0, -1; s < in.Sections; s++ {
		if s > reach {
			parts = append(parts, &part{in: in, grain: grain, loads: loads, scratch: scratch})
		}
		p := parts[len(parts)-1]
		of[s], reach = p, max(reach, ends[s])
		p.bound = max(p.bound, loads[s])
	}
	for i := range in.Buffers {
		p := of[in.Buffers[i].First]
		p.buffers = append(p.buffers, i)
		p.offsets = append(p.offsets, offsets[i])
		p.height = max(p.height, offsets[i]+in.Buffers[i].Size)
	}
	for _, p := range parts {
		p.bound = p.up(p.bound)
	}
	return parts
}

// up rounds to the next height that there may be.
func (p *part) up(h int64) int64 { return (h + p.grain - 1) / p.grain * p.grain }

// firstNodes is how many nodes, beside those of one dive, an attempt has in the
// first round.
const firstNodes = 500

// improve tries heights from the bound up to the height there is.
func (p *part) improve(ctx context.Context, round int, enough int64, seed uint64, report func()) {
	if p.tree == nil {
		if p.tree = newTree(p.in, p.buffers); p.tree == nil {
			return
		}
	}
	nodes := int64(len(p.buffers)) + firstNodes<<min(round, 40)
	for _, share := range []int64{0, 16, 4, 2} {
		for try := range tries {
			bound := max(p.bound, min(enough, p.height-p.grain))
			if p.height <= bound || ctx.Err() != nil {
				return
			}
			target := bound
			if share > 0 {
				target = p.up(bound + (p.height-bound)/share)
			}
			if target >= p.height {
				break
			}
			p.tree.prepare(try, round, seed)
			switch p.tree.run(ctx, target, nodes) {
			case complete:
				p.tree.offsets(p.scratch)
				p.height = 0
				for i, b := range p.buffers {
					p.offsets[i] = p.scratch[b]
					if p.in.Buffers[b].Room == 0 {
						p.offsets[i] = 0
					}
					p.height = max(p.height, p.offsets[i]+p.in.Buffers[b].Size)
				}
				report()
			case refuted:
				p.bound = max(p.bound, p.up(target+1))
				report()
			}
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
