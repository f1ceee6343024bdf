package formulation

import "fmt"

// Level says how much of a solver's word is checked.
type Level string

const (
	Off  Level = "off"  // nothing: what a solver says stays a claim
	Root Level = "root" // the LP relaxation's bound, which costs one LP
	Full Level = "full" // the bound itself, by a tree, within the time limit
)

// ParseLevel reads a level; "" is Full.
func ParseLevel(s string) (Level, error) {
	switch l := Level(s); l {
	case "":
		return Full, nil
	case Off, Root, Full:
		return l, nil
	}
	return "", fmt.Errorf("%q is none of off, root, full", s)
}
