package pipeline

import (
	"fmt"
	"math"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
)

// FittingPartition returns PipeDream's partition in which the r-th stage from
// the end keeps r mini-batches, as in its own 1F1B with as many in flight as
// stages, and fits with them by the 𝓜(i,j,r) of [004] 7.1.1; nil if there is
// none. That of [004] 7.3 changes with M, too; how it reckons is not said
// there. O(P·n²).
func FittingPartition(c *chain.Chain, p platform.Platform) ([]plan.Stage, error) {
	in, err := readInstance(c, p, Options{Model: plan.StageModel})
	if err != nil {
		return nil, err
	}
	stages, _ := in.partition(in.Procs)
	return stages, nil
}

// partition returns PipeDream's straight pipeline: the contiguous allocation
// with the smallest load of a processor or link, a link's being 2a_ℓ/β as
// PipeDream has it, and that load in seconds. Where several are best it has the
// fewest stages, and then the longest first ones. O(P·n²). With noam > 0 each
// stage also has to fit when, as PipeDream reckons, the r-th stage from the end keeps
// min(r, noam) mini-batches; it returns nil if nothing fits.
func (in *instance) partition(noam int) ([]plan.Stage, float64) {
	if noam == 0 {
		return in.balanced(nil)
	}
	return in.balanced(func(r int) int { return min(r, noam) })
}

// held is partition for stages that all keep k mini-batches.
func (in *instance) held(k int) []plan.Stage {
	stages, _ := in.balanced(func(int) int { return k })
	return stages
}

// balanced finds the allocation with the smallest load such that the r-th stage
// from the end fits with flight(r) mini-batches; nil: memory does not count, and nobody is asked whether that is still wanted.
func (in *instance) balanced(flight func(r int) int) ([]plan.Stage, float64) {
	// best[r][i]: layers i+1..n in r stages; end[r][i]: where the first ends.
	n := in.N
	best := make([]float64, (in.Procs+1)*(n+1))
	end := make([]int, (in.Procs+1)*(n+1))
	for k := range best {
		best[k] = math.Inf(1)
	}
	best[n] = 0
	for r := 1; r <= in.Procs; r++ {
		row, next := best[r*(n+1):(r+1)*(n+1)], best[(r-1)*(n+1):r*(n+1)]
		for i := n - r; i >= 0; i-- {
			if flight != nil && i%stopRows == 0 && in.stopped() {
				return nil, math.Inf(1)
			}
			for j := i + 1; j <= n; j++ {
				load := in.Time(i+1, j)
				if load > row[i] {
					break
				}
				if flight != nil && !in.Fits(in.Needs(i+1, j, flight(r))) {
					continue
				}
				if j < n {
					load = max(load, 2*in.A[j]/in.Platform.Bandwidth)
				}
				if load = max(load, next[j]); load <= row[i] && !math.IsInf(load, 1) {
					row[i], end[r*(n+1)+i] = load, j
				}
			}
		}
	}
	r := 1
	for k := 2; k <= in.Procs; k++ {
		if best[k*(n+1)] < best[r*(n+1)] {
			r = k
		}
	}
	period := best[r*(n+1)]
	if math.IsInf(period, 1) {
		return nil, period
	}
	var ends []int
	for i := 0; i < n; r-- {
		i = end[r*(n+1)+i]
		ends = append(ends, i)
	}
	return fromEnds(ends), period
}

// checkAllocation says what is wrong with an allocation given by a user.
func (in *instance) checkAllocation(stages []plan.Stage) error {
	next := 1
	for k, s := range stages {
		switch {
		case s.From != next:
			return fmt.Errorf("%w: stage %d begins at layer %d, it should at %d", ErrAllocation, k+1, s.From, next)
		case s.To < s.From || s.To > in.N:
			return fmt.Errorf("%w: stage %d ends at layer %d, it should between %d and %d", ErrAllocation, k+1, s.To, s.From, in.N)
		case s.Processor < 0 || s.Processor >= in.Platform.Processors:
			return fmt.Errorf("%w: stage %d is on processor %d, there are 0 to %d", ErrAllocation, k+1, s.Processor, in.Platform.Processors-1)
		}
		next = s.To + 1
	}
	if next != in.N+1 {
		return fmt.Errorf("%w: it ends at layer %d, the chain at %d", ErrAllocation, next-1, in.N)
	}
	return nil
}

// fromEnds returns the stages that end at the given layers, one a processor.
func fromEnds(ends []int) []plan.Stage {
	stages := make([]plan.Stage, len(ends))
	from := 1
	for p, to := range ends {
		stages[p] = plan.Stage{Processor: p, From: from, To: to}
		from = to + 1
	}
	return stages
}
