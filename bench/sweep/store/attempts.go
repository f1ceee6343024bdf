package store

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"workbench/bench/sweep"
)

// attemptsName is a file with the name of each task that was begun, a line each.
const attemptsName = "attempts.txt"

// Attempts records in which tasks earlier runs died: a task may end not only its own process, but the run or the
// machine. Close removes the records of its own run and of tasks that have a row by then, so that the remaining ones name
// tasks that were running when a run died. Its methods may be called from any goroutine.
type Attempts struct {
	file *os.File
	dead []string // the records of dead runs

	mu       sync.Mutex
	count    map[string]int
	unsynced chan struct{}
	synced   chan struct{} // closed when the sync goroutine has ended
}

// OpenAttempts opens the attempts of the folder of an open store, and keeps only those of the missing tasks.
// O(missing + attempts).
func OpenAttempts(s *Store, missing []sweep.Task) (*Attempts, error) {
	path := filepath.Join(s.dir, attemptsName)
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	a := &Attempts{count: map[string]int{}, unsynced: make(chan struct{}, 1), synced: make(chan struct{})}
	wanted := map[string]bool{}
	for i := range missing {
		wanted[missing[i].ID()] = true
	}
	for line := range bytes.Lines(text) {
		if id := strings.TrimSuffix(string(line), "\n"); wanted[id] {
			a.count[id]++
			a.dead = append(a.dead, id)
		}
	}
	if kept := lines(a.dead); !bytes.Equal(text, kept) {
		if err := WriteFile(path, kept); err != nil {
			return nil, err
		}
	}
	if a.file, err = os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, err
	}
	go func() {
		defer close(a.synced)
		for range a.unsynced {
			_ = a.file.Sync()
		}
	}()
	return a, nil
}

// Split separates the tasks during which a run died (suspects) from the others.
func (a *Attempts) Split(tasks []sweep.Task) (innocent, suspects []sweep.Task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tasks {
		if a.count[t.ID()] == 0 {
			innocent = append(innocent, t)
		} else {
			suspects = append(suspects, t)
		}
	}
	return innocent, suspects
}

// Begin records the start of a task, and returns the number of its starts. The record is synced shortly
// afterwards: a task that ends the machine takes longer.
func (a *Attempts) Begin(id string) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.file.WriteString(id + "\n"); err != nil {
		return 0, err
	}
	a.count[id]++
	select {
	case a.unsynced <- struct{}{}:
	default: // the pending sync covers it
	}
	return a.count[id], nil
}

// lines returns names, a line each.
func lines(names []string) (text []byte) {
	for _, name := range names {
		text = append(text, name+"\n"...)
	}
	return text
}

// Close removes the records made since OpenAttempts, and those of tasks that are not missing any more; without any the file, too.
func (a *Attempts) Close(missing []sweep.Task) error {
	close(a.unsynced)
	<-a.synced
	kept := slices.DeleteFunc(slices.Clone(a.dead), func(id string) bool {
		return !slices.ContainsFunc(missing, func(t sweep.Task) bool { return t.ID() == id })
	})
	err := a.file.Close()
	if len(kept) == 0 {
		return errors.Join(err, os.Remove(a.file.Name()))
	}
	return errors.Join(err, WriteFile(a.file.Name(), lines(kept)))
}
