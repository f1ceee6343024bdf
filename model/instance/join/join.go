// Package join holds networks of several branches that meet in one loss
// ([004] chapter 1): unit sizes, homogeneous costs.
package join

import "workbench/model/strictjson"

// Format names the file format written by this package.
const Format = "workbench.join/v1"

// Join is a join of K branches. Every value takes one slot.
type Join struct {
	Name     string
	Branches []int // L: the number of forwards of each branch, 0 allowed
	Slots    int   // m; 0: given elsewhere
	// Keep is b: whether δ_0 of a branch must stay in memory when it is
	// finished. All false is MULTI-∅, all true MULTI-δ; nil: all false.
	Keep         []bool
	ForwardTime  float64 // u_F, seconds
	BackwardTime float64 // u_B
	LossTime     float64 // u_L
	Source       map[string]any
	Extra        []strictjson.Extra
}

// K returns the number of branches.
func (j *Join) K() int { return len(j.Branches) }

// Keeps reports whether δ_0 of the branch of index i must stay.
func (j *Join) Keeps(i int) bool { return i < len(j.Keep) && j.Keep[i] }
