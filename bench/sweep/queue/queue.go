// Package queue hands the tasks of a sweep to workers in this process or on other machines, and collects their
// rows. It uses NATS JetStream: a server within this process, by default without a socket, or an existing cluster.
// All sweeps use it, so that runs on one machine exercise the code of runs on many.
//
// A queue has, under names derived from that of the sweep:
//
//   - a stream of tasks, each under a subject of its own with at most one message: adding a waiting task does
//     nothing. A task leaves the stream when its worker acknowledges it, after its row is on a disk. Until then
//     the worker renews a lease; if it does not, the task is redelivered.
//   - a stream of rows on their way to the coordinator, which appends each to its store and then acknowledges
//     it. Workers on other machines also keep the rows in a store of their own.
//   - a bucket of files: the instances under their digests, and plans too large for a message.
//
// The queue holds nothing that cannot be recreated: rows are on the disk of the worker before they are in the
// queue, and tasks are compared with rows at the start and the end of a run. Losing it costs time only. So does
// delivering a task twice, since a store takes one row per task.
package queue

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/worker"
)

// Format is the version of all data in a queue. Programs of another version do not touch it.
const Format = "workbench.queue/v1"

// Identity identifies a queue.
type Identity struct {
	Sweep string // name
	// Folder is a unique name of the folder that collects the rows: two coordinators must not share a queue.
	Folder string
	// Version is the version of the code that the tasks require; empty: any.
	Version string
	Plans   bool // store plans
}

// Keys of a stream's metadata.
const (
	formatKey  = "workbench.format"
	sweepKey   = "workbench.sweep"
	folderKey  = "workbench.folder"
	versionKey = "workbench.version"
	plansKey   = "workbench.plans"
	stateKey   = "workbench.state"
)

// States of a queue, in metadata.
const (
	stateOpen = "open" // tasks may be added
	stateDone = "done" // all rows are collected
)

// Leases: how long a worker may be silent.
const (
	// LocalLease is for workers in the process of the server, which die with it.
	LocalLease = 15 * time.Second
	// RemoteLease outlasts a short break of the network.
	RemoteLease = time.Minute
)

// Options configure a queue. The zero value is valid.
type Options struct {
	Lease time.Duration // 0: RemoteLease
	// Patience is how long to wait for an unreachable server; 0: ten minutes.
	Patience time.Duration
}

func (o Options) withDefaults() Options {
	if o.Lease == 0 {
		o.Lease = RemoteLease
	}
	if o.Patience == 0 {
		o.Patience = 10 * time.Minute
	}
	return o
}

// Queue is a connection to the queue of a sweep. It implements [worker.Queue].
// Its methods may be called from any goroutine.
type Queue struct {
	Identity
	address Address
	options Options
	stop    func() // stops the server, if the queue owns it
	closing atomic.Bool
	err     atomic.Pointer[error] // see Err
	// coordinator: this side adds tasks and collects rows, so it can determine itself when none are left. The
	// other side reads that from the queue's state.
	coordinator bool

	nc      *nats.Conn
	js      jetstream.JetStream
	tasks   jetstream.Stream
	workers jetstream.Consumer // of tasks
	rows    jetstream.Consumer // of rows; the coordinator's
	files   jetstream.ObjectStore
}

var _ worker.Queue = (*Queue)(nil)

// Embedded returns the queue of a sweep whose workers are all in this process, with its tasks in dir: no socket,
// no configuration. Close stops it.
func Embedded(ctx context.Context, dir, sweepName string) (*Queue, error) {
	s, err := Start(ServerOptions{Dir: dir})
	if err != nil {
		return nil, err
	}
	q, err := Create(ctx, s.Address(), Identity{Sweep: sweepName, Folder: "embedded"}, Options{Lease: LocalLease})
	if err != nil {
		s.Stop()
		return nil, err
	}
	q.stop = s.Stop
	return q, nil
}

// Create makes the queue of a sweep on a server, or reopens the one that an earlier run of the same folder has
// left. The error names a queue of another folder or version: see [Discard].
func Create(ctx context.Context, a Address, id Identity, o Options) (*Queue, error) {
	q := &Queue{Identity: id, address: a, options: o.withDefaults(), coordinator: true}
	if err := q.open(ctx, q.create); err != nil {
		return nil, err
	}
	return q, nil
}

// Join connects a worker to the queue of a sweep; name may be empty if the server has only one. version is that of
// this program; the error names a mismatch with the tasks.
func Join(ctx context.Context, a Address, name, version string, o Options) (*Queue, error) {
	q := &Queue{Identity: Identity{Sweep: name}, address: a, options: o.withDefaults()}
	if err := q.open(ctx, func(ctx context.Context) error { return q.join(ctx, version) }); err != nil {
		return nil, err
	}
	return q, nil
}

// Discard removes the queue of a sweep from a server, whoever made it, with all uncollected rows. A missing queue
// is no error.
func Discard(ctx context.Context, a Address, name string) error {
	q := &Queue{Identity: Identity{Sweep: name}, address: a, options: Options{}.withDefaults(), coordinator: true}
	if err := q.open(ctx, func(context.Context) error { return nil }); err != nil {
		return err
	}
	defer q.Close()
	return q.Remove(ctx)
}

// open connects and calls attach, which finds the streams.
func (q *Queue) open(ctx context.Context, attach func(context.Context) error) (err error) {
	if q.nc, err = q.address.connect(); err != nil {
		return err
	}
	if q.js, err = q.address.jetStream(ctx, q.nc); err == nil {
		err = attach(ctx)
	}
	if err != nil {
		q.Close()
	}
	return err
}

// Close ends the connection, and the server if the queue owns it. Tasks and rows remain.
func (q *Queue) Close() {
	if q.closing.Swap(true) {
		return
	}
	q.nc.Close()
	if s := q.address.server; s != nil {
		s.own.Add(-1)
	}
	if q.stop != nil {
		q.stop()
	}
}

// slug returns the name of the sweep as part of a subject. Different names have different slugs.
func (q *Queue) slug() string {
	plain := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, q.Sweep)
	if plain == q.Sweep && len(plain) <= 64 {
		return plain
	}
	sum := sha256.Sum256([]byte(q.Sweep))
	return plain[:min(len(plain), 64)] + "_" + hex.EncodeToString(sum[:6])
}

const tasksPrefix = "workbench-tasks-"

func (q *Queue) tasksName() string           { return tasksPrefix + q.slug() }
func (q *Queue) rowsName() string            { return "workbench-rows-" + q.slug() }
func (q *Queue) filesName() string           { return "workbench-files-" + q.slug() }
func (q *Queue) taskSubject(t string) string { return "workbench." + q.slug() + ".tasks." + t }
func (q *Queue) rowSubject(t string) string  { return "workbench." + q.slug() + ".rows." + t }

func (q *Queue) metadata(state string) map[string]string {
	return map[string]string{
		formatKey: Format, sweepKey: q.Sweep, folderKey: q.Folder, versionKey: q.Version,
		plansKey: strconv.FormatBool(q.Plans), stateKey: state,
	}
}

// tasksConfig returns the configuration of the stream of tasks: one message per task, removed when acknowledged.
func (q *Queue) tasksConfig(state string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: q.tasksName(), Subjects: []string{q.taskSubject("*")}, Metadata: q.metadata(state),
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
		MaxMsgsPerSubject: 1, Discard: jetstream.DiscardNew, DiscardNewPerSubject: true,
	}
}

func (q *Queue) rowsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: q.rowsName(), Subjects: []string{q.rowSubject("*")}, Metadata: q.metadata(stateOpen),
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage,
	}
}

// create creates the missing parts of the queue.
func (q *Queue) create(ctx context.Context) (err error) {
	there, err := q.js.Stream(ctx, q.tasksName())
	switch {
	case err == nil:
		if err := q.mine(there.CachedInfo().Config.Metadata); err != nil {
			return err
		}
	case !errors.Is(err, jetstream.ErrStreamNotFound):
		return fmt.Errorf("queue: %w", err)
	}
	if q.tasks, err = q.js.CreateOrUpdateStream(ctx, q.tasksConfig(stateOpen)); err != nil {
		return fmt.Errorf("queue: stream of tasks: %w", err)
	}
	// Tasks are fetched one at a time and redelivered until acknowledged: a worker that gives up on a task stores
	// a row that says so, so that no task remains that cannot be delivered.
	if q.workers, err = q.tasks.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.options.Lease, MaxDeliver: -1, MaxAckPending: -1,
	}); err != nil {
		return fmt.Errorf("queue: workers: %w", err)
	}
	rows, err := q.js.CreateOrUpdateStream(ctx, q.rowsConfig())
	if err != nil {
		return fmt.Errorf("queue: stream of rows: %w", err)
	}
	if q.rows, err = rows.CreateOrUpdateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: "coordinator", AckPolicy: jetstream.AckExplicitPolicy, AckWait: q.options.Lease, MaxDeliver: -1, MaxAckPending: -1,
	}); err != nil {
		return fmt.Errorf("queue: coordinator: %w", err)
	}
	if q.files, err = q.js.CreateOrUpdateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: q.filesName()}); err != nil {
		return fmt.Errorf("queue: bucket of files: %w", err)
	}
	return nil
}

// mine returns an error for a queue of another program or folder on the server.
func (q *Queue) mine(m map[string]string) error {
	switch {
	case m[formatKey] != Format:
		return solve.InputError(fmt.Errorf("queue: %s holds sweep %q as %q, this program supports %q: finish it with the program that started "+
			"it, or remove it with --discard", q.address, q.Sweep, m[formatKey], Format))
	case m[sweepKey] != q.Sweep:
		return solve.InputError(fmt.Errorf("queue: %s holds sweep %q under the name that %q would get: rename one", q.address,
			m[sweepKey], q.Sweep))
	case m[folderKey] != q.Folder:
		return solve.InputError(fmt.Errorf("queue: %s holds another sweep %q, collected into another folder: continue that one, rename "+
			"this one, or remove that one with --discard", q.address, q.Sweep))
	}
	return nil
}

// join finds the queue that a coordinator has made.
func (q *Queue) join(ctx context.Context, version string) (err error) {
	var names []string
	var found []*jetstream.StreamInfo
	list := q.js.ListStreams(ctx)
	for info := range list.Info() {
		m := info.Config.Metadata
		if m[formatKey] == "" || !strings.HasPrefix(info.Config.Name, tasksPrefix) {
			continue
		}
		names = append(names, fmt.Sprintf("%q", m[sweepKey]))
		if q.Sweep == "" || q.Sweep == m[sweepKey] {
			found = append(found, info)
		}
	}
	if err := list.Err(); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	switch {
	case len(names) == 0:
		return solve.InputError(fmt.Errorf("queue: %s holds no sweep: begin one with workbench bench serve FOLDER, and start workers then",
			q.address))
	case len(found) == 0:
		return solve.InputError(fmt.Errorf("queue: %s holds no sweep %q, but %s", q.address, q.Sweep, strings.Join(names, ", ")))
	case len(found) > 1:
		return solve.InputError(fmt.Errorf("queue: %s holds several sweeps: choose one with --sweep: %s", q.address, strings.Join(names, ", ")))
	}
	m := found[0].Config.Metadata
	q.Identity = Identity{Sweep: m[sweepKey], Folder: m[folderKey], Version: m[versionKey], Plans: m[plansKey] == "true"}
	if m[formatKey] != Format {
		return solve.InputError(fmt.Errorf("queue: sweep %q is in format %q, this program supports %q: use the same version of workbench on all "+
			"machines", q.Sweep, m[formatKey], Format))
	}
	if q.Version != "" && q.Version != version {
		return solve.InputError(fmt.Errorf("queue: sweep %q asks for version %s of workbench, this is %s: use the same on all machines", q.Sweep,
			q.Version, version))
	}
	if q.tasks, err = q.js.Stream(ctx, q.tasksName()); err != nil {
		return fmt.Errorf("queue: stream of tasks: %w", err)
	}
	if q.workers, err = q.tasks.Consumer(ctx, "workers"); err != nil {
		return fmt.Errorf("queue: workers: %w", err)
	}
	q.options.Lease = q.workers.CachedInfo().Config.AckWait
	if q.files, err = q.js.ObjectStore(ctx, q.filesName()); err != nil {
		return fmt.Errorf("queue: bucket of files: %w", err)
	}
	return nil
}

// mostUnheard limits the unacknowledged messages to the server. A client that has sent more waits a fifth of a
// second for an answer and gives up, so each portion is acknowledged before the next is sent.
const mostUnheard = 256

// Add implements [worker.Queue], and waits for an unreachable server. O(tasks): 20 µs each.
func (q *Queue) Add(ctx context.Context, tasks []sweep.Task) error {
	for portion := range slices.Chunk(tasks, mostUnheard) {
		var refused error
		err := q.persist(ctx, func(ctx context.Context) error {
			err := q.add(ctx, portion)
			if api := (*jetstream.APIError)(nil); errors.As(err, &api) {
				refused = err // an answer: retrying would not change it
				return nil
			}
			return err
		})
		if err := errors.Join(err, refused); err != nil {
			return fmt.Errorf("queue: task cannot be added: %w", err)
		}
	}
	return nil
}

// add sends tasks and waits until the server has them.
func (q *Queue) add(ctx context.Context, tasks []sweep.Task) error {
	sent := make([]jetstream.PubAckFuture, 0, len(tasks))
	for i := range tasks {
		m, err := q.taskMessage(tasks[i], 0)
		if err != nil {
			return err
		}
		f, err := q.js.PublishMsgAsync(m)
		if err != nil {
			return err
		}
		sent = append(sent, f)
	}
	for _, f := range sent {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			if !waitsAlready(err) {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// attemptsHeader is the number of deliveries of a task before it was last returned; the returned one does not
// count.
const attemptsHeader = "Workbench-Attempts"

func (q *Queue) taskMessage(t sweep.Task, attempts int) (*nats.Msg, error) {
	data, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("queue: task %s: %w", t.ID(), err)
	}
	m := nats.NewMsg(q.taskSubject(t.ID()))
	m.Data = data
	if attempts > 0 {
		m.Header.Set(attemptsHeader, fmt.Sprint(attempts))
	}
	return m, nil
}

// waitsAlready reports whether err says that an added task exists.
func waitsAlready(err error) bool {
	const storeFailed = 10077
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == storeFailed && strings.Contains(api.Description, "per subject")
}

// Keep removes all other tasks from the queue, which a changed specification may have left. O(tasks in the queue).
func (q *Queue) Keep(ctx context.Context, tasks []sweep.Task) error {
	wanted := make(map[string]bool, len(tasks))
	for i := range tasks {
		wanted[q.taskSubject(tasks[i].ID())] = true
	}
	there, err := q.waiting(ctx)
	if err != nil {
		return err
	}
	for subject := range there {
		if wanted[subject] {
			continue
		}
		if err := q.removeTask(ctx, subject); err != nil {
			return fmt.Errorf("queue: %w", err)
		}
	}
	return nil
}

// removeTask removes the task under a subject from the stream, if it exists. Purging the subject would make the
// server forget pending redeliveries of other tasks.
func (q *Queue) removeTask(ctx context.Context, subject string) error {
	m, err := q.tasks.GetLastMsgForSubject(ctx, subject)
	if err == nil {
		err = q.tasks.DeleteMsg(ctx, m.Sequence)
	}
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil
	}
	return err
}

// Finish marks the sweep as done for all workers.
func (q *Queue) Finish(ctx context.Context) error {
	if _, err := q.js.UpdateStream(ctx, q.tasksConfig(stateDone)); err != nil {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}

// Remove removes the queue from its server.
func (q *Queue) Remove(ctx context.Context) error {
	for _, name := range []string{q.tasksName(), q.rowsName()} {
		if err := q.js.DeleteStream(ctx, name); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
			return fmt.Errorf("queue: %w", err)
		}
	}
	if err := q.js.DeleteObjectStore(ctx, q.filesName()); err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) &&
		!errors.Is(err, jetstream.ErrStreamNotFound) {
		return fmt.Errorf("queue: %w", err)
	}
	return nil
}
