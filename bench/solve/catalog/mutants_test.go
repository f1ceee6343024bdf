package catalog_test

import (
	"encoding/json"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/bench/solve/catalog"
	"workbench/ilp"
	"workbench/ilp/check"
	"workbench/ilp/formulation"
	"workbench/ilp/ilptest"
	"workbench/model/instance/chain"
	"workbench/model/instance/functions"
	"workbench/model/instance/graph"
	"workbench/model/instance/lifetimes"
	"workbench/model/instance/stages"
	"workbench/model/instance/training"
	"workbench/model/milp"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/highs"
)

// A mutant is a formulation with one mistake: it is made for another instance than
// the one asked for, or its numbers are changed afterwards.
type mutant struct {
	name     string
	instance func(in plan.Instance, p *platform.Platform) plan.Instance // nil: this one has none
	data     func(d *milp.Data, group int) bool                         // whether there is such a group
	beside   *testcase.Trial                                            // on which it is seen of training-beside; nil: any
}

// costly makes all costs 1.2 times as high.
func costly(d *milp.Data, group int) bool {
	d.Offset *= 1.2
	for j := range d.Cost {
		d.Cost[j] *= 1.2
	}
	return group == 0
}

// wrongSign negates the last entry of every row of a group.
func wrongSign(d *milp.Data, group int) bool {
	for i, g := range d.RowGroup {
		if last := d.Start[i+1] - 1; int(g) == group && last >= d.Start[i] {
			d.Val[last] *= -1
		}
	}
	return group < len(d.Groups)
}

// wrongIndex has every row of a group read the column before that of its last entry.
func wrongIndex(d *milp.Data, group int) bool {
	for i, g := range d.RowGroup {
		last := d.Start[i+1] - 1
		if int(g) == group && last >= d.Start[i] && d.Col[last] > 0 && !slices.Contains(d.Col[d.Start[i]:last], d.Col[last]-1) {
			d.Col[last]--
		}
	}
	return group < len(d.Groups) && len(d.Cost) > 1
}

// wrongCover says of every row that limits whole columns alone that sets of four and
// more of them which just fit do not.
func wrongCover(d *milp.Data, group int) bool {
	rows := len(d.RowLower)
	for i := range rows {
		cols, val := d.Col[d.Start[i]:d.Start[i+1]], d.Val[d.Start[i]:d.Start[i+1]]
		if len(cols) < 4 || len(cols) > 8 || !slices.ContainsFunc(cols, func(j int32) bool { return d.Integer[j] && d.Upper[j] == 1 }) {
			continue
		}
		for set := range 1 << len(cols) {
			sum, used := 0.0, []int32{}
			whole := true
			for k, j := range cols {
				whole = whole && d.Integer[j] && d.Lower[j] == 0 && d.Upper[j] == 1
				if set>>k&1 != 0 {
					sum += val[k]
					used = append(used, j)
				}
			}
			n := bits.OnesCount(uint(set))
			if !whole || n < 4 || sum != d.RowUpper[i] && sum != d.RowLower[i] {
				continue
			}
			// Of a side that just holds, one way or the other: not all of them.
			d.Col = append(d.Col, used...)
			for range used {
				d.Val = append(d.Val, 1)
			}
			d.Start = append(d.Start, int32(len(d.Col)))
			d.RowLower, d.RowUpper = append(d.RowLower, math.Inf(-1)), append(d.RowUpper, float64(n-1))
			d.RowGroup = append(d.RowGroup, d.RowGroup[i])
		}
	}
	return group == noGroup
}

// noGroup is the group of mutants of all rows.
const noGroup = math.MaxInt

// lessMemory is a comparison with < for ≤.
func lessMemory(in plan.Instance, p *platform.Platform) plan.Instance {
	if p.Memory <= 1 { // no instance has none
		return nil
	}
	p.Memory--
	return in
}

// slower is a bandwidth with the factor of costs.
func slower(in plan.Instance, p *platform.Platform) plan.Instance {
	if p.Bandwidth == 0 {
		return nil
	}
	p.Bandwidth /= 1.2
	return in
}

// shifted returns parts that have of the next one what take takes, the last one of the first.
func shifted[T any](parts []T, take func(to, next *T)) []T {
	all := slices.Clone(parts)
	for i := range all {
		take(&all[i], &parts[(i+1)%len(parts)])
	}
	return all
}

// nextTimes has every computation take as long as the next one, the last one as long as the first.
func nextTimes(in plan.Instance, _ *platform.Platform) plan.Instance {
	switch x := in.(type) {
	case *chain.Chain:
		y := *x
		y.Layers = shifted(x.Layers, func(to, next *chain.Layer) { to.ForwardTime, to.BackwardTime = next.ForwardTime, next.BackwardTime })
		return &y
	case *graph.Graph:
		y := *x
		y.Nodes = shifted(x.Nodes, func(to, next *graph.Node) { to.Time = next.Time })
		return &y
	case *training.Graph:
		y := *x
		y.Nodes = shifted(x.Nodes, func(to, next *training.Node) { to.Time = next.Time })
		return &y
	case *functions.Sequence:
		y := *x
		y.Functions = shifted(x.Functions, func(to, next *functions.Function) { to.Time = next.Time })
		return &y
	case *lifetimes.Lifetimes:
		y := *x
		y.Buffers = shifted(x.Buffers, func(to, next *lifetimes.Buffer) { to.Lower, to.Upper = next.Lower, next.Upper })
		return &y
	case *stages.Partition:
		y := *x
		y.Stages = slices.Clone(x.Stages)
		for i := range y.Stages {
			next := &x.Stages[(i+1)%len(x.Stages)]
			y.Stages[i].ForwardTime, y.Stages[i].BackwardTime = next.ForwardTime, next.BackwardTime
		}
		return &y
	}
	return in
}

// nextSizes has every tensor as large as the next one of its kind, the last one as large as the first.
func nextSizes(in plan.Instance, _ *platform.Platform) plan.Instance {
	switch x := in.(type) {
	case *chain.Chain:
		y := *x
		y.Layers = shifted(x.Layers, func(to, next *chain.Layer) {
			to.Activation, to.Saved, to.Weight, to.Gradient = next.Activation, next.Saved, next.Weight, next.Gradient
			to.ClampOverhead()
		})
		return &y
	case *graph.Graph:
		y := *x
		y.Nodes = shifted(x.Nodes, func(to, next *graph.Node) { to.Memory = next.Memory })
		return &y
	case *training.Graph:
		y := *x
		y.Storages = shifted(x.Storages, func(to, next *training.Storage) { to.Bytes = next.Bytes })
		return &y
	case *functions.Sequence:
		y := *x
		y.Variables = shifted(x.Variables, func(to, next *functions.Variable) { to.Size = next.Size })
		return &y
	case *lifetimes.Lifetimes:
		y := *x
		y.Buffers = shifted(x.Buffers, func(to, next *lifetimes.Buffer) { to.Size = next.Size })
		return &y
	case *stages.Partition:
		y := *x
		y.Stages = slices.Clone(x.Stages)
		for i := range y.Stages {
			next := &x.Stages[(i+1)%len(x.Stages)]
			y.Stages[i].ForwardMemory, y.Stages[i].BackwardMemory, y.Stages[i].WeightMemory = next.ForwardMemory, next.BackwardMemory,
				next.WeightMemory
			y.Stages[i].OffloadMemory, y.Stages[i].Weight = next.OffloadMemory, next.Weight
		}
		return &y
	}
	return in
}

// spoil makes the mutant of a formulation; group is the one that data changes.
func (m *mutant) spoil(f formulation.Formulation, group int, changed *int) formulation.Formulation {
	spoilt := f
	spoilt.Build = func(in plan.Instance, p platform.Platform, options json.RawMessage) (*formulation.Program, error) {
		if m.instance != nil {
			if other := m.instance(in, &p); other != nil {
				*changed++
				in = other
			}
			return f.Build(in, p, options)
		}
		program, err := f.Build(in, p, options)
		if err != nil {
			return nil, err
		}
		d := program.Model.Data()
		d.Cost, d.Start, d.Col, d.Val = slices.Clone(d.Cost), slices.Clone(d.Start), slices.Clone(d.Col), slices.Clone(d.Val)
		d.RowLower, d.RowUpper, d.RowGroup = slices.Clone(d.RowLower), slices.Clone(d.RowUpper), slices.Clone(d.RowGroup)
		if m.data(&d, group) {
			*changed++
		}
		program.Model = milp.FromData(d)
		return program, program.Model.Err()
	}
	return spoilt
}

// coverLayers are the formulations with rows of four binaries and more alone, and of
// how many layers instances are on which the check sees that a cover of them is wrong.
var coverLayers = map[string]int{
	"chain-milp": 5, "offload-exact": 5, "remat-offload": 5, "pipeline-strong": 6, "checkmate": 6,
	"weights-exact": 4,
}

// coverTrial returns the one instance on which a wrong cover is seen of a formulation
// for which random ones would take long, nil: any.
//
// Of checkmate it is one of some hundred, each of which takes a second: that of a draw
// after so many others. Of weights-exact rows of up to eight items with four that can hold
// together say what is away where a computation starts, one item for each other layer, so
// that four layers have none. This chain has five, of which no plan has two weights on the
// GPU while a backward runs.
func coverTrial(t *testing.T, s *testcase.Subject, formulation string, layers int) *testcase.Trial {
	t.Helper()
	switch formulation {
	case "weights-exact":
		c := &chain.Chain{Name: "one weight at a time"}
		for range 5 {
			c.Layers = append(c.Layers, chain.Layer{ForwardTime: 1, BackwardTime: 1, Weight: 1})
		}
		return &testcase.Trial{In: c, Platform: platform.Platform{Memory: 2, Bandwidth: 1}, Pace: 1}
	case "checkmate":
		const seed, after = 104, 17
		r := rand.New(rand.NewPCG(seed, 0))
		for k := range after {
			if _, err := s.Random(r, 1+k%layers); err != nil {
				t.Fatal(err)
			}
		}
		trial, err := s.Random(r, 1+after%layers)
		if err != nil {
			t.Fatal(err)
		}
		return trial
	}
	return nil
}

// besideTrial is a step on which training-beside is not lower than the optimum, as random
// ones hardly are: what the first node writes does not fit beside the second, and the last
// one reads it. Either it travels for longer than everything else takes, or it is computed
// again, in the second of a second more.
func besideTrial(travels bool) *testcase.Trial {
	g := &training.Graph{
		Name: "not beside the second",
		Storages: []training.Storage{
			{ID: "a", Bytes: 4, Kind: training.Value, NoOffload: !travels},
			{ID: "b", Bytes: 1, Kind: training.Value},
			{ID: "c", Bytes: 1, Kind: training.Value},
			{ID: "gradient", Bytes: 1, Kind: training.Value, Result: true},
		},
		Nodes: []training.Node{
			{ID: "F1", Operation: "f", Phase: training.Forward, Time: 1, Writes: []int{0, 1}, Once: travels},
			{ID: "F2", Operation: "f", Phase: training.Forward, Time: 2, Reads: []int{1}, Writes: []int{2}, Workspace: 10},
			{ID: "B", Operation: "b", Phase: training.Backward, Time: 1, Reads: []int{0, 2}, Writes: []int{3}},
		},
	}
	if travels {
		for i := range g.Nodes {
			g.Nodes[i].Time = 0
		}
	}
	return &testcase.Trial{In: g, Platform: platform.Platform{Memory: 12, Bandwidth: 1}, Pace: 1}
}

// only returns a subject that has one instance.
func only(s *testcase.Subject, trial *testcase.Trial) *testcase.Subject {
	one := *s
	one.Random = func(*rand.Rand, int) (*testcase.Trial, error) { return trial, nil }
	one.Smaller = func(*testcase.Trial) []*testcase.Trial { return nil }
	return &one
}

// TestMutants: the check sees of every formulation that promises anything that it was
// made with one mistake. Of signs and indices it has to see that of some group of
// rows, as others only make a bound weaker, and of covers where there are rows of them.
func TestMutants(t *testing.T) {
	testfile.Long(t)
	for _, f := range ilp.Formulations() {
		if f.Promise == formulation.Nothing {
			continue
		}
		layers := 3
		switch f.Name {
		case "checkmate-beside":
			layers = 5 // forward nodes: nothing is computed again in fewer
		case "training-beside":
			layers = 2 // exhaustive search takes no more beside a link
		}
		for _, m := range []mutant{
			{name: "costs are 1.2 times as high", data: costly},
			{name: "a sign is wrong", data: wrongSign},
			{name: "an index is wrong", data: wrongIndex},
			{name: "memory has to be left", instance: lessMemory},
			{name: "transfers are slower", instance: slower, beside: besideTrial(true)},
			{name: "times are those of the next layer", instance: nextTimes, beside: besideTrial(false)},
			{name: "sizes are those of the next layer", instance: nextSizes},
		} {
			seen := false
			for group := 0; !seen; group++ {
				var changed int
				if seen, changed = m.seen(t, f, group, layers); changed == 0 {
					seen = group == 0 // as there is nothing to change in it: no link
					break
				}
				if m.instance != nil {
					break
				}
			}
			if !seen {
				t.Errorf("%s: nobody sees that %s", f.Name, m.name)
			}
		}
		if layers := coverLayers[f.Name]; layers > 0 {
			m := mutant{data: wrongCover}
			if seen, _ := m.seen(t, f, noGroup, layers); !seen {
				t.Errorf("%s: nobody sees that a cover is wrong from four items on", f.Name)
			}
		}
	}
}

// seen runs the check on a mutant of a formulation, on instances of up to so many
// layers, with one seed after the other until it fails.
func (m *mutant) seen(t *testing.T, f formulation.Formulation, group, layers int) (seen bool, changed int) {
	t.Helper()
	problem, err := catalog.FindProblem(f.Problem)
	if err != nil {
		t.Fatal(err)
	}
	spoilt, about, cases := m.spoil(f, group, &changed), problem.SubjectOf(f), 10
	if group == noGroup {
		if trial := coverTrial(t, about, f.Name, layers); trial != nil {
			about, cases = only(about, trial), 1
		}
	}
	if m.beside != nil && f.Name == "training-beside" {
		about, cases = only(about, m.beside), 1
	}
	if cases == 1 { // the trial is not at fault
		r, err := check.Run(t.Context(), f, about, []solvers.Backend{highs.New()}, check.Options{Cases: cases, Layers: layers})
		if err != nil || len(r.Failures) > 0 {
			t.Fatalf("%s, without a mistake: %v, %v", f.Name, r.Failures, err)
		}
	}
	seeds := uint64(20)
	if m.instance == nil && group < noGroup {
		seeds = 5 // there are other groups
	}
	for seed := range seeds {
		seen = ilptest.Fails(t, spoilt, about, check.Options{Seed: seed, Cases: cases, Layers: layers})
		if seen || changed == 0 {
			return seen, changed
		}
	}
	return false, changed
}
