package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/backends"
)

func newDoctor(s streams) *cli.Command {
	o := &common{}
	return &cli.Command{
		Name:  "doctor",
		Usage: "check the installation: backends, versions, threads, and how to install what is missing",
		Flags: o.flags(),
		Action: o.action(s, 0, 0, "doctor [flags]", func(c *cli.Context, _ []string) error {
			return doctor(c.Context, s, o)
		}),
	}
}

func doctor(ctx context.Context, s streams, o *common) error {
	found, broken := backends.Examine(ctx)
	machine := map[string]any{
		"backends": found, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH, "threads": runtime.NumCPU(),
	}
	if err := o.print(s.out, "workbench.doctor/v1", machine, func(w io.Writer) {
		for _, c := range found {
			c.Text(w)
		}
		fmt.Fprintf(w, "%-13s %d, %s %s/%s\n", "threads", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	}); err != nil {
		return err
	}
	if broken != nil {
		return solve.InputError(broken)
	}
	if !slices.ContainsFunc(found, func(c backends.Checkup) bool { return c.OK }) {
		return fmt.Errorf("no MILP backend is installed: heuristics work, MILP methods do not; run make setup")
	}
	return nil
}
