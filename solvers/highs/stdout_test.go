//go:build cgo && !nohighs

package highs

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// captureStdout returns what f writes to the process's standard output, C code
// included.
func captureStdout(t *testing.T, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved, err := unix.Dup(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup2(int(w.Fd()), 1); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		done <- string(b)
	}()
	f()
	if err := unix.Dup2(saved, 1); err != nil {
		t.Fatal(err)
	}
	unix.Close(saved)
	w.Close()
	return <-done
}
