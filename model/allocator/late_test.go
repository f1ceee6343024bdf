package allocator

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	optimum "workbench/model/exhaustive/swap"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// What leaves stays until its bytes are lacking, the oldest first, and is where
// it was if it comes back before.
func TestLateByHand(t *testing.T) {
	const a, b, c, again, back = 0, 1, 2, 3, 4
	trace := &Trace{
		Blocks: []Block{{4, "a", -1}, {3, "b", -1}, {2, "c", -1}, {4, "a", -1}, {3, "b", -1}},
		Events: []Event{
			{0, a, false},
			{1, a, true}, // a and b leave, and come back
			{1, b, false},
			{2, b, true},
			{3, c, false},
			{4, back, false},
			{5, c, true}, // c is gone for good
			{6, again, false},
			{7, again, true},
			{8, back, true},
		},
	}
	for _, x := range []struct {
		budget int64
		want   []Event
	}{
		// All fits: nothing but what is gone for good is given back.
		{9, []Event{{0, 0, false}, {1, 1, false}, {3, 2, false}, {5, 2, true}, {7, 0, true}, {8, 1, true}}},
		// c takes the place of a, the older one, and b is still there.
		{7, []Event{
			{0, 0, false},
			{1, 1, false},
			{3, 0, true},
			{3, 2, false},
			{5, 2, true},
			{6, 3, false},
			{7, 3, true},
			{8, 1, true},
		}},
	} {
		late := trace.Late(x.budget)
		if diff := cmp.Diff(x.want, late.Events); diff != "" {
			t.Errorf("budget %d (-want +got):\n%s", x.budget, diff)
		}
		checkTrace(t, late)
	}
}

// At any time at least as much is taken as by the rules, at most the memory of the
// plan, and each variable once.
func TestLateIsWithinTheMemory(t *testing.T) {
	const limit = 1 << 16
	r := rand.New(rand.NewPCG(5, 3))
	plans, longer := 0, 0
	for range testfile.Cases(600) {
		s, memory, bandwidth := random.Swap(r, 5, 6)
		_, p, err := optimum.Search(s, memory, bandwidth, 1, limit)
		if err != nil || p == nil {
			continue
		}
		plans++
		traces, err := tracesOf(s, p, 1)
		if err != nil {
			t.Fatal(err)
		}
		late := traces[0].Late(int64(memory))
		checkTrace(t, late)
		if peak := late.Peak(); peak > int64(memory) || peak < traces[0].Peak() {
			t.Fatalf("%d are taken late, %d by the rules, of %g", peak, traces[0].Peak(), memory)
		}
		if a, b := byteSeconds(t, traces[0]), byteSeconds(t, late); b < a {
			t.Fatalf("%g byte-seconds late, %g by the rules", b, a)
		} else if b > a {
			longer++
		}
	}
	if plans < testfile.Cases(100) || longer < testfile.Cases(10) {
		t.Errorf("%d plans, %d with blocks that stay", plans, longer)
	}
}

// byteSeconds is what is taken, summed over time up to the last event; each
// variable is taken once at a time.
func byteSeconds(t *testing.T, trace *Trace) float64 {
	t.Helper()
	sum, now, last := 0.0, 0.0, math.NaN()
	taken := map[string]bool{}
	for _, e := range trace.Events {
		if now > 0 {
			sum += now * (e.Time - last)
		}
		x := &trace.Blocks[e.Block]
		if taken[x.Tensor] == !e.Free {
			t.Fatalf("%s is taken twice", x)
		}
		taken[x.Tensor] = !e.Free
		if e.Free {
			now -= float64(x.Size)
		} else {
			now += float64(x.Size)
		}
		last = e.Time
	}
	return sum
}
