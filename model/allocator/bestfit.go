package allocator

import (
	"cmp"
	"slices"
)

// Sizes of PyTorch's caching allocator (c10/cuda/CUDACachingAllocator.cpp and c10/core/AllocatorConfig.h, with the
// names there in brackets). TensorFlow's and that of [003]'s framework differ only in sizes.
const (
	granule      = 512      // sizes are multiples of it (kMinBlockSize)
	mostSmall    = 1 << 20  // the largest request of the small pool (kSmallSize)
	smallSegment = 2 << 20  // segment size of that pool (kSmallBuffer)
	leastOwn     = 10 << 20 // minimum request that gets a segment of its own (kMinLargeAlloc)
	largeSegment = 20 << 20 // segment size of smaller requests of the large pool (kLargeBuffer)
	ownGranule   = 2 << 20  // own segments are multiples of it (kRoundLarge)
)

// BestFit is a caching allocator of one device and one stream, with PyTorch's default settings:
//
//   - Requests are rounded up to multiples of 512 bytes. One pool serves those of at most 1 MiB, another the
//     larger ones.
//   - A request gets the smallest free block of its pool that is large enough, at a tie the one with the lowest
//     address. The excess is split off and stays free, if it is at least 512 bytes in the small pool and more
//     than 1 MiB in the large one.
//   - If there is none, a segment is allocated from the device: 2 MiB for the small pool, 20 MiB for requests
//     below 10 MiB, else the request rounded up to 2 MiB. If the device lacks the memory, all segments without
//     a block in use are returned, and the allocation is retried.
//   - A freed block merges with its free neighbours in the segment, and stays in the pool.
//
// Segments may have any address, as the page tables of the device allow. An operation takes O(log n + moves) for n
// free blocks, and moves at most n entries of 24 bytes.
type BestFit struct {
	capacity int64
	usage    Usage
	end      int64 // addresses below it have been used
	blocks   []block
	recycled []int32       // unused entries of blocks
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

// roundUp returns the minimum multiple of unit that is at least n.
func roundUp(n, unit int64) int64 { return (n + unit - 1) / unit * unit }

// segmentFor returns the size of the segment for a rounded request.
func segmentFor(size int64) int64 {
	switch {
	case size <= mostSmall:
		return smallSegment
	case size < leastOwn:
		return largeSegment
	}
	return roundUp(size, ownGranule)
}

// Alloc implements [Allocator].
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

// segment allocates a segment of one block, which is in no pool yet, from the device.
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

// giveBack returns to the device all segments without a block in use (release_cached_blocks).
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

// stuck reports whether a free block shares its segment. Its neighbours are then in use, since free ones would
// have been merged.
func (b *BestFit) stuck(x int32) bool { return b.blocks[x].prev >= 0 || b.blocks[x].next >= 0 }

// split splits block x, which is in no pool, after size bytes; the rest is free.
func (b *BestFit) split(x int32, size int64) {
	at := b.blocks[x]
	rest := b.newBlock(block{address: at.address + size, size: at.size - size, prev: x, next: at.next, pool: at.pool})
	if at.next >= 0 {
		b.blocks[at.next].prev = rest
	}
	b.blocks[x].size, b.blocks[x].next = size, rest
	b.put(rest)
}

// Free implements [Allocator].
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

// join merges two free neighbours that are in no pool.
func (b *BestFit) join(x, next int32) {
	b.blocks[x].size += b.blocks[next].size
	after := b.blocks[next].next
	b.blocks[x].next = after
	if after >= 0 {
		b.blocks[after].prev = x
	}
	b.blocks[next] = block{} // free, so that a second Free panics
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

// remove removes a free block from its pool.
func (b *BestFit) remove(x int32) {
	pool := b.blocks[x].pool
	k, _ := slices.BinarySearchFunc(b.free[pool], b.span(x), freeSpan.compare)
	b.allocate(pool, k)
}

// allocate removes the k-th free block from a pool and returns it.
func (b *BestFit) allocate(pool int8, k int) {
	s := b.free[pool][k]
	if b.stuck(s.block) {
		b.usage.Stuck -= s.size
	}
	b.free[pool] = slices.Delete(b.free[pool], k, k+1)
}
