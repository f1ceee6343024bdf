//go:build unix

package process

import (
	"io"
	"os"
	"os/exec"
	"syscall"
)

// attach gives the child the pipe for its answers as descriptor 3, because
// libraries print to standard output, and a process group of its own.
func attach(cmd *exec.Cmd, answers *os.File, prints io.Writer) {
	cmd.Stdout = prints
	cmd.ExtraFiles = []*os.File{answers}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
}

// Answers is that pipe in the child.
func Answers() io.Writer { return os.NewFile(3, "answers") }

// killGroup kills the child and what it may have started. That it has gone
// already is no matter.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// NoCoreDumps spares the disk. Not being allowed to is no reason to fail.
func NoCoreDumps() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// LimitMemory lets the process have so many bytes of writable memory more than
// it has. RLIMIT_AS will not do: Go maps more than a gigabyte that it never
// touches. Where the system does not count, the parent's watchdog does.
func LimitMemory(bytes int64) {
	limit := syscall.Rlimit{Cur: uint64(dataInUse() + bytes)}
	limit.Max = limit.Cur
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}
