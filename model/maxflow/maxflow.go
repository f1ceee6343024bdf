// Package maxflow finds maximum flows and minimum cuts of networks.
package maxflow

import "math"

// Source and Sink are the nodes that flow comes from and goes to.
const (
	Source = 0
	Sink   = 1
)

// Unlimited is the capacity of an arc that no minimum cut contains.
const Unlimited = math.MaxInt64

// Network is a network with a maximum flow from Source to Sink by Dinic's algorithm. Arcs come
// in pairs, a and a^1 being each other's reverse. Capacities are whole, so that
// the flow is exact.
type Network struct {
	first []int // first arc of each node, -1: none
	next  []int // next arc of the same node
	to    []int
	cap   []int64 // of arcs
	left  []int64 // residual
	level []int
	at    []int
	queue []int
	side  []bool
}

// Reset makes a network of n nodes without arcs.
func (f *Network) Reset(n int) {
	if cap(f.first) < n {
		f.first, f.level, f.at, f.queue, f.side = make([]int, n), make([]int, n), make([]int, n), make([]int, n), make([]bool, n)
	}
	f.first, f.level, f.at, f.side = f.first[:n], f.level[:n], f.at[:n], f.side[:n]
	for i := range f.first {
		f.first[i] = -1
	}
	f.next, f.to, f.cap = f.next[:0], f.to[:0], f.cap[:0]
}

// Arc adds an arc and returns its number.
func (f *Network) Arc(from, to int, capacity int64) int {
	a := len(f.to)
	f.to = append(f.to, to, from)
	f.cap = append(f.cap, capacity, 0)
	f.next = append(f.next, f.first[from], f.first[to])
	f.first[from], f.first[to] = a, a+1
	return a
}

// Restore takes all flow away.
func (f *Network) Restore() { f.left = append(f.left[:0], f.cap...) }

// Set changes the capacity of an arc that carries no flow.
func (f *Network) Set(a int, capacity int64) { f.left[a] = capacity }

// levels finds the distance of each node from the source, -1: out of reach, and
// reports whether the sink can be reached.
func (f *Network) levels() bool {
	for i := range f.level {
		f.level[i] = -1
	}
	f.level[Source] = 0
	queue := append(f.queue[:0], Source)
	for h := 0; h < len(queue); h++ {
		for a := f.first[queue[h]]; a >= 0; a = f.next[a] {
			if u := f.to[a]; f.left[a] > 0 && f.level[u] < 0 {
				f.level[u] = f.level[queue[h]] + 1
				queue = append(queue, u)
			}
		}
	}
	return f.level[Sink] >= 0
}

// push sends up to so much from a node to the sink along levels.
func (f *Network) push(i int, most int64) int64 {
	if i == Sink {
		return most
	}
	sent := int64(0)
	for ; f.at[i] >= 0; f.at[i] = f.next[f.at[i]] {
		a := f.at[i]
		if u := f.to[a]; f.left[a] > 0 && f.level[u] == f.level[i]+1 {
			x := f.push(u, min(most-sent, f.left[a]))
			f.left[a] -= x
			f.left[a^1] += x
			if sent += x; sent >= most {
				return sent
			}
		}
	}
	return sent
}

// Run returns the maximum flow, limited if every way to the sink has a limited
// arc.
func (f *Network) Run() int64 {
	sum := int64(0)
	for f.levels() {
		copy(f.at, f.first)
		sum += f.push(Source, Unlimited)
	}
	return sum
}

// SourceSide marks, after Run, the nodes on the source's side of a minimum cut.
func (f *Network) SourceSide() []bool {
	for i, l := range f.level {
		f.side[i] = l >= 0
	}
	return f.side
}
