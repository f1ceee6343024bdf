package allocator

import "fmt"

// Virtual allocates virtual addresses that are mapped to chunks of physical memory of one size m_c, in any order
// ([003] §4). A request of m_r bytes gets ⌈m_r/m_c⌉ chunks. There is no external fragmentation and less than m_c
// of internal fragmentation per block, [003] (1). Freed chunks are cached. O(1) per operation.
type Virtual struct {
	chunk, capacity int64
	usage           Usage
	requested       []int64 // by block; 0: not in use
	recycled        []int
}

// NewVirtual returns the allocator of an empty device of that capacity, with chunks of the given size in bytes, at
// least one. (CUDA's minimum is 2 MiB on the devices of [003].)
func NewVirtual(capacity, chunk int64) *Virtual {
	return &Virtual{chunk: max(chunk, 1), capacity: capacity}
}

// Name returns "virtual" with the size of the chunks.
func (v *Virtual) Name() string {
	if mib := v.chunk >> 20; mib<<20 == v.chunk {
		return fmt.Sprintf("virtual %d MiB", mib)
	}
	return fmt.Sprintf("virtual %d B", v.chunk)
}

// Usage returns the present use.
func (v *Virtual) Usage() Usage { return v.usage }

// Alloc implements [Allocator].
func (v *Virtual) Alloc(bytes int64) (id int, ok bool) {
	bytes = max(bytes, 1)
	size := roundUp(bytes, v.chunk)
	if used := v.usage.Used + size; used > v.usage.Reserved {
		if used > v.capacity {
			return 0, false
		}
		v.usage.Reserved = used
	}
	v.usage.Used += size
	v.usage.Requested += bytes
	if n := len(v.recycled) - 1; n >= 0 {
		id, v.recycled = v.recycled[n], v.recycled[:n]
		v.requested[id] = bytes
		return id, true
	}
	v.requested = append(v.requested, bytes)
	return len(v.requested) - 1, true
}

// Free implements [Allocator].
func (v *Virtual) Free(id int) {
	bytes := v.requested[id]
	if bytes == 0 {
		panic("allocator: block is not in use")
	}
	v.requested[id] = 0
	v.usage.Used -= roundUp(bytes, v.chunk)
	v.usage.Requested -= bytes
	v.recycled = append(v.recycled, id)
}

// giveBack returns the cached chunks to the device.
func (v *Virtual) giveBack() { v.usage.Reserved = v.usage.Used }
