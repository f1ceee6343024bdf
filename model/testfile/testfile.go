// Package testfile holds what tests write against what is kept in files: texts
// in testdata, and the schemas of docs/schema. For tests only.
package testfile

import (
	"errors"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"pgregory.net/rapid"

	"workbench/model/platform"
)

var update = flag.Bool("update", false, "rewrite the golden files; read the difference before you commit it")

// Golden compares got with testdata/name, or rewrites the file with -update.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update rewrites it:\n%s", path, diff)
	}
}

// Shared returns the path of a file that was made elsewhere and is not in the project: measured
// profiles, answers of others. Where it is absent the test is skipped; what else may be
// wrong with it, who opens it finds.
func Shared(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), "..", "shared", "data", name)
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		t.Skipf("no %s here", name)
	}
	return path
}

// Schema compiles docs/schema/name and returns what is wrong with a document
// by it.
func Schema(t testing.TB, name string) (validate func(document string) error) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(filepath.Join(root(t), "docs", "schema", name))
	if err != nil {
		t.Fatal(err)
	}
	return func(document string) error {
		v, err := jsonschema.UnmarshalJSON(strings.NewReader(document))
		if err != nil {
			return err
		}
		return schema.Validate(v)
	}
}

// root is the folder of go.mod. Tests run in the folder of their package.
func root(t testing.TB) string {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatalf("no go.mod above %s", here)
		}
	}
}

// Cases is how many random cases a test draws: n, or a tenth of them where only
// short tests are asked for.
func Cases(n int) int {
	if testing.Short() {
		return (n + 9) / 10
	}
	return n
}

// Long leaves a test to the full run.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes long: left to the full run")
	}
}

// Few is what a test tries one after the other: all, or the first n of them where
// only short tests are asked for.
func Few[T any](n int, all ...T) []T {
	if testing.Short() {
		return all[:n]
	}
	return all
}

// Seconds draws any time that an instance may have.
func Seconds() *rapid.Generator[float64] {
	return rapid.OneOf(rapid.Just(0.0), rapid.Float64Range(platform.MinTime, platform.MaxTime))
}

// Property checks a property as rapid.Check does, on the same draws in every run:
// CI judges a change, not the luck of a draw. -rapid.seed=N has others, and says
// what repeats a failure; fresh instances are what `make soak` is for.
func Property(t testing.TB, property func(*rapid.T)) {
	t.Helper()
	fixed.Do(func() {
		if seed := flag.Lookup("rapid.seed"); seed.Value.String() == "0" {
			if err := seed.Value.Set("1"); err != nil {
				t.Fatal(err)
			}
		}
	})
	rapid.Check(t, property)
}

// fixed is done once the seed of rapid is.
var fixed sync.Once

// Random returns the random numbers of a test, the same in every run: those of
// seed and stream. WORKBENCH_SEED=N draws those of N and stream. A test that fails
// says which it had.
//
// A test that counts what it has seen may miss its counts with other seeds: that
// is no defect of what it tests.
func Random(t testing.TB, seed, stream uint64) *rand.Rand {
	t.Helper()
	if text := os.Getenv("WORKBENCH_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("WORKBENCH_SEED=%q: an integer is needed", text)
		}
		seed = n
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("random numbers of WORKBENCH_SEED=%d, which repeats them", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, stream))
}
