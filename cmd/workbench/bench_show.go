package main

import (
	"workbench/bench/sweep"
	"workbench/bench/sweep/results"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
)

// summarise prints what a sweep that is done came to.
func summarise(s streams, o *benchOptions, dir string, tasks []sweep.Task, n worker.Snapshot) error {
	sum, err := results.Summarise(dir, tasks, n)
	if err != nil {
		return err
	}
	err = o.print(s.out, "workbench.summary/v1", sum, sum.Print)
	if err == nil && len(sum.Failures) > 0 {
		return &exitError{exitTasksFailed}
	}
	return err
}

// dryRun says what a run would do.
func dryRun(s streams, o *benchOptions, dir string, list *store.Sweep) error {
	tasks, _, err := o.part(list.Tasks)
	if err != nil {
		return err
	}
	e, err := results.EstimateRun(dir, list.Name, tasks, o.jobs, o.resume)
	if err != nil {
		return err
	}
	return o.print(s.out, "workbench.estimate/v1", e, e.Print)
}
