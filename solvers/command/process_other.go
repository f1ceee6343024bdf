//go:build !unix

package command

import (
	"context"
	"os/exec"
)

// program returns the command, which is killed when ctx ends.
func program(ctx context.Context, path string, arguments []string) *exec.Cmd {
	c := exec.CommandContext(ctx, path, arguments...)
	c.WaitDelay = patience
	return c
}

// reap has nothing to do here.
func reap(*exec.Cmd) {}
