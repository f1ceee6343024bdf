package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testcase"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// tenths is a chain whose sizes are written with %s behind them: "" for bytes,
// "e-1" for tenths of them.
const tenths = `{"format": "workbench.chain/v1", "input": {"activation": 1%[1]s}, "layers": [
	{"forward_time": 1, "backward_time": 2, "activation": 2%[1]s, "saved": 3%[1]s, "weight": 4%[1]s},
	{"forward_time": 2, "backward_time": 2, "activation": 1%[1]s, "forward_overhead": 1%[1]s, "weight": 2%[1]s},
	{"forward_time": 1, "backward_time": 1, "activation": 2%[1]s, "saved": 2%[1]s, "weight": 3%[1]s}]}`

// A chain in tenths of bytes has the plans of the same chain in bytes, at every
// memory from below the least to more than enough: what is printed and stored is
// in bytes, what is computed is exact.
func TestTenthsOfBytes(t *testing.T) {
	testfile.Long(t)
	whole, tenth := loadText(t, fmt.Sprintf(tenths, "")), loadText(t, fmt.Sprintf(tenths, "e-1"))
	for _, p := range catalog.Problems() {
		if p.Accepts(whole) != nil {
			continue
		}
		m, err := catalog.FindMethod(p, catalog.DefaultMethod(p, whole))
		if err != nil {
			t.Fatal(err)
		}
		low, high := p.Range(whole, solve.Setting{})
		if a, b := p.Range(tenth, solve.Setting{}); math.Abs(10*a-low) > 1e-12*low || math.Abs(10*b-high) > 1e-12*high {
			t.Errorf("%s: range %v to %v, in tenths %v to %v", p.Name, low, high, a, b)
		}
		for _, memory := range []float64{low, low - 1, low + 1, low + 3, high} {
			at := platform.Platform{Memory: memory, Bandwidth: 2, Processors: 2, WeightCopies: 1}
			want := runOn(t, p, m, whole, at)
			at.Memory, at.Bandwidth = memory/10, at.Bandwidth/10
			got := runOn(t, p, m, tenth, at)
			switch {
			case got.Status != want.Status || (got.Makespan == nil) != (want.Makespan == nil):
				t.Errorf("%s with %v: %s %s, in tenths %s %s", p.Name, memory, want.Status, want.Error, got.Status, got.Error)
			case got.Makespan == nil:
				if !strings.Contains(got.Error, fmt.Sprint(memory/10)) {
					t.Errorf("%s with %v: %s", p.Name, memory/10, got.Error)
				}
			case math.Abs(*got.Makespan-*want.Makespan) > 1e-9**want.Makespan || *got.PeakMemory > at.Memory:
				t.Errorf("%s with %v: %v s, %v bytes, in tenths %v s, %v bytes", p.Name, memory, *want.Makespan, *want.PeakMemory, *got.Makespan,
					*got.PeakMemory)
			default:
				var b bytes.Buffer
				if err := got.Plan.Write(&b); err != nil {
					t.Fatal(err)
				}
				q, err := plan.Read(&b, "plan.json")
				if err != nil {
					t.Fatal(err)
				}
				if r, err := verify.Replay(tenth.Instance, q); err != nil || !r.Valid() || len(r.ClaimErrors) > 0 || q.Platform.Memory != at.Memory {
					t.Errorf("%s with %v: the plan's file: %+v %v", p.Name, memory, r, err)
				}
			}
		}
	}
}

func runOn(t *testing.T, p *solve.Problem, m *solve.Method, in *solve.Instance, at platform.Platform) *solve.Result {
	t.Helper()
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	return solve.Run(context.Background(), p, m, in, solve.Setting{
		Platform: at, Backend: backend, Threads: 1, Time: 20 * time.Second,
		MemoryModel: plan.TaskModel,
	})
}

func loadText(t *testing.T, document string) *solve.Instance {
	t.Helper()
	file := filepath.Join(t.TempDir(), "instance.json")
	if err := os.WriteFile(file, []byte(document), 0o600); err != nil {
		t.Fatal(err)
	}
	in, err := solve.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// TestDecimalsOfEveryProblem: an instance whose sizes and times are multiplied by
// numbers with up to 12 decimals has the same optimum, so multiplied, and every plan is
// valid after it is written and read.
func TestDecimalsOfEveryProblem(t *testing.T) {
	for _, p := range catalog.Problems() {
		for k, about := range p.Subjects {
			t.Run(fmt.Sprint(p.Name, k), func(t *testing.T) {
				r := rand.New(rand.NewPCG(7, uint64(k)))
				for range testfile.Cases(8) {
					trial, err := instanceOf(r, about)
					if err != nil {
						t.Fatal(err)
					}
					checkDecimals(t, p, trial, r)
				}
			})
		}
	}
}

// instanceOf returns a small random instance.
func instanceOf(r *rand.Rand, about *testcase.Subject) (*testcase.Trial, error) {
	if about.Random == nil {
		return about.Draw(r), nil
	}
	x, err := about.Random(r, min(3, about.Most))
	if err != nil {
		return nil, err
	}
	if c := x.Chain(); c != nil { // those of weight offloading leave out what it does not use
		for i := range c.Layers {
			c.Layers[i].Saved = max(c.Layers[i].Saved, c.Layers[i].Activation)
		}
	}
	if l := plan.As[*lifetimes.Lifetimes](x.In); l != nil {
		if l.Pools != nil { // penalties and alignments are not multiplied
			return instanceOf(r, about)
		}
		l.Align = 0 // of bytes, which are not multiplied
	}
	return x, nil
}

// checkDecimals runs the default method on an instance and on its multiple, every other
// method without a solver on the multiple.
func checkDecimals(t *testing.T, p *solve.Problem, x *testcase.Trial, r *rand.Rand) {
	var b strings.Builder
	if err := x.In.Write(&b); err != nil {
		t.Fatal(err)
	}
	size, time := decimalFactor(r, 6), decimalFactor(r, 12)
	if p.Slots {
		size = big.NewRat(1, 1)
	}
	text := multiplied(b.String(), size, time)
	plain, in := loadText(t, b.String()), loadText(t, text)
	at := x.Platform
	if p.Fit(plain, plainBytes(at, plain)) != nil {
		return
	}
	scaled := plainBytes(at, plain)
	scaled.Memory, scaled.Bandwidth = times(scaled.Memory, size), times(times(scaled.Bandwidth, size), new(big.Rat).Inv(time))
	scaled.Latency = times(scaled.Latency, time)
	var want, got *solve.Result
	name := catalog.DefaultMethod(p, in)
	for _, m := range catalog.MethodsFor(p, in) {
		if m.Solver && m.Name != name {
			continue
		}
		result := runOn(t, p, m, in, scaled)
		if m.Name == name {
			got, want = result, runOn(t, p, m, plain, plainBytes(at, plain))
		}
		if result.Status == solve.Failed && !errors.Is(result.Err, solve.ErrInput) && !result.Unverified {
			t.Errorf("%s: %v\n%s", m.Name, result.Err, text)
		}
		refused := *result // prints although it has no objective
		refused.Objective, refused.Makespan, refused.PeakMemory, refused.Span = nil, nil, nil, nil
		for _, r := range []*solve.Result{result, &refused} {
			render.Result(io.Discard, &render.Case{Problem: p, Instance: in, Setting: solve.Setting{Platform: scaled}}, r)
		}
		if result.Plan == nil || result.Objective == nil {
			continue
		}
		q, err := plan.Read(strings.NewReader(testfile.Text(t, result.Plan)), "plan.json")
		if err != nil {
			t.Fatal(err)
		}
		if report, err := verify.Replay(in.Instance, q); err != nil || !report.Valid() || len(report.ClaimErrors) > 0 {
			t.Errorf("%s: its plan as read is refused: %v %+v\n%s", m.Name, err, report, text)
		}
	}
	factor, _ := time.Float64()
	if plan.MinimisesMemory(p.Name) {
		factor, _ = size.Float64()
	}
	switch {
	case got.Status != want.Status:
		t.Errorf("%s: %s %s, multiplied %s %s\n%s", name, want.Status, want.Error, got.Status, got.Error, text)
	case want.Status == solve.Optimal && math.Abs(*got.Objective-*want.Objective*factor) > 2*solve.Tolerance**got.Objective:
		t.Errorf("%s: %v, multiplied by %v %v\n%s", name, *want.Objective, factor, *got.Objective, text)
	}
}

// plainBytes returns a platform in units of an instance in bytes.
func plainBytes(p platform.Platform, in *solve.Instance) platform.Platform {
	return p.InBytes(in.Unit())
}

// decimalFactor returns a number from 0.001 on with up to so many decimals.
func decimalFactor(r *rand.Rand, most int) *big.Rat {
	over := int64(math.Pow10(1 + r.IntN(most)))
	return big.NewRat(over/1000+1+r.Int64N(3*over), over)
}

// times multiplies the decimal that x stands for.
func times(x float64, y *big.Rat) float64 {
	f, _ := new(big.Rat).Mul(platform.Decimal(x), y).Float64()
	return f
}

var (
	timeField = regexp.MustCompile(`"([a-z_]+_)?time": ?([0-9.e+-]+)`)
	sizeField = regexp.MustCompile(`"([a-z]+_(memory|overhead)|weight_gradient_saved|memory|overhead|activation|gradient|saved|weight|size|bytes|workspace|input|capacity|begin|end|offset)": ?([0-9.e+-]+)`)
)

// multiplied returns the text of an instance with its sizes and times multiplied.
func multiplied(document string, size, time *big.Rat) string {
	by := func(y *big.Rat) func(string) string {
		return func(field string) string {
			name, number, _ := strings.Cut(field, ":")
			x, _ := new(big.Rat).SetString(strings.TrimSpace(number))
			return name + ":" + strings.TrimSuffix(strings.TrimRight(x.Mul(x, y).FloatString(40), "0"), ".")
		}
	}
	return sizeField.ReplaceAllStringFunc(timeField.ReplaceAllStringFunc(document, by(time)), by(size))
}
