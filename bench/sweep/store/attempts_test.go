package store_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
)

// What a run begins is known to the next one if, and only if, it was not closed
// and the task has no row.
func TestAttempts(t *testing.T) {
	dir := t.TempDir()
	tasks := make([]sweep.Task, 4)
	for i := range tasks {
		tasks[i].Seed = i
	}
	missing := tasks
	open := func() *store.Attempts {
		t.Helper()
		s, err := store.Open(dir, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close() // its lock only, so that the next run can be
		a, err := store.OpenAttempts(s, missing)
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	begin := func(a *store.Attempts, i, want int) {
		t.Helper()
		if n, err := a.Begin(tasks[i].ID()); err != nil || n != want {
			t.Errorf("task %d is begun for the %d. time, want %d; %v", i, n, want, err)
		}
	}
	suspects := func(a *store.Attempts, want ...int) {
		t.Helper()
		innocent, others := a.Split(tasks)
		var got []int
		for _, x := range others {
			got = append(got, x.Seed)
		}
		if !slices.Equal(got, want) || len(innocent) != len(tasks)-len(want) {
			t.Errorf("runs have died in %v and not in %d others, want %v", got, len(innocent), want)
		}
	}
	file := filepath.Join(dir, "attempts.txt")

	a := open()
	suspects(a)
	begin(a, 0, 1)
	begin(a, 1, 1)
	begin(a, 1, 2)
	if err := a.Close(missing); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a run that was not killed leaves %s: %v", file, err)
	}

	dies := open()
	suspects(dies)
	begin(dies, 1, 1)
	begin(dies, 1, 2)
	begin(dies, 2, 1)
	torn, err := os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := torn.WriteString(tasks[3].ID()[:5]); err != nil {
		t.Fatal(err)
	}
	torn.Close()

	a = open()
	suspects(a, 1, 2)
	begin(a, 1, 3)
	begin(a, 3, 1)
	if err := a.Close(missing); err != nil {
		t.Fatal(err)
	}

	missing = tasks[2:] // the second has a row now
	a = open()
	suspects(a, 2)
	begin(a, 2, 2)
	begin(a, 1, 1)
	if err := a.Close(missing); err != nil {
		t.Fatal(err)
	}
	a = open()
	suspects(a, 2)
	if err := a.Close(nil); err != nil { // this run did the rest
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a run that does the tasks of a killed one leaves %s: %v", file, err)
	}
	missing = nil
	if err := open().Close(missing); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("a sweep that is done leaves %s: %v", file, err)
	}
	_ = dies.Close(nil) // for its goroutine; its file is gone
}
