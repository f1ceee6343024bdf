//go:build !unix

package store

import "os"

// takeLock opens the file without locking, since this system has no locks that end with the process.
func takeLock(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
}
