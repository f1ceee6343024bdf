// Package atomicfile writes the files that a user names. A regular file is written as a
// whole or not at all; what is none (a device, a pipe, a link to one) is written
// through, never replaced; a file that its owner made read-only stays as it is.
package atomicfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Standard names standard output.
const Standard = "-"

// Write calls write with where the bytes of name go: for "-" to standard, for a
// regular file, or where there is none, through a temporary file beside it, so that an
// interrupted write leaves no half file under the name asked for. Errors name the file
// as the user did.
func Write(name string, standard io.Writer, write func(io.Writer) error) error {
	if name == Standard {
		return write(standard)
	}
	t, err := find(name)
	if err != nil {
		return err
	}
	if t.through {
		return t.writeThrough(write)
	}
	f, err := os.CreateTemp(filepath.Dir(t.path), ".workbench-*")
	if err != nil {
		return unwritable(name, err)
	}
	defer os.Remove(f.Name())
	if err := write(f); err != nil {
		f.Close()
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := f.Close(); err != nil {
		return unwritable(name, err)
	}
	if err := os.Chmod(f.Name(), t.mode); err != nil {
		return unwritable(name, err)
	}
	return unwritable(name, os.Rename(f.Name(), t.path))
}

// Later returns where text goes that comes bit by bit: for "-" to standard, else to memory,
// of which done makes the file as [Write] does; "" is nowhere, nil.
func Later(name string, standard io.Writer) (w io.Writer, done func() error, err error) {
	nothing := func() error { return nil }
	switch name {
	case "":
		return nil, nothing, nil
	case Standard:
		return standard, nothing, nil
	}
	text := new(bytes.Buffer)
	return text, func() error {
		return Write(name, standard, func(w io.Writer) error { _, err := text.WriteTo(w); return err })
	}, Check(name)
}

// Check reports whether Write can be expected to write name: before hours of
// solving, not after.
func Check(name string) error {
	if name == Standard {
		return nil
	}
	t, err := find(name)
	if err != nil || t.through {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(t.path), ".workbench-*")
	if err != nil {
		return unwritable(name, err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// Same reports whether writing name would replace one of the others. What is written through
// is not replaced.
func Same(name string, others ...string) bool {
	path := resolveLinks(name)
	i, err := os.Stat(path)
	if name == Standard || err == nil && !i.Mode().IsRegular() {
		return false
	}
	return slices.ContainsFunc(others, func(other string) bool {
		if o, missing := os.Stat(other); err == nil && missing == nil {
			return os.SameFile(i, o)
		}
		return filepath.Clean(path) == filepath.Clean(resolveLinks(other))
	})
}

// target is where the bytes of a name go.
type target struct {
	name    string // the user's
	path    string // resolveLinks all links
	mode    fs.FileMode
	through bool // into what is there
}

func find(name string) (target, error) {
	t := target{name: name, path: resolveLinks(name), mode: 0o644}
	i, err := os.Stat(t.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return t, nil
	case err != nil:
		return t, unwritable(name, err)
	case i.IsDir():
		return t, unwritable(name, errors.New("it is a directory"))
	case !i.Mode().IsRegular():
		t.through = true
	case i.Mode().Perm()&0o222 == 0: // rename would not ask
		return t, unwritable(name, errors.New("it is read-only"))
	default:
		t.mode = i.Mode().Perm()
	}
	return t, nil
}

// resolveLinks follows the links of a name, one that leads to no file yet included.
func resolveLinks(name string) string {
	for range 40 { // as many as Linux follows
		to, err := os.Readlink(name)
		if err != nil {
			return name
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		name = to
	}
	return name
}

func (t target) writeThrough(write func(io.Writer) error) error {
	f, err := os.OpenFile(t.path, os.O_WRONLY, 0)
	if err != nil {
		return unwritable(t.name, err)
	}
	b := bufio.NewWriter(f)
	err = write(b)
	if err == nil {
		err = b.Flush()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return fmt.Errorf("%s: %w", t.name, err)
	}
	return nil
}

// Folder makes a folder that a user names, and those it lies in, where they are missing.
func Folder(name string) error {
	return unwritable(name, os.MkdirAll(name, 0o755))
}

// UnwritableError says that a file or folder cannot be written, and why.
type UnwritableError struct {
	Name string
	Err  error
}

func (e *UnwritableError) Error() string {
	return fmt.Sprintf("%s cannot be written: %v", e.Name, e.Err)
}
func (e *UnwritableError) Unwrap() error { return e.Err }

// unwritable is the error of a file that cannot be written, nil for none: its name is
// the user's, not that of a temporary file.
func unwritable(name string, err error) error {
	if err == nil {
		return nil
	}
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &UnwritableError{name, err}
}
