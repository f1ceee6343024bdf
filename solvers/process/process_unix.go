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

// Answers returns that pipe in the child.
func Answers() io.Writer { return os.NewFile(3, "answers") }

// killGroup kills the child and the processes that it started. A process that has already ended is no error.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// NoCoreDumps disables core dumps. A failure is ignored.
func NoCoreDumps() { _ = syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}) }

// LimitMemory limits the writable memory of the process to bytes more than its current use. RLIMIT_AS is
// unsuitable, since Go maps more than a gigabyte that it never touches. Where the system does not count, the
// parent's watchdog does.
func LimitMemory(bytes int64) {
	limit := syscall.Rlimit{Cur: uint64(dataInUse() + bytes)}
	limit.Max = limit.Cur
	_ = syscall.Setrlimit(syscall.RLIMIT_DATA, &limit)
}
