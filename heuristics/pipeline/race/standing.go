package race

import (
	"cmp"
	"slices"
)

// A Standing is how a race stands that is not over: how far the way of those left that is ahead of all has fallen behind, in units of no
// meaning, and which part of the ways is left; zero where nothing was tried.
type Standing struct {
	Behind int
	Left   float64
}

// Standing is that of a race. O(ways).
func (c *Race) Standing() Standing {
	if c.Ways == 0 {
		return Standing{}
	}
	return Standing{c.memory.lowest, c.memory.left()}
}

// FirstWays is how many ways races have first of which not all go on.
const FirstWays = 1 << 10

// GoOn returns those of some races of so many ways each, FirstWays or more, that are to have more: what is told early is not sure, so fewer
// drop out at first than later, but for the very first, which are many. It takes in turns one whose ways are most behind, for a race is
// lost where they fall behind for ever, and one that has least ways left, for it may be over soon. O(n²).
func GoOn[T comparable](list []T, ways int, of func(T) Standing) (some []T) {
	n := len(list) / 2
	switch {
	case ways == FirstWays:
		n = len(list) / 4
	case ways <= 1<<15:
		n = len(list) * 3 / 4
	}
	behind, left := slices.Clone(list), slices.Clone(list)
	slices.SortStableFunc(behind, func(x, y T) int { return cmp.Compare(of(y).Behind, of(x).Behind) })
	slices.SortStableFunc(left, func(x, y T) int { return cmp.Compare(of(x).Left, of(y).Left) })
	for k := range list {
		for _, x := range []T{behind[k], left[k]} {
			if len(some) < n && !slices.Contains(some, x) {
				some = append(some, x)
			}
		}
	}
	return some
}
