package curve_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"regexp"
	"strings"
	"testing"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/bench/solve/curve"
	"workbench/bench/solve/method"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/strictjson"
	"workbench/model/testfile"
)

// small is a chain on which methods differ.
func small(t *testing.T) *solve.Instance {
	t.Helper()
	in, err := solve.Load("zoo:rnn?seq=8&hidden=64&inputs=64", nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestCurve(t *testing.T) {
	in := small(t)
	p, persistent := catalogtest.Find(t, plan.Remat, "persistent")
	_, slots := catalogtest.Find(t, plan.Remat, "persistent-slots")
	_, periodic := catalogtest.Find(t, plan.Remat, "periodic")
	_, optimum := catalogtest.Find(t, plan.Remat, "optimum")
	limits := curve.Limits(p, in, solve.Setting{}, 6)
	s := solve.Setting{Slots: solve.DefaultSlots}
	c := curve.RunCurve(context.Background(), p, []*solve.Method{persistent, slots, periodic, optimum}, in, s, curve.OverMemory, limits)
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	if len(c.Bounds) != len(limits) {
		t.Fatalf("%d bounds for %d limits", len(c.Bounds), len(limits))
	}
	for k, m := range limits {
		best, bound := c.Series[3].Makespan(m), c.BoundAt(m).Value
		if best < bound*(1-1e-9) {
			t.Errorf("at %g the optimum is %g, the bound %g", m, best, bound)
		}
		for i := range c.Series[:3] {
			if x := c.Series[i].Makespan(m); x < best*(1-1e-9) {
				t.Errorf("at %g %s has %g, the optimum %g", m, c.Series[i].Method, x, best)
			}
		}
		if k > 0 && c.Bounds[k].Value > c.Bounds[k-1].Value {
			t.Errorf("more memory, larger bound: %g then %g", c.Bounds[k-1].Value, c.Bounds[k].Value)
		}
	}
	for _, i := range []int{0, 1} {
		for k := 1; k < len(c.Series[i].Points); k++ {
			a, b := c.Series[i].Points[k-1], c.Series[i].Points[k]
			if b.Memory <= a.Memory || *b.Makespan >= *a.Makespan {
				t.Errorf("%s: no breakpoint: %g s at %g after %g s at %g", c.Series[i].Method, *b.Makespan, b.Memory, *a.Makespan, a.Memory)
			}
		}
	}
}

func TestCurveSchema(t *testing.T) {
	in := small(t)
	p, persistent := catalogtest.Find(t, plan.Remat, "persistent")
	_, storeAll := catalogtest.Find(t, plan.Remat, "store-all")
	c := curve.RunCurve(context.Background(), p, []*solve.Method{persistent, storeAll}, in, solve.Setting{}, curve.OverMemory,
		curve.Limits(p, in, solve.Setting{}, 3))
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(c); err != nil {
		t.Fatal(err)
	}
	validate := testfile.Schema(t, "curve-v1.json")
	old := regexp.MustCompile(`"(at|over)":("memory"|[0-9.e+]+),|"platform":{},`).ReplaceAllString(b.String(), "")
	if err := validate(old); err != nil || strings.Contains(old, `"at"`) {
		t.Errorf("a document without the fields that were added: %v\n%s", err, old)
	}
	if err := validate(b.String()); err != nil {
		t.Errorf("%v\n%s", err, &b)
	}
	if err := validate(strings.Replace(b.String(), `"steps"`, `"step"`, 1)); err == nil {
		t.Error("the schema takes an unknown field")
	}
	var again curve.Curve
	if err := strictjson.Decode(b.Bytes(), "curve.json", &again); err != nil {
		t.Error(err)
	}
	if len(again.Series) != 2 || len(again.Series[0].Points) != len(c.Series[0].Points) || again.Bounds[0].Value != c.Bounds[0].Value {
		t.Errorf("read back: %+v", again)
	}
}

// A method whose curve promises what its plans do not keep is found out.
func TestCurveOfALiar(t *testing.T) {
	in := small(t)
	p, honest := catalogtest.Find(t, plan.Remat, "persistent")
	whole := honest.Curve
	for name, lie := range map[string]func(solve.Tradeoff) solve.Tradeoff{
		"faster than its plan": func(t solve.Tradeoff) solve.Tradeoff {
			t.Points[0].Makespan /= 2
			return t
		},
		"more memory than its limit": func(t solve.Tradeoff) solve.Tradeoff {
			make := t.Plan
			t.Plan = func(memory float64) (*plan.Plan, error) {
				p, err := make(math.MaxInt64)
				if p != nil {
					p.Platform.Memory = memory
				}
				return p, err
			}
			return t
		},
	} {
		liar := *honest
		liar.Curve = func(ctx context.Context, in *solve.Instance, s solve.Setting, most float64) (solve.Tradeoff, error) {
			t, err := whole(ctx, in, s, most)
			return lie(t), err
		}
		c := curve.RunCurve(context.Background(), p, []*solve.Method{&liar}, in, solve.Setting{}, curve.OverMemory, curve.Limits(p, in, solve.Setting{}, 3))
		err := c.Err()
		var invalid *solve.InvalidPlanError
		if err == nil || errors.Is(err, plan.ErrNoPlan) || name == "more memory than its limit" && !errors.As(err, &invalid) {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

// Where no method has a plan the error says so, and where one has it does not.
// One unit below the least memory the curve says that there is no plan, as a file, too.
func TestCurveBelowTheLeast(t *testing.T) {
	for _, x := range []struct{ problem, method, instance string }{
		{plan.Remat, "optimum", "zoo:rnn?seq=8&hidden=64&inputs=64"},
		{plan.Remat, "periodic", "zoo:rnn?seq=8&hidden=64&inputs=64"},
		{plan.Remat, "store-all", "zoo:unet?as=graph"},
		{plan.Pipeline, "1f1b-star", "zoo:vgg16"},
	} {
		in, err := solve.Load(x.instance, nil)
		if err != nil {
			t.Fatal(err)
		}
		p, m := catalogtest.Find(t, x.problem, x.method)
		s := solve.Setting{Platform: platform.Platform{Memory: 1, Bandwidth: 12e9, Processors: 4, WeightCopies: 3}}
		var none *plan.Infeasible
		if r := solve.Run(t.Context(), p, m, in, s); !errors.As(r.Err, &none) {
			t.Fatalf("%s in 1 byte: %s", x.method, r.Status)
		}
		c := curve.RunCurve(t.Context(), p, []*solve.Method{m}, in, s, curve.OverMemory, []float64{none.Memory - 1, none.Memory})
		if !c.Bounds[0].Infeasible || c.Bounds[1].Infeasible {
			t.Errorf("%s, %s: %+v", x.problem, x.method, c.Bounds)
		}
		if at := c.Series[0].Best(none.Memory - 1); at != nil {
			t.Errorf("%s, %s: a plan of %v below the least memory %v", x.problem, x.method, at.Memory, none.Memory)
		}
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		if err := testfile.Schema(t, "curve-v1.json")(string(b)); err != nil {
			t.Error(err)
		}
	}
}

func TestCurveWithoutPlans(t *testing.T) {
	in := small(t)
	p, storeAll := catalogtest.Find(t, plan.Remat, "store-all")
	_, persistent := catalogtest.Find(t, plan.Remat, "persistent")
	low, _ := p.Range(in, solve.Setting{})
	limits := []float64{low}
	if err := curve.RunCurve(context.Background(), p, []*solve.Method{storeAll}, in, solve.Setting{}, curve.OverMemory,
		limits).Err(); !errors.Is(err, plan.ErrNoPlan) {
		t.Errorf("error %v", err)
	}
	if err := curve.RunCurve(context.Background(), p, []*solve.Method{storeAll, persistent}, in, solve.Setting{}, curve.OverMemory,
		limits).Err(); err != nil {
		t.Errorf("error %v", err)
	}
}

func TestInstanceForms(t *testing.T) {
	for spec, form := range map[string]string{
		"zoo:rnn?seq=2": chain.Kind, "zoo:rnn?seq=2&as=graph": graph.Kind,
		"zoo:siamese?length=2&as=join": join.Kind,
	} {
		in, err := solve.Load(spec, nil)
		if err != nil {
			t.Fatal(err)
		}
		if in.Kind() != form {
			t.Errorf("%s is a %s", spec, in.Kind())
		}
		var b bytes.Buffer
		if err := in.Write(&b); err != nil {
			t.Fatal(err)
		}
		again, err := solve.Load("-", &b)
		if err != nil {
			t.Fatal(err)
		}
		if again.SHA256 != in.SHA256 || again.Kind() != form || again.Size() != in.Size() {
			t.Errorf("%s: written and read it is %s with %s, not %s with %s", spec, again.Size(), again.SHA256, in.Size(), in.SHA256)
		}
		for _, p := range catalog.Problems() {
			if p.Accepts(in) != nil {
				continue
			}
			m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, in))
			if err != nil || !m.Accepts(in) {
				t.Errorf("%s: the default method of %s is %q: %v", spec, p.Name, catalog.DefaultMethod(p, in), err)
			}
		}
	}
}

// The curve of a program that is proved optimal is its own bound.
func TestCurveOfTheOptimum(t *testing.T) {
	in, err := solve.Load("zoo:siamese?length=2&as=join", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, dp := catalogtest.Find(t, plan.Join, "join-dp")
	c := curve.RunCurve(context.Background(), p, []*solve.Method{dp}, in, solve.Setting{}, curve.OverMemory, curve.Limits(p, in, solve.Setting{}, 100))
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.Bounds {
		if best := c.Series[0].Makespan(b.Memory); !same(b.Value, best) || b.Value > best || best < c.Compute {
			t.Errorf("%g slots: makespan %g, bound %g", b.Memory, best, b.Value)
		}
	}
	if first, last := c.Bounds[0].Value, c.Bounds[len(c.Bounds)-1].Value; first <= last || !same(last, c.Compute) {
		t.Errorf("bounds from %g to %g, computing once takes %g", first, last, c.Compute)
	}
}

func same(x, y float64) bool { return math.Abs(x-y) <= plan.Tolerance*math.Abs(y) }

// A curve of more breakpoints than are kept proves what the method does at each limit, and not
// what the last one that is kept takes, which is more.
func TestBoundsBetweenTheBreakpointsThatAreKept(t *testing.T) {
	testfile.Long(t)
	in, err := solve.NewInstance(&join.Join{
		Name: "long", Branches: []int{600}, Keep: []bool{false}, ForwardTime: 1, BackwardTime: 1,
		LossTime: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, dp := catalogtest.Find(t, plan.Join, "join-dp")
	c := curve.RunCurve(context.Background(), p, []*solve.Method{dp}, in, solve.Setting{}, curve.OverMemory, []float64{3, 40, 350, 500, 590})
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	for _, b := range c.Bounds {
		s := solve.Setting{}
		s.Platform.Memory = b.Memory
		r := solve.Run(context.Background(), p, dp, in, s)
		if r.Err != nil {
			t.Fatal(r.Err)
		}
		if b.Value > *r.Objective || !same(b.Value, *r.Objective) {
			t.Errorf("%g slots: bound %g, a plan takes %g", b.Memory, b.Value, *r.Objective)
		}
	}
}

// Over GPUs and over bandwidth every method is run at each value; what a bound
// proves for many GPUs or fast links it proves for fewer and slower ones.
// Where a heuristic's breakpoints lie between the limits, the optimum is run there.
func TestNoCurveIsBelowTheOptimum(t *testing.T) {
	in, err := solve.Load("zoo:resnet18", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, persistent := catalogtest.Find(t, plan.Remat, "persistent")
	_, optimum := catalogtest.Find(t, plan.Remat, "optimum")
	c := curve.RunCurve(context.Background(), p, []*solve.Method{persistent, optimum}, in, solve.Setting{}, curve.OverMemory,
		curve.Limits(p, in, solve.Setting{}, 5))
	if err := c.Err(); err != nil {
		t.Fatal(err)
	}
	if len(c.Series[1].Points) <= 5 {
		t.Fatal("no breakpoint of persistent is better than the optimum of a limit below it: nothing is tested")
	}
	for _, x := range c.Series[0].Points {
		best := math.Inf(1)
		for i := range c.Series[1].Points {
			if y := &c.Series[1].Points[i]; y.Makespan != nil && c.Threshold(y) <= x.At {
				best = min(best, *y.Makespan)
			}
		}
		if *x.Makespan < best*(1-1e-9) {
			t.Errorf("at %g persistent has %g, the optimum %g", x.At, *x.Makespan, best)
		}
	}
}

func TestCurveOverOtherAxes(t *testing.T) {
	in := small(t)
	p, search := catalogtest.Find(t, plan.Pipeline, "search")
	_, contiguous := catalogtest.Find(t, plan.Pipeline, "1f1b-star")
	_, high := p.Range(in, solve.Setting{})
	s := solve.Setting{Platform: platform.Platform{Memory: 4 * high, Bandwidth: 12e9, Processors: 3, WeightCopies: 3}}
	for over, values := range map[curve.Axis][]float64{curve.OverProcessors: {1, 2, 3, 5}, curve.OverBandwidth: curve.Bandwidths(12e9, 8)} {
		c := curve.RunCurve(context.Background(), p, []*solve.Method{contiguous, search}, in, s, over, values)
		if err := c.Err(); err != nil {
			t.Fatal(err)
		}
		for i := range c.Series {
			if len(c.Series[i].Points) != len(values) {
				t.Fatalf("%s: %d points for %d values", over, len(c.Series[i].Points), len(values))
			}
		}
		for k, x := range values {
			a, b := c.Series[0].Makespan(x), c.Series[1].Makespan(x)
			if !(b <= a*(1+1e-9)) || b < c.Bounds[k].Value*(1-1e-9) {
				t.Errorf("%s %g: 1f1b-star %g s, search %g s, bound %g s", over, x, a, b, c.Bounds[k].Value)
			}
			if k > 0 && c.Bounds[k].Value > c.Bounds[k-1].Value {
				t.Errorf("%s %g: the bound rises from %g to %g", over, x, c.Bounds[k-1].Value, c.Bounds[k].Value)
			}
			if !math.IsNaN(c.Series[0].Makespan(x * 1.01)) {
				t.Errorf("%s %g: a makespan between two points", over, x)
			}
		}
		// Each point is the result of a run there.
		s := s
		s.Platform = over.Place(s.Platform, values[2])
		if r := solve.Run(context.Background(), p, contiguous, in, s); *r.Makespan != c.Series[0].Makespan(values[2]) {
			t.Errorf("%s %g: %g s on the curve, %g s alone", over, values[2], c.Series[0].Makespan(values[2]), *r.Makespan)
		}
	}
	if rates := curve.Bandwidths(16, 8); rates[0] != 1 || rates[1] != 2 || rates[7] != 128 {
		t.Errorf("bandwidths around 16: %v", rates)
	}
}

// What a curve shows of a plan: makespan, throughput, ratio to the bound, and
// what part of ā_0..ā_{N-1} goes to the host.
func TestQuantities(t *testing.T) {
	c := &chain.Chain{Input: chain.Input{Activation: 2}, Layers: []chain.Layer{
		{ForwardTime: 1, Activation: 1, Saved: 6}, {ForwardTime: 1, Activation: 5, Saved: 9},
	}}
	in, err := solve.NewInstance(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &plan.Plan{Problem: plan.RematOffload, Platform: platform.Platform{Memory: 9, Bandwidth: 1}, Ops: []plan.Op{
		{Op: plan.OpO, Tensor: plan.TensorA, Layer: 0},
		{Op: plan.OpO, Tensor: plan.TensorA, Layer: 1},
		{Op: plan.OpO, Tensor: plan.TensorA, Layer: 7}, // of no layer: verify says so
		{Op: plan.OpP, Tensor: plan.TensorAbar, Layer: 1},
	}}
	share := method.RematOffload().Moved(in, p)
	if want := 3. / 8; share != want {
		t.Errorf("%g of the activations moved, %g expected", share, want)
	}
	if method.Remat().Moved != nil {
		t.Error("rematerialization moves activations to the host")
	}
	makespan := 4.0
	point := curve.CurvePoint{At: 2, Makespan: &makespan, Moved: &share}
	drawn := &curve.Curve{Samples: 8, Bounds: []curve.BoundPoint{{At: 2, Value: 3.2}, {At: 3, Value: 2}}}
	for q, want := range map[curve.Quantity]float64{curve.Makespan: 4, curve.Throughput: 2, curve.Ratio: 1.25, curve.Share: 3. / 8} {
		if x := drawn.Value(q, &point, 2); x != want {
			t.Errorf("%s %g, %g expected", q, x, want)
		}
		if x := drawn.Value(q, nil, 2); !math.IsNaN(x) {
			t.Errorf("%s %g of no plan", q, x)
		}
	}
	if x := drawn.Value(curve.Ratio, &point, 3); x != 2 {
		t.Errorf("ratio %g at the larger limit, 2 expected", x)
	}
}

// A curve says where a method has a slower plan with more memory, and only there.
func TestCurveSaysWhatIsSlowerWithMoreMemory(t *testing.T) {
	at := func(memory, makespan float64) curve.CurvePoint {
		if makespan == 0 {
			return curve.CurvePoint{At: memory}
		}
		return curve.CurvePoint{At: memory, Makespan: &makespan}
	}
	for _, x := range []struct {
		over       curve.Axis
		points     []curve.CurvePoint
		less, more float64 // 0: none
	}{
		{curve.OverMemory, []curve.CurvePoint{at(1, 9), at(2, 9), at(3, 7), at(4, 0), at(5, 7*(1+1e-12))}, 0, 0},
		{curve.OverMemory, []curve.CurvePoint{at(1, 0), at(2, 9), at(3, 7), at(4, 0), at(5, 8), at(6, 9)}, 3, 5},
		{curve.OverBandwidth, []curve.CurvePoint{at(1, 7), at(2, 9)}, 0, 0},
	} {
		less, more := (&curve.Curve{Over: x.over}).Slower(&curve.Series{Points: x.points})
		if (less == nil) != (x.less == 0) || less != nil && (less.At != x.less || more.At != x.more) {
			t.Errorf("over %s %v: %v and %v, want those at %g and %g", x.over, x.points, less, more, x.less, x.more)
		}
	}
}
