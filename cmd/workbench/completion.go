package main

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench"
	"workbench/model/nearest"
	"workbench/model/zoo"
)

// scripts ask the program itself, so that instances, problems and methods
// complete as well as commands and flags. Where there is no candidate, shells
// fall back to file names.
var scripts = map[string]string{
	// Bash breaks words at colons and equal signs, so the line is split here,
	// and of each candidate only what follows the last break is wanted.
	"bash": `_workbench() {
  local line="${COMP_LINE:0:COMP_POINT}" words current broken IFS=$' \t\n'
  read -ra words <<<"$line"
  [[ "$line" == *[[:space:]] ]] && words+=("")
  current="${words[${#words[@]}-1]}"
  broken="${current%"${current##*[:=]}"}"
  IFS=$'\n'
  COMPREPLY=($(workbench __complete "${words[@]:1}" 2>/dev/null))
  COMPREPLY=("${COMPREPLY[@]#"$broken"}")
}
complete -o default -o bashdefault -F _workbench workbench
`,
	"zsh": `#compdef workbench
_workbench() {
  local -a candidates
  candidates=("${(@f)$(workbench __complete "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
  [[ -n "$candidates" ]] && compadd -Q -- "${candidates[@]}" || _files
}
compdef _workbench workbench
`,
	"fish": `function __workbench_complete
  set -l words (commandline -opc) (commandline -ct)
  workbench __complete $words[2..-1] 2>/dev/null
end
complete -c workbench -a '(__workbench_complete)'
`,
}

// completeCommand is the hidden command the scripts call.
const completeCommand = "__complete"

var shells = []string{"bash", "zsh", "fish"}

func newCompletion(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:      "completion",
		Usage:     "print the completion script of a shell",
		ArgsUsage: "bash|zsh|fish",
		Description: "Load it with\n" +
			"  bash: source <(workbench completion bash)\n" +
			"  zsh:  source <(workbench completion zsh)\n" +
			"  fish: workbench completion fish | source",
		Flags: o.flags(),
		Action: func(c *cli.Context) error {
			a, err := args(c, 1, 1, "completion "+strings.Join(shells, "|"))
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			script, ok := scripts[a[0]]
			if !ok {
				return usagef("unknown shell %q: %s", a[0], nearest.Hint(a[0], shells))
			}
			if o.json() {
				return writeJSON(s.out, map[string]string{"shell": a[0], "script": script})
			}
			_, err = fmt.Fprint(s.out, script)
			return err
		},
	}
}

// newComplete is what the scripts call: the words typed so far, the last one
// being completed, possibly empty.
func newComplete(s streams, app func() *cli.App) *cli.Command {
	return &cli.Command{
		Name:            completeCommand,
		Hidden:          true,
		SkipFlagParsing: true,
		Action: func(c *cli.Context) error {
			for _, w := range candidates(app(), c.Args().Slice()) {
				fmt.Fprintln(s.out, w)
			}
			return nil
		},
	}
}

// candidates returns what the last of words may become.
func candidates(app *cli.App, words []string) []string {
	if len(words) == 0 {
		words = []string{""}
	}
	last, before := words[len(words)-1], words[:len(words)-1]
	cmds, leaf := app.Commands, (*cli.Command)(nil)
	for _, w := range before {
		if next := find(cmds, w); next != nil {
			cmds, leaf = next.Subcommands, next
		}
	}
	var all []string
	switch {
	case len(before) > 0 && isFlag(before[len(before)-1]):
		name, _, _ := splitFlag(before[len(before)-1])
		if all = flagValues(name, before); all != nil {
			break
		}
		fallthrough
	default:
		all = commandWords(cmds, leaf, last)
	}
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c, last) {
			out = append(out, c)
		}
	}
	return out
}

// commandWords returns commands, flags or instances, whichever may stand here.
func commandWords(cmds []*cli.Command, leaf *cli.Command, last string) (all []string) {
	switch {
	case strings.HasPrefix(last, "-"):
		return long(allowed(leaf))
	case leaf == nil || len(leaf.Subcommands) > 0:
		for _, c := range cmds {
			if !c.Hidden {
				all = append(all, c.Name)
			}
		}
		return all
	}
	switch leaf.Name {
	case "solve", "compare", "curve", "verify":
		for _, n := range zoo.Names() {
			all = append(all, "zoo:"+n)
		}
	case "completion":
		all = shells
	}
	return all
}

// flagValues returns the values a flag may have, nil if they are open.
func flagValues(name string, before []string) (all []string) {
	switch name {
	case "problem", "p":
		for _, p := range bench.Problems() {
			all = append(all, p.Name)
		}
	case "method", "methods":
		p := bench.DefaultProblem
		for i, w := range before[:len(before)-1] {
			if w == "--problem" || w == "-p" {
				p = before[i+1]
			}
		}
		if found, err := bench.FindProblem(p); err == nil {
			for _, m := range bench.Methods(found) {
				all = append(all, m.Name)
			}
		}
	case "backend", "b":
		all = bench.BackendNames()
	case "format":
		all = []string{"text", "json"}
	case "log-level":
		all = []string{"debug", "info", "warn", "error"}
	}
	return all
}
