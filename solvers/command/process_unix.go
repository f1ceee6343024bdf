//go:build unix

package command

import (
	"context"
	"os/exec"
	"syscall"
)

// program returns the command in a process group of its own. When ctx ends it is interrupted, and killed if it
// continues.
func program(ctx context.Context, path string, arguments []string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, arguments...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGINT) }
	c.WaitDelay = patience
	return c
}

// reap kills processes that the command left running.
func reap(c *exec.Cmd) {
	if c.Process != nil {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) // a remaining process is killed
	}
}
