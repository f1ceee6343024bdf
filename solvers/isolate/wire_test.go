package isolate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"workbench/model/milp"
	"workbench/solvers"
)

func sampleProblem() *solvers.Problem {
	inf := math.Inf(1)
	return &solvers.Problem{
		Model: milp.Data{
			Name: "sample", Sense: milp.Maximize, Offset: -3.5,
			Cost: []float64{1, 2.5}, Lower: []float64{-inf, 0}, Upper: []float64{inf, 7}, Integer: []bool{false, true},
			RowLower: []float64{-inf}, RowUpper: []float64{1e-300}, Start: []int32{0, 2}, Col: []int32{1, 0}, Val: []float64{math.Pi, -1},
		},
		Time: time.Minute, RelGap: 0.1, AbsGap: 3, Threads: 2, Seed: 5, Nodes: -1, Memory: 1 << 40,
		Start: []float64{math.NaN(), 3}, Raw: map[string]string{"presolve": "off"}, Attempt: 1,
	}
}

func TestProblemRoundTrip(t *testing.T) {
	for _, spoil := range []func(*solvers.Problem){
		func(*solvers.Problem) {},
		func(p *solvers.Problem) { p.Start = nil },
		func(p *solvers.Problem) { p.Log = io.Discard },
		func(p *solvers.Problem) {
			p.Model.RowLower, p.Model.RowUpper, p.Model.Start = nil, nil, []int32{0}
			p.Model.Col, p.Model.Val = nil, nil
		},
		func(p *solvers.Problem) { // longer than a chunk
			p.Model.Val = make([]float64, 3*chunk+1)
			p.Model.Val[3*chunk] = 5
		},
	} {
		p := sampleProblem()
		spoil(p)
		var b bytes.Buffer
		if err := writeProblem(&b, p); err != nil {
			t.Fatal(err)
		}
		q, err := readProblem(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(p, q, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestMessageRoundTrip(t *testing.T) {
	for _, m := range []*message{
		{Log: []byte("hello\n")},
		{Progress: &solvers.Progress{Objective: math.NaN(), Bound: math.Inf(-1), Nodes: 3, X: []float64{1, -0.5}}},
		{Answer: &solvers.Answer{
			Status: solvers.Feasible, Stop: solvers.Nodes, X: []float64{1}, Bound: math.NaN(), BoundBy: "x", Nodes: 1 << 40,
			Dual: &solvers.Duals{Row: []float64{1}, Reduced: []float64{2}}, StartAccepted: true, Raw: "r", Note: "n",
		}},
		// All fields zero must still be an answer.
		{Answer: &solvers.Answer{}},
		{Progress: &solvers.Progress{}},
		{Err: remote(fmt.Errorf("%w: option 7: %w", solvers.ErrSolver, solvers.ErrOption))},
	} {
		var b bytes.Buffer
		if err := writeMessage(&b, m); err != nil {
			t.Fatal(err)
		}
		n, err := readMessage(&b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, n, cmpopts.EquateNaNs(), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	}
}

func TestRemoteError(t *testing.T) {
	r := remote(fmt.Errorf("%w: no library", solvers.ErrMissing))
	if !errors.Is(r, solvers.ErrMissing) || errors.Is(r, solvers.ErrSolver) || r.Error() != "backend not available: no library" {
		t.Errorf("%v %v", r, r.Kinds)
	}
	if (&remoteError{Kinds: []int{-1, 99}}).Unwrap() != nil {
		t.Error("unknown kinds are something")
	}
}

// FuzzReadProblem checks that no input makes the child panic or take memory
// that the input does not pay for.
func FuzzReadProblem(f *testing.F) {
	var b bytes.Buffer
	if err := writeProblem(&b, sampleProblem()); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:b.Len()/2])
	f.Add(bytes.Repeat([]byte{0xff}, 64))
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := readProblem(bytes.NewReader(in))
		if err == nil && len(p.Model.Cost)*8 > len(in) {
			t.Errorf("%d costs from %d bytes", len(p.Model.Cost), len(in))
		}
	})
}

// FuzzReadMessage is the same for the parent.
func FuzzReadMessage(f *testing.F) {
	var b bytes.Buffer
	if err := writeMessage(&b, &message{Answer: &solvers.Answer{X: []float64{1, 2}, Bound: 3}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:20])
	f.Fuzz(func(t *testing.T, in []byte) {
		if m, err := readMessage(bytes.NewReader(in)); err == nil && m.Answer != nil && len(m.Answer.X) > len(in) {
			t.Errorf("%d values from %d bytes", len(m.Answer.X), len(in))
		}
	})
}
