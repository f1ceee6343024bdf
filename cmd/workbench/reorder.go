package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/model/nearest"
)

// reorder moves the flags of a command line in front of its arguments, since
// cli/v2 stops reading flags at the first argument and would silently ignore
// the rest. It also refuses unknown flags, suggesting the nearest. Everything
// after "--" stays as it is; "-" is an argument.
//
// argv[0] is the program. The result is argv[0], the command path, flags,
// arguments.
func reorder(app *cli.App, argv []string) ([]string, error) {
	if len(argv) == 0 || len(argv) > 1 && argv[1] == completeCommand {
		return argv, nil
	}
	var (
		path = []string{argv[0]}
		cmds = app.Commands
		leaf *cli.Command
	)
	// First pass: the command path, wherever flags stand. Which flags take a
	// value is known only per command, but no flag name is boolean in one
	// command and valued in another, so all commands together decide.
	rest := argv[1:]
	valued, boolean := flagNames(app.Commands)
	valuedHere := func(name string) bool { return valued[name] && !boolean[name] }
	var words []string
	var kept []token
	for i := 0; i < len(rest); i++ {
		a := rest[i]
		if a == "--" {
			for _, w := range rest[i+1:] {
				kept = append(kept, token{text: w, verbatim: true})
			}
			break
		}
		if !isFlag(a) {
			if next := find(cmds, a); next != nil && len(words) == 0 {
				path, cmds, leaf = append(path, a), next.Subcommands, next
				continue
			}
			words = append(words, a)
			kept = append(kept, token{text: a, verbatim: true})
			continue
		}
		name, value, hasValue := splitFlag(a)
		t := token{text: a, name: name}
		if !hasValue && valuedHere(name) {
			if i+1 == len(rest) {
				return nil, usagef("a value is needed after --%s", name)
			}
			i++
			t.value, t.takesValue = rest[i], true
			value, hasValue = rest[i], true
		}
		if hasValue && value == "" {
			return nil, usagef("the value of --%s is empty", name)
		}
		kept = append(kept, t)
	}
	return assemble(path, leaf, kept)
}

// assemble puts flags before arguments, once it has looked whether the command
// knows them.
func assemble(path []string, leaf *cli.Command, kept []token) ([]string, error) {
	var flags, arguments []string
	known := allowed(leaf)
	named := slices.IndexFunc(kept, func(t token) bool { return t.verbatim })
	isUnknownCommand := named >= 0 && (leaf == nil || len(leaf.Subcommands) > 0)
	if slices.ContainsFunc(kept, func(t token) bool { return !t.verbatim && (t.name == "help" || t.name == "h") }) {
		if isUnknownCommand { // which is reported
			return append(path, "--", kept[named].text), nil
		}
		if err := helpOf(leaf, kept); err != nil {
			return nil, err
		}
		return append(path, "--help"), nil // cli/v2 takes arguments beside it for topics
	}
	for _, t := range kept {
		if t.verbatim {
			arguments = append(arguments, t.text)
			continue
		}
		if !slices.Contains(known, t.name) {
			if isUnknownCommand && named == 0 {
				return append(path, "--", kept[named].text), nil
			}
			where := ""
			if leaf != nil {
				where = strings.Join(path[1:], " ") + ": "
			}
			return nil, usagef("%sunknown flag --%s: %s", where, t.name, nearest.Hint(t.name, long(known)))
		}
		flags = append(flags, t.text)
		if t.takesValue {
			flags = append(flags, t.value)
		}
	}
	out := append(path, flags...)
	if len(arguments) > 0 {
		out = append(out, "--")
	}
	return append(out, arguments...), nil
}

// token is one flag with its value, or one argument.
type token struct {
	text, name, value    string
	takesValue, verbatim bool
}

func isFlag(a string) bool { return len(a) > 1 && a[0] == '-' }

func splitFlag(a string) (name, value string, hasValue bool) {
	return strings.Cut(strings.TrimLeft(a, "-"), "=")
}

func find(cmds []*cli.Command, name string) *cli.Command {
	for _, c := range cmds {
		if c.HasName(name) {
			return c
		}
	}
	return nil
}

// flagNames returns the names of all flags that take a value, and of all that
// do not.
func flagNames(cmds []*cli.Command) (valued, boolean map[string]bool) {
	valued, boolean = map[string]bool{}, map[string]bool{"help": true, "h": true, "version": true, "v": true}
	var walk func([]*cli.Command)
	walk = func(cmds []*cli.Command) {
		for _, c := range cmds {
			for _, f := range c.Flags {
				into := valued
				if _, ok := f.(*cli.BoolFlag); ok {
					into = boolean
				}
				for _, n := range f.Names() {
					into[n] = true
				}
			}
			walk(c.Subcommands)
		}
	}
	walk(cmds)
	return valued, boolean
}

// allowed returns the names of the flags of c, or of the program if c is nil.
func allowed(c *cli.Command) []string {
	names := []string{"help", "h"}
	if c == nil {
		names = append(names, "version", "v")
	} else {
		for _, f := range c.Flags {
			names = append(names, f.Names()...)
		}
	}
	return names
}

func long(names []string) []string {
	var out []string
	for _, n := range names {
		if len(n) > 1 {
			out = append(out, "--"+n)
		}
	}
	return out
}
