package race

import (
	"math"

	"workbench/model/problem/pipeline"
)

// Cuts are where layers may be cut into runs that take no more than a limit.
type Cuts struct {
	Time              []float64 // by layer, what counts of a run
	Forward, Backward []float64 // what a cut behind each layer takes
	Limit             float64

	rows [][][2]float64 // by the first layer, then the last
}

// Between is the least that a forward and a backward wait for links between layers i and j. O(longest run) for each i and j once.
func (c *Cuts) Between(i, j int) [2]float64 {
	if c.rows == nil {
		c.rows = make([][][2]float64, len(c.Time))
	}
	row := c.rows[i]
	for k := i + len(row); k <= j; k++ { // the last run is first..k
		f, b, load := math.Inf(1), math.Inf(1), 0.0
		for first := k; first >= i; first-- {
			load += c.Time[first]
			if first < k && load > c.Limit*(1+2*pipeline.Rounding) {
				break
			}
			if first == i {
				f, b = 0, 0
				break
			}
			before := row[first-1-i]
			f, b = min(f, before[0]+c.Forward[first-1]), min(b, before[1]+c.Backward[first-1])
		}
		row = append(row, [2]float64{f, b})
	}
	c.rows[i] = row
	return row[j-i]
}
