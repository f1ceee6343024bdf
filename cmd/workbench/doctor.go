package main

import (
	"context"
	"fmt"
	"runtime"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve/backends"
	"workbench/solvers"
)

func newDoctor(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:  "doctor",
		Usage: "backends found, versions, threads; what is missing and what installs it",
		Flags: o.flags(),
		Action: o.action(s, 0, 0, "doctor [flags]", func(c *cli.Context, _ []string) error {
			return doctor(c.Context, s, o)
		}),
	}
}

// checkup is one backend as doctor found it.
type checkup struct {
	Backend string `json:"backend"`
	OK      bool   `json:"ok"`
	Version string `json:"version,omitempty"`
	Missing string `json:"missing,omitempty"` // why it is not there
	Install string `json:"install,omitempty"` // what to do about it
	// Wrong are tiny models of known optima that it answers wrongly.
	Wrong []string `json:"wrong,omitempty"`
}

func doctor(ctx context.Context, s streams, o *common) error {
	var found []checkup
	usable := 0
	for _, b := range backends.All() {
		c := checkup{Backend: b.Name}
		if err := b.Available(); err != nil {
			c.Missing, c.Install = err.Error(), b.Install
		} else {
			c.OK, c.Version = true, b.Version()
			c.Wrong = solvers.Wrong(ctx, solvers.New(b.Engine))
			usable++
		}
		found = append(found, c)
	}
	if o.json() {
		if err := render.Document(s.out, "workbench.doctor/v1", map[string]any{
			"backends": found, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "threads": runtime.NumCPU(),
		}); err != nil {
			return err
		}
	} else {
		for _, c := range found {
			if c.OK {
				fmt.Fprintf(s.out, "%-9s ok       %s\n", c.Backend, c.Version)
				for _, w := range c.Wrong {
					fmt.Fprintf(s.out, "%-9s wrong    %s\n", "", w)
				}
				continue
			}
			fmt.Fprintf(s.out, "%-9s missing  %s\n", c.Backend, render.OneLine(c.Missing))
			fmt.Fprintf(s.out, "%-9s          install it with: %s\n", "", c.Install)
		}
		fmt.Fprintf(s.out, "%-9s %d, %s %s/%s\n", "threads", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}
	if usable == 0 {
		return fmt.Errorf("no MILP backend is there: heuristics work, MILP methods do not; run make setup")
	}
	return nil
}
