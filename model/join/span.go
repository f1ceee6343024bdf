package join

// Span returns the time of computing everything once, in seconds: every
// forward, the loss, every backward.
func (j *Join) Span() float64 {
	n := 0
	for _, l := range j.Branches {
		n += l
	}
	return float64(n)*(j.ForwardTime+j.BackwardTime) + j.LossTime
}
