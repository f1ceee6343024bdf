// Package allocator simulates the allocation of GPU memory: a best-fit caching allocator, as PyTorch's, and
// virtual addressing with chunks of physical memory ([003] §4). It replays the allocations of plans, tensor by
// tensor, and reports how much memory they need in practice. It models one stream of one device, without other
// programs and without the driver.
package allocator

// Usage is the memory in use at one time, in bytes. Requested ≤ Used ≤ Reserved.
type Usage struct {
	Reserved  int64 `json:"reserved"`  // taken from the device, in use or cached
	Used      int64 `json:"used"`      // in allocated blocks
	Requested int64 `json:"requested"` // of these, requested
	// Stuck is free memory that cannot be returned to the device, because another block of its segment is in use;
	// PyTorch counts it as inactive_split_bytes.
	Stuck int64 `json:"stuck"`
}

// Internal returns the internal fragmentation: the excess of allocated blocks over their requests.
func (u Usage) Internal() int64 { return u.Used - u.Requested }

// External returns the external fragmentation: free memory that only a request of a suitable size can use.
func (u Usage) External() int64 { return u.Stuck }

// Allocator allocates memory.
type Allocator interface {
	// Name returns the kind and parameters of the allocator: "best-fit".
	Name() string
	// Alloc allocates a block of that many bytes, at least one. It returns false, and allocates nothing, if the
	// memory does not suffice.
	Alloc(bytes int64) (block int, ok bool)
	// Free frees a block from Alloc. It panics if the block is not in use.
	Free(block int)
	// Usage returns the current usage. O(1).
	Usage() Usage
}

// Unlimited is a capacity that no plan exceeds.
const Unlimited = int64(1) << 62
