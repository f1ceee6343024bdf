package bench

import (
	"fmt"
	"strings"
)

// Suggest ends an error about an unknown name: "did you mean "greedy"?" if one
// of the candidates is near, else the list of them.
func Suggest(name string, candidates []string) string {
	best, least := "", len(name)/2+2
	for _, c := range candidates {
		if d := distance(strings.ToLower(strings.TrimLeft(name, "-")), strings.ToLower(strings.TrimLeft(c, "-"))); d < least {
			best, least = c, d
		}
	}
	if best != "" && least <= max(2, len(name)/3) {
		return fmt.Sprintf("did you mean %s?", best)
	}
	return "known are " + strings.Join(candidates, ", ")
}

// distance is the Levenshtein distance of two short words. O(len(a)·len(b)).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
