package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Child is a process of this program that works for this one. Its methods may be called from any goroutine, Wait
// and Reap by one only.
type Child struct {
	Stdin   io.WriteCloser
	Answers *os.File  // the read end of the pipe that [Answers] writes to
	Words   LastWords // its standard error

	cmd *exec.Cmd

	mu     sync.Mutex
	killed error // why; nil: not killed
	dead   bool  // waited for: its process number may be reused
	peak   int64
}

// Reasons for killing a child.
var (
	ErrMemory   = errors.New("memory limit")
	errAnswered = errors.New("has answered and is no longer needed")
)

// Start starts this program with args, in a process group of its own, for work on the given number of threads.
// After its end, processes that it started have patience to close its standard error. Reap it in the end.
func Start(threads int, patience time.Duration, args ...string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	c := &Child{cmd: exec.Command(self, args...)}
	// A crash dump of a process that is expected to crash is of no use.
	c.cmd.Env = append(os.Environ(), "GOTRACEBACK=none", fmt.Sprintf("GOMAXPROCS=%d", threads+1))
	c.cmd.Stderr = &c.Words
	c.cmd.WaitDelay = patience
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	attach(c.cmd, w, &c.Words)
	if c.Stdin, err = c.cmd.StdinPipe(); err == nil {
		err = c.cmd.Start()
	}
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	c.Answers = r
	return c, nil
}

// Kill ends the child and all it started, for the first reason given.
func (c *Child) Kill(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.killed == nil && !c.dead {
		c.killed = why
		killGroup(c.cmd.Process)
	}
}

// WatchMemory kills the child with ErrMemory if its resident memory exceeds limit, until ended is closed. It
// covers memory that RLIMIT_DATA does not count.
func (c *Child) WatchMemory(limit int64, ended <-chan struct{}) {
	watchMemory(c.cmd.Process.Pid, ended, func(rss int64) {
		c.mu.Lock()
		c.peak = max(c.peak, rss)
		c.mu.Unlock()
		if rss > limit+ownMemory {
			c.Kill(ErrMemory)
		}
	})
}

// ownMemory is the memory of an idle process of this program.
const ownMemory = 64 << 20

// Peak returns the maximum resident memory that WatchMemory has seen, in bytes.
func (c *Child) Peak() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peak
}

// Wait closes the input of the child and waits for its end. It returns its exit error, and the reason if it was
// killed.
func (c *Child) Wait() (exit, killed error) {
	c.Stdin.Close()
	exit = c.cmd.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dead = true
	return exit, c.killed
}

// Reap ends the child if it still runs and frees its resources.
func (c *Child) Reap() {
	if c.cmd.ProcessState == nil {
		c.Kill(errAnswered)
		_, _ = c.Wait()
	}
	c.Answers.Close()
}
