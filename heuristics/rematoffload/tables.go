package rematoffload

import (
	"fmt"
	"unsafe"

	"workbench/model/plan"
	"workbench/model/platform"
)

// TooLargeError reports that the tables of a program would be too large.
type TooLargeError struct {
	What  string
	Limit float64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("remat-offload: %s takes tables of more than %s: choose fewer slots", e.What, platform.FormatBytes(e.Limit))
}

// Unwrap marks it as the error of a method that found no plan.
func (e *TooLargeError) Unwrap() error { return plan.ErrNoPlan }

// tableLimit limits the bytes of the tables of POFO, searchLimit those of every POFO that Search runs. The caller
// of Search may run it repeatedly with more slots, concurrently with a proof in the same memory, and the garbage
// collector doubles the use.
const tableLimit, searchLimit = 4 << 30, 128 << 20

// ledger counts the bytes of tables, so that they never exceed a limit, even while one of them is reallocated.
// Only reserve allocates them.
type ledger struct{ limit, taken int }

// reserve returns list with capacity for n more elements, one and a half times its capacity if it is reallocated;
// false if the limit does not allow it.
func reserve[T any](l *ledger, list []T, n int) ([]T, bool) {
	if cap(list)-len(list) >= n {
		return list, true
	}
	size := int(unsafe.Sizeof(*new(T)))
	room := max(len(list)+n, cap(list)+cap(list)/2)
	if (l.limit-l.taken)/size < room {
		room = len(list) + n
	}
	if (l.limit-l.taken)/size < room {
		return list, false
	}
	moved := make([]T, len(list), room)
	copy(moved, list)
	l.taken += room * size
	free(l, list)
	return moved, true
}

// free releases the bytes of list, which must not be used afterwards.
func free[T any](l *ledger, list []T) { l.taken -= cap(list) * int(unsafe.Sizeof(*new(T))) }

// table returns a list of n zeros; it reuses list if its capacity suffices.
func table[T any](l *ledger, list []T, n int) ([]T, bool) {
	if cap(list) < n {
		free(l, list)
		list = nil
	}
	list, ok := reserve(l, list[:0], n)
	if !ok {
		return nil, false
	}
	list = list[:n]
	clear(list)
	return list, true
}

// noRoom returns the error of a program whose tables do not fit.
func (d *tails) noRoom() error {
	return &TooLargeError{What: fmt.Sprintf("pofo on %d layers with %d slots", d.in.N, d.slots), Limit: float64(d.ledger.limit)}
}
