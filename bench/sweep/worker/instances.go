package worker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/model/zoo"
)

// Instances provides the instance of a task, as a file of its format.
type Instances interface {
	Document(t sweep.Task) ([]byte, error)
}

// KeepInstances writes instances into the folder of a sweep, each atomically.
func KeepInstances(dir string, files map[string]*solve.Instance) error {
	if len(files) == 0 {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(store.InstancePath(dir, "")), 0o755); err != nil {
		return err
	}
	for sum, in := range files {
		var b bytes.Buffer
		if err := in.Write(&b); err != nil {
			return err
		}
		if err := store.WriteFile(store.InstancePath(dir, sum), b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

// Folder is the Instances of a sweep on this machine: built-in networks are generated, files come from the folder
// of the sweep. It caches the most recent ones. Its method may be called from any goroutine.
type Folder struct {
	Dir string

	mu    sync.Mutex
	known map[string][]byte // by digest
	order []string
	size  int
}

// mostKept is the size of the cache, in bytes.
const mostKept = 256 << 20

// Document implements [Instances].
func (f *Folder) Document(t sweep.Task) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if doc, ok := f.known[t.SHA256]; ok {
		return doc, nil
	}
	doc, err := f.read(t)
	if err != nil {
		return nil, err
	}
	f.keep(t.SHA256, doc)
	return doc, nil
}

func (f *Folder) read(t sweep.Task) ([]byte, error) {
	if !strings.HasPrefix(t.Instance, zoo.Scheme) {
		return os.ReadFile(store.InstancePath(f.Dir, t.SHA256))
	}
	in, err := solve.Load(t.Instance, nil)
	if err != nil {
		return nil, err
	}
	if err := check(in, t); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := in.Write(&b); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func (f *Folder) keep(sum string, doc []byte) {
	if f.known == nil {
		f.known = map[string][]byte{}
	}
	f.known[sum] = doc
	f.order = append(f.order, sum)
	f.size += len(doc)
	for f.size > mostKept && len(f.order) > 1 {
		f.size -= len(f.known[f.order[0]])
		delete(f.known, f.order[0])
		f.order = f.order[1:]
	}
}

// parse reads the document of an instance and checks its identity against the task.
func parse(doc []byte, t sweep.Task) (*solve.Instance, error) {
	in, err := solve.Load("-", bytes.NewReader(doc))
	if err != nil {
		return nil, fmt.Errorf("instance %s: %w", t.Instance, err)
	}
	in.Source = t.Instance
	return in, check(in, t)
}
