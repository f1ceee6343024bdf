package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// Merged is the result of a merge.
type Merged struct {
	Sweep    string
	Tasks    int // of all lists together
	Rows     int // in the store after the merge
	Added    int // of these, added from the others
	Repeated int // already present
	Damaged  []Damage
	Missing  []sweep.Task // without a row
}

// Merge adds the contents of the others to the store in dir: rows, environments, plans, instances and the lists of
// tasks. All must be of one sweep. It may be repeated, also after an interruption; the others are unchanged.
func Merge(dir string, others []string) (m *Merged, err error) {
	m = &Merged{}
	for _, other := range others {
		if same(dir, other) {
			return nil, solve.InputError(fmt.Errorf("%s cannot be merged into itself", other))
		}
	}
	list, err := mergeTasks(dir, others)
	if err != nil {
		return nil, err
	}
	m.Sweep, m.Tasks = list.Name, len(list.Tasks)
	s, err := Open(dir, list.Name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err := WriteTasks(dir, list); err != nil {
		return nil, err
	}
	for _, other := range others {
		if err := s.addFolder(other, m); err != nil {
			return nil, err
		}
	}
	m.Rows, m.Missing = len(s.done), s.Missing(list.Tasks)
	return m, nil
}

func same(a, b string) bool {
	x, err1 := os.Stat(a)
	y, err2 := os.Stat(b)
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// mergeTasks returns the tasks of all lists, without duplicates.
func mergeTasks(dir string, others []string) (*Sweep, error) {
	var all *Sweep
	seen := map[string]bool{}
	for i, from := range append([]string{dir}, others...) {
		s, err := ReadTasks(from)
		if i == 0 && errors.Is(err, fs.ErrNotExist) {
			continue // a new folder
		}
		if err != nil {
			return nil, err
		}
		switch {
		case all == nil:
			all = &Sweep{Name: s.Name, Specification: s.Specification, Plans: s.Plans}
		case all.Name != s.Name:
			return nil, solve.InputError(fmt.Errorf("%s is of sweep %q, the others are of %q", from, s.Name, all.Name))
		}
		for _, t := range s.Tasks {
			if id := t.ID(); !seen[id] {
				seen[id] = true
				all.Tasks = append(all.Tasks, t)
			}
		}
	}
	return all, nil
}

// addFolder adds the contents of another folder.
func (s *Store) addFolder(other string, m *Merged) error {
	c, err := Read(other)
	if err != nil {
		return err
	}
	m.Damaged = append(m.Damaged, c.Damaged...)
	for _, sub := range []string{plansName, instancesName} {
		if err := copyMissing(filepath.Join(s.dir, sub), filepath.Join(other, sub)); err != nil {
			return err
		}
	}
	for _, e := range c.Environments {
		if err := s.AppendEnvironment(&e); err != nil {
			return err
		}
	}
	for _, r := range c.Rows {
		if s.Has(r.ID) && !(s.Failed(r.ID) && r.Failure == nil) {
			m.Repeated++
			continue
		}
		m.Added++
		if err := s.Append(r, nil); err != nil {
			return err
		}
	}
	return nil
}

// copyMissing copies the files of a folder, named by their contents, that another folder lacks.
func copyMissing(to, from string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && path == from {
			return nil
		}
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if _, err := os.Stat(target); err == nil {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		return WriteFile(target, data)
	})
}
