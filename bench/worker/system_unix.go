//go:build unix

package worker

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
)

// attach gives the child the pipe for its answer as descriptor 3, because
// libraries print to standard output, and a process group of its own, so that an
// interruption from the terminal is not for it.
func attach(cmd *exec.Cmd, answers *os.File, prints io.Writer) {
	cmd.Stdout = prints
	cmd.ExtraFiles = []*os.File{answers}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// answers is that pipe in the child.
func answers() io.Writer { return os.NewFile(3, "answers") }

// killGroup kills the child and what it may have started. That it has gone
// already is no matter.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// noCoreDumps spares the disk. Not being allowed to is no reason to fail.
func noCoreDumps() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// limitMemory lets the process have so many bytes of writable memory more than
// it has. RLIMIT_AS will not do: Go maps more than a gigabyte that it never
// touches. What the system does not count the worker's watchdog does.
func limitMemory(bytes int64) {
	limit := syscall.Rlimit{Cur: uint64(dataInUse() + bytes)}
	limit.Max = limit.Cur
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}

// killedFromOutside reports whether a process ended by a signal that processes
// do not send themselves.
func killedFromOutside(exit error) bool {
	var e *exec.ExitError
	if !errors.As(exit, &e) {
		return false
	}
	s, ok := e.Sys().(syscall.WaitStatus)
	return ok && s.Signaled() && (s.Signal() == syscall.SIGKILL || s.Signal() == syscall.SIGTERM || s.Signal() == syscall.SIGINT || s.Signal() == syscall.SIGHUP)
}
