package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"workbench/model/testfile"
)

// A program built without any solver still has its heuristics, and says in one
// line what is missing for the rest.
func TestWithoutSolvers(t *testing.T) {
	testfile.Long(t)
	name := filepath.Join(t.TempDir(), "workbench")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", name, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build without cgo: %v\n%s", err, out)
	}
	tests := []struct {
		args, out, err string
		code           int
	}{
		{args: "solve --problem weight-offload zoo:vgg16 --method greedy --quiet", out: "verified by replay"},
		{args: "solve --problem weight-offload zoo:vgg16 --quiet", err: "HiGHS is not built in", code: exitUsage},
		{args: "solve --problem weight-offload zoo:vgg16 --backend lpsolve --quiet", err: "lp_solve", code: exitUsage},
		{args: "doctor", out: "missing", err: "no MILP backend", code: exitInternal},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			cmd := exec.Command(name, strings.Fields(tt.args)...)
			var out, errw bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errw
			cmd.Env = append(os.Environ(), "PATH=") // no solver by command either
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if code := cmd.ProcessState.ExitCode(); code != tt.code {
				t.Errorf("exit status %d, want %d", code, tt.code)
			}
			if !strings.Contains(out.String(), tt.out) {
				t.Errorf("no %q in the output:\n%s", tt.out, &out)
			}
			if lines := strings.Count(errw.String(), "\n"); !strings.Contains(errw.String(), tt.err) || tt.code != 0 && lines != 1 {
				t.Errorf("standard error is not one line with %q:\n%s", tt.err, &errw)
			}
		})
	}
}
