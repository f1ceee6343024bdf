//go:build !unix

package process

import (
	"io"
	"os"
	"os/exec"
)

// Attach uses standard output for the answers, the only pipe there is besides
// standard error. A library that prints there spoils the answer.
func Attach(cmd *exec.Cmd, answers *os.File, _ io.Writer) { cmd.Stdout = answers }

// Answers is that pipe in the child.
func Answers() io.Writer { return os.Stdout }

// KillGroup kills the child.
func KillGroup(p *os.Process) { _ = p.Kill() }

// NoCoreDumps does nothing here.
func NoCoreDumps() {}

// LimitMemory does nothing here.
func LimitMemory(int64) {}
