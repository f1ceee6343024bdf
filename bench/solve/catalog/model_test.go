package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/catalog/catalogtest"
	"workbench/ilp/formulation"
	"workbench/model/certificate"
	"workbench/model/instance/graph"
	"workbench/model/instance/training"
	"workbench/model/milp"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/solvers"
)

// A recorder is a backend that remembers the models that it solved, as they were
// then.
type recorder struct {
	solvers.Backend
	files map[string]string // as exported, by digest
}

func (b *recorder) Solve(ctx context.Context, m *milp.Model, o solvers.Options) (*solvers.Result, error) {
	digest, file := written(m)
	b.files[digest] = file
	return b.Backend.Solve(ctx, m, o)
}

// written returns the digest of a model and the file that --export-model makes of it.
func written(m *milp.Model) (digest, file string) {
	d := m.Data()
	var b bytes.Buffer
	if _, err := m.WriteMPS(&b, milp.FreeMPS); err != nil {
		return "", err.Error()
	}
	return certificate.Digest(&d), b.String()
}

// TestOneModel: of every method with a MILP, what the result describes and what is
// exported is a model that was solved.
func TestOneModel(t *testing.T) {
	testfile.Long(t)
	backend, err := backends.New("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	loaded := map[string]*solve.Instance{} // whose ranges are then searched for once
	for _, p := range catalog.Problems() {
		for _, m := range p.Methods() {
			if !m.Solver {
				continue
			}
			spec := first(p, m)
			if loaded[spec] == nil {
				if loaded[spec], err = solve.Load(spec, nil); err != nil {
					t.Fatal(err)
				}
			}
			in := loaded[spec]
			s := solve.Setting{
				Platform: platform.Platform{Memory: catalogtest.Memory(p, in, platform.MemorySpec{Percent: true, Range: true, Value: 30}), Bandwidth: 12e9},
				Threads:  1, Time: 5 * time.Second, Certify: formulation.Root, Document: true,
			}
			if p.Parallel {
				s.Platform.Processors = 2
			}
			solvedModel(t, p, m, in, s, backend)
		}
	}
}

// first names a small network as an instance that a method takes, a graph rather
// than a chain.
func first(p *solve.Problem, m *solve.Method) string {
	kinds := m.Kinds(p)
	switch {
	case slices.Contains(kinds, graph.Kind):
		return "zoo:rnn?seq=3&as=" + graph.Kind
	case kinds[0] == training.Kind: // what takes nothing else wants layers that are marked
		return "zoo:gpt2?layers=2&hidden=64&seq=32&vocab=100&as=" + training.Kind
	}
	return "zoo:rnn?seq=3&as=" + kinds[0]
}

// solvedModel runs a method and compares the model of its result with those that
// were solved.
func solvedModel(t *testing.T, p *solve.Problem, m *solve.Method, in *solve.Instance, s solve.Setting, b solvers.Backend) {
	t.Helper()
	seen := &recorder{b, map[string]string{}}
	s.Backend = seen
	r := solve.Run(t.Context(), p, m, in, s)
	what := fmt.Sprintf("%s, %s, %s at %g bytes", p.Name, m.Name, in.Name, s.Platform.Memory)
	if r.Status == solve.Failed || r.Model == nil {
		t.Errorf("%s: %d models were solved, the result has none: %s", what, len(seen.files), r.Error)
		return
	}
	digest, file := written(r.Model)
	if seen.files[digest] != file {
		t.Errorf("%s: %s was not solved, %d others were", what, r.Model.Name(), len(seen.files))
	}
	if f, x := r.Formulation, r.Model; f.Name != x.Name() || f.Variables != x.NumCols() || f.Integers != x.NumIntegers() ||
		f.Constraints != x.NumRows() || f.Nonzeros != x.NumNonzeros() {
		t.Errorf("%s: %+v describes another model", what, f)
	}
}
