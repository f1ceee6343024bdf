package pipeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// plainStored is a label of a list.
type plainStored struct {
	position position
	times    []int32
	behind   int32
}

// Whatever labels come, of many at the same positions and at many positions, those that are left are the non-dominated
// ones of a plain list, and those least behind come out first.
func TestLabelStoreIsAList(t *testing.T) {
	t.Parallel()
	var w labelStore // used again by each
	dominated := 0
	rapid.Check(t, func(t *rapid.T) {
		procs := rapid.IntRange(1, 4).Draw(t, "procs")
		w.reset(procs)
		var plain []plainStored
		far := rapid.SampledFrom([]int{2, 40, 200}).Draw(t, "positions")
		spread := rapid.SampledFrom([]int32{1, 3, 60}).Draw(t, "spread")
		draw := func() *label {
			x := &label{id: noLabel, inside: rapid.IntRange(1, mostInside).Draw(t, "inside")}
			for m := range x.inside {
				x.position[m] = uint8(rapid.IntRange(1, far).Draw(t, "step"))
			}
			if far == 2 { // all are at few positions
				x.inside = min(x.inside, 2)
				clear(x.position[x.inside:])
			}
			for range 1 + procs + x.inside {
				x.times = append(x.times, rapid.Int32Range(-spread, spread).Draw(t, "time")*1000)
			}
			return x
		}
		for range rapid.IntRange(1, 60).Draw(t, "labels") {
			x := draw()
			behind := rapid.Int32Range(-9, 9).Draw(t, "behind") * queueWidth
			w.insert(x, noLabel, behind)
			if slices.ContainsFunc(plain, func(y plainStored) bool { return y.position == x.position && allNoLater(y.times, x.times) }) {
				dominated++
				continue
			}
			plain = slices.DeleteFunc(plain, func(y plainStored) bool { return y.position == x.position && allNoLater(x.times, y.times) })
			plain = append(plain, plainStored{x.position, x.times, behind})
		}
		for last, x := int32(-1<<30), (&label{}); w.pop(x); {
			k := slices.IndexFunc(plain, func(y plainStored) bool { return y.position == x.position && slices.Equal(y.times, x.times) })
			if k < 0 || plain[k].behind < last {
				t.Fatalf("%v, %v comes behind %d; left are %v", x.position, x.times, last, plain)
			}
			last = plain[k].behind
			plain = slices.Delete(plain, k, k+1)
		}
		if len(plain) > 0 {
			t.Fatalf("%v do not come out", plain)
		}
	})
	if dominated == 0 {
		t.Error("no label was dominated when it came")
	}
}
