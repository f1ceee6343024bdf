package allocator

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// naive is the best fit of BestFit once more: segments are lists of spans in
// order of address, and everything is found by looking at all of them.
type naive struct {
	capacity, reserved, end int64
	segments                []*naiveSegment
}

type naiveSegment struct {
	address, size int64
	small         bool
	spans         []naiveSpan
}

type naiveSpan struct {
	address, size, requested int64 // requested 0: free
}

func (n *naive) alloc(bytes int64) (address int64, ok bool) {
	size := (bytes + 511) / 512 * 512
	small := size <= 1<<20
	least, segmentSize := int64(512), int64(2<<20)
	if !small {
		least = 1<<20 + 1
		if segmentSize = 20 << 20; size >= 10<<20 {
			segmentSize = (size + 2<<20 - 1) / (2 << 20) * (2 << 20)
		}
	}
	var in *naiveSegment
	at := -1
	for _, s := range n.segments {
		for k, x := range s.spans {
			if s.small == small && x.requested == 0 && x.size >= size &&
				(in == nil || x.size < in.spans[at].size || x.size == in.spans[at].size && x.address < in.spans[at].address) {
				in, at = s, k
			}
		}
	}
	if in == nil {
		if n.reserved+segmentSize > n.capacity {
			n.segments = slices.DeleteFunc(n.segments, func(s *naiveSegment) bool {
				empty := len(s.spans) == 1 && s.spans[0].requested == 0
				if empty {
					n.reserved -= s.size
				}
				return empty
			})
		}
		if n.reserved+segmentSize > n.capacity {
			return 0, false
		}
		in, at = &naiveSegment{address: n.end, size: segmentSize, small: small, spans: []naiveSpan{{n.end, segmentSize, 0}}}, 0
		n.segments = append(n.segments, in)
		n.end += segmentSize
		n.reserved += segmentSize
	}
	x := &in.spans[at]
	if rest := x.size - size; rest >= least {
		x.size = size
		in.spans = slices.Insert(in.spans, at+1, naiveSpan{x.address + size, rest, 0})
	}
	in.spans[at].requested = bytes
	return in.spans[at].address, true
}

func (n *naive) free(address int64) {
	for _, s := range n.segments {
		for k := range s.spans {
			if s.spans[k].address == address && s.spans[k].requested > 0 {
				s.spans[k].requested = 0
				for i := len(s.spans) - 1; i > 0; i-- {
					if s.spans[i].requested == 0 && s.spans[i-1].requested == 0 {
						s.spans[i-1].size += s.spans[i].size
						s.spans = slices.Delete(s.spans, i, i+1)
					}
				}
				return
			}
		}
	}
	panic("not in use")
}

func (n *naive) usage() (u Usage) {
	u.Reserved = n.reserved
	for _, s := range n.segments {
		for _, x := range s.spans {
			if x.requested > 0 {
				u.Used += x.size
				u.Requested += x.requested
			} else if len(s.spans) > 1 {
				u.Stuck += x.size
			}
		}
	}
	return u
}

// check holds what must be true of b at any time.
func check(t interface{ Fatalf(string, ...any) }, b *BestFit) {
	recycled := map[int32]bool{}
	for _, x := range b.recycled {
		if recycled[x] {
			t.Fatalf("block %d is recycled twice", x)
		}
		recycled[x] = true
	}
	pooled := map[int32]bool{}
	for pool := range b.free {
		if !slices.IsSortedFunc(b.free[pool], freeSpan.compare) {
			t.Fatalf("pool %d is not sorted", pool)
		}
		for _, s := range b.free[pool] {
			if x := b.blocks[s.block]; x.requested != 0 || x.size != s.size || x.address != s.address || int(x.pool) != pool {
				t.Fatalf("pool %d has %+v for %+v", pool, s, x)
			}
			pooled[s.block] = true
		}
	}
	type span struct{ from, to int64 }
	var all []span
	var u Usage
	for i := range b.blocks {
		x := &b.blocks[i]
		if recycled[int32(i)] {
			continue
		}
		all = append(all, span{x.address, x.address + x.size})
		u.Reserved += x.size
		if x.requested > 0 {
			u.Used += x.size
			u.Requested += x.requested
			if x.requested > x.size {
				t.Fatalf("%d bytes in a block of %d", x.requested, x.size)
			}
		} else {
			if !pooled[int32(i)] {
				t.Fatalf("free block %d is in no pool", i)
			}
			if x.prev >= 0 || x.next >= 0 {
				u.Stuck += x.size
			}
		}
		if n := x.next; n >= 0 {
			y := &b.blocks[n]
			if y.prev != int32(i) || y.address != x.address+x.size || y.pool != x.pool {
				t.Fatalf("%+v and %+v are no neighbours", *x, *y)
			}
			if x.requested == 0 && y.requested == 0 {
				t.Fatalf("two free neighbours, %+v and %+v", *x, *y)
			}
		}
	}
	slices.SortFunc(all, func(a, b span) int { return int(a.from - b.from) })
	for i := 1; i < len(all); i++ {
		if all[i].from < all[i-1].to {
			t.Fatalf("blocks overlap: %v and %v", all[i-1], all[i])
		}
	}
	if u != b.usage {
		t.Fatalf("usage %+v, the blocks have %+v", b.usage, u)
	}
	if u.Reserved > b.capacity || u.Used > u.Reserved || u.Requested > u.Used || u.Used+u.Stuck > u.Reserved {
		t.Fatalf("usage %+v of %d", u, b.capacity)
	}
}

// Sizes around those that the rules tell apart.
var telling = []int64{
	1, 511, 512, 513, 1 << 20, 1<<20 + 1, 2 << 20, 9 << 20, 10<<20 - 1, 10 << 20, 11<<20 + 5, 19 << 20, 20 << 20,
	31 << 20,
}

// The best fit hands out the same addresses as the naive one, and keeps itself
// in order, whatever is asked of it.
func TestBestFitIsTheNaiveOne(t *testing.T) { testfile.Property(t, compareWithNaive) }

func FuzzBestFitIsTheNaiveOne(f *testing.F) { f.Fuzz(rapid.MakeFuzz(compareWithNaive)) }

func compareWithNaive(t *rapid.T) {
	capacity := rapid.Int64Range(0, 200<<20).Draw(t, "capacity")
	b, n := NewBestFit(capacity), &naive{capacity: capacity}
	var live []int
	size := rapid.OneOf(rapid.SampledFrom(telling), rapid.Int64Range(1, 4096), rapid.Int64Range(1, 40<<20))
	refused := 0
	for range rapid.IntRange(0, 80).Draw(t, "operations") {
		if len(live) > 0 && rapid.IntRange(0, 9).Draw(t, "kind") < 4 {
			k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
			n.free(b.blocks[live[k]].address)
			b.Free(live[k])
			live = slices.Delete(live, k, k+1)
		} else {
			bytes := size.Draw(t, "bytes")
			id, ok := b.Alloc(bytes)
			address, want := n.alloc(bytes)
			if ok != want || ok && b.blocks[id].address != address {
				t.Fatalf("%d bytes: %v, %v; naive %d, %v", bytes, id, ok, address, want)
			}
			if ok {
				live = append(live, id)
			} else {
				refused++
			}
		}
		check(t, b)
		if u := n.usage(); u != b.Usage() {
			t.Fatalf("usage %+v, naive %+v", b.Usage(), u)
		}
	}
	for _, id := range live {
		b.Free(id)
		check(t, b)
	}
	if u := b.Usage(); u.Used != 0 || u.Requested != 0 || u.Stuck != 0 {
		t.Fatalf("everything is free and usage is %+v", u)
	}
}

// What PyTorch's documentation and source say of single requests.
func TestBestFitByHand(t *testing.T) {
	const mib = 1 << 20
	b := NewBestFit(64 * mib)
	ask := func(bytes int64) int {
		t.Helper()
		id, ok := b.Alloc(bytes)
		if !ok {
			t.Fatalf("no room for %d", bytes)
		}
		return id
	}
	want := func(reserved, used, stuck int64) {
		t.Helper()
		if u := b.Usage(); u.Reserved != reserved || u.Used != used || u.Stuck != stuck {
			t.Fatalf("usage %+v, want %d reserved, %d used, %d stuck", u, reserved, used, stuck)
		}
	}
	a := ask(1000) // rounded to 1024, in a small segment of 2 MiB
	want(2*mib, 1024, 2*mib-1024)
	c := ask(5 * mib) // in a shared segment of 20 MiB
	want(22*mib, 1024+5*mib, 2*mib-1024+15*mib)
	d := ask(14*mib + 1) // of the 15 MiB left; what remains is too little to be split off
	want(22*mib, 1024+20*mib, 2*mib-1024)
	e := ask(11 * mib) // a segment of its own, 12 MiB; the twelfth stays with it
	want(34*mib, 1024+20*mib+12*mib, 2*mib-1024)
	b.Free(c)
	b.Free(d)
	b.Free(e)
	want(34*mib, 1024, 2*mib-1024)
	f := ask(30 * mib) // 30 are left of 64
	want(64*mib, 1024+30*mib, 2*mib-1024)
	g := ask(32 * mib) // the two free segments are given back
	want(64*mib, 1024+62*mib, 2*mib-1024)
	if _, ok := b.Alloc(2 * mib); ok {
		t.Fatal("2 MiB of the large pool fit beside 64 MiB")
	}
	for _, id := range []int{a, f, g} {
		b.Free(id)
	}
	want(64*mib, 0, 0)
}

// A request that does not fit though enough is free: the fragmentation of
// [003] §4.
func TestFragmentationIsSeen(t *testing.T) {
	const mib = 1 << 20
	trace := &Trace{}
	event := func(block int32, free bool) { trace.Events = append(trace.Events, Event{Block: block, Free: free}) }
	for i := range int32(4) {
		trace.Blocks = append(trace.Blocks, Block{Size: 5 * mib, Tensor: "w", Layer: int(i)})
		event(i, false)
	}
	event(0, true)
	event(2, true)
	trace.Blocks = append(trace.Blocks, Block{Size: 8 * mib, Tensor: "a", Layer: 7})
	event(4, false)
	r := Replay(trace, NewBestFit(24*mib), 24*mib, 1, true)
	f := r.Failure
	if f == nil || !f.Fragmented || f.Block != "a_7" || f.Usage.Stuck != 10*mib || f.Usage.Used != 10*mib {
		t.Fatalf("failure %+v", f)
	}
	if v := Replay(trace, NewVirtual(24*mib, 2*mib), 24*mib, 1, true); v.Failure != nil || v.Reserved != 24*mib || v.External != 0 {
		t.Fatalf("virtual: %+v", v)
	}
	if least := LeastCapacity(trace, 1, 100*mib, func(c int64) Allocator { return NewBestFit(c) }); least < 40*mib || least > 40*mib+mib/8 {
		t.Errorf("fits in %d from a best fit of 40 MiB on", least)
	}
	full := Replay(trace, NewBestFit(19*mib), 19*mib, 1, false)
	if full.Failure == nil || full.Failure.Usage.Reserved != 0 || !full.Failure.Fragmented {
		t.Errorf("5 MiB of 19 need a segment of 20: %+v", full.Failure)
	}
}

// [003] (1) and (2), and no external fragmentation.
func TestVirtualIsBounded(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		chunk := rapid.SampledFrom([]int64{1, 512, 2 << 20, 20 << 20, 40 << 20}).Draw(t, "chunk")
		capacity := rapid.Int64Range(0, 400<<20).Draw(t, "capacity")
		v := NewVirtual(capacity, chunk)
		sizes := map[int]int64{}
		var live []int
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			if len(live) > 0 && rapid.Bool().Draw(t, "free") {
				k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				v.Free(live[k])
				delete(sizes, live[k])
				live = slices.Delete(live, k, k+1)
			} else {
				bytes := rapid.Int64Range(1, 100<<20).Draw(t, "bytes")
				before := v.Usage()
				id, ok := v.Alloc(bytes)
				need := before.Used + (bytes+chunk-1)/chunk*chunk
				if ok != (need <= capacity) {
					t.Fatalf("%d bytes: %v with %+v", bytes, ok, before)
				}
				if !ok && v.Usage() != before {
					t.Fatal("a refused request changes the usage")
				}
				if ok {
					if _, used := sizes[id]; used {
						t.Fatalf("block %d is handed out twice", id)
					}
					sizes[id] = bytes
					live = append(live, id)
				}
			}
			var u Usage
			for _, bytes := range sizes {
				u.Requested += bytes
				u.Used += (bytes + chunk - 1) / chunk * chunk
			}
			got := v.Usage()
			if got.Requested != u.Requested || got.Used != u.Used || got.Stuck != 0 || got.Reserved < u.Used || got.Reserved > capacity {
				t.Fatalf("usage %+v, want %+v", got, u)
			}
			if n := int64(len(live)); n > 0 && got.Internal() >= n*chunk {
				t.Fatalf("internal fragmentation %d of %d blocks", got.Internal(), n)
			}
		}
	})
}

func TestFreeTwicePanics(t *testing.T) {
	for _, a := range []Allocator{NewBestFit(Unlimited), NewVirtual(Unlimited, 2<<20), NewMixed(Unlimited, 2<<20)} {
		id, _ := a.Alloc(5)
		a.Free(id)
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: a block is freed twice", a.Name())
				}
			}()
			a.Free(id)
		}()
	}
}

// Repeated steps start from what is cached and must not leak.
func TestStepsRepeat(t *testing.T) {
	trace := randomTrace(rand.New(rand.NewPCG(1, 2)), 50, 200)
	one, five := Replay(trace, NewBestFit(Unlimited), Unlimited, 1, true), Replay(trace, NewBestFit(Unlimited), Unlimited, 5, true)
	if five.Requested != one.Requested || five.Requested != trace.Peak() || five.Most != one.Most || five.Requests != one.Requests {
		t.Errorf("one step %+v, five %+v", one, five)
	}
	if n := len(five.Samples); n == 0 || five.Samples[n-1].Requested != one.Samples[len(one.Samples)-1].Requested {
		t.Error("the last step ends otherwise than the first")
	}
	if five.Capacity != 0 || five.Failure != nil {
		t.Errorf("%+v", five)
	}
}

// Samples keep the highest use of an instant.
func TestSamplesKeepPeaks(t *testing.T) {
	trace := &Trace{Blocks: []Block{{Size: 512}, {Size: 512}, {Size: 512}}}
	trace.Events = []Event{{0, 0, false}, {1, 1, false}, {1, 2, false}, {1, 2, true}, {1, 1, true}, {2, 1, false}}
	var got []string
	for _, s := range Replay(trace, NewBestFit(Unlimited), Unlimited, 1, true).Samples {
		got = append(got, fmt.Sprint(s.Time, s.Requested))
	}
	if want := []string{"0 512", "1 1536", "1 512", "2 1024"}; !slices.Equal(got, want) {
		t.Errorf("samples %v, want %v", got, want)
	}
}

// randomTrace has so many functions that take and give back variables.
func randomTrace(r *rand.Rand, functions, variables int) *Trace {
	t := &Trace{}
	var live []int32
	for f := range functions {
		for range variables / functions {
			size := int64(1 + r.IntN(64<<20))
			if r.IntN(2) == 0 {
				size = int64(1 + r.IntN(1<<20))
			}
			t.Blocks = append(t.Blocks, Block{Size: size, Tensor: "v", Layer: -1})
			id := int32(len(t.Blocks) - 1)
			t.Events = append(t.Events, Event{Time: float64(f), Block: id})
			live = append(live, id)
		}
		for len(live) > 200 {
			k := r.IntN(len(live))
			t.Events = append(t.Events, Event{Time: float64(f), Block: live[k], Free: true})
			live[k] = live[len(live)-1]
			live = live[:len(live)-1]
		}
	}
	return t
}

// 5,000 functions and 20,000 variables through both allocators.
func BenchmarkReplay(b *testing.B) {
	trace := randomTrace(rand.New(rand.NewPCG(3, 4)), 5000, 20000)
	if len(trace.Blocks) != 20000 {
		b.Fatal(len(trace.Blocks))
	}
	for b.Loop() {
		Replay(trace, NewBestFit(Unlimited), Unlimited, 1, false)
		Replay(trace, NewVirtual(Unlimited, 2<<20), Unlimited, 1, false)
	}
}

// FuzzReplay feeds any order of requests to both allocators.
func FuzzReplay(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 255, 1, 0, 128})
	f.Fuzz(func(t *testing.T, data []byte) {
		trace := &Trace{}
		var live []int32
		for len(data) >= 2 {
			x := binary.LittleEndian.Uint16(data)
			data = data[2:]
			if x&1 == 1 && len(live) > 0 {
				k := int(x>>1) % len(live)
				trace.Events = append(trace.Events, Event{Block: live[k], Free: true})
				live = slices.Delete(live, k, k+1)
				continue
			}
			trace.Blocks = append(trace.Blocks, Block{Size: 1 + int64(x)*700, Tensor: "x", Layer: -1})
			live = append(live, int32(len(trace.Blocks)-1))
			trace.Events = append(trace.Events, Event{Block: live[len(live)-1]})
		}
		const capacity = 512 << 20
		best, virtual := NewBestFit(capacity), NewVirtual(capacity, 2<<20)
		Replay(trace, best, capacity, 2, true)
		check(t, best)
		if r := Replay(trace, virtual, capacity, 2, true); r.External != 0 || r.Internal > 0 && r.Internal >= int64(r.Most)*2<<20 {
			t.Errorf("virtual %+v", r)
		}
	})
}

// Mixed refuses only what does not fit with all caches given back, and is the
// sum of its parts.
func TestMixed(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		const chunk = 4 << 20
		capacity := rapid.Int64Range(0, 100<<20).Draw(t, "capacity")
		m := NewMixed(capacity, chunk)
		sizes := map[int]int64{}
		var live []int
		size := rapid.OneOf(rapid.SampledFrom(telling), rapid.Int64Range(1, 2<<20))
		for range rapid.IntRange(0, 60).Draw(t, "operations") {
			if len(live) > 0 && rapid.IntRange(0, 9).Draw(t, "kind") < 4 {
				k := rapid.IntRange(0, len(live)-1).Draw(t, "which")
				m.Free(live[k])
				delete(sizes, live[k])
				live = slices.Delete(live, k, k+1)
			} else {
				bytes := size.Draw(t, "bytes")
				id, ok := m.Alloc(bytes)
				if _, used := sizes[id]; ok && used {
					t.Fatalf("block %d is handed out twice", id)
				}
				if ok {
					sizes[id] = bytes
					live = append(live, id)
				} else if held := m.small.usage.Reserved + m.large.usage.Used + max(roundUp(bytes, chunk), smallSegment); held <= capacity {
					t.Fatalf("%d bytes are refused with %+v of %d", bytes, m.Usage(), capacity)
				}
			}
			var want int64
			for _, bytes := range sizes {
				want += bytes
			}
			u := m.Usage()
			if u.Requested != want || u.Used < want || u.Reserved < u.Used+u.Stuck || u.Reserved > capacity {
				t.Fatalf("usage %+v, %d requested, of %d", u, want, capacity)
			}
			m.small.capacity = max(m.small.capacity, m.small.usage.Reserved) // as it stands
			check(t, m.small)
		}
	})
	m := NewMixed(Unlimited, 2<<20)
	for range 100 {
		m.Alloc(256)
	}
	m.Alloc(3 << 20)
	if u := m.Usage(); m.Name() != "mixed 2 MiB" || u.Reserved != 6<<20 {
		t.Errorf("%s: %+v", m.Name(), u)
	}
}
