// Package backends is the table of MILP backends. Methods receive a backend from their caller; nothing else in
// bench depends on the libraries, so that most of its tests link without them.
package backends

import (
	"fmt"
	"slices"

	"workbench/bench/solve"
	"workbench/model/nearest"
	"workbench/solvers"
	"workbench/solvers/command"
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
	// Lost lists the features that a program called by command lacks; "": the library is linked or loaded.
	Lost string
}

// All returns the libraries, the preferred one first.
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

// lost lists the features that all programs called by command lack.
const lost = "progress, duals, raw options; "

// Commands returns the programs called by command: those of the configuration file, then the built-in ones. The
// error is about that file.
func Commands() ([]Backend, error) {
	configured, err := command.Configured()
	var all []Backend
	for _, e := range configured {
		all = append(all, byCommand(e.Name, e.Engine))
	}
	for _, d := range command.Dialects() {
		if !slices.ContainsFunc(all, func(b Backend) bool { return b.Name == d.Name }) {
			all = append(all, byCommand(d.Name, command.Engine{Dialect: d, Program: d.Program}))
		}
	}
	return all, err
}

func byCommand(name string, e command.Engine) Backend {
	return Backend{
		Name: name, Install: e.Dialect.Install, Engine: e, Available: e.Available, Version: e.Version, Lost: lost + e.Dialect.Lost,
	}
}

// Names returns the names of the backends.
func Names() (names []string) {
	for _, b := range everything() {
		names = append(names, b.Name)
	}
	return names
}

// everything returns All and Commands, without the configured ones if the configuration is unreadable.
func everything() []Backend {
	commands, _ := Commands() // find reports an unreadable file
	return append(All(), commands...)
}

// Versions returns the versions of the available backends, by name.
func Versions() map[string]string {
	versions := map[string]string{}
	for _, b := range everything() {
		if b.Available() == nil {
			versions[b.Name] = b.Version()
		}
	}
	return versions
}

// New returns the backend of that name, in a child process of this program if isolated. A missing library is
// reported at first use, so that methods without a MILP still work.
func New(name string, isolated bool) (solvers.Backend, error) {
	b, err := find(name)
	if err != nil {
		return nil, err
	}
	return b.open(isolated), nil
}

func find(name string) (Backend, error) {
	commands, broken := Commands()
	for _, b := range append(All(), commands...) {
		if b.Name == name {
			return b, nil
		}
	}
	if broken != nil {
		return Backend{}, solve.InputError(broken)
	}
	return Backend{}, solve.InputError(fmt.Errorf("unknown backend %q: %s", name, nearest.Hint(name, Names())))
}

// Default returns the preferred backend, in child processes.
func Default() solvers.Backend { return All()[0].open(true) }

func (b Backend) open(isolated bool) solvers.Backend {
	if !isolated || b.Lost != "" || b.Available() != nil { // a command is a process of its own
		return solvers.New(b.Engine)
	}
	return isolate.New(b.Engine, b.Name)
}

// Use sets the backend of that name, see New, and HiGHS for the linear programs of certificates.
func Use(s *solve.Setting, name string, isolated bool) error {
	b, err := find(name)
	if err != nil {
		return err
	}
	s.Backend, s.Missing, s.LP = b.open(isolated), b.Available(), solvers.New(highs.Engine{})
	return nil
}

// ServeChild runs the solve that a parent process requests of this one and exits, or returns at once if this
// process is no such child. Programs that use isolated backends, including tests, call it first.
func ServeChild() {
	engines := make(map[string]solvers.Engine)
	for _, b := range All() {
		engines[b.Name] = b.Engine
	}
	isolate.Main(engines)
}
