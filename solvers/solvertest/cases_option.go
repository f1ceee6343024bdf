package solvertest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// optionCases are about options, and about solving more than once.
func optionCases() []testCase {
	return []testCase{
		{"option/out of range", outOfRange},
		{"option/relax", relax},
		{"option/seed repeats", seedRepeats},
		{"option/threads 2, 1, 2", threads},
		{"option/memory to spare", picked(solvers.Options{Memory: 4 << 30})},
		{"option/unknown raw option", func(h *harness) error {
			unknown := solvers.Options{Raw: map[string]string{"no_such_option": "1"}}
			return h.refused(text(pick), unknown, solvers.ErrOption, solvers.ErrUnsupported)
		}},
		{"option/explicit defaults", picked(solvers.Options{
			RelGap: solvers.Some(0.), AbsGap: solvers.Some(0.), Threads: solvers.Some(1), Seed: solvers.Some(0),
		})},
		{"repeat/same model twice", func(h *harness) error {
			m := text(pick)
			for range 2 {
				if _, err := h.optimum(m, solvers.Options{}, 11); err != nil {
					return err
				}
			}
			return nil
		}},
		{"repeat/two models in turn", interleaved},
		{"repeat/infeasible between", infeasibleBetween},
		{"repeat/eight at once", eightAtOnce},
	}
}

// picked is a case of pick with options that do not matter.
func picked(o solvers.Options) func(*harness) error {
	return func(h *harness) error {
		_, err := h.optimum(text(pick), o, 11)
		return err
	}
}

func outOfRange(h *harness) error {
	for _, o := range []solvers.Options{
		{Time: -time.Second},
		{RelGap: solvers.Some(-0.1)},
		{RelGap: solvers.Some(math.NaN())},
		{RelGap: solvers.Some(math.Inf(1))},
		{AbsGap: solvers.Some(-1.)},
		{AbsGap: solvers.Some(math.NaN())},
		{Threads: solvers.Some(0)},
		{Threads: solvers.Some(-2)},
		{Seed: solvers.Some(-1)},
		{Nodes: solvers.Some(int64(-1))},
		{Memory: -1},
		{Start: []float64{1}},
		{Start: []float64{}},
	} {
		if err := h.refused(text(pick), o, solvers.ErrOption); err != nil {
			return fmt.Errorf("%+v: %w", o, err)
		}
	}
	return nil
}

// relax solves the relaxation of an infeasible integer model, which has one.
func relax(h *harness) error {
	m := text("max x + y; st; 2x + 2y = 1; bin; x y")
	if _, err := h.optimum(m, solvers.Options{Relax: true}, 0.5); err != nil {
		return err
	}
	_, err := h.status(m, solvers.Options{}, solvers.Infeasible)
	return err
}

// seedRepeats solves ten times with one seed.
func seedRepeats(h *harness) error {
	m := newMultiKnapsack(3, 14, 9).model()
	var first *solvers.Result
	for range 10 {
		r, err := h.status(m, solvers.Options{Seed: solvers.Some(7)}, solvers.Optimal)
		if err != nil {
			return err
		}
		if first == nil {
			first = r
		}
		if err := same(first, r); err != nil {
			return err
		}
	}
	return nil
}

// same checks that two solves of one model went the same way.
func same(a, b *solvers.Result) error {
	x, _ := a.Solution()
	y, _ := b.Solution()
	if a.Status != b.Status || a.Nodes != b.Nodes || !slices.Equal(x, y) {
		return fmt.Errorf("not repeatable: %v, %d nodes, %v, then %v, %d nodes, %v", a.Status, a.Nodes, x, b.Status, b.Nodes, y)
	}
	return nil
}

// threads changes the number of threads from solve to solve, which the
// scheduler of HiGHS minds.
func threads(h *harness) error {
	k := newMultiKnapsack(3, 14, 10)
	want := k.optimum()
	for _, n := range []int{2, 1, 2, 3, 1} {
		if _, err := h.optimum(k.model(), solvers.Options{Threads: solvers.Some(n)}, want); err != nil {
			return fmt.Errorf("%d threads: %w", n, err)
		}
	}
	return nil
}

func interleaved(h *harness) error {
	a, b := newKnapsack(10, 1), newKnapsack(14, 2)
	for range 3 {
		for _, k := range []*knapsack{a, b} {
			if _, err := h.optimum(k.model(), solvers.Options{}, k.optimum()); err != nil {
				return err
			}
		}
	}
	return nil
}

// infeasibleBetween looks for values left over from the solve before.
func infeasibleBetween(h *harness) error {
	for range 2 {
		if _, err := h.optimum(text(pick), solvers.Options{}, 11); err != nil {
			return err
		}
		if _, err := h.status(text(infeasiblePick), solvers.Options{}, solvers.Infeasible); err != nil {
			return err
		}
	}
	return nil
}

// eightAtOnce solves three models in eight goroutines, each result being equal
// to that of a lone solve.
func eightAtOnce(h *harness) error {
	var models []*milp.Model
	var alone []*solvers.Result
	for seed := range int64(3) {
		models = append(models, newMultiKnapsack(3, 12, seed).model())
		r, err := h.status(models[seed], solvers.Options{}, solvers.Optimal)
		if err != nil {
			return err
		}
		alone = append(alone, r)
	}
	errs := make([]error, 8)
	var all sync.WaitGroup
	for g := range errs {
		all.Go(func() {
			for i := range 6 {
				k := (g + i) % len(models)
				r, err := h.status(models[k], solvers.Options{}, solvers.Optimal)
				if err == nil {
					err = same(alone[k], r)
				}
				if err != nil {
					errs[g] = err
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// callbackCases are about the user's code that is called during a solve.
func callbackCases() []testCase {
	return []testCase{
		{"callback/silence", func(h *harness) error {
			h.quiet = true
			_, err := h.optimum(newKnapsack(12, 4).model(), solvers.Options{}, newKnapsack(12, 4).optimum())
			return err
		}},
		{"callback/every incumbent", everyIncumbent},
		{"callback/panic in progress surfaces", panicSurfaces},
		{"callback/log", logs},
		{"callback/log writer that fails", picked(solvers.Options{
			Log: writer(func([]byte) (int, error) { return 0, errors.New("disk full") }),
		})},
		{"callback/log writer that panics", func(h *harness) error {
			return surfaces(h, func(v any) solvers.Options {
				return solvers.Options{Log: writer(func([]byte) (int, error) { panic(v) })}
			})
		}},
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// everyIncumbent expects the final values among the incumbents heard of.
func everyIncumbent(h *harness) error {
	k := newMultiKnapsack(4, 16, 11)
	last := math.NaN()
	r, err := h.optimum(k.model(), solvers.Options{OnProgress: func(p solvers.Progress) {
		if p.X != nil {
			last = p.Objective
		}
	}}, k.optimum())
	if err != nil {
		return err
	}
	if obj, _ := r.Objective(); last != obj {
		return fmt.Errorf("last incumbent heard of has objective %v, the result %v", last, obj)
	}
	return nil
}

func panicSurfaces(h *harness) error {
	return surfaces(h, func(v any) solvers.Options {
		return solvers.Options{OnProgress: func(solvers.Progress) { panic(v) }}
	})
}

// surfaces expects the panic of a callback to reach the caller of Solve as it
// is, soon, and the backend to work afterwards.
func surfaces(h *harness, options func(v any) solvers.Options) error {
	v := errors.New("thrown by the callback")
	o := options(v)
	m := newMarketSplit(4, 30, 12).slackModel()
	if missing := needs(m, &o) &^ h.backend.Can(); missing != 0 {
		_, err := h.solve(m, o)
		return err
	}
	o.Time = 20 * time.Second
	begin := time.Now()
	caught := func() (caught any) {
		defer func() { caught = recover() }()
		r, err := h.backend.Solve(h.ctx, m, o)
		return fmt.Sprintf("result %v, error %v", r, err)
	}()
	if caught != v {
		return fmt.Errorf("instead of the panic of the callback: %v", caught)
	}
	if took := time.Since(begin); took > 10*time.Second {
		return fmt.Errorf("a panic ended the solve after %v", took)
	}
	_, err := h.optimum(text(pick), solvers.Options{}, 11)
	return err
}

func logs(h *harness) error {
	var log bytes.Buffer
	if _, err := h.optimum(newKnapsack(12, 5).model(), solvers.Options{Log: &log}, newKnapsack(12, 5).optimum()); err != nil {
		return err
	}
	if log.Len() == 0 {
		return errors.New("nothing was logged")
	}
	return nil
}
