package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve/backends"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue"
	"workbench/bench/sweep/worker"
	"workbench/model/platform"
)

// workOptions are the flags of bench work.
type workOptions struct {
	benchOptions
	address
	sweep    string
	patience time.Duration
}

func newBenchWork(s streams) *cli.Command {
	o := &workOptions{}
	return &cli.Command{
		Name:      "work",
		Usage:     "run the tasks that bench serve hands out, until there are none",
		ArgsUsage: " ",
		Description: "Each task runs in a process of its own. Its row goes to a store of this worker\n" +
			"first, then to the server. An interruption (Ctrl-C) finishes what runs; a second\n" +
			"one kills it and gives the task back.",
		Flags: append(append([]cli.Flag{
			stringFlag("queue", "queue", &o.url, "nats://"+defaultListen,
				"`URL` of the server: nats://[USER:PASSWORD@]HOST:PORT or tls://…"),
			stringFlag("queue", "sweep", &o.sweep, "", "`NAME` of the sweep, where the server has several"),
			&cli.DurationFlag{
				Name: "patience", Usage: "`TIME` to wait for an unreachable server", Value: 10 * time.Minute,
				Destination: &o.patience, Category: "queue",
			},
			stringFlag("sweep", "into", &o.into, "", "`FOLDER` of this worker's own store (default: sweeps/NAME-worker-HOST-PID)"),
			intFlag("sweep", "jobs, j", &o.jobs, runtime.GOMAXPROCS(0), "`N` tasks at a time", "cores that the control group allows"),
			boolFlag("sweep", "in-process", &o.inProcess,
				"run tasks in this process: quicker for many tiny ones, but a crash ends the worker"),
		}, o.address.flags("`FILE` whose first line is the token that bench serve was given")...), o.common.flags()...),
		Action: o.action(s, 0, 0, "bench work --queue URL [--token-file FILE]", func(c *cli.Context, _ []string) error {
			if err := o.checkJobs(); err != nil {
				return err
			}
			if o.patience <= 0 {
				return usagef("--patience %v: a positive time is needed, as in 10m", o.patience)
			}
			return benchWork(c.Context, s, o)
		}),
	}
}

// benchWork does tasks of a queue.
func benchWork(ctx context.Context, s streams, o *workOptions) (err error) {
	to, err := o.resolve()
	if err != nil {
		return err
	}
	q, err := queue.Join(ctx, to, o.sweep, sweep.Version(), queue.Options{Patience: o.patience})
	if err != nil {
		return err
	}
	defer q.Close()
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	name := fmt.Sprintf("%s-%d", host, os.Getpid())
	dir := o.into
	if dir == "" {
		dir = filepath.Join("sweeps", q.Sweep+"-worker-"+name)
	}
	hard, stop, release := interruptions(ctx, s, &o.benchOptions)
	defer release()
	here := sweep.Here(backends.Versions(), !o.inProcess, o.jobs)
	sink, err := queue.NewRemote(hard, q, dir, here)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	var done, failed atomic.Int64
	runner := o.runner(dir)
	w := &worker.Worker{
		Sweep: q.Sweep, Name: name, Environment: here.Digest, Jobs: o.jobs, Plans: q.Plans, Sink: sink,
		Runner: func() worker.Runner { return queue.Fetching(q, dir, runner()) },
		OnRow: func(r *sweep.Row) {
			done.Add(1)
			if r.Failure != nil {
				failed.Add(1)
			}
		},
	}
	if !o.quiet {
		fmt.Fprintf(s.err, "sweep %s at %s: %s at a time, rows also in %s\n", q.Sweep, to, platform.Count(o.jobs, "task"), dir)
	}
	if err := w.Work(hard, stop, q); err != nil {
		return err
	}
	if err := q.Err(); err != nil && !errors.Is(err, queue.ErrEnded) {
		return fmt.Errorf("%w; %d tasks were done, their rows are in %s, for workbench bench merge", err, done.Load(), dir)
	}
	return o.print(s, q.Sweep, dir, done.Load(), failed.Load())
}

// worked is what bench work prints.
type worked struct {
	Sweep  string `json:"sweep"`
	Folder string `json:"folder"`
	Done   int64  `json:"done"`
	Failed int64  `json:"failed"`
}

func (o *workOptions) print(s streams, name, dir string, done, failed int64) error {
	if o.json() {
		return render.Document(s.out, "workbench.worked/v1", worked{name, dir, done, failed})
	}
	fmt.Fprintf(s.out, "%s: %s done by this worker", name, platform.Count(done, "task"))
	if failed > 0 {
		fmt.Fprintf(s.out, ", %d of them failed", failed)
	}
	fmt.Fprintf(s.out, "; rows also in %s\n", dir)
	return nil
}
