package rematgraph

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/instance/graph"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// A knapsack against all subsets, and with few states never above it.
func TestKnapsack(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 300 {
		g := &graph.Graph{}
		n := 1 + r.IntN(9)
		k := &choice{needs: make([]bool, n), sure: make([]bool, n), free: make([]bool, n), room: float64(r.IntN(20))}
		for f := range n {
			g.Nodes = append(g.Nodes, graph.Node{ID: fmt.Sprint(f), Kind: graph.Forward, Time: float64(r.IntN(8)), Memory: float64(r.IntN(8))})
			k.value, k.node, k.needs[f] = append(k.value, f), append(k.node, f), r.IntN(5) > 0
			if k.needs[f] {
				k.size += g.Nodes[f].Memory
			}
		}
		v := of(t, g)
		k.b = &bounds{v: v, quantum: 1}
		for _, time := range v.Time {
			k.b.time = append(k.b.time, int64(time))
		}
		want := int64(math.MaxInt64)
		for set := range 1 << n {
			kept, again := 0.0, int64(0)
			for f := range n {
				if !k.needs[f] {
					continue
				}
				if set>>f&1 == 1 {
					kept += v.Memory[f]
				} else {
					again += k.b.time[f]
				}
			}
			if kept <= k.room {
				want = min(want, again)
			}
		}
		if got := k.knapsack(0); got != want {
			t.Fatalf("knapsack %v, best subset %v", got, want)
		}
		sum := int64(0)
		for _, f := range k.again {
			sum += k.b.time[f]
		}
		if sum != want {
			t.Fatalf("%v are computed again in %v, not in %v", k.again, sum, want)
		}
		if time, whole := k.fractional(); time > want || whole < want {
			t.Fatalf("fractional %v to %v, whole %v", time, whole, want)
		}
	}
}

// Thinned states are better than those they stand for.
func TestThin(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	for range 100 {
		var states []front
		kept, lost := 0.0, int64(1e6)
		for range 1 + r.IntN(200) {
			kept, lost = kept+1+r.Float64(), lost-1-r.Int64N(9)
			states = append(states, front{kept: kept, lost: lost})
		}
		thinned := thin(slices.Clone(states), 10)
		if len(thinned) > 10 {
			t.Fatalf("%d states are left", len(thinned))
		}
		for _, s := range states {
			if !slices.ContainsFunc(thinned, func(q front) bool { return q.kept <= s.kept && q.lost <= s.lost }) {
				t.Fatalf("nothing is as good as %+v", s)
			}
		}
	}
}

// The Lagrangian is maximal over prices, also where sizes and times are far apart: a
// loss of four bytes is worth more for its size than anything else.
func TestBestPrice(t *testing.T) {
	r := testfile.Random(t, 6, 6)
	choices, positive := 0, 0
	for range testfile.Cases(200) {
		g := random.Training(r, 3+r.IntN(6))
		for s := range g.Storages {
			if r.IntN(4) > 0 {
				g.Storages[s].Bytes *= 1e7
			}
		}
		v, err := New(g)
		if err != nil {
			t.Fatal(err)
		}
		peak, _, _ := v.StoreAll().Peak()
		c := newChoice(v.bounds())
		for x := range v.N {
			if !c.load(x, math.Floor(peak*(0.3+0.7*r.Float64()))) || c.room < 0 {
				continue
			}
			k := &relaxed{choice: c}
			got := k.solve(0)
			choices++
			if got > 0 {
				positive++
			}
			best := int64(0)
			for price := 1e-9; price < 1e18; price *= 1.3 {
				value, _, _ := k.lagrangian(price, nil)
				best = max(best, value)
			}
			if float64(best) > float64(got)*(1+1e-8)+1000 { // quanta, of 2⁵¹
				t.Fatalf("%s, beside node %d: %d, but there is a price of %d", g.Name, x, got, best)
			}
		}
	}
	if choices < testfile.Cases(500) || positive < choices/3 {
		t.Errorf("%d choices, %d with something to compute again", choices, positive)
	}
}

// Of huge graphs not every node is looked at, but the mostExpensive is among those that are where
// nodes beside each other are alike.
func TestDearest(t *testing.T) {
	for _, n := range []int{1, 3, looked - 1, 2*looked + 1, 3*looked - 1} {
		for _, top := range []int{0, n / 3, n - 1} {
			b := &bounds{v: &View{N: n}}
			looks := 0
			all := b.mostExpensive(5, func(x int) (int64, bool) {
				looks++
				return int64(-(x - top) * (x - top)), x != top+1
			})
			if len(all) == 0 || len(all) > 5 || all[0].node != top || looks > looked+5*n/looked+1 {
				t.Errorf("%d nodes, the mostExpensive %d: %v, %d looks", n, top, all, looks)
			}
		}
	}
}

// TestStopped: a stopped bound tries the first nodes and holds; the next call has the whole one.
func TestStopped(t *testing.T) {
	b := &bounds{v: &View{N: looked, Stopped: func() bool { return true }}}
	nodes := map[int]bool{}
	b.mostExpensive(5, func(x int) (int64, bool) { nodes[x] = true; return 0, true })
	if len(nodes) != firstLooks || !nodes[looked/2] && !nodes[2048] {
		t.Errorf("%d nodes are tried: %v", len(nodes), nodes)
	}
	r := rand.New(rand.NewPCG(3, 3))
	lower := 0
	for range 200 {
		g := random.Graph(r, 7)
		v := of(t, g)
		memory := v.Least().High + float64(r.IntN(4))
		whole := v.TimeBound(memory).Seconds
		v = of(t, g)
		v.Stopped = func() bool { return true }
		early := v.TimeBound(memory).Seconds
		if early > whole || early < g.TotalTime()*(1-1e-9) {
			t.Fatalf("%v when stopped, %v else, %v of all nodes", early, whole, g.TotalTime())
		}
		if early < whole {
			lower++
		}
		v.Stopped = nil
		if again := v.TimeBound(memory).Seconds; again != whole {
			t.Fatalf("%v after %v when stopped, %v else", again, early, whole)
		}
	}
	if lower == 0 {
		t.Error("no bound is lower when stopped")
	}
}
