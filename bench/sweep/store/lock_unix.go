//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// longestStart is the approximate time in which another process starts.
const longestStart = time.Second

// takeLock takes a lock that ends with this process, however it ends. A process that was killed while it started
// another one holds the lock in the child until that runs: takeLock waits for it.
func takeLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	for wait := time.Millisecond; ; wait *= 2 {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || wait > longestStart/2 {
			break
		}
		time.Sleep(wait)
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = lockedError()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
