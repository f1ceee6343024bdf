package testfile

import (
	"syscall"
	"testing"
)

// SmallDisk returns a folder with a file system of its own of the given size, as "4m", for the time
// of a test. The test is skipped where it may not be mounted.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}
