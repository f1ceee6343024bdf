package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"workbench/bench/progress"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/queue"
	"workbench/bench/sweep/specification"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
)

// serveOptions are the flags of bench serve.
type serveOptions struct {
	benchOptions
	address
	listen, certificate, key string
	discard                  bool
}

// address are the flags that say how to be let into a server.
type address struct{ url, token, ca, credentials string }

func (a *address) flags(token string) []cli.Flag {
	return []cli.Flag{
		stringFlag("queue", "token-file", &a.token, "", token),
		stringFlag("queue", "tls-ca", &a.ca, "",
			"`FILE` with the certificate of who signed the server's, if the system does not know it"),
		stringFlag("queue", "credentials", &a.credentials, "", "`FILE` with the credentials of a NATS user"),
	}
}

// resolve reads the token.
func (a *address) resolve() (queue.Address, error) {
	to := queue.Address{URL: a.url, CA: a.ca, Credentials: a.credentials}
	if a.token == "" {
		return to, nil
	}
	var err error
	to.Token, err = queue.Token(a.token)
	return to, err
}

// defaultListen is the port of NATS, for this machine only.
const defaultListen = "127.0.0.1:4222"

func newBenchServe(s streams) *cli.Command {
	o := &serveOptions{}
	return &cli.Command{
		Name:      "serve",
		Usage:     "hand out the tasks of a sweep to bench work on this and other machines",
		ArgsUsage: "SPEC|FOLDER",
		Description: "Collects the rows of all workers in the folder of the sweep, and ends when every\n" +
			"task has one. It runs no task itself: start bench work as well. Whatever stops it,\n" +
			"bench serve FOLDER continues; workers wait ten minutes for it.",
		Flags: append(append([]cli.Flag{
			stringFlag("sweep", "into", &o.into, "", "`FOLDER` of the sweep (default: sweeps/NAME)"),
			boolFlag("sweep", "retry", &o.retry, "redo tasks that failed: crashed, were killed, or ran out of memory"),
			stringFlag("queue", "listen", &o.listen, defaultListen, "`HOST:PORT` where workers connect; other machines need --token-file"),
			stringFlag("queue", "queue", &o.url, "",
				"`URL` of a NATS server with JetStream to use instead: nats://[USER:PASSWORD@]HOST:PORT or tls://…"),
			stringFlag("queue", "tls-cert", &o.certificate, "",
				"`FILE` with the certificate of this machine: workers connect to tls://HOST:PORT"),
			stringFlag("queue", "tls-key", &o.key, "", "`FILE` with its key"),
			boolFlag("queue", "discard", &o.discard,
				"remove what another sweep of this name left in the queue, rows that were not collected included"),
		}, o.address.flags("`FILE` whose first line workers have to know")...), o.common.flags()...),
		Action: o.action(s, 1, 1, "bench serve SPEC|FOLDER [--listen HOST:PORT --token-file FILE | --queue URL]",
			func(c *cli.Context, a []string) error {
				if o.url != "" && (c.IsSet("listen") || o.certificate != "" || o.key != "") {
					return usagef("--queue names a running server; --listen, --tls-cert and --tls-key configure one to start: give one or the others")
				}
				if (o.certificate == "") != (o.key == "") {
					return usagef("--tls-cert and --tls-key belong together")
				}
				return benchServe(c.Context, s, o, a[0])
			}),
	}
}

// benchServe coordinates a sweep.
func benchServe(ctx context.Context, s streams, o *serveOptions, name string) (err error) {
	to, err := o.resolve()
	if err != nil {
		return err
	}
	dir, list, files, err := openSweep(ctx, s, o.into, name)
	if err != nil {
		return err
	}
	st, err := o.openStore(s, dir, list, files)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if o.retry {
		st.Forget()
	}
	var server *queue.Server
	if o.url == "" {
		server, err = queue.Start(queue.ServerOptions{
			Dir: store.QueuePath(dir), Listen: o.listen, Token: to.Token, Certificate: o.certificate, Key: o.key, Log: o.log,
		})
		if err != nil {
			return err
		}
		defer server.Stop()
		to = server.Address()
	}
	missing := st.Missing(list.Tasks)
	done := worker.NewProgress(len(list.Tasks), missing, 1)
	co := &queue.Coordinator{
		Store: st, Tasks: list.Tasks, Instances: &worker.Folder{Dir: dir},
		Warn: func(err error) { fmt.Fprintf(s.err, "workbench: %s\n", render.OneLine(err.Error())) },
	}
	if err := serve(ctx, s, o, co, server, to, list, done); err != nil {
		left := len(st.Missing(list.Tasks))
		if ctx.Err() != nil {
			err = errors.New("stopped")
		}
		return fmt.Errorf("%w; %d of %d tasks are left: workbench bench serve %s continues", err, left, len(list.Tasks), dir)
	}
	if server != nil {
		server.Stop()
		_ = os.RemoveAll(store.QueuePath(dir)) // made new next time
	}
	return summarise(s, &o.benchOptions, dir, list.Tasks, done.Snapshot())
}

// serve makes the queue, coordinates, and removes it.
func serve(ctx context.Context, s streams, o *serveOptions, co *queue.Coordinator, server *queue.Server, to queue.Address,
	list *store.Sweep, done *worker.Progress,
) (err error) {
	if o.discard {
		if err := queue.Discard(ctx, to, list.Name); err != nil {
			return err
		}
	}
	folder, err := queue.FolderName(co.Store.Dir())
	if err != nil {
		return err
	}
	co.Queue, err = queue.Create(ctx, to, queue.Identity{Sweep: list.Name, Folder: folder, Version: sweep.Version(), Plans: list.Plans},
		queue.Options{})
	if err != nil {
		return err
	}
	defer co.Queue.Close()
	o.invite(s, server, list.Name)
	show := progress.NewSweep(s.err, done, o.quiet)
	co.OnRow = func(r *sweep.Row) {
		done.Row(r)
		show.Row(r)
	}
	err = co.Run(ctx)
	show.Done()
	if err != nil {
		return err
	}
	return farewell(ctx, co.Queue, server)
}

// invite says how workers connect.
func (o *serveOptions) invite(s streams, server *queue.Server, name string) {
	if o.quiet {
		return
	}
	url := queue.Address{URL: o.url}.String()
	if server != nil {
		url = server.URL()
	}
	more := ""
	if o.token != "" {
		more += " --token-file FILE"
	}
	if o.certificate != "" {
		more += " --tls-ca FILE"
	}
	if o.url != "" {
		more += " --sweep " + name
	}
	fmt.Fprintf(s.err, "workers of sweep %s: workbench bench work --queue %s%s\n", name, url, more)
}

// farewellTime is how long workers have to hear that the sweep is done: they
// look every second.
const farewellTime = 3 * time.Second

// farewell waits until the workers have left and removes the queue.
func farewell(ctx context.Context, q *queue.Queue, server *queue.Server) error {
	ctx, cancel := context.WithTimeout(ctx, farewellTime)
	defer cancel()
	if server != nil {
		server.WaitForClients(ctx)
	} else {
		<-ctx.Done()
	}
	return q.Remove(context.WithoutCancel(ctx))
}

// openSweep reads the sweep of a folder, or of a specification that has no
// folder yet or the same one.
func openSweep(ctx context.Context, s streams, into,
	name string,
) (dir string, list *store.Sweep, files map[string]*solve.Instance, err error) {
	info, err := os.Stat(name)
	folder := err == nil && info.IsDir()
	if folder && store.Exists(name) {
		if into != "" {
			return "", nil, nil, usagef("%s is the folder of a sweep: --into is for specifications", name)
		}
		if list, err = store.ReadTasks(name); err == nil {
			err = sameVersion(name, list)
		}
		return name, list, nil, err
	}
	if folder {
		return "", nil, nil, usagef("%s is a folder without a sweep: give a specification, and this folder with --into", name)
	}
	sp, err := specification.Open(name)
	if err != nil {
		return "", nil, nil, specError(s, err)
	}
	if dir = into; dir == "" {
		dir = filepath.Join("sweeps", sp.Name)
	}
	if store.Exists(dir) {
		old, err := store.ReadTasks(dir)
		if err != nil {
			return "", nil, nil, err
		}
		if strings.TrimSpace(old.Specification) != strings.TrimSpace(string(sp.Text)) || old.Name != sp.Name {
			return "", nil, nil, usagef("%s has another sweep: workbench bench serve %s continues that one, --into names another folder", dir,
				dir)
		}
		return openSweep(ctx, s, "", dir)
	}
	x, err := sp.Expand(ctx, sweep.Version())
	if err != nil {
		return "", nil, nil, specError(s, err)
	}
	return dir, &store.Sweep{Name: sp.Name, Specification: string(sp.Text), Plans: sp.Plans, Tasks: x.Tasks}, x.Files, nil
}
