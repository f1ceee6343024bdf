package main

import (
	"workbench/bench/render"
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
	if o.json() {
		err = render.Document(s.out, "workbench.summary/v1", sum)
	} else {
		sum.Print(s.out)
	}
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
	if o.json() {
		return render.Document(s.out, "workbench.estimate/v1", e)
	}
	e.Print(s.out)
	return nil
}
