//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// takeLock takes a lock that ends with this process, however it ends.
func takeLock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = lockedError()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
