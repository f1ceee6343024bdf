//go:build unix

package main

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"workbench/bench/sweep/store"
	"workbench/model/testfile"
)

// program returns the path under which the test binary is workbench.
func program(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "workbench")
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	return name
}

// sweepFile writes a specification of tiny tasks.
func sweepFile(t *testing.T, repetitions int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tiny.yaml")
	text := fmt.Sprintf("name: tiny\nmemory: [range 0%%, range 60%%]\nrepetitions: %d\nexperiments:\n  problem: remat\n  instances: {zoo: rnn, seq: "+
		"[3, 4]}\n  methods: [periodic, persistent]\n", repetitions)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// keptRows returns what must not depend on what happened to a sweep, by task.
func keptRows(t *testing.T, dir string) map[string]string {
	t.Helper()
	list, err := store.ReadTasks(dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Rows) != len(list.Tasks) || c.Repeated+len(c.Damaged)+len(c.Torn) > 0 {
		t.Errorf("%d rows of %d tasks, %d repeated, damaged %v, torn %v", len(c.Rows), len(list.Tasks), c.Repeated, c.Damaged, c.Torn)
	}
	all := map[string]string{}
	for _, r := range c.Rows {
		if r.Failure != nil {
			all[r.ID] = r.Failure.Reason
			continue
		}
		all[r.ID] = string(r.Result.Status)
		if r.Plan == "" {
			continue
		}
		all[r.ID] = fmt.Sprint(r.Result.Status, *r.Result.Objective, *r.Result.PeakMemory, r.Plan)
		if _, err := store.Plan(dir, r.Plan); err != nil {
			t.Error(err)
		}
	}
	return all
}

// The program killed with SIGKILL at any moment, its own children running and
// its queue open, goes on to the results of an undisturbed run.
func TestBenchKilled(t *testing.T) {
	testfile.Long(t)
	workbench, file := program(t), sweepFile(t, 8)
	undisturbed, dir := filepath.Join(t.TempDir(), "undisturbed"), filepath.Join(t.TempDir(), "killed")
	if out, err := exec.Command(workbench, "bench", "run", file, "--into", undisturbed, "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	random := rand.New(rand.NewPCG(3, 4))
	kills := 0
	for round := 0; ; round++ {
		rows := lines(dir)
		cmd := exec.Command(workbench, "bench", "run", file, "--into", dir, "--resume", "--quiet")
		var words bytes.Buffer
		cmd.Stderr = &words
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		// Some are killed at once, the others when they have done something: a task
		// that is killed again and again is given up.
		for round >= 5 && len(ended) == 0 && lines(dir) == rows {
			time.Sleep(time.Millisecond)
		}
		timer := time.AfterFunc(time.Duration(random.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Kill() })
		err := <-ended
		timer.Stop()
		var exit *exec.ExitError
		if err == nil {
			break
		}
		if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
			t.Fatalf("%v: %s", err, &words)
		}
		kills++
	}
	if kills == 0 {
		t.Error("never killed")
	}
	t.Logf("killed %d times", kills)
	if got, want := keptRows(t, dir), keptRows(t, undisturbed); !maps.Equal(got, want) {
		t.Errorf("after %d kills\n%v\nundisturbed\n%v", kills, got, want)
	}
}

// lines returns how many lines the rows in a folder have, 0 if there are none.
func lines(dir string) int {
	text, _ := os.ReadFile(filepath.Join(dir, "rows.jsonl"))
	return bytes.Count(text, []byte("\n"))
}

// An interruption finishes what runs, says how to go on, and loses nothing.
func TestBenchInterrupted(t *testing.T) {
	workbench, file := program(t), sweepFile(t, max(20, testfile.Cases(100)))
	dir := filepath.Join(t.TempDir(), "sweep")
	cmd := exec.Command(workbench, "bench", "run", file, "--into", dir, "--jobs", "2")
	var words bytes.Buffer
	cmd.Stderr = &words
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines(dir) < 3 {
		time.Sleep(5 * time.Millisecond)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Fatalf("%v: %s", err, &words)
	}
	for _, want := range []string{"finishing the tasks that run", "workbench: stopped with ", "workbench bench resume " + dir + " continues"} {
		if !strings.Contains(words.String(), want) {
			t.Errorf("no %q in %s", want, &words)
		}
	}
	c, err := store.Read(dir)
	if err != nil || len(c.Rows) < 2 || len(c.Rows) >= 800 || len(c.Torn)+len(c.Damaged) > 0 {
		t.Fatalf("%d rows, %v", len(c.Rows), err)
	}
	for _, r := range c.Rows {
		if r.Failure != nil {
			t.Errorf("%+v", r.Failure)
		}
	}
	if out, err := exec.Command(workbench, "bench", "resume", dir, "--in-process", "--quiet").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	keptRows(t, dir)
}
