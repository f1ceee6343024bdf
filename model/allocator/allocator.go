// Package allocator simulates how a GPU's memory is handed out: a caching
// allocator that looks for the best fit, as PyTorch's, and virtual addressing
// with chunks of physical memory ([003] §4). It replays what plans take and
// give back, tensor by tensor, and says how much memory they really need. It is
// a model: one stream of one device, no other programs, no driver.
package allocator

// Usage is how memory is used at an instant, in bytes. Requested ≤ Used ≤
// Reserved.
type Usage struct {
	Reserved  int64 `json:"reserved"`  // taken from the device, in use or cached
	Used      int64 `json:"used"`      // in blocks that are in use
	Requested int64 `json:"requested"` // of these what was asked for
	// Stuck is what is free and cannot be given back to the device, because
	// something else in its segment is in use; PyTorch counts it as
	// inactive_split_bytes.
	Stuck int64 `json:"stuck"`
}

// Internal returns the internal fragmentation: what blocks in use have more
// than was asked for.
func (u Usage) Internal() int64 { return u.Used - u.Requested }

// External returns the external fragmentation: free memory that only a request
// of the right size can have.
func (u Usage) External() int64 { return u.Stuck }

// An Allocator hands out memory.
type Allocator interface {
	// Name says what it is and with which parameters: "best-fit".
	Name() string
	// Alloc hands out a block of that many bytes, at least one. It reports false
	// if there is no room, and then hands out nothing.
	Alloc(bytes int64) (block int, ok bool)
	// Free takes back a block that Alloc has handed out. It panics if the block
	// is not in use.
	Free(block int)
	// Usage returns the present use. O(1).
	Usage() Usage
}

// Unlimited is the capacity of a device that is large enough.
const Unlimited = int64(1) << 62
