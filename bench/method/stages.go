package method

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
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
// heuristics/flush.Recompute chooses for the platform and so much memory; of these, said is how
// many there are, and what no choice is better than. The error wraps
// run.ErrInput or, where no choice has a plan, plan.ErrNoPlan.
func Stages(ctx context.Context, c *chain.Chain, cut partition.Cutting, word, memory string, p platform.Platform) (in *partition.Partition, said string, err error) {
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
			return nil, "", run.InputError(fmt.Errorf("--memory %q: --recompute auto needs the size of a GPU's memory, as 40GB", memory))
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
			return nil, "", err
		}
		least, err := anyChoice(of, cut.Stages, p)
		switch {
		case err != nil:
			return nil, "", err
		case math.IsInf(least, 1):
			return nil, "", fmt.Errorf("%w: no choice of stages that compute forward again fits in %s", plan.ErrNoPlan, memory)
		case again == nil:
			return nil, "", fmt.Errorf("%w: of the choices of stages that compute forward again none that was tried fits in %s", plan.ErrNoPlan, memory)
		}
		said = fmt.Sprintf("%d of %d stages compute forward again; whichever do, the %s is at least %s",
			len(slices.DeleteFunc(slices.Clone(again), func(is bool) bool { return !is })), len(again), cmp.Or(p.Objective, plan.SpanObjective), platform.FormatSeconds(least))
	default:
		for text := range strings.SplitSeq(word, ",") {
			s, err := strconv.Atoi(text)
			if err != nil || s < 1 || s > cut.Stages {
				return nil, "", run.InputError(fmt.Errorf("--recompute %q: none, all, auto, or numbers of the %d stages, as 1,3", word, cut.Stages))
			}
			again[s-1] = true
		}
	}
	in, err = of(again)
	return in, said, err
}

// anyChoice returns the bound of flush.AnyChoice.
func anyChoice(of func([]bool) (*partition.Partition, error), stages int, p platform.Platform) (float64, error) {
	none, err := of(make([]bool, stages))
	if err != nil {
		return 0, err
	}
	all, err := of(slices.Repeat([]bool{true}, stages))
	if err != nil {
		return 0, err
	}
	least, err := flush.AnyChoice(none, all, p)
	return least, run.InputError(err)
}
