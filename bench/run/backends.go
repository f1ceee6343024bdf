package run

import (
	"fmt"

	"workbench/model/nearest"
	"workbench/solvers"
	"workbench/solvers/highs"
	"workbench/solvers/isolate"
	"workbench/solvers/lpsolve"
)

// BackendInfo is one entry of the table of MILP backends.
type BackendInfo struct {
	Name      string
	Install   string // the command that installs it
	Engine    solvers.Engine
	Available func() error
	Version   func() string
}

// Backends returns the table of MILP backends, the best first.
func Backends() []BackendInfo {
	return []BackendInfo{
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

// BackendNames returns the names of the backends.
func BackendNames() (names []string) {
	for _, b := range Backends() {
		names = append(names, b.Name)
	}
	return names
}

// Backend returns the backend of that name, in a child process of this program
// if isolated. A backend that is not there is reported when it is first used,
// so that methods without a MILP work all the same.
func Backend(name string, isolated bool) (solvers.Backend, error) {
	for _, b := range Backends() {
		if b.Name != name {
			continue
		}
		if !isolated || b.Available() != nil {
			return solvers.New(b.Engine), nil
		}
		return isolate.New(b.Engine, b.Name), nil
	}
	return nil, InputError(fmt.Errorf("unknown backend %q: %s", name, nearest.Hint(name, BackendNames())))
}

// available returns why a backend of the table is not there, nil if it is.
func available(name string) error {
	for _, b := range Backends() {
		if b.Name == name {
			return b.Available()
		}
	}
	return nil
}

// ServeChild runs the solve that a parent process wants of this one and exits,
// or returns at once if this process is no such child. Programs that use
// isolated backends, tests among them, call it first.
func ServeChild() {
	engines := make(map[string]solvers.Engine)
	for _, b := range Backends() {
		engines[b.Name] = b.Engine
	}
	isolate.Main(engines)
}
