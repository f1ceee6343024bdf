package main

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
)

func newProblems(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:  "problems",
		Usage: "list the problems",
		Flags: o.flags(),
		Action: o.action(s, 0, 0, "problems [flags]", func(c *cli.Context, _ []string) error {
			type entry struct {
				Name      string   `json:"name"`
				Title     string   `json:"title"`
				Source    string   `json:"source"`
				Objective string   `json:"objective"`
				Methods   []string `json:"methods"`
				Takes     []string `json:"instances"`
				Default   string   `json:"default_method"`
			}
			var entries []entry
			for _, p := range catalog.Problems() {
				e := entry{p.Name, p.Title, p.Source, p.Objective, nil, p.Takes, p.Defaults[0]}
				for _, m := range p.Methods() {
					e.Methods = append(e.Methods, m.Name)
				}
				entries = append(entries, e)
			}
			return o.print(s.out, "workbench.problem/v1", entries, func(w io.Writer) {
				t := render.Table(w, table.Row{"problem", "what it is", "source", "minimises", "methods"})
				for _, e := range entries {
					t.AppendRow(table.Row{
						e.Name, render.Wrap(e.Title, 40), e.Source, render.Wrap(e.Objective, 30),
						render.Wrap(strings.Join(e.Methods, ", "), 36),
					})
				}
				t.Render()
			})
		}),
	}
}

func newMethods(s streams) *cli.Command {
	o := &common{}
	var problem string
	return &cli.Command{
		Name:  "methods",
		Usage: "list the methods: kind, source, complexity, assumptions",
		Flags: append([]cli.Flag{stringFlag("instance", "problem, p", &problem, "", "only those for `PROBLEM`")}, o.flags()...),
		Action: o.action(s, 0, 0, "methods [--problem P]", func(c *cli.Context, _ []string) error {
			problems := catalog.Problems()
			if problem != "" {
				p, err := catalog.FindProblem(problem)
				if err != nil {
					return err
				}
				problems = []*solve.Problem{p}
			}
			type entry struct {
				Problem     string     `json:"problem"`
				Name        string     `json:"name"`
				Kind        solve.Kind `json:"kind"`
				Source      string     `json:"source"`
				Summary     string     `json:"summary"`
				Complexity  string     `json:"complexity"`
				Assumptions []string   `json:"assumptions"`
				Takes       []string   `json:"instances"`
				Solver      bool       `json:"needs_solver"`
			}
			var entries []entry
			for _, p := range problems {
				for _, m := range p.Methods() {
					entries = append(entries, entry{
						p.Name, m.Name, m.Kind, m.Source, m.Summary, m.Complexity, append([]string{}, m.Assumptions...),
						m.Kinds(p), m.Solver,
					})
				}
			}
			return o.print(s.out, "workbench.method/v1", entries, func(w io.Writer) {
				t := render.Table(w, table.Row{"problem", "method", "kind", "takes", "source", "what it does", "complexity"})
				for _, e := range entries {
					what := e.Summary
					for _, a := range e.Assumptions {
						what += "; assumes " + a
					}
					t.AppendRow(table.Row{
						e.Problem, e.Name, e.Kind, render.Wrap(solve.KindWords(e.Takes), 12), render.Wrap(e.Source, 22),
						render.Wrap(what, 50), render.Wrap(e.Complexity, 28),
					})
				}
				t.Render()
			})
		}),
	}
}
