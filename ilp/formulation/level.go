package formulation

import "fmt"

// Level is the degree to which solver bounds are certified.
type Level string

const (
	Off  Level = "off"  // not at all: solver bounds stay uncertified
	Root Level = "root" // the bound of the LP relaxation, which costs one LP
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
