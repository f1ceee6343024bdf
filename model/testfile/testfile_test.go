package testfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recorder is a test that notes that it failed.
type recorder struct {
	testing.TB
	failed bool
}

func (r *recorder) Helper()               {}
func (r *recorder) Error(...any)          { r.failed = true }
func (r *recorder) Errorf(string, ...any) { r.failed = true }
func (r *recorder) Fatal(...any)          { r.stop() }
func (r *recorder) Fatalf(string, ...any) { r.stop() }

func (r *recorder) stop() {
	r.failed = true
	panic(r)
}

// fails reports whether a check fails.
func fails(t *testing.T, check func(t testing.TB)) bool {
	r := &recorder{TB: t}
	func() {
		defer func() {
			if p := recover(); p != nil && p != any(r) {
				panic(p)
			}
		}()
		check(r)
	}()
	return r.failed
}

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "kept"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]bool{"a\n": false, "a": true} {
		if failed := fails(t, func(t testing.TB) { Golden(t, "kept", got) }); failed != want {
			t.Errorf("%q fails: %t", got, failed)
		}
	}
}

func TestSchema(t *testing.T) {
	validate := Schema(t, "plan-v1.json")
	for document, want := range map[string]string{"{}": "missing properties", "{": "EOF"} {
		if err := validate(document); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", document, err, want)
		}
	}
}

// The numbers are those of the seed, unless WORKBENCH_SEED has another.
func TestRandom(t *testing.T) {
	t.Setenv("WORKBENCH_SEED", "")
	first, again := Random(t, 1, 2).Uint64(), Random(t, 1, 2).Uint64()
	t.Setenv("WORKBENCH_SEED", "7")
	other, same := Random(t, 1, 2).Uint64(), Random(t, 5, 2).Uint64()
	if first != again || first == other || other != same {
		t.Errorf("seed 1: %d, %d; WORKBENCH_SEED=7: %d, %d", first, again, other, same)
	}
	t.Setenv("WORKBENCH_SEED", "seven")
	if !fails(t, func(t testing.TB) { Random(t, 1, 2) }) {
		t.Error("WORKBENCH_SEED=seven passes")
	}
}
