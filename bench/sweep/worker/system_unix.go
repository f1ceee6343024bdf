//go:build unix

package worker

import (
	"errors"
	"os/exec"
	"syscall"
)

// killedFromOutside reports whether a process ended by a signal that processes do not send to themselves.
func killedFromOutside(exit error) bool {
	var e *exec.ExitError
	if !errors.As(exit, &e) {
		return false
	}
	s, ok := e.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && (s.Signal() == syscall.SIGKILL || s.Signal() == syscall.SIGTERM || s.Signal() == syscall.SIGINT ||
		s.Signal() == syscall.SIGHUP)
}
