package main

import (
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/model/instance/chain"
)

// frontPage is what the program prints without a command: the four doors.
const frontPage = `workbench plans training runs that do not fit in GPU memory. Every plan is verified and compared with a proven bound.

  plan a network     workbench plan zoo:llama3-8b --gpu h100 -o plan.json
  compare methods    workbench compare zoo:resnet50 --problem remat --memory 60%
  formulations       workbench formulation list
  sweeps             workbench bench run quick

A network is a file, - for standard input, or built in: workbench zoo list.
Commands: workbench help. Flags of a command: workbench help COMMAND.
Flags of a problem: workbench help solve --problem PROBLEM; workbench problems lists them.
Documents: docs/contents.md
`

// exitStatuses says what each exit status of the program means.
var exitStatuses = []struct {
	code int
	what string
}{
	{exitOK, "done"},
	{exitInternal, "internal error; of bench compare, history and status: something got worse"},
	{exitUsage, "wrong usage or input"},
	{exitInfeasible, "proved infeasible"},
	{exitNoPlan, "no plan within the limits"},
	{exitInvalid, "verification failed"},
	{exitTasksFailed, "tasks of a sweep failed; of bench status: or have no row yet"},
	{exitInterrupted, "interrupted; what was known by then is printed"},
}

// exitHelp is the table of exit statuses for a terminal.
func exitHelp() string {
	text := "EXIT STATUS:\n"
	for _, x := range exitStatuses {
		text += fmt.Sprintf("   %-4d %s\n", x.code, x.what)
	}
	return text
}

func newVersion(s streams) *cli.Command {
	return &cli.Command{
		Name: "version", Usage: "print the version of the program, of its solvers and of Go",
		Action: withArgs(0, 0, "version", func(*cli.Context, []string) error {
			versions := backends.Versions()
			fmt.Fprintf(s.out, "workbench %s, interface %d\n", sweep.Version(), pythonInterface)
			for _, name := range slices.Sorted(maps.Keys(versions)) {
				fmt.Fprintf(s.out, "%s %s\n", name, versions[name])
			}
			_, err := fmt.Fprintln(s.out, runtime.Version())
			return err
		}),
	}
}

// ofProblem hides the flags of a command that a problem does not have, and shows an example for it.
func ofProblem(c *cli.Command, p *solve.Problem) {
	asynchronous, layout := p.Parallel && !p.Scheduled, p.HasRuntime()
	has := map[string]bool{
		"bandwidth": p.Bandwidth != "", "replicas": asynchronous, "memory-model": asynchronous, "weight-copies": p.Parallel,
		"processors": p.Parallel || p.Scheduled, "micro-batches": p.Scheduled, "placement": p.Scheduled, "model": p.Models,
		"objective": len(p.Objectives) > 0, "split": layout, "latency": layout, "runtime": layout, "problem": false,
		"slots": slices.Contains(p.Takes, chain.Kind),
	}
	for _, f := range c.Flags {
		if applies, known := has[f.Names()[0]]; !known || applies {
			continue
		}
		switch f := f.(type) {
		case *cli.StringFlag:
			f.Hidden = true
		case *cli.IntFlag:
			f.Hidden = true
		case *cli.BoolFlag:
			f.Hidden = true
		}
	}
	c.UsageText = fmt.Sprintf("workbench %s '%s' --problem %s\n\n%s: %s", c.Name, p.Example, p.Name, p.Name, p.Title)
}

// helpOf prepares the help of a command for the problem among its flags, if there is one.
func helpOf(c *cli.Command, kept []token) error {
	k := slices.IndexFunc(kept, func(t token) bool { return t.name == "problem" || t.name == "p" })
	if k < 0 || c == nil || !slices.Contains(allowed(c), "problem") {
		return nil
	}
	_, name, _ := strings.Cut(kept[k].text, "=")
	if kept[k].takesValue {
		name = kept[k].value
	}
	p, err := catalog.FindProblem(name)
	if err == nil {
		ofProblem(c, p)
	}
	return err
}
