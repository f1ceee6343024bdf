package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/curve"
	"workbench/bench/sweep/results"
	"workbench/bench/sweep/specification"
	"workbench/ilp"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
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
		Action: o.action(s, 1, 1, "completion "+strings.Join(shells, "|"), func(c *cli.Context, a []string) error {
			script, ok := scripts[a[0]]
			if !ok {
				return usagef("unknown shell %q: %s", a[0], nearest.Hint(a[0], shells))
			}
			if o.json() {
				return render.Document(s.out, "workbench.completion/v1", map[string]string{"shell": a[0], "script": script})
			}
			_, err := fmt.Fprint(s.out, script)
			return err
		}),
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
	if name, ok := openFlag(app, before); ok {
		all = flagValues(name, before)
	} else {
		all = commandWords(cmds, leaf, before, last)
	}
	var out []string
	for _, c := range all {
		if strings.HasPrefix(c, last) {
			out = append(out, c)
		}
	}
	return out
}

// openFlag returns the flag that the last of the words leaves without its value.
func openFlag(app *cli.App, before []string) (name string, ok bool) {
	if len(before) == 0 || !isFlag(before[len(before)-1]) {
		return "", false
	}
	name, _, given := splitFlag(before[len(before)-1])
	_, boolean := flagNames(app.Commands)
	return name, !given && !boolean[name]
}

// commandWords returns commands, flags, or what the command works on, whichever
// may stand here.
func commandWords(cmds []*cli.Command, leaf *cli.Command, before []string, last string) (all []string) {
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
	switch {
	case before[0] == "zoo" && leaf.Name != "list":
		return zoo.Names()
	case before[0] == "formulation" && leaf.Name != "list":
		for _, f := range ilp.Formulations() {
			all = append(all, f.Name)
		}
		return all
	case leaf.Name == "completion":
		return shells
	case before[0] == "bench" && slices.Contains([]string{"run", "serve"}, leaf.Name):
		return specification.Builtin()
	case before[0] == "bench": // folders
		return nil
	case slices.Contains([]string{"solve", "compare", "curve", "verify"}, leaf.Name):
		return instanceNames()
	}
	return nil
}

// instanceNames returns the built-in networks as instances.
func instanceNames() (all []string) {
	for _, n := range zoo.Names() {
		all = append(all, zoo.Scheme+n)
	}
	return all
}

// flagValues returns the values a flag may have, nil if they are open.
func flagValues(name string, before []string) (all []string) {
	switch name {
	case "problem", "p":
		for _, p := range catalog.Problems() {
			all = append(all, p.Name)
		}
	case "method", "methods":
		p := catalog.Problems()[0].Name
		for i, w := range before[:len(before)-1] {
			switch name, value, given := splitFlag(w); {
			case !isFlag(w) || name != "problem" && name != "p":
			case given:
				p = value
			default:
				p = before[i+1]
			}
		}
		if found, err := catalog.FindProblem(p); err == nil {
			for _, m := range found.Methods() {
				all = append(all, m.Name)
			}
		}
	case "backend", "b":
		all = backends.Names()
	case "instance", "i":
		all = instanceNames()
	case "over":
		all = []string{string(curve.OverMemory), string(curve.OverBandwidth), string(curve.OverProcessors)}
	case "quantity":
		all = quantities()
	case "from":
		all = importerNames()
	case "as":
		all = []string{string(chain.Kind), string(graph.Kind)}
	case "cost-unit":
		all = []string{"us", "ms", "s"}
	case "format":
		all = []string{"text", "json"}
		if slices.Contains(before, "export") && before[0] == "bench" {
			all = results.Formats
		}
	case "log-level":
		all = []string{"debug", "info", "warn", "error"}
	}
	return all
}
