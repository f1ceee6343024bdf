package pipeline

// LeastByPrices is Least without the searches that come before prices.
func (in *Instance) LeastByPrices() Least {
	low, _ := in.needed()
	stages := in.contiguousLeast()
	best := &Least{Low: low, High: in.OneAtATime(stages), Allocation: stages}
	in.narrow(best)
	return *best
}

// RaisedByPrices is a bound by prices alone, of so many rounds.
func (in *Instance) RaisedByPrices(high float64, rounds int) float64 {
	low, _ := newMaster(in).raise(0, 0, high, rounds, leastLabels)
	return low
}
