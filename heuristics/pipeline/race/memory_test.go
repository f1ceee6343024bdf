package race

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A slowMemory is a list of ways that no other beats.
type slowMemory struct {
	ways []slowArrived
}

type slowArrived struct {
	places places
	times  []int32
	open   uint16
	behind int32
}

// drop drops the ways to x's places that are no earlier, and whose later time of m and free is no earlier than ready.
func (w *slowMemory) drop(x *runner, m, free int, ready int32) {
	w.ways = slices.DeleteFunc(w.ways, func(y slowArrived) bool {
		return y.places == x.places && allNoLater(x.times, y.times) && max(y.times[m], y.times[free]) >= ready
	})
}

// outrun reports whether a way to x's places is no later, in which what m has begun last is over.
func (w *slowMemory) outrun(x *runner, m int) bool {
	return slices.ContainsFunc(w.ways, func(y slowArrived) bool {
		return y.places == x.places && y.open>>m&1 == 0 && allNoLater(y.times, x.times)
	})
}

// Whatever ways come, of many to the same places and of so many places that the table grows, what has been beaten, what is ahead
// and what is left is that of a list, and those least behind go on first.
func TestMemoryIsAList(t *testing.T) {
	t.Parallel()
	var w Memory // used again by each
	beaten := 0
	rapid.Check(t, func(t *rapid.T) {
		w.reset()
		slow, procs := slowMemory{}, rapid.IntRange(1, 4).Draw(t, "procs")
		far := rapid.SampledFrom([]int{2, 40, 200}).Draw(t, "places")
		spread := rapid.SampledFrom([]int32{1, 3, 60}).Draw(t, "spread")
		draw := func() *runner {
			x := &runner{id: none, inside: rapid.IntRange(1, mostInside).Draw(t, "inside")}
			for m := range x.inside {
				x.places[m] = uint8(rapid.IntRange(1, far).Draw(t, "place"))
			}
			if far == 2 { // all are of few places
				x.inside = min(x.inside, 2)
				clear(x.places[x.inside:])
			}
			for range 1 + procs + x.inside {
				x.times = append(x.times, rapid.Int32Range(-spread, spread).Draw(t, "time")*1000)
			}
			return x
		}
		for range rapid.IntRange(1, 60).Draw(t, "ways") {
			x := draw()
			m := rapid.IntRange(0, x.inside).Draw(t, "m")
			if got, want := w.outrun(x, m), slow.outrun(x, m); got != want {
				t.Fatalf("a way ahead of %v, %v: %v, want %v", x.places, x.times, got, want)
			}
			if rapid.IntRange(0, 5).Draw(t, "drop") == 0 {
				at, free, ready := 1+procs+min(m, x.inside-1), rapid.IntRange(1, procs).Draw(t, "free"), rapid.Int32Range(-2, 2).Draw(t, "ready")*1000
				w.drop(x, at, free, ready)
				slow.drop(x, at, free, ready)
			}
			comes := !slices.ContainsFunc(slow.ways, func(y slowArrived) bool { return y.places == x.places && allNoLater(y.times, x.times) })
			if got := w.arrive(x); got != comes {
				t.Fatalf("%v, %v arrives: %v, want %v", x.places, x.times, got, comes)
			}
			if !comes {
				beaten++
				continue
			}
			if rapid.IntRange(0, 9).Draw(t, "forget") == 0 {
				w.forget()
				continue
			}
			x.open = rapid.Uint16().Draw(t, "open")
			behind := rapid.Int32Range(-9, 9).Draw(t, "behind") * queueWidth
			w.add(x, none, behind)
			slow.drop(x, 0, 0, leastTime)
			slow.ways = append(slow.ways, slowArrived{x.places, x.times, x.open, behind})
		}
		if got, want := w.left()*float64(len(w.ways)), float64(len(slow.ways)); got < want-0.5 || got > want+0.5 {
			t.Fatalf("%v ways are left, want %v", got, want)
		}
		for last, x := int32(-1<<30), (&runner{}); w.pop(procs, x); {
			k := slices.IndexFunc(slow.ways, func(y slowArrived) bool { return y.places == x.places && slices.Equal(y.times, x.times) })
			if k < 0 || slow.ways[k].behind < last {
				t.Fatalf("%v, %v goes on behind %d; left are %v", x.places, x.times, last, slow.ways)
			}
			last = slow.ways[k].behind
			slow.ways = slices.Delete(slow.ways, k, k+1)
		}
		if len(slow.ways) > 0 {
			t.Fatalf("%v do not go on", slow.ways)
		}
	})
	if beaten == 0 {
		t.Error("no way was beaten when it came")
	}
}

// A table that has grown knows what it knew.
func TestTableGrows(t *testing.T) {
	t.Parallel()
	var w Memory
	w.reset()
	x := &runner{inside: 3, times: make([]int32, 5)}
	at := func(k int) { x.places = places{uint8(1 + k%250), uint8(1 + k/250%250), uint8(1 + k/62500)} }
	const n = 20 * leastTable
	for k := range n {
		at(k)
		if !w.arrive(x) {
			t.Fatalf("somebody was at %v", x.places)
		}
		w.add(x, none, 0)
	}
	for k := range 2 * n {
		at(k)
		if got := w.outrun(x, 0); got != (k < n) {
			t.Fatalf("somebody is at %v: %v", x.places, got)
		}
	}
	if len(w.table) == leastTable {
		t.Error("it has not grown")
	}
}
