package store

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"workbench/bench/atomicfile"
	"workbench/bench/solve"
	"workbench/bench/sweep"
)

// Names in the folder of a sweep.
const (
	tasksName   = "tasks.jsonl"
	rowsName    = "rows.jsonl"
	rowsPattern = "rows*.jsonl"
	damagedName = "damaged.txt"
	plansName   = "plans"
	lockName    = "lock"

	instancesName = "instances"
)

// InstancePath returns the path in the folder of a sweep of an instance that came from a file.
func InstancePath(dir, sha256 string) string {
	return filepath.Join(dir, instancesName, sha256+".json")
}

// QueuePath returns the path of the queue in the folder of a sweep. It may be lost without harm.
func QueuePath(dir string) string { return filepath.Join(dir, "queue") }

// TasksFormat is the format in the first line of a list of tasks.
const TasksFormat = "workbench.tasks/v1"

// Sweep is the list of tasks of a folder.
type Sweep struct {
	Name          string
	Specification string // the text as written
	Plans         bool   // store plans
	Tasks         []sweep.Task
}

// tasksHead is the first line of the list; the number of tasks shows whether the list is complete.
type tasksHead struct {
	Format        string `json:"format"`
	Sweep         string `json:"sweep"`
	Count         int    `json:"count"`
	Plans         bool   `json:"plans"`
	Specification string `json:"specification"`
}

// WriteTasks writes the list of tasks into dir, which it creates if needed, atomically. O(tasks).
func WriteTasks(dir string, s *Sweep) error {
	if err := atomicfile.Folder(dir); err != nil {
		return err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(tasksHead{TasksFormat, s.Name, len(s.Tasks), s.Plans, s.Specification}); err != nil {
		return err
	}
	for i := range s.Tasks {
		if err := enc.Encode(&s.Tasks[i]); err != nil {
			return err
		}
	}
	return WriteFile(filepath.Join(dir, tasksName), b.Bytes())
}

// ReadTasks reads the list of tasks of dir. If there is none, the error wraps [fs.ErrNotExist].
func ReadTasks(dir string) (*Sweep, error) {
	name := filepath.Join(dir, tasksName)
	f, err := os.Open(name)
	if err != nil {
		return nil, solve.InputError(fmt.Errorf("%s is no folder of a sweep: %w", dir, err))
	}
	defer f.Close()
	s := &Sweep{}
	count := 0
	err = eachLine(f, func(n int, line []byte, _ bool) error {
		wrong := func(err error) error { return solve.InputError(fmt.Errorf("%s:%d: %w", name, n, err)) }
		if n == 1 {
			var head tasksHead
			if err := json.Unmarshal(line, &head); err != nil {
				return wrong(err)
			}
			if head.Format != TasksFormat {
				return wrong(&sweep.FormatError{Want: TasksFormat, Got: head.Format})
			}
			s.Name, s.Plans, s.Specification, count = head.Sweep, head.Plans, head.Specification, head.Count
			return nil
		}
		var t sweep.Task
		dec := json.NewDecoder(bytes.NewReader(line))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&t); err != nil {
			return wrong(err)
		}
		s.Tasks = append(s.Tasks, t)
		return nil
	})
	if err == nil && (s.Name == "" || len(s.Tasks) != count) {
		err = solve.InputError(fmt.Errorf("%s has %d tasks of %d: it is incomplete; recreate it with workbench bench run SPEC --resume "+
			"--into %s", name, len(s.Tasks), count, dir))
	}
	return s, err
}

// WriteFile writes a file atomically and durably.
func WriteFile(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".writing-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(name))
}

// syncFolder makes the names in a folder durable. Systems that do not support that are ignored.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	_ = d.Sync()
	return d.Close()
}

// rowFiles returns the files of rows of a folder, or path itself if it is a file. A folder may have none.
func rowFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, solve.InputError(fmt.Errorf("store %s cannot be read: %w", path, err))
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if ok, _ := filepath.Match(rowsPattern, e.Name()); ok {
			names = append(names, filepath.Join(path, e.Name()))
		}
	}
	slices.Sort(names)
	return names, nil
}

// eachLine calls f for each line of r, without its line end; ended reports whether it has one. A line that is too
// long is truncated: no valid line is as long.
func eachLine(r io.Reader, f func(number int, line []byte, ended bool) error) error {
	br := bufio.NewReaderSize(r, longest)
	for n := 1; ; n++ {
		line, err := br.ReadSlice('\n')
		ended := err == nil
		for errors.Is(err, bufio.ErrBufferFull) {
			line = slices.Clone(line)
			_, err = br.ReadSlice('\n')
			ended = err == nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(line) > 0 {
			if err := f(n, bytes.TrimSuffix(line, []byte("\n")), ended); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

// Exists reports whether dir is the folder of a sweep.
func Exists(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, tasksName))
	return err == nil && info.Mode().IsRegular()
}

// short cuts a text that is quoted in an error.
func short(s string) string {
	const most = 120
	if s = strings.TrimSpace(s); len(s) > most {
		s = s[:most] + "…"
	}
	return s
}
