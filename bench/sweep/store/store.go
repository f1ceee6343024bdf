// Package store keeps the rows of a sweep: a folder with files of JSON lines, one line per finished task, appended
// and synced before the task is acknowledged. These files are authoritative. They can be merged with cat. An
// incomplete last line is ignored; any other damaged line is found by its checksum, reported and set aside. Plans
// are stored next to them, compressed.
package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// Store is the folder of a sweep open for appending, by one process at a time.
// Its methods may be called from any goroutine.
type Store struct {
	dir, name string
	lock      *os.File

	mu           sync.Mutex
	file         *os.File
	size         int64 // bytes of complete lines
	broken       error // why no more can be appended
	done         map[string]bool
	failed       map[string]bool // tasks in done whose row is a failure
	environments map[string]bool
	damaged      []Damage
	torn         []string
}

// ErrLocked is wrapped by the error of opening a folder that another process has open.
var ErrLocked = errors.New("in use by another process")

// Open opens the store of the named sweep in dir, which it creates if needed. An incomplete last line is removed.
// Damaged lines are moved to damaged.txt, each with its file and number, so that their tasks are redone. O(size).
func Open(dir, name string) (*Store, error) {
	if err := atomicfile.Folder(dir); err != nil {
		return nil, err
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", dir, err)
	}
	s := &Store{dir: dir, name: name, lock: lock, done: map[string]bool{}, failed: map[string]bool{}, environments: map[string]bool{}}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return s, nil
}

func (s *Store) open() error {
	if err := s.read(); err != nil {
		return err
	}
	if err := s.setAside(); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.dir, rowsName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.size = f, info.Size()
	return syncFolder(s.dir)
}

// read records which tasks have rows, and what is damaged.
func (s *Store) read() error {
	name := s.name
	return scan(s.dir, &name, func(_ place, l Line) error {
		if l.Environment != nil {
			s.environments[l.Environment.Digest] = true
		} else {
			s.note(l.Row)
		}
		return nil
	}, func(d Damage, torn bool) {
		if torn {
			s.torn = append(s.torn, d.File)
		} else {
			s.damaged = append(s.damaged, d)
		}
	})
}

func (s *Store) note(r *sweep.Row) {
	if !s.done[r.ID] {
		s.done[r.ID], s.failed[r.ID] = true, r.Failure != nil
	} else if r.Failure == nil {
		s.failed[r.ID] = false
	}
}

// setAside moves the damaged lines to a file of their own, before their files are rewritten without them, and
// terminates each file with a line end. After an interrupted move the damaged lines are in both places, and the
// next move copies them once more.
func (s *Store) setAside() error {
	files, err := rowFiles(s.dir)
	if err != nil {
		return err
	}
	if len(s.damaged) > 0 {
		aside, err := os.OpenFile(filepath.Join(s.dir, damagedName), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		for _, d := range s.damaged {
			_, err = fmt.Fprintf(aside, "%s:%d: line %s:\n%s\n", filepath.Base(d.File), d.Line, d.Why, d.Text)
			if err != nil {
				break
			}
		}
		if err := errors.Join(err, aside.Sync(), aside.Close()); err != nil {
			return err
		}
	}
	for _, file := range files {
		if err := s.mend(file); err != nil {
			return err
		}
	}
	return nil
}

// mend rewrites a file without its damaged and incomplete lines, if it has any or lacks its last line end.
func (s *Store) mend(file string) error {
	without := map[int]bool{}
	for _, d := range s.damaged {
		if d.File == file {
			without[d.Line] = true
		}
	}
	torn := slices.Contains(s.torn, file)
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	var kept []byte
	whole := true
	if len(without) == 0 && !torn {
		if whole, err = endsWithNewline(f); whole || err != nil {
			return err
		}
	}
	err = eachLine(f, func(n int, line []byte, ended bool) error {
		if !without[n] && (ended || !torn) && len(line) > 0 {
			kept = append(append(kept, line...), '\n')
		}
		return nil
	})
	if err != nil {
		return err
	}
	return WriteFile(file, kept)
}

// endsWithNewline reports whether a file ends with a newline, or is empty. It seeks f to its start.
func endsWithNewline(f *os.File) (bool, error) {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return true, err
	}
	var last [1]byte
	_, err = f.ReadAt(last[:], info.Size()-1)
	return last[0] == '\n', err
}

// Dir returns the folder.
func (s *Store) Dir() string { return s.dir }

// Name returns the name of the sweep.
func (s *Store) Name() string { return s.name }

// Damaged returns the lines that Open set aside, and the files from which it removed an incomplete last line.
func (s *Store) Damaged() (lines []Damage, torn []string) { return s.damaged, s.torn }

// Has reports whether the task with that name has a row.
func (s *Store) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done[id]
}

// Failed reports whether the task with that name has only rows of failures.
func (s *Store) Failed(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failed[id]
}

// Missing returns those of the tasks that have no row, in their order.
func (s *Store) Missing(tasks []sweep.Task) (missing []sweep.Task) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range tasks {
		if !s.done[tasks[i].ID()] {
			missing = append(missing, tasks[i])
		}
	}
	return missing
}

// Forget makes Has and Missing treat tasks whose rows are failures as missing, so that they are redone.
func (s *Store) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, failed := range s.failed {
		if failed {
			delete(s.done, id)
			delete(s.failed, id)
		}
	}
}

// Append writes a row, and before it its plan, from EncodePlan, if there is one: when it returns nil both are
// durable. A task that has a row gets no second one, unless the first is a failure and this is not. If the disk is
// full, partial data is removed, and the row may be appended later.
func (s *Store) Append(r *sweep.Row, plan []byte) error {
	if r.Sweep != s.name {
		return fmt.Errorf("store %s: row of sweep %q, the store is of %q", s.dir, r.Sweep, s.name)
	}
	line, err := Encode(r)
	if err != nil {
		return err
	}
	if r.Plan != "" && plan != nil {
		if err := writePlan(s.dir, r.Plan, plan); err != nil {
			return fmt.Errorf("store %s: plan: %w", s.dir, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.done[r.ID] && (!s.failed[r.ID] || r.Failure != nil) {
		return nil
	}
	if err := s.write(line); err != nil {
		return err
	}
	s.note(r)
	return nil
}

// AppendEnvironment writes an environment, unless it exists.
func (s *Store) AppendEnvironment(e *sweep.Environment) error {
	line, err := Encode(e)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.environments[e.Digest] {
		return nil
	}
	if err := s.write(line); err != nil {
		return err
	}
	s.environments[e.Digest] = true
	return nil
}

// write appends a line and syncs it, or leaves the file unchanged.
func (s *Store) write(line []byte) error {
	if s.broken != nil {
		return s.broken
	}
	_, err := s.file.Write(line)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		s.size += int64(len(line))
		return nil
	}
	err = fmt.Errorf("store %s: row: %w", s.dir, err)
	if undo := s.file.Truncate(s.size); undo != nil {
		// Lines after an incomplete one would be lost with it.
		s.broken = fmt.Errorf("%w; the partial line cannot be removed: %w", err, undo)
		return s.broken
	}
	return err
}

// Close closes the store.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken == nil {
		s.broken = fmt.Errorf("store %s: closed", s.dir)
	}
	return errors.Join(s.file.Close(), s.lock.Close())
}

// lockedError returns an error that says what to do about a folder in use.
func lockedError() error {
	return solve.InputError(fmt.Errorf("%w: wait for its end, or stop it", ErrLocked))
}

// Remove removes the folder of a sweep with its contents, unless another process has it open.
func Remove(dir string) error {
	if !Exists(dir) {
		return solve.InputError(fmt.Errorf("%s is no folder of a sweep", dir))
	}
	lock, err := takeLock(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("store %s: %w", dir, err)
	}
	return errors.Join(os.RemoveAll(dir), lock.Close())
}
