package race

import (
	"slices"
	"testing"
)

// Of races those go on that are first by either measure, none twice, and as many as there may be.
func TestGoOn(t *testing.T) {
	t.Parallel()
	list := []Standing{{9, 0.9}, {8, 0.8}, {1, 0.1}, {2, 0.2}, {3, 0.7}, {4, 0.6}, {5, 0.5}, {6, 0.4}}
	for _, x := range []struct {
		ways int
		want []Standing
	}{
		{FirstWays, []Standing{{9, 0.9}, {1, 0.1}}},
		{1 << 15, []Standing{{9, 0.9}, {1, 0.1}, {8, 0.8}, {2, 0.2}, {6, 0.4}, {5, 0.5}}},
		{1 << 16, []Standing{{9, 0.9}, {1, 0.1}, {8, 0.8}, {2, 0.2}}},
	} {
		if got := GoOn(list, x.ways, func(s Standing) Standing { return s }); !slices.Equal(got, x.want) {
			t.Errorf("of %d ways %v go on, want %v", x.ways, got, x.want)
		}
	}
	if got := GoOn(list[:1], 1<<20, func(s Standing) Standing { return s }); len(got) > 0 {
		t.Errorf("the last one goes on for ever: %v", got)
	}
}
