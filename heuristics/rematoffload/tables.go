package rematoffload

import (
	"fmt"
	"unsafe"

	"workbench/model/plan"
	"workbench/model/platform"
)

// TooLargeError says that tables of a program would be too large.
type TooLargeError struct {
	What  string
	Limit float64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("remat-offload: %s takes tables of more than %s: choose fewer slots", e.What, platform.FormatBytes(e.Limit))
}

// Unwrap makes it an error of a method that found no plan.
func (e *TooLargeError) Unwrap() error { return plan.ErrNoPlan }

// tableLimit is the most bytes that the tables of POFO may take, and searchLimit
// those of every POFO that Search runs: its caller may run it again and again with
// more slots, beside a proof in the same memory, and a collector of garbage takes as
// much again.
const tableLimit, searchLimit = 4 << 30, 128 << 20

// A ledger counts the bytes that tables take, so that they never take more than a
// limit, not even while one of them is moved to have more room. Nobody but reserve
// gives them any.
type ledger struct{ limit, taken int }

// reserve returns list with room for n more elements, one and a half times the room
// it had if it has to move; false if there is no room.
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

// free says that nobody uses list any more.
func free[T any](l *ledger, list []T) { l.taken -= cap(list) * int(unsafe.Sizeof(*new(T))) }

// table is a list of n zeros, whose room was free if there was any.
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

// noRoom is the error of a program whose tables do not fit.
func (d *tails) noRoom() error {
	return &TooLargeError{What: fmt.Sprintf("pofo on %d layers with %d slots", d.in.N, d.slots), Limit: float64(d.ledger.limit)}
}
