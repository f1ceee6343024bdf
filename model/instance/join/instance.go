package join

import (
	"fmt"
	"strings"

	"workbench/model/platform"
)

// Kind names instances of this type.
const Kind = "join"

// Kind, Title, Size, Batch and Scale say what is common to all instances: see
// package plan. Sizes are slots, and nobody says how many samples there are.
func (j *Join) Kind() string  { return Kind }
func (j *Join) Title() string { return j.Name }
func (j *Join) Size() string {
	return "branches of " + strings.Trim(strings.ReplaceAll(fmt.Sprint(j.Branches), " ", ", "), "[]")
}
func (j *Join) Batch() int           { return 0 }
func (j *Join) Scale() platform.Unit { return platform.Byte }

// TotalTime returns the time of computing everything once, in seconds: every
// forward, the loss, every backward.
func (j *Join) TotalTime() float64 {
	n := 0
	for _, l := range j.Branches {
		n += l
	}
	return float64(n)*(j.ForwardTime+j.BackwardTime) + j.LossTime
}
