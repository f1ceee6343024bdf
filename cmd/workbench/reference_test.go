package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v2"
)

// reference writes a command with its flags, and its subcommands, for docs/commands.md.
func reference(b *strings.Builder, c *cli.Command, path string) {
	if c.Hidden {
		return
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ").Replace
	path += " " + c.Name
	fmt.Fprintf(b, "## %s\n\n%s.\n\n    %s %s\n\n", path, strings.ToUpper(c.Usage[:1])+c.Usage[1:], path, c.ArgsUsage)
	if len(c.Flags) > 0 {
		b.WriteString("| flag | default | meaning |\n|---|---|---|\n")
	}
	for _, f := range c.Flags {
		var names []string
		for _, n := range f.Names() {
			names = append(names, "`-"+strings.Repeat("-", min(1, len(n)-1))+n+"`")
		}
		usage, otherwise := "", ""
		if d, ok := f.(cli.DocGenerationFlag); ok {
			usage = d.GetUsage()
			if _, boolean := f.(*cli.BoolFlag); !boolean {
				otherwise = strings.Trim(d.GetDefaultText(), `"`)
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.Join(names, ", "), cell(otherwise), cell(strings.ReplaceAll(usage, "`", "")))
	}
	if len(c.Flags) > 0 {
		b.WriteString("\n")
	}
	for _, sub := range c.Subcommands {
		reference(b, sub, path)
	}
}

// docs/commands.md is made from the flags; -update makes it again.
func TestCommandReference(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Commands\n\nMade from the program's flags by `go test ./cmd/workbench -run TestCommandReference -update`.\n\n" +
		"| exit status | meaning |\n|---|---|\n")
	for _, x := range exitStatuses {
		fmt.Fprintf(&b, "| %d | %s |\n", x.code, x.what)
	}
	b.WriteString("\n")
	for _, c := range newApp(streams{strings.NewReader(""), io.Discard, io.Discard}).Commands {
		reference(&b, c, "workbench")
	}
	const page = "../../docs/commands.md"
	made := strings.TrimRight(b.String(), "\n") + "\n"
	if flag.Lookup("update").Value.String() == "true" {
		if err := os.WriteFile(page, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	known, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(known), made); diff != "" {
		t.Errorf("docs/commands.md is stale; make it again with -update:\n%s", diff)
	}
}

// Where --method is taken --methods is, too, and the other way round.
func TestMethodAndMethodsAreOneFlag(t *testing.T) {
	found := 0
	var look func(list []*cli.Command)
	look = func(list []*cli.Command) {
		for _, c := range list {
			for _, f := range c.Flags {
				one, many := slices.Contains(f.Names(), "method"), slices.Contains(f.Names(), "methods")
				if one {
					found++
				}
				if one != many {
					t.Errorf("%s: %v", c.Name, f.Names())
				}
			}
			look(c.Subcommands)
		}
	}
	look(newApp(streams{strings.NewReader(""), io.Discard, io.Discard}).Commands)
	if found < 5 {
		t.Errorf("only %d flags", found)
	}
}

// The help of every command, and of every problem of solve, is less than 60 lines.
func TestHelpFitsAScreen(t *testing.T) {
	const most = 60
	lines := func(args ...string) {
		var out strings.Builder
		if code := runApp(t.Context(), append([]string{"workbench"}, args...), strings.NewReader(""), &out, &out); code != exitOK {
			t.Errorf("%v: status %d: %s", args, code, out.String())
		}
		if n := strings.Count(out.String(), "\n"); n < 5 || n >= most {
			t.Errorf("%v: %d lines", args, n)
		}
	}
	lines("help")
	var walk func([]*cli.Command, []string)
	walk = func(list []*cli.Command, path []string) {
		for _, c := range list {
			if !c.Hidden {
				here := append(path[:len(path):len(path)], c.Name)
				lines(append(here, "--help")...)
				walk(c.Subcommands, here)
			}
		}
	}
	walk(newApp(streams{strings.NewReader(""), io.Discard, io.Discard}).Commands, nil)
	var problems strings.Builder
	if code := runApp(t.Context(), []string{"workbench", "problems", "--format", "json"}, strings.NewReader(""), &problems, &problems); code != exitOK {
		t.Fatal(problems.String())
	}
	for line := range strings.Lines(problems.String()) {
		if _, name, ok := strings.Cut(line, `"name": "`); ok {
			name, _, _ = strings.Cut(name, `"`)
			lines("help", "solve", "--problem", name)
		}
	}
}
