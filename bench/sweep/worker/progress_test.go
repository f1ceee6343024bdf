//go:build unix

package worker_test

import (
	"testing"
	"testing/synctest"
	"time"

	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// Two methods, one ten times as slow; two jobs; an eighth of the time is spent
// beside the tasks.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := tasks(t, "slow", 10), tasks(t, "fast", 20)
		p := worker.NewProgress(40, append(slow, fast...), 2)
		if n := p.Snapshot(); n.Done != 10 || n.Left != 0 {
			t.Errorf("%+v", n)
		}
		finish := func(x sweep.Task, d time.Duration) {
			at := time.Now()
			p.Row(&sweep.Row{ID: x.ID(), Task: x, Started: at, Finished: at.Add(d), Failure: &sweep.Failure{}})
		}
		finish(slow[0], 10*time.Second)
		time.Sleep(5 * time.Second)
		if n := p.Snapshot(); n.Done != 11 || n.Failed != 1 || n.Left != 29*5*time.Second {
			t.Errorf("one done: %+v", n)
		}
		finish(fast[0], time.Second)
		time.Sleep(time.Second / 2)
		if n := p.Snapshot(); n.Left != (9*10+19)*time.Second/2 {
			t.Errorf("one of each done: %+v", n)
		}
		time.Sleep(5500 * time.Millisecond)
		if n := p.Snapshot(); n.Left != (9*10+19)*time.Second {
			t.Errorf("half of the time lost: %+v", n)
		}
	})
}
