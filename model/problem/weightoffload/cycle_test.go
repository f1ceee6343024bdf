package weightoffload_test

import (
	"errors"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/exhaustive"
	optimum "workbench/model/exhaustive/weightoffload"
	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/weightoffload"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
	verifyweightoffload "workbench/model/verify/weightoffload"
)

func example() *chain.Chain {
	return &chain.Chain{
		Name: "example", Input: chain.Input{Activation: 100},
		Layers: []chain.Layer{
			{ForwardTime: 1, BackwardTime: 2, Activation: 10, Weight: 3},
			{ForwardTime: 4, BackwardTime: 5, Activation: 20, Weight: 7},
			{ForwardTime: 6, BackwardTime: 7, Activation: 5, Weight: 0},
		},
	}
}

// The cycle is B_3 B_2 B_1 F_1 F_2 F_3 with M_F = |w_i| + Σ_{k≤i}|a^k| and
// M_B = 2|w_i| + Σ_{k≤i}|a^k| ([001] (1)), a^0 included.
func TestOf(t *testing.T) {
	want := &weightoffload.Cycle{
		L:    3,
		U:    []float64{7, 5, 2, 1, 4, 6},
		W:    []float64{3, 7, 0},
		Act:  []float64{135, 130, 110, 110, 130, 135},
		Peak: []float64{135, 144, 116, 113, 137, 135},
	}
	if d := cmp.Diff(want, weightoffload.FromChain(example())); d != "" {
		t.Error(d)
	}
}

func TestNumbering(t *testing.T) {
	y := weightoffload.FromChain(example())
	var backward, forward []int
	for i := range y.L {
		backward, forward = append(backward, y.B(i)), append(forward, y.F(i))
		if y.Layer(y.B(i)) != i || y.Layer(y.F(i)) != i || !y.Backward(y.B(i)) || y.Backward(y.F(i)) {
			t.Errorf("layer %d does not come back from its operations", i)
		}
	}
	if !slices.Equal(backward, []int{2, 1, 0}) || !slices.Equal(forward, []int{3, 4, 5}) {
		t.Errorf("B %v, F %v", backward, forward)
	}
	if got := y.Compute(); got != 25 {
		t.Errorf("Σu = %v, want 25", got)
	}
}

// Range by hand: B_2 needs 144. With everything resident B_2 needs 144 and the
// 3 of layer 1.
func TestRange(t *testing.T) {
	if low, high := weightoffload.FromChain(example()).Range(); low != 144 || high != 147 {
		t.Errorf("Range = %v, %v; want 144, 147", low, high)
	}
	// Here the weight of layer 1 must be there while the activations of B_2
	// still are, and that is what decides: 20 + 6 against 2·6 + 10.
	c := &chain.Chain{Name: "handover", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Weight: 6},
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Weight: 1},
	}}
	if low, _ := weightoffload.FromChain(c).Range(); low != 26 {
		t.Errorf("low = %v, want 26", low)
	}
}

// Least is exact, whatever the magnitudes: with it there is a plan, with one
// unit less there is none. Most is enough for a plan without idle time.
func TestRangeIsExact(t *testing.T) {
	r := testfile.Random(t, 7, 11)
	const states = 2_000_000
	for range 400 {
		c, p := random.Weights(r, 1+r.IntN(3))
		least, most := weightoffload.FromChain(c).Range()
		if least > most {
			t.Fatalf("least %v is above most %v: %+v", least, most, c)
		}
		search := func(memory float64) (float64, error) {
			period, _, err := optimum.Search(c, platform.Platform{Memory: memory, Bandwidth: p.Bandwidth, Model: p.Model}, states)
			return period, err
		}
		fits := func(memory float64) error {
			_, err := weightoffload.New(c, platform.Platform{Memory: memory, Bandwidth: p.Bandwidth, Model: p.Model})
			return err
		}
		if least > 1 {
			_, err := search(least)
			if own := fits(least); err != nil || own != nil {
				t.Errorf("memory %v, the least: %v, %v: %+v", least, err, own, c)
			}
			_, err = search(least - 1)
			var e *plan.Infeasible
			if own := fits(least - 1); !errors.Is(err, exhaustive.ErrInfeasible) || !errors.As(own, &e) || e.Memory != least || e.Why == "" {
				t.Errorf("memory %v, one below the least: %v, %v: %+v", least-1, err, own, c)
			}
		}
		if most > 0 {
			if period, err := search(most); err != nil || period != c.TotalTime() {
				t.Errorf("memory %v, the most: period %v, error %v; want Σu = %v: %+v", most, period, err, c.TotalTime(), c)
			}
		}
	}
}

// Bounds are rounded down: never above what exact arithmetic makes of them, and
// exact where float64 holds all of it.
func TestComputeIsRoundedDown(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		y := &weightoffload.Cycle{U: rapid.SliceOfN(rapid.OneOf(
			rapid.Float64Range(0, 1e-9), rapid.Float64Range(0, 1), rapid.Float64Range(0, 1e6), rapid.Just(0.1),
		), 1, 20).Draw(t, "u")}
		exact := new(big.Rat)
		for _, u := range y.U {
			exact.Add(exact, new(big.Rat).SetFloat64(u))
		}
		got := y.Compute()
		if sum := new(big.Rat).SetFloat64(got); sum.Cmp(exact) > 0 {
			t.Fatalf("%v is above Σu", got)
		}
		if x, ok := exact.Float64(); ok && got != x && len(y.U) < 3 {
			t.Fatalf("%v, exactly %v", got, x)
		}
		if x, _ := exact.Float64(); got < x*(1-1e-14) {
			t.Fatalf("%v is far below %v", got, x)
		}
	})
}

// However short its prefetch is, a weight is there before its backward starts, beside what the one before
// holds until then: in one unit less than the least memory no plan is valid, and both peaks say so.
func TestArrivalWithinTheTolerance(t *testing.T) {
	c := &chain.Chain{Name: "handover", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Saved: 10, Weight: 6},
		{ForwardTime: 1, BackwardTime: 1, Activation: 10, Saved: 10, Weight: 1},
	}}
	const move = 6e-12
	least, _ := weightoffload.FromChain(c).Range()
	period := 4 + 2*move
	op := func(name, tensor string, layer int, start, end float64) plan.Op {
		return plan.Op{Op: name, Tensor: tensor, Layer: layer, Start: start, End: end}
	}
	p := plan.New(plan.WeightOffload, "by hand", c, platform.Platform{Memory: least + 1, Bandwidth: 1e12})
	p.Period = &period
	p.Ops = []plan.Op{
		op(plan.OpB, "", 2, 0, 1), op(plan.OpP, plan.TensorW, 1, 1-move, 1), op(plan.OpB, "", 1, 1, 2), op(plan.OpO, plan.TensorW, 1, 2, 2+move),
		op(plan.OpF, "", 1, 2+2*move, 3+2*move), op(plan.OpD, plan.TensorW, 1, 3+2*move, 3+2*move), op(plan.OpF, "", 2, 3+2*move, 4+2*move),
	}
	in, err := weightoffload.New(c, p.Platform)
	if err != nil {
		t.Fatal(err)
	}
	s, err := in.Read(p)
	if err != nil {
		t.Fatal(err)
	}
	if peak := s.Plan(in, "by hand").Claims.PeakMemory; peak != least+1 {
		t.Errorf("peak %g, want %g: both weights beside both activations", peak, least+1)
	}
	for memory, valid := range map[float64]bool{least + 1: true, least: false, least - 1: false} {
		p.Platform.Memory = memory
		r, err := verifyweightoffload.Verify(c, p)
		if err != nil {
			t.Fatal(err)
		}
		if r.Valid() != valid || r.PeakMemory != least+1 {
			t.Errorf("in %g: valid %t, peak %g", memory, r.Valid(), r.PeakMemory)
		}
	}
}

// A prefetch shorter than what tells instants apart belongs to the use that it ends before, and a plan is
// read back from what is written of it.
func TestReadWithinTheTolerance(t *testing.T) {
	c := &chain.Chain{Name: "turns", Layers: []chain.Layer{
		{ForwardTime: 1, BackwardTime: 1, Weight: 1}, {ForwardTime: 1, BackwardTime: 1, Weight: 1},
	}}
	for _, m := range []float64{1e-15, 1e-12, 1e-10, 1e-9, 4e-9, math.Nextafter(4e-9, 1), 8e-9, 1e-3, 1} {
		op := func(name, tensor string, layer int, start, end float64) plan.Op {
			return plan.Op{Op: name, Tensor: tensor, Layer: layer, Start: start, End: end}
		}
		period := 4 + 4*m
		p := plan.New(plan.WeightOffload, "by hand", c, platform.Platform{Memory: 2, Bandwidth: 1 / m})
		p.Period = &period
		p.Ops = []plan.Op{
			op(plan.OpB, "", 2, 0, 1), op(plan.OpO, plan.TensorW, 2, 1, 1+m), op(plan.OpD, plan.TensorW, 2, 1+m, 1+m),
			op(plan.OpP, plan.TensorW, 1, 1+m, 1+2*m), op(plan.OpB, "", 1, 1+2*m, 2+2*m), op(plan.OpF, "", 1, 2+2*m, 3+2*m),
			op(plan.OpO, plan.TensorW, 1, 3+2*m, 3+3*m), op(plan.OpD, plan.TensorW, 1, 3+3*m, 3+3*m),
			op(plan.OpP, plan.TensorW, 2, 3+3*m, 3+4*m), op(plan.OpF, "", 2, 3+4*m, 4+4*m),
		}
		in, err := weightoffload.New(c, p.Platform)
		if err != nil {
			t.Fatal(err)
		}
		s, err := in.Read(p)
		if err != nil {
			t.Fatalf("transfers of %g s: %v", m, err)
		}
		if want := []bool{false, true, true, false}; !slices.Equal(s.Away, want) {
			t.Errorf("transfers of %g s: away %v, want %v", m, s.Away, want)
		}
		for _, p := range []*plan.Plan{p, s.Plan(in, "read")} {
			if r, err := verifyweightoffload.Verify(c, p); err != nil || !r.Valid() || r.Makespan != period || r.ClaimErrors != nil {
				t.Errorf("transfers of %g s: %+v, %v", m, r, err)
			}
		}
	}
}

// Nor do operations a little apart, each by what the tolerance allows, make room: a weight fetched just an instant
// before its backward, as rounding has it, or just after it starts, and a backward that lasts all period between two of no time.
func TestNothingFitsBelowByTolerance(t *testing.T) {
	op := func(name, tensor string, layer int, start, end float64) plan.Op {
		return plan.Op{Op: name, Tensor: tensor, Layer: layer, Start: start, End: end}
	}
	for _, x := range []struct {
		bandwidth, period float64
		c                 *chain.Chain
		ops               []plan.Op
	}{
		{125.00000000000003, 8.000000007999999e+06, &chain.Chain{
			Name: "just an instant", Input: chain.Input{Activation: 1},
			Layers: []chain.Layer{
				{ForwardTime: 3e+06, BackwardTime: 2e+06, Activation: 2, Weight: 1}, {BackwardTime: 3e+06, Activation: 2},
			},
		}, []plan.Op{
			op("B", "", 2, 0, 3e+06), op("F", "", 2, -0.004000000004, -0.004000000004), op("D", "w", 1, 0, 0),
			op("P", "w", 1, 3e+06, 3.000000008e+06),
			op("B", "", 1, 3.000000008e+06, 5.000000007999999e+06), op("F", "", 1, 5.000000007999999e+06, 8.000000007999999e+06),
			op("O", "w", 1, 5.000000007999999e+06, 5.000000016e+06),
		}},
		{9.999999999999999e+17, 1.0000000001e-08, &chain.Chain{Name: "just after", Input: chain.Input{Activation: 1}, Layers: []chain.Layer{
			{ForwardTime: 3.0000000000000004e-09, BackwardTime: 3.0000000000000004e-09, Activation: 2},
			{ForwardTime: 1e-09, Activation: 2, Weight: 1},
			{ForwardTime: 2e-09, BackwardTime: 1e-09, Activation: 2},
		}}, []plan.Op{
			op("B", "", 3, 0, 1e-09), op("P", "w", 2, 1.0000000000000007e-09, 1.0000000010000006e-09),
			op("B", "", 2, 9.999999961e-10, 9.999999961e-10),
			op("B", "", 1, 1.000000001e-09, 4.000000001e-09), op("O", "w", 2, 1.000000001e-09, 1.000000002e-09),
			op("F", "", 1, 4.000000001e-09, 7.000000001000001e-09), op("F", "", 2, 7.000000001000001e-09, 8.000000001e-09),
			op("F", "", 3, 8.000000010900001e-09, 1.00000000109e-08), op("D", "w", 2, 8.000000001e-09, 8.000000001e-09),
		}},
		{1e15, 2e-06, &chain.Chain{Name: "all period", Input: chain.Input{Activation: 1}, Layers: []chain.Layer{
			{Activation: 1}, {BackwardTime: 2e-06, Activation: 1, Weight: 2},
		}}, []plan.Op{
			op("B", "", 2, 0, 2e-06), op("B", "", 1, 1.98e-15, 1.98e-15), op("F", "", 1, 0, 0), op("F", "", 2, -2e-16, -2e-16),
		}},
	} {
		least, _ := weightoffload.FromChain(x.c).Range()
		p := plan.New(plan.WeightOffload, "by hand", x.c, platform.Platform{Memory: 2 * least, Bandwidth: x.bandwidth})
		p.Period, p.Ops = &x.period, x.ops
		if r, err := verifyweightoffload.Verify(x.c, p); err != nil || !r.Valid() || r.PeakMemory < least {
			t.Errorf("%s: %v, the least memory is %v: %+v", x.c.Name, err, least, r)
		}
	}
}
