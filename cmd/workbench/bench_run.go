package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/backends"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue"
	"workbench/bench/sweep/queue/shard"
	"workbench/bench/sweep/specification"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/platform"
)

// benchOptions are the flags of bench run and bench resume.
type benchOptions struct {
	common
	into, shard      string
	jobs             int
	resume, dryRun   bool
	inProcess, retry bool
}

func (o *benchOptions) runFlags() []cli.Flag {
	return append([]cli.Flag{
		intFlag("sweep", "jobs, j", &o.jobs, runtime.GOMAXPROCS(0), "`N` tasks at a time", "cores that the control group allows"),
		stringFlag("sweep", "shard", &o.shard, "",
			"do only part `I/N` of the tasks; bench merge puts the parts together (default: what a Slurm array or an indexed Kubernetes "+
				"job says)"),
		boolFlag("sweep", "in-process", &o.inProcess, "run tasks in this process: quicker for many tiny ones, but a crash ends the run"),
		boolFlag("sweep", "retry", &o.retry, "redo tasks that failed: crashed, were killed, or ran out of memory"),
	}, o.flags()...)
}

func newBenchRun(s streams) *cli.Command {
	o := &benchOptions{}
	return &cli.Command{
		Name:      "run",
		Usage:     "run a sweep: every task in a process of its own, results in a folder",
		ArgsUsage: "SPEC",
		Description: "SPEC is a YAML file, or one of those built in: " + strings.Join(specification.Builtin(), ", ") + ".\n" +
			"An interruption (Ctrl-C) finishes what runs; a second one kills it. Whatever\n" +
			"stops a run, bench resume continues it. A specification, night.yaml:\n\n" +
			"  name: night\n" +
			"  memory: [range 25%, 8GiB]    # every list is an axis of the grid\n" +
			"  time_limit: 20s\n" +
			"  experiments:\n" +
			"    - problem: remat\n" +
			"      instances: [{zoo: [resnet18, vgg16], batch: 8}, profiles/*.json]\n" +
			"      methods: [persistent, optimum]\n\n" +
			"docs/sweeps.md has every key.",
		Flags: append([]cli.Flag{
			stringFlag("sweep", "into", &o.into, "", "`FOLDER` of the sweep (default: sweeps/NAME)"),
			boolFlag("sweep", "resume", &o.resume, "continue the sweep in the folder, if there is one"),
			boolFlag("sweep", "dry-run", &o.dryRun, "print the number of tasks and how long they may take, without running them"),
		}, o.runFlags()...),
		Action: o.action(s, 1, 1, "bench run SPEC [--into FOLDER] [flags]", func(c *cli.Context, a []string) error {
			if err := o.checkJobs(); err != nil {
				return err
			}
			return benchRun(c.Context, s, o, a[0])
		}),
	}
}

func newBenchResume(s streams) *cli.Command {
	o := &benchOptions{}
	return &cli.Command{
		Name:      "resume",
		Usage:     "continue a sweep that was stopped, killed or interrupted",
		ArgsUsage: "FOLDER",
		Flags:     o.runFlags(),
		Action: o.action(s, 1, 1, "bench resume FOLDER [flags]", func(c *cli.Context, a []string) error {
			if err := o.checkJobs(); err != nil {
				return err
			}
			list, err := store.ReadTasks(a[0])
			if err != nil {
				return err
			}
			return runSweep(c.Context, s, o, a[0], list, nil)
		}),
	}
}

// mostJobs is more than any machine has cores for.
const mostJobs = 4096

func (o *benchOptions) checkJobs() error {
	if o.jobs < 1 || o.jobs > mostJobs {
		return usagef("--jobs %d: from 1 to %d", o.jobs, mostJobs)
	}
	return nil
}

// benchRun reads a specification and does its tasks.
func benchRun(ctx context.Context, s streams, o *benchOptions, name string) error {
	sp, err := specification.Open(name)
	if err != nil {
		return specError(s, err)
	}
	dir := o.into
	if dir == "" {
		dir = filepath.Join("sweeps", sp.Name)
	}
	exists := store.Exists(dir)
	if exists && !o.resume && !o.dryRun {
		return usagef("%s has a sweep already: workbench bench resume %s continues it, --into names another folder", dir, dir)
	}
	if exists && o.resume {
		old, err := store.ReadTasks(dir)
		if err != nil {
			return err
		}
		if err := sameVersion(dir, old); err != nil {
			return err
		}
		if old.Specification == string(sp.Text) && old.Name == sp.Name {
			if o.dryRun {
				return dryRun(s, o, dir, old)
			}
			return runSweep(ctx, s, o, dir, old, nil)
		}
	}
	x, err := sp.Expand(ctx, sweep.Version())
	if err != nil {
		return specError(s, err)
	}
	list := &store.Sweep{Name: sp.Name, Specification: string(sp.Text), Plans: sp.Plans, Tasks: x.Tasks}
	if o.dryRun {
		return dryRun(s, o, dir, list)
	}
	return runSweep(ctx, s, o, dir, list, x.Files)
}

// specError prints every mistake of a specification on a line of its own.
func specError(s streams, err error) error {
	var many interface{ Unwrap() []error }
	var one specification.Error
	if !errors.As(err, &one) || !errors.As(err, &many) {
		return err
	}
	for _, e := range many.Unwrap() {
		fmt.Fprintf(s.err, "workbench: %s\n", render.OneLine(e.Error()))
	}
	return &exitError{exitUsage}
}

// sameVersion refuses to go on with a sweep that other code began: its rows
// would not be comparable.
func sameVersion(dir string, list *store.Sweep) error {
	if len(list.Tasks) > 0 && list.Tasks[0].Version != sweep.Version() {
		return usagef("%s was begun with version %s of workbench, this is %s: go on with that one, or begin another sweep", dir,
			list.Tasks[0].Version, sweep.Version())
	}
	return nil
}

// part returns the tasks of the shard that is asked for.
func (o *benchOptions) part(tasks []sweep.Task) ([]sweep.Task, shard.Shard, error) {
	var part shard.Shard
	var err error
	if o.shard != "" {
		part, err = shard.Parse(o.shard)
	} else {
		part, _, err = shard.FromEnvironment(os.LookupEnv)
	}
	if err != nil {
		return nil, part, err
	}
	return shard.Keep(part, tasks, sweep.Task.ID), part, nil
}

// runSweep does the tasks of list that have no row in dir. A new list, with its
// files, is written there first.
func runSweep(ctx context.Context, s streams, o *benchOptions, dir string, list *store.Sweep,
	files map[string]*solve.Instance,
) (err error) {
	if err := sameVersion(dir, list); err != nil {
		return err
	}
	tasks, part, err := o.part(list.Tasks)
	if err != nil {
		return err
	}
	st, err := o.openStore(s, dir, list, files)
	if errors.Is(err, syscall.ENOSPC) { // as in the middle
		return onFullDisk(dir, fmt.Errorf("%w; %d of %d tasks are left: workbench bench run --resume continues", err, len(tasks), len(tasks)))
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	// Before the failures are forgotten: they are tried as if for the first time.
	attempts, err := store.OpenAttempts(st, st.Missing(list.Tasks))
	if err != nil {
		return onFullDisk(dir, err)
	}
	defer func() { err = errors.Join(err, attempts.Close(st.Missing(list.Tasks))) }()
	if o.retry {
		st.Forget()
	}
	here := sweep.Here(backends.Versions(), !o.inProcess, o.jobs)
	missing := st.Missing(tasks)
	if len(missing) > 0 {
		if err := st.AppendEnvironment(&here); err != nil {
			return onFullDisk(dir, err)
		}
	}
	done := worker.NewProgress(len(tasks), missing, o.jobs)
	show := progress.NewSweep(s.err, done, o.quiet)
	w := &worker.Worker{
		Sweep: list.Name, Name: part.Worker(), Environment: here.Digest, Jobs: o.jobs, Plans: list.Plans,
		Runner: o.runner(dir), Sink: st, Attempts: attempts, OnRow: func(r *sweep.Row) {
			done.Row(r)
			show.Row(r)
		},
	}
	err = work(ctx, s, o, dir, w, st, tasks)
	show.Done()
	if err != nil {
		left := len(st.Missing(tasks))
		if errors.Is(err, worker.ErrStopped) || errors.Is(err, context.Canceled) {
			return fmt.Errorf("%w with %d of %d tasks left: workbench bench resume %s continues", errStopped, left, len(tasks), dir)
		}
		return onFullDisk(dir, fmt.Errorf("%w; %d of %d tasks are left: workbench bench resume %s continues", err, left, len(tasks), dir))
	}
	return summarise(s, o, dir, tasks, done.Snapshot())
}

// leastRoom is what a sweep needs on the disk to begin: the queue's files and some rows.
const leastRoom = 1 << 20

// onFullDisk returns err as an error of the user's that names the folder if its disk is full. The queue
// does not say so in its errors, hence a file is tried.
func onFullDisk(dir string, err error) error {
	if !errors.Is(err, syscall.ENOSPC) {
		name := filepath.Join(dir, "room")
		tried := os.WriteFile(name, make([]byte, leastRoom), 0o644)
		_ = os.Remove(name)
		if !errors.Is(tried, syscall.ENOSPC) {
			return err
		}
	}
	return solve.InputError(fmt.Errorf("%s: no space left on its disk, at least %s are needed: %w", dir, platform.FormatBytes(leastRoom), err))
}

// work does the tasks through the queue in this process, which is made new: what
// is left to do is in the store.
func work(ctx context.Context, s streams, o *benchOptions, dir string, w *worker.Worker, st *store.Store, tasks []sweep.Task) error {
	hard, stop, release := interruptions(ctx, s, o)
	defer release()
	if len(st.Missing(tasks)) == 0 {
		return nil
	}
	path := store.QueuePath(dir)
	if err := os.RemoveAll(path); err != nil {
		return err
	}
	q, err := queue.Embedded(hard, path, st.Name())
	if err != nil {
		return err
	}
	defer func() {
		q.Close()
		_ = os.RemoveAll(path) // made new next time
	}()
	return worker.Run(hard, stop, w, q, st, tasks)
}

// interruptions turns the end of ctx, which is the first interruption, into a
// request to finish what runs, and a second one into the end of the context it
// returns.
func interruptions(ctx context.Context, s streams, o *benchOptions) (hard context.Context, stop chan struct{}, release func()) {
	hard, kill := context.WithCancel(context.WithoutCancel(ctx))
	stop = make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-hard.Done():
			return
		case <-ctx.Done():
		}
		close(stop)
		if !o.quiet {
			fmt.Fprintln(s.err, "\nfinishing the tasks that run; interrupt again to kill them")
		}
		// The first signal is there as well, unless ctx ended otherwise.
		timer := time.NewTimer(100 * time.Millisecond)
		defer timer.Stop()
		select {
		case <-signals:
		case <-timer.C:
		case <-hard.Done():
			return
		}
		select {
		case <-signals:
			kill()
		case <-hard.Done():
		}
	}()
	return hard, stop, func() {
		signal.Stop(signals)
		kill()
		<-gone
	}
}

// runner returns what makes the runner of each job.
func (o *benchOptions) runner(dir string) func() worker.Runner {
	instances := &worker.Folder{Dir: dir}
	if o.inProcess {
		return func() worker.Runner { return &worker.InProcess{Instances: instances} }
	}
	return func() worker.Runner { return &worker.Isolated{Instances: instances} }
}

// openStore opens the folder of a sweep, which has its tasks and their instances then,
// and says what is damaged there.
func (o *benchOptions) openStore(s streams, dir string, list *store.Sweep, files map[string]*solve.Instance) (*store.Store, error) {
	st, err := store.Open(dir, list.Name)
	if err != nil {
		return nil, err
	}
	reportDamage(s, o, st)
	if err = worker.KeepInstances(dir, files); err == nil {
		err = store.WriteTasks(dir, list)
	}
	if err != nil {
		return nil, errors.Join(err, st.Close())
	}
	return st, nil
}

func reportDamage(s streams, o *benchOptions, st *store.Store) {
	damaged, torn := st.Damaged()
	for _, d := range damaged {
		fmt.Fprintf(s.err, "workbench: %s; set aside in %s, its task will be redone\n", render.OneLine(d.String()),
			filepath.Join(st.Dir(), "damaged.txt"))
	}
	for _, file := range torn {
		if !o.quiet {
			fmt.Fprintf(s.err, "%s: the last line is incomplete; its task will be redone\n", file)
		}
	}
}
