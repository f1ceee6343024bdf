package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"workbench/model/nearest"
)

// Named is a configured engine.
type Named struct {
	Name   string
	Engine Engine
}

// Configured returns the programs of the file workbench/solvers.yaml in the user's configuration folder
// ($XDG_CONFIG_HOME, ~/.config), a list such as
//
//   - name: scip-9
//     command: /opt/scip/bin/scip
//     arguments: [-s, settings.set]
//     dialect: scip
//
// dialect may be omitted if it equals the name. A missing file means no programs.
func Configured() ([]Named, error) {
	folder, err := os.UserConfigDir()
	if err != nil {
		return nil, nil // there is no home folder
	}
	path := filepath.Join(folder, "workbench", "solvers.yaml")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	found, err := configured(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return found, nil
}

func configured(text []byte) (found []Named, err error) {
	var list []struct {
		Name, Command, Dialect string
		Arguments              []string
	}
	if err := yaml.UnmarshalWithOptions(text, &list, yaml.Strict()); err != nil {
		return nil, err
	}
	var names []string
	for _, d := range Dialects() {
		names = append(names, d.Name)
	}
	for i, c := range list {
		if c.Dialect == "" {
			c.Dialect = c.Name
		}
		k := slices.Index(names, c.Dialect)
		switch {
		case c.Name == "":
			return nil, fmt.Errorf("program %d has no name", i+1)
		case k < 0:
			return nil, fmt.Errorf("%s: unknown dialect %q: %s", c.Name, c.Dialect, nearest.Hint(c.Dialect, names))
		case c.Command == "":
			c.Command = Dialects()[k].Program
		}
		found = append(found, Named{c.Name, Engine{Dialect: Dialects()[k], Program: c.Command, Arguments: c.Arguments}})
	}
	return found, nil
}
