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

func (r *recorder) Errorf(string, ...any) { r.failed = true }

func TestGolden(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.Mkdir("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("testdata", "kept"), []byte("a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, fails := range map[string]bool{"a\n": false, "a": true} {
		r := &recorder{TB: t}
		if Golden(r, "kept", got); r.failed != fails {
			t.Errorf("%q fails: %t", got, r.failed)
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
