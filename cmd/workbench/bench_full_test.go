//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"workbench/model/testfile"
)

// A disk that is full when a sweep begins, or nearly so, is the user's to empty: one line that names the folder and how to
// continue, status 2. With room the same command does the sweep.
func TestDiskFullAtTheStart(t *testing.T) {
	dir := testfile.SmallDisk(t, "4m")
	file := sweepFile(t, 1)
	ballast, night := filepath.Join(dir, "ballast"), filepath.Join(dir, "night")
	workbench := program(t)
	run := func() (int, string) { // in a process of its own: NATS leaves files open where it fails
		cmd := exec.Command(workbench, "bench", "run", file, "--into", night, "--resume", "--in-process", "--quiet")
		out, err := cmd.CombinedOutput()
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	for _, left := range []int64{0, 4096, 8192, 12288, 16384, 32768} {
		var s syscall.Statfs_t
		if err := syscall.Statfs(dir, &s); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(ballast, make([]byte, int64(s.Bavail)*s.Bsize-left), 0o644); err != nil {
			t.Fatal(err)
		}
		code, out := run()
		if code != exitUsage || strings.Count(out, "\n") != 1 || !strings.Contains(out, night+": no space left on its disk") {
			t.Errorf("%d bytes left: status %d: %s", left, code, out)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
	}
	if code, out := run(); code != exitOK || len(keptRows(t, night)) != 8 {
		t.Errorf("with room: status %d: %s", code, out)
	}
}
