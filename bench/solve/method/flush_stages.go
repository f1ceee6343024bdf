package method

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/solve"
	heuristics "workbench/heuristics/flush"
	"workbench/model/instance/chain"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/flush"
)

// What a stage does with what its layers save.
const (
	keeps = iota
	again // computes forward again
	sends // to the host
)

// A Choice says which stages compute forward again and which send to the host: none, all, those with the numbers
// in the word, from 1 on, as 1,3, or, with auto, those that heuristics/flush.Choose chooses for so much Memory.
type Choice struct{ Recompute, Offload, Memory string }

// Stages cuts a chain into stages by a choice, that of auto for the platform; of it, said is how
// many stages do what, and what no choice is better than. The error wraps
// solve.ErrInput or, where no choice has a plan, plan.ErrNoPlan.
func Stages(ctx context.Context, c *chain.Chain, cut stages.Cutting, w Choice,
	p platform.Platform,
) (in *stages.Partition, said string, err error) {
	n := max(0, cut.Stages)
	options := []int{keeps}
	named := map[int][]bool{}
	for _, x := range []struct {
		option     int
		flag, word string
	}{{again, "--recompute", w.Recompute}, {sends, "--offload", w.Offload}} {
		if x.word == "auto" {
			options = append(options, x.option)
		}
		if named[x.option], err = numbered(x.flag, x.word, n); err != nil {
			return nil, "", err
		}
	}
	of := func(choice []int) (*stages.Partition, error) {
		cut.Recompute, cut.Send = slices.Clone(named[again]), slices.Clone(named[sends])
		for s, k := range choice {
			cut.Recompute[s] = cut.Recompute[s] || options[k] == again
			cut.Send[s] = cut.Send[s] || options[k] == sends
		}
		if !slices.Contains(cut.Send, true) {
			cut.Send = nil
		}
		in, err := stages.Cut(c, cut)
		return in, solve.InputError(err)
	}
	choice := make([]int, n)
	if len(options) > 1 {
		m, err := platform.ParseMemory(w.Memory)
		if err != nil || m.Percent || math.IsInf(m.Value, 0) {
			return nil, "", solve.InputError(fmt.Errorf("--memory %q: auto needs the size of a GPU's memory, as 40GB", w.Memory))
		}
		p.Memory = c.Unit.FromBytes(m.Value)
		if choice, said, err = chosen(ctx, of, options, n, w.Memory, p); err != nil {
			return nil, "", err
		}
	}
	in, err = of(choice)
	return in, said, err
}

// chosen chooses among options, for so much memory as the platform has, and says what came of it.
func chosen(ctx context.Context, of func([]int) (*stages.Partition, error), options []int, n int, memory string,
	p platform.Platform,
) (choice []int, said string, err error) {
	choice, err = heuristics.Choose(ctx, n, len(options), func(choice []int) (*flush.Instance, error) {
		in, err := of(choice)
		if err != nil {
			return nil, err
		}
		v, err := flush.New(in, p)
		return v, solve.InputError(err)
	})
	if err != nil {
		return nil, "", err
	}
	var all []*stages.Partition
	for k := range options {
		in, err := of(slices.Repeat([]int{k}, n))
		if err != nil {
			return nil, "", err
		}
		all = append(all, in)
	}
	does := map[int]string{again: "compute forward again", sends: "send to the host"}
	least, err := flush.AnyChoice(all, p)
	var what []string
	for _, option := range options[1:] {
		what = append(what, does[option])
	}
	switch {
	case err != nil:
		return nil, "", solve.InputError(err)
	case math.IsInf(least, 1):
		return nil, "", fmt.Errorf("%w: no choice of stages that %s fits in %s", plan.ErrNoPlan, strings.Join(what, " or "), memory)
	case choice == nil:
		return nil, "", fmt.Errorf("%w: of the choices of stages that %s none that was tried fits in %s", plan.ErrNoPlan,
			strings.Join(what, " or "), memory)
	}
	for k, option := range options[1:] {
		count := 0
		for _, x := range choice {
			if x == k+1 {
				count++
			}
		}
		what[k] = fmt.Sprintf("%d of %d stages %s", count, n, does[option])
	}
	return choice, fmt.Sprintf("%s; whichever do, the %s is at least %s", strings.Join(what, ", "), cmp.Or(p.Objective, plan.SpanObjective),
		platform.FormatSeconds(least)), nil
}

// numbered returns which stages a word names; none for auto.
func numbered(flag, word string, n int) ([]bool, error) {
	is := make([]bool, n)
	switch word {
	case "none", "auto":
	case "all":
		for s := range is {
			is[s] = true
		}
	default:
		for text := range strings.SplitSeq(word, ",") {
			s, err := strconv.Atoi(text)
			if err != nil || s < 1 || s > n {
				return nil, solve.InputError(fmt.Errorf("%s %q: none, all, auto, or numbers of the %d stages, as 1,3", flag, word, n))
			}
			is[s-1] = true
		}
	}
	return is, nil
}
