package rematgraph

import (
	"cmp"
	"fmt"
	"slices"

	"workbench/model/instance/training"
	"workbench/model/problem/rematgraph"
)

// Repeated is a training step with consecutive blocks of nodes that differ at most in their times,
// such as the layers of a transformer, and the same step with fewer blocks. A schedule of the short
// step determines one for all blocks: see [Repeated.Unroll].
//
// In torchtitan's solver (auto_sac_offload_solver.py) and in the notes on equal layers of
// Korthikanti et al. (MLSys 2023) every block gets the same plan. Here blocks are divided into
// about a dozen classes by their position in the network, each with its own plan.
type Repeated struct {
	Short *rematgraph.View
	v     *rematgraph.View
	runs  [2]run
	place []place // by node of v
	node  []int   // node of v → of Short, -1: its block was left out
	value []int   // the same of values
	class []int   // block → its class
	stand []int   // class → the block that stands for it in Short
}

// run is a sequence of count consecutive blocks of length nodes each. Blocks of the backward, that
// of the last forward block first, count down.
type run struct{ first, length, count int }

// nodeOf returns the k-th node of a block of run number which.
func (r *Repeated) nodeOf(which, block, k int) int {
	x := r.runs[which]
	if which == 1 {
		block = x.count - 1 - block
	}
	return x.first + block*x.length + k
}

// A place is where a node is: the k-th of a block of run which, or in none, -1.
type place struct{ which, block, k int }

// Limits: the minimum number of blocks of a run, the maximum number of blocks of Short, and the
// number of blocks at each end that form their own class, which is also the maximum distance of a
// read.
const (
	fewestBlocks = 6
	mostClasses  = 12
	ends         = 2
)

// Repeat returns the longest run of equal blocks among the leading forward nodes of v with the
// corresponding run after it; nil if there are none. O(n²).
func Repeat(v *rematgraph.View) *Repeated {
	kinds := kindsOf(v)
	split := 0
	for split < v.N && v.Graph.Nodes[split].Phase == training.Forward {
		split++
	}
	f, b := longest(kinds[:split]), longest(kinds[split:])
	count := min(f.count, b.count)
	if count < fewestBlocks {
		return nil
	}
	b.first += split
	// If one run has more blocks, the additional ones may be at its start or at its end.
	for _, skip := range []int{0, f.count - count, b.count - count} {
		for _, first := range [][2]int{{min(skip, f.count-count), 0}, {0, min(skip, b.count-count)}} {
			r := &Repeated{v: v, runs: [2]run{
				{f.first + first[0]*f.length, f.length, count}, {b.first + first[1]*b.length, b.length, count},
			}}
			r.locate()
			if r.uniform() && r.shorten() {
				return r
			}
		}
	}
	return nil
}

// kindsOf numbers nodes such that those of equal numbers differ in their times, their operations and
// in what they read at most.
func kindsOf(v *rematgraph.View) []int {
	kinds, number := make([]int, v.N), map[string]int{}
	for j := range kinds {
		x := &v.Graph.Nodes[j]
		key := fmt.Sprint(x.Phase, x.Workspace, v.Once[j], v.Until[j] == v.N, len(v.Pred[j]), len(x.Mutates))
		for _, i := range v.Writes[j] {
			key += fmt.Sprint(" ", v.Memory[i], v.Result[i], v.Pinned[i])
		}
		if _, known := number[key]; !known {
			number[key] = len(number)
		}
		kinds[j] = number[key]
	}
	return kinds
}

// longest returns the run of equal blocks that covers most, of equal ones that of the
// shortest blocks. O(n²/fewestBlocks).
func longest(kinds []int) (best run) {
	for length := 1; length*fewestBlocks <= len(kinds); length++ {
		same := 0
		for j := length; j <= len(kinds); j++ {
			if j < len(kinds) && kinds[j] == kinds[j-length] {
				same++
				continue
			}
			if x := (run{j - length - same, length, (same + length) / length}); x.count >= fewestBlocks &&
				x.count*x.length > best.count*best.length {
				best = x
			}
			same = 0
		}
	}
	return best
}

// locate notes the places of all nodes, and classes of blocks.
func (r *Repeated) locate() {
	r.place = slices.Repeat([]place{{which: -1}}, r.v.N)
	for which, x := range r.runs {
		for block := range x.count {
			for k := range x.length {
				r.place[r.nodeOf(which, block, k)] = place{which, block, k}
			}
		}
	}
	count := r.runs[0].count
	middle := min(mostClasses, max(2*ends+1, count/2)) - 2*ends
	members := make([][]int, 2*ends+middle)
	for block := range count {
		c := block
		switch {
		case block >= count-ends:
			c = block - count + len(members)
		case block >= ends:
			c = ends + (block-ends)*middle/(count-2*ends)
		}
		r.class, members[c] = append(r.class, c), append(members[c], block)
	}
	for _, blocks := range members {
		r.stand = append(r.stand, blocks[len(blocks)/2])
	}
}

// source is what a node reads: the value-th output of the node at a place. Its block is relative to
// that of the reader if that is in one. Outside blocks it is the value number.
type source struct {
	place
	value int
}

// sources lists what node j reads.
func (r *Repeated) sources(j int) (list []source) {
	for _, i := range r.v.Pred[j] {
		w := r.v.Writer[i]
		x := source{r.place[w], i}
		if x.which >= 0 {
			x.value -= r.v.Writes[w][0]
			if r.place[j].which >= 0 {
				x.block -= r.place[j].block
			}
		}
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b source) int {
		return cmp.Or(cmp.Compare(a.which, b.which), cmp.Compare(a.block, b.block), cmp.Compare(a.k, b.k), cmp.Compare(a.value, b.value))
	})
	return list
}

// inner reports whether a block is not among those at the ends.
func (r *Repeated) inner(block int) bool {
	return block >= ends && block < len(r.class)-ends
}

// uniform reports whether corresponding nodes of all inner blocks read the same sources, no block
// reads from further away than ends, and no other node reads from inner blocks.
func (r *Repeated) uniform() bool {
	for j, p := range r.place {
		from := r.sources(j)
		for _, x := range from {
			if x.which >= 0 && (p.which < 0 && r.inner(x.block) || p.which >= 0 && max(x.block, -x.block) > ends) {
				return false
			}
		}
		if p.which >= 0 && r.inner(p.block) && !slices.Equal(from, r.sources(r.nodeOf(p.which, ends, p.k))) {
			return false
		}
	}
	return true
}

// shorten makes Short: the nodes of no block, and those of the blocks that stand for a class.
// It reports whether that is a training step.
func (r *Repeated) shorten() bool {
	v, g := r.v, r.v.Graph
	short := &training.Graph{Name: g.Name, Samples: g.Samples, Input: g.Input, Unit: g.Unit}
	storage := make([]int, len(g.Storages)) // of g → of short
	r.node, r.value = slices.Repeat([]int{-1}, v.N), slices.Repeat([]int{-1}, v.M)
	for s := range g.Storages {
		if g.Storages[s].Resident {
			storage[s] = len(short.Storages)
			short.Storages = append(short.Storages, g.Storages[s])
		}
	}
	writer, values := g.Writers(), 0
	for j := range v.N {
		p := r.place[j]
		if p.which >= 0 && r.stand[r.class[p.block]] != p.block {
			continue
		}
		n := g.Nodes[j]
		n.Reads, n.Writes, n.Mutates = slices.Clone(n.Reads), slices.Clone(n.Writes), slices.Clone(n.Mutates)
		for k, s := range n.Reads {
			if !g.Storages[s].Resident {
				s = r.standing(p, writer[s], s)
			}
			n.Reads[k] = storage[s]
		}
		for k, s := range n.Writes {
			storage[s] = len(short.Storages)
			short.Storages = append(short.Storages, g.Storages[s])
			n.Writes[k] = storage[s]
		}
		for k, s := range n.Mutates {
			n.Mutates[k] = storage[s]
		}
		for _, i := range v.Writes[j] {
			r.value[i] = values
			values++
		}
		r.node[j] = len(short.Nodes)
		short.Nodes = append(short.Nodes, n)
	}
	var err error
	r.Short, err = rematgraph.New(short)
	return err == nil
}

// standing returns the storage that a node at p reads in Short in the place of s, which node j
// writes.
func (r *Repeated) standing(p place, j, s int) int {
	q := r.place[j]
	if p.which < 0 || q.which < 0 {
		return s
	}
	class := r.class[p.block] + q.block - p.block
	k := slices.Index(r.v.Graph.Nodes[j].Writes, s)
	return r.v.Graph.Nodes[r.nodeOf(q.which, r.stand[class], q.k)].Writes[k]
}

// Unroll makes a schedule of all blocks of one of Short. Whether a value is retained into a
// stage is taken from the blocks that stand for the classes of both; of blocks up to two
// apart from blocks of the same distance, of others from such that are apart further. The schedule is
// complete, and its memory about that of x and what the blocks that were left out keep.
// O(values · stages in which they are alive).
func (r *Repeated) Unroll(x *rematgraph.Schedule) *rematgraph.Schedule {
	s := r.v.New()
	var alive []int
	for t := range r.v.N { // rows of S one after the other: columns are far apart
		alive = slices.DeleteFunc(alive, func(i int) bool { return r.v.End(i) < t })
		block, stage, shift := place{which: -1}, 0, 0
		for _, i := range alive {
			j := r.v.Writer[i]
			if q := r.place[j]; q.which < 0 || q.which != block.which || q.block != block.block {
				var value int
				stage, value = r.like(t, i, j)
				block, shift = q, value-i // the same for all values of a block
			}
			if x.Retained(stage, i+shift) {
				s.Retain(t, i, true)
			}
		}
		alive = append(alive, r.v.Writes[t]...)
	}
	s.Complete()
	return s
}

// like returns the stage and the value of Short that stand for stage t and value i of node j.
func (r *Repeated) like(t, i, j int) (stage, value int) {
	p, q := r.place[t], r.place[j]
	switch {
	case p.which >= 0 && q.which >= 0:
		p.block, q.block = r.representatives(p.block, q.block)
	case p.which >= 0:
		p.block = r.stand[r.class[p.block]]
	case q.which >= 0:
		q.block = r.stand[r.class[q.block]]
	}
	from := j
	if p.which >= 0 {
		t = r.nodeOf(p.which, p.block, p.k)
	}
	if q.which >= 0 {
		from = r.nodeOf(q.which, q.block, q.k)
	}
	return r.node[t], r.value[r.v.Writes[from][i-r.v.Writes[j][0]]]
}

// representatives returns blocks of Short that stand for two blocks and are as far apart, or further
// than two.
func (r *Repeated) representatives(a, b int) (int, int) {
	const near = 2
	ca, cb := r.class[a], r.class[b]
	d := ca - cb
	switch {
	case a-b <= near && b-a <= near:
		d = a - b
	case a > b:
		d = max(d, near+1)
	default:
		d = min(d, -near-1)
	}
	cb = min(max(cb, -d), len(r.stand)-1-d, len(r.stand)-1)
	cb = max(cb, 0, -d)
	return r.stand[cb+d], r.stand[cb]
}
