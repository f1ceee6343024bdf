package nearest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func TestHint(t *testing.T) {
	methods := []string{"greedy", "l2l", "search", "milp"}
	long := make([]string, listed+1)
	for i := range long {
		long[i] = fmt.Sprintf("option_%02d", i)
	}
	for _, test := range []struct {
		name  string
		known []string
		want  string
	}{
		{"gredy", methods, "did you mean greedy?"},
		{"Greedy", methods, "did you mean greedy?"},
		{"serch", methods, "did you mean search?"},
		{"--metod", []string{"--memory", "--method"}, "did you mean --method?"},
		{"metod", []string{"--memory", "--method"}, "did you mean --method?"},
		{"simulated-annealing", methods, "known are greedy, l2l, search, milp"},
		{"rematerialization", []string{"swap", "remat"}, "did you mean remat?"},
		{"gree", methods, "did you mean greedy?"},
		{"", methods, "known are greedy, l2l, search, milp"},
		{"x", []string{"y"}, "known are y"}, // not a letter in common
		{"ab", []string{"ax", "xb"}, "did you mean ax?"},
		{"x", nil, "none is known"},
		{"option_7", long, "did you mean option_07?"},
		{"threads", long, "the nearest known are option_00, option_01, option_02"},
	} {
		if got := Hint(test.name, test.known); got != test.want {
			t.Errorf("Hint(%q) = %q, want %q", test.name, got, test.want)
		}
	}
}

func TestDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("distance of %q and %q is %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// The row-by-row computation agrees with the recursion that defines it.
func TestDistanceIsItsRecursion(t *testing.T) {
	var define func(a, b string) int
	define = func(a, b string) int {
		switch {
		case a == "" || b == "":
			return len(a) + len(b)
		case a[0] == b[0]:
			return define(a[1:], b[1:])
		}
		return 1 + min(define(a[1:], b[1:]), define(a[1:], b), define(a, b[1:]))
	}
	word := rapid.StringMatching(`[abc]{0,6}`)
	testfile.Property(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		if got, want := distance(a, b), define(a, b); got != want {
			t.Fatalf("distance of %q and %q is %d, want %d", a, b, got, want)
		}
	})
}
