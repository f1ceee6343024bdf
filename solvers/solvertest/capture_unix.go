//go:build unix

package solvertest

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Capture returns what f writes to a file descriptor of the process, C code
// included.
func Capture(t *testing.T, fd int, f func()) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	saved, err := unix.Dup(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Dup2(int(w.Fd()), fd); err != nil {
		t.Fatal(err)
	}
	done := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		done <- string(b)
	}()
	f()
	if err := unix.Dup2(saved, fd); err != nil {
		t.Fatal(err)
	}
	unix.Close(saved)
	w.Close()
	return <-done
}
