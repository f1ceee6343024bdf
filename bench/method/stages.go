package method

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"

	"workbench/bench/run"
	heuristics "workbench/heuristics/flush"
	"workbench/model/chain"
	"workbench/model/flush"
	"workbench/model/partition"
	"workbench/model/plan"
	"workbench/model/platform"
)

// Stages cuts a chain into stages of which some keep only their input and compute forward again:
// none, all, those with the numbers in the word, from 1 on, as 1,3, or, with auto, those that
// heuristics/flush.Recompute chooses for the platform and so much memory. The error wraps
// run.ErrInput or, where no choice has a plan, plan.ErrNoPlan.
func Stages(ctx context.Context, c *chain.Chain, cut partition.Cutting, word, memory string, p platform.Platform) (*partition.Partition, error) {
	of := func(again []bool) (*partition.Partition, error) {
		cut.Recompute = again
		in, err := partition.Cut(c, cut)
		return in, run.InputError(err)
	}
	again := make([]bool, max(0, cut.Stages))
	switch word {
	case "none":
	case "all":
		for s := range again {
			again[s] = true
		}
	case "auto":
		m, err := platform.ParseMemory(memory)
		if err != nil || m.Percent || math.IsInf(m.Value, 0) {
			return nil, run.InputError(fmt.Errorf("--memory %q: --recompute auto needs the size of a GPU's memory, as 40GB", memory))
		}
		p.Memory = c.Unit.FromBytes(m.Value)
		again, err = heuristics.Recompute(ctx, cut.Stages, func(again []bool) (*flush.Instance, error) {
			in, err := of(again)
			if err != nil {
				return nil, err
			}
			v, err := flush.New(in, p)
			return v, run.InputError(err)
		})
		if err != nil {
			return nil, err
		}
		if again == nil {
			return nil, fmt.Errorf("%w: of the choices of stages that compute forward again none that was tried fits in %s", plan.ErrNoPlan, memory)
		}
	default:
		for text := range strings.SplitSeq(word, ",") {
			s, err := strconv.Atoi(text)
			if err != nil || s < 1 || s > cut.Stages {
				return nil, run.InputError(fmt.Errorf("--recompute %q: none, all, auto, or numbers of the %d stages, as 1,3", word, cut.Stages))
			}
			again[s-1] = true
		}
	}
	return of(again)
}
