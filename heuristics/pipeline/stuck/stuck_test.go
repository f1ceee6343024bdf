package stuck

import "testing"

// Of mini-batches that keep a byte, and need two for their backward, as many take turns as
// leave one room for it, not as many as fit: with n of them T is at least an n-th of the
// way through the processor and back.
func TestProcessorsAreNotStuck(t *testing.T) {
	t.Parallel()
	for room := 2; room <= 6; room++ {
		w := &Way{
			Stored: []float64{0, 1, 0}, Needs: []float64{0, 1, 2}, Time: []float64{0, 1, 1},
			Away: []bool{false, true, false}, Room: float64(room),
		}
		s := w.States(map[uint64]int32{})
		n := room - 1
		if len(s.of) != room+1 || len(s.moves) != 2*n {
			t.Errorf("room for %d: %d states and %d moves, want %d and %d: the last state is stuck", room, len(s.of), len(s.moves), room+1, 2*n)
		}
		least := 12 / float64(n)
		for _, behind := range []bool{false, true} {
			if !s.Excluded(least*0.999, 10, behind) || s.Excluded(least*1.001, 10, behind) {
				t.Errorf("room for %d: the least period is not %v", room, least)
			}
		}
	}
}
