// Package backends is the table of MILP backends. Whoever runs methods is given one;
// nothing else in bench needs the libraries, so most of its tests link without them.
package backends

import (
	"fmt"

	"workbench/bench/solve"
	"workbench/model/nearest"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/isolate"
	"workbench/solvers/lpsolve"
)

// Backend is one entry of the table.
type Backend struct {
	Name      string
	Install   string // the command that installs it
	Engine    solvers.Engine
	Available func() error
	Version   func() string
}

// All returns the table, the best first.
func All() []Backend {
	return []Backend{
		{
			Name: "highs", Install: "make setup (then build again: HiGHS is linked in)",
			Engine: highs.Engine{}, Available: highs.Available, Version: highs.Version,
		},
		{
			Name: "lpsolve", Install: "make setup, or apt-get install liblpsolve55-dev",
			Engine: lpsolve.Engine{}, Available: lpsolve.Available, Version: lpsolve.Version,
		},
	}
}

// Names returns the names of the backends.
func Names() (names []string) {
	for _, b := range All() {
		names = append(names, b.Name)
	}
	return names
}

// Versions returns the versions of those that are there, by name.
func Versions() map[string]string {
	versions := map[string]string{}
	for _, b := range All() {
		if b.Available() == nil {
			versions[b.Name] = b.Version()
		}
	}
	return versions
}

// New returns the backend of that name, in a child process of this program
// if isolated. A backend that is not there is reported when it is first used,
// so that methods without a MILP work all the same.
func New(name string, isolated bool) (solvers.Backend, error) {
	b, err := find(name)
	if err != nil {
		return nil, err
	}
	return b.open(isolated), nil
}

func find(name string) (Backend, error) {
	for _, b := range All() {
		if b.Name == name {
			return b, nil
		}
	}
	return Backend{}, solve.InputError(fmt.Errorf("unknown backend %q: %s", name, nearest.Hint(name, Names())))
}

// Default returns the best backend, in child processes.
func Default() solvers.Backend { return All()[0].open(true) }

func (b Backend) open(isolated bool) solvers.Backend {
	if !isolated || b.Available() != nil {
		return solvers.New(b.Engine)
	}
	return isolate.New(b.Engine, b.Name)
}

// Use gives a setting the backend of that name, see New, and HiGHS for the linear programs
// behind certificates.
func Use(s *solve.Setting, name string, isolated bool) error {
	b, err := find(name)
	if err != nil {
		return err
	}
	s.Backend, s.Missing, s.LP = b.open(isolated), b.Available(), solvers.New(highs.Engine{})
	return nil
}

// ServeChild runs the solve that a parent process wants of this one and exits,
// or returns at once if this process is no such child. Programs that use
// isolated backends, tests among them, call it first.
func ServeChild() {
	engines := make(map[string]solvers.Engine)
	for _, b := range All() {
		engines[b.Name] = b.Engine
	}
	isolate.Main(engines)
}
