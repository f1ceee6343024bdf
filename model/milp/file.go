package milp

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotRepresented is wrapped by errors about features of files that models lack.
var ErrNotRepresented = errors.New("not represented here")

// maxFile is the maximum size of a model's file, uncompressed, in bytes.
const maxFile = 1 << 30

// IsFile reports whether a name is that of a model's file: .mps or .lp, optionally followed by .gz.
func IsFile(name string) bool { return fileFormat(name) != "" }

func fileFormat(name string) string {
	switch e := strings.ToLower(filepath.Ext(strings.TrimSuffix(strings.ToLower(name), ".gz"))); e {
	case ".mps", ".lp":
		return e
	}
	return ""
}

// OpenFile reads the file of a model, see [ReadFile].
func OpenFile(path string) (*Model, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadFile(f, path)
}

// ReadFile reads a model from r, in the format given by the extension of name: .mps, free or fixed, or .lp, each
// optionally with .gz. Errors begin with name.
func ReadFile(r io.Reader, name string) (*Model, error) {
	m, err := readFile(r, name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

func readFile(r io.Reader, name string) (*Model, error) {
	format := fileFormat(name)
	if format == "" {
		return nil, errors.New("the name of a model's file ends in .mps, .lp, .mps.gz or .lp.gz")
	}
	if strings.HasSuffix(strings.ToLower(name), ".gz") {
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	}
	text, err := io.ReadAll(io.LimitReader(r, maxFile+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, errors.New("the file is truncated")
	case err != nil:
		return nil, err
	case len(text) > maxFile:
		return nil, fmt.Errorf("more than %d bytes", maxFile)
	case format == ".lp":
		return ReadLP(bytes.NewReader(text))
	}
	m, free := ReadMPS(bytes.NewReader(text), FreeMPS)
	if free == nil || errors.Is(free, ErrNotRepresented) || errors.Is(free, ErrDuplicate) {
		return m, free
	}
	if m, err := ReadMPS(bytes.NewReader(text), FixedMPS); err == nil {
		return m, nil
	}
	return nil, free
}
