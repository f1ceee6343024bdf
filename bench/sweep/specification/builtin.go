package specification

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"workbench/bench/solve"
	"workbench/model/nearest"
)

// shipped are the specifications that come with the program.
//
//go:embed quick.yaml nightly.yaml papers.yaml
var shipped embed.FS

// Builtin returns the names of the built-in specifications.
func Builtin() []string { return []string{"quick", "nightly", "papers"} }

// mostBytes exceeds the size of any specification written by hand.
const mostBytes = 1 << 20

// Open reads a specification by name: a built-in one or a file.
func Open(name string) (*Spec, error) {
	if slices.Contains(Builtin(), name) {
		text, err := shipped.ReadFile(name + ".yaml")
		if err != nil {
			return nil, err
		}
		return Parse(name+".yaml", "", text)
	}
	info, err := os.Stat(name)
	switch {
	case err != nil && !strings.ContainsAny(name, "./\\"):
		return nil, solve.InputError(fmt.Errorf("specification %s: no such file; built-in ones: %s", name, nearest.Hint(name, Builtin())))
	case err != nil:
		return nil, solve.InputError(fmt.Errorf("specification %s cannot be read: %w", name, err))
	case info.Size() > mostBytes:
		return nil, solve.InputError(fmt.Errorf("specification %s has %d bytes, at most %d are possible", name, info.Size(), mostBytes))
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, solve.InputError(fmt.Errorf("specification %s cannot be read: %w", name, err))
	}
	dir, err := filepath.Abs(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	return Parse(name, dir, text)
}
