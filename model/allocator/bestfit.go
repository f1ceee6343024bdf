package allocator

import (
	"cmp"
	"slices"
)

// Sizes of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp and
// c10/core/AllocatorConfig.h, the names there in brackets). TensorFlow's and
// that of [003]'s framework differ in sizes, not in kind.
const (
	granule      = 512      // sizes are multiples of it (kMinBlockSize)
	mostSmall    = 1 << 20  // the largest request of the small pool (kSmallSize)
	smallSegment = 2 << 20  // what that pool takes from the device at a time (kSmallBuffer)
	leastOwn     = 10 << 20 // from here on a request that finds no room gets a segment of its own (kMinLargeAlloc)
	largeSegment = 20 << 20 // those between share segments of this size (kLargeBuffer)
	ownGranule   = 2 << 20  // own segments are multiples of it (kRoundLarge)
)

// BestFit is a caching allocator of one device and one stream, with PyTorch's
// default settings:
//
//   - Requests are rounded up to multiples of 512 bytes. Those of at most 1 MiB
//     are served by one pool, larger ones by another.
//   - A request gets the smallest free block of its pool that is large enough,
//     of these the one with the lowest address. What is too much of it is split
//     off and stays free, if that is at least 512 bytes in the small pool and
//     more than 1 MiB in the large one.
//   - If there is none the device gives a segment: 2 MiB for the small pool,
//     20 MiB for requests below 10 MiB, else the request rounded up to 2 MiB.
//     If the device has no room, all segments without a block in use are given
//     back, and it is asked again.
//   - A block that is freed joins its free neighbours in the segment, and stays
//     with the pool.
//
// The device gives segments of any address, as its own page tables allow.
// O(log n + moves) an operation for n free blocks, of which an operation moves
// at most n entries of 24 bytes.
type BestFit struct {
	capacity int64
	usage    Usage
	end      int64 // addresses below it have been given out
	blocks   []block
	recycled []int32       // blocks that are none now
	free     [2][]freeSpan // pools, small and large: sorted by size, then address
}

// A block is a part of a segment, in use or free.
type block struct {
	address, size int64
	requested     int64 // 0: free
	prev, next    int32 // neighbours in the segment, -1: none
	pool          int8
}

type freeSpan struct {
	size, address int64
	block         int32
}

func (a freeSpan) compare(b freeSpan) int {
	return cmp.Or(cmp.Compare(a.size, b.size), cmp.Compare(a.address, b.address))
}

// NewBestFit returns the allocator of an empty device of that capacity in
// bytes.
func NewBestFit(capacity int64) *BestFit { return &BestFit{capacity: capacity} }

// Name returns "best-fit".
func (b *BestFit) Name() string { return "best-fit" }

// Usage returns the present use.
func (b *BestFit) Usage() Usage { return b.usage }

// roundUp returns the least multiple of unit that is not below n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// segmentFor returns how much is asked of the device for a rounded request.
func segmentFor(size int64) int64 {
	switch {
	case size <= mostSmall:
		return smallSegment
	case size < leastOwn:
		return largeSegment
	}
	return roundUp(size, ownGranule)
}

// Alloc hands out a block.
func (b *BestFit) Alloc(bytes int64) (id int, ok bool) {
	size := roundUp(max(bytes, 1), granule)
	pool, leastRest := int8(0), int64(granule)
	if size > mostSmall {
		pool, leastRest = 1, mostSmall+1
	}
	k, _ := slices.BinarySearchFunc(b.free[pool], freeSpan{size: size, address: -1}, freeSpan.compare)
	var x int32
	if k < len(b.free[pool]) {
		x = b.free[pool][k].block
		b.allocate(pool, k)
	} else if x, ok = b.segment(segmentFor(size), pool); !ok {
		return 0, false
	}
	if rest := b.blocks[x].size - size; rest >= leastRest {
		b.split(x, size)
	}
	at := &b.blocks[x]
	at.requested = max(bytes, 1)
	b.usage.Used += at.size
	b.usage.Requested += at.requested
	return int(x), true
}

// segment asks the device for a segment of one block, which is in no pool yet.
func (b *BestFit) segment(size int64, pool int8) (x int32, ok bool) {
	if size > b.capacity-b.usage.Reserved {
		b.giveBack()
	}
	if size > b.capacity-b.usage.Reserved {
		return 0, false
	}
	x = b.newBlock(block{address: b.end, size: size, prev: -1, next: -1, pool: pool})
	b.end += size
	b.usage.Reserved += size
	return x, true
}

// giveBack returns to the device all segments without a block in use
// (release_cached_blocks).
func (b *BestFit) giveBack() {
	for pool := range b.free {
		b.free[pool] = slices.DeleteFunc(b.free[pool], func(s freeSpan) bool {
			if b.stuck(s.block) {
				return false
			}
			b.usage.Reserved -= s.size
			b.recycled = append(b.recycled, s.block)
			return true
		})
	}
}

// stuck reports whether a free block shares its segment. Its neighbours are in
// use then, since free ones would have been joined.
func (b *BestFit) stuck(x int32) bool { return b.blocks[x].prev >= 0 || b.blocks[x].next >= 0 }

// split cuts block x, which is in no pool, after size bytes; the rest is free.
func (b *BestFit) split(x int32, size int64) {
	at := b.blocks[x]
	rest := b.newBlock(block{address: at.address + size, size: at.size - size, prev: x, next: at.next, pool: at.pool})
	if at.next >= 0 {
		b.blocks[at.next].prev = rest
	}
	b.blocks[x].size, b.blocks[x].next = size, rest
	b.put(rest)
}

// Free takes back a block.
func (b *BestFit) Free(id int) {
	x := int32(id)
	at := &b.blocks[x]
	if at.requested == 0 {
		panic("allocator: block is not in use")
	}
	b.usage.Used -= at.size
	b.usage.Requested -= at.requested
	at.requested = 0
	if p := at.prev; p >= 0 && b.blocks[p].requested == 0 {
		b.remove(p)
		b.join(p, x)
		x = p
	}
	if n := b.blocks[x].next; n >= 0 && b.blocks[n].requested == 0 {
		b.remove(n)
		b.join(x, n)
	}
	b.put(x)
}

// join makes one block of two free neighbours that are in no pool.
func (b *BestFit) join(x, next int32) {
	b.blocks[x].size += b.blocks[next].size
	after := b.blocks[next].next
	b.blocks[x].next = after
	if after >= 0 {
		b.blocks[after].prev = x
	}
	b.blocks[next] = block{} // free, in case somebody frees it again
	b.recycled = append(b.recycled, next)
}

func (b *BestFit) newBlock(x block) int32 {
	if n := len(b.recycled) - 1; n >= 0 {
		id := b.recycled[n]
		b.recycled = b.recycled[:n]
		b.blocks[id] = x
		return id
	}
	b.blocks = append(b.blocks, x)
	return int32(len(b.blocks) - 1)
}

func (b *BestFit) span(x int32) freeSpan {
	return freeSpan{size: b.blocks[x].size, address: b.blocks[x].address, block: x}
}

// put adds a free block to its pool.
func (b *BestFit) put(x int32) {
	pool := b.blocks[x].pool
	s := b.span(x)
	k, _ := slices.BinarySearchFunc(b.free[pool], s, freeSpan.compare)
	b.free[pool] = slices.Insert(b.free[pool], k, s)
	if b.stuck(x) {
		b.usage.Stuck += s.size
	}
}

// remove takes a free block out of its pool.
func (b *BestFit) remove(x int32) {
	pool := b.blocks[x].pool
	k, _ := slices.BinarySearchFunc(b.free[pool], b.span(x), freeSpan.compare)
	b.allocate(pool, k)
}

// allocate takes the k-th free block out of a pool.
func (b *BestFit) allocate(pool int8, k int) {
	s := b.free[pool][k]
	if b.stuck(s.block) {
		b.usage.Stuck -= s.size
	}
	b.free[pool] = slices.Delete(b.free[pool], k, k+1)
}
