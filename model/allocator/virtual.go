package allocator

import "fmt"

// Virtual hands out virtual addresses, behind which lie chunks of physical
// memory of one size m_c, any of them in any order ([003] §4). A request of m_r
// bytes gets ⌈m_r/m_c⌉ chunks, so that there is no external fragmentation and
// less than m_c of internal fragmentation a block, [003] (1). Chunks that are
// freed are cached. O(1) an operation.
type Virtual struct {
	chunk, capacity int64
	usage           Usage
	requested       []int64 // by block; 0: not in use
	recycled        []int
}

// NewVirtual returns the allocator of an empty device of that capacity, in
// chunks of that many bytes, at least one. (CUDA's least is 2 MiB on the
// devices of [003].)
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

// Alloc hands out a block.
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

// Free takes back a block.
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

// giveBack returns the chunks that are cached to the device.
func (v *Virtual) giveBack() { v.usage.Reserved = v.usage.Used }
