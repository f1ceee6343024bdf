package plan

// Stop says that a search is to end, with what it has: once it is closed, as the Done of a
// context is. nil: never.
type Stop <-chan struct{}

// Given reports whether the search is to end.
func (s Stop) Given() bool {
	select {
	case <-s:
		return true
	default:
		return false
	}
}
