package allocator

import "strings"

// Mixed serves requests of up to 1 MiB from the small pool of a caching best fit, and larger ones by virtual
// addressing. [003] has no such allocator, but a network has hundreds of variables of a few bytes, each of which
// would occupy a chunk of megabytes. Cached memory of either part is released when the other needs it. Operations
// cost as those of the parts.
type Mixed struct {
	capacity int64
	small    *BestFit
	large    *Virtual
}

// NewMixed returns the allocator of an empty device of that capacity, with chunks of the given size in bytes, at
// least one.
func NewMixed(capacity, chunk int64) *Mixed {
	return &Mixed{capacity: capacity, small: NewBestFit(capacity), large: NewVirtual(capacity, chunk)}
}

// Name returns "mixed" with the size of the chunks.
func (m *Mixed) Name() string { return strings.Replace(m.large.Name(), "virtual", "mixed", 1) }

// Usage returns the present use.
func (m *Mixed) Usage() Usage {
	s, l := m.small.Usage(), m.large.Usage()
	return Usage{Reserved: s.Reserved + l.Reserved, Used: s.Used + l.Used, Requested: s.Requested + l.Requested, Stuck: s.Stuck}
}

// Alloc implements [Allocator]; blocks of the small part have even numbers, those of the large part odd ones.
func (m *Mixed) Alloc(bytes int64) (block int, ok bool) {
	if bytes <= mostSmall {
		m.small.capacity = m.capacity - m.large.usage.Reserved
		if block, ok = m.small.Alloc(bytes); !ok {
			m.large.giveBack()
			m.small.capacity = m.capacity - m.large.usage.Reserved
			block, ok = m.small.Alloc(bytes)
		}
		return 2 * block, ok
	}
	m.large.capacity = m.capacity - m.small.usage.Reserved
	if block, ok = m.large.Alloc(bytes); !ok {
		m.small.giveBack()
		m.large.capacity = m.capacity - m.small.usage.Reserved
		block, ok = m.large.Alloc(bytes)
	}
	return 2*block + 1, ok
}

// Free implements [Allocator].
func (m *Mixed) Free(block int) {
	if block%2 == 0 {
		m.small.Free(block / 2)
	} else {
		m.large.Free(block / 2)
	}
}
