package queue

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"workbench/bench/solve"
	"workbench/bench/sweep/queue/queuetest"
	"workbench/bench/sweep/worker"
)

// What the server hands out survives its end, how often it did so included, and
// so does the acknowledgement of a worker that was at work meanwhile.
func TestServerRestarts(t *testing.T) {
	t.Parallel()
	dir, listen := t.TempDir(), freePort(t)
	s, err := Start(ServerOptions{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	a := Address{URL: "nats://" + listen}
	q := create(t, a, "restart", Options{Lease: shortLease})
	if err := q.Add(t.Context(), queuetest.Tasks(3)); err != nil {
		t.Fatal(err)
	}
	w := join(t, a, "restart")
	if _, err := w.Fetch(t.Context()); err != nil { // and dies
		t.Fatal(err)
	}
	held, err := w.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	acked := make(chan error, 1)
	go func() { acked <- held.Ack() }()
	time.Sleep(2 * shortLease)
	start(t, ServerOptions{Dir: dir, Listen: listen})
	if err := <-acked; err != nil {
		t.Fatalf("the acknowledgement did not wait for the server: %v", err)
	}
	attempts := map[int]int{}
	for range 2 {
		d, err := w.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		attempts[d.Task().Seed] = d.Attempt()
		if err := d.Ack(); err != nil {
			t.Fatal(err)
		}
	}
	if attempts[0] < 2 || attempts[2] == 0 || len(attempts) != 2 {
		t.Errorf("attempts by task: %v; want 0 once more, and 2", attempts)
	}
	if d, err := q.Fetch(t.Context()); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("Fetch = %v, %v", d, err)
	}
}

// Tasks that are added while the server is away wait for it, however many.
func TestAddWaitsForServer(t *testing.T) {
	t.Parallel()
	dir, listen := t.TempDir(), freePort(t)
	s, err := Start(ServerOptions{Dir: dir, Listen: listen})
	if err != nil {
		t.Fatal(err)
	}
	q := create(t, Address{URL: "nats://" + listen}, "away", Options{})
	tasks := queuetest.Tasks(3 * mostUnheard)
	if err := q.Add(t.Context(), tasks[:5]); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	added := make(chan error, 1)
	go func() { added <- q.Add(t.Context(), tasks) }()
	select {
	case err := <-added:
		t.Fatalf("Add does not wait: %v", err)
	case <-time.After(time.Second):
	}
	start(t, ServerOptions{Dir: dir, Listen: listen})
	if err := <-added; err != nil {
		t.Fatal(err)
	}
	there, err := q.waiting(t.Context())
	if err != nil || len(there) != len(tasks) {
		t.Errorf("%d tasks wait of %d, %v", len(there), len(tasks), err)
	}
}

// A server that is killed may forget what it has handed out a moment before.
func TestServerForgetsDelivery(t *testing.T) {
	t.Parallel()
	s := start(t, ServerOptions{})
	q := create(t, s.Address(), "forgets", Options{})
	if err := q.Add(t.Context(), queuetest.Tasks(2)); err != nil {
		t.Fatal(err)
	}
	forget := func(answer func(worker.Delivery) error) {
		t.Helper()
		d, err := q.Fetch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := q.tasks.DeleteConsumer(t.Context(), "workers"); err != nil {
			t.Fatal(err)
		}
		if err := q.create(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := answer(d); err != nil {
			t.Error(err)
		}
	}
	forget(worker.Delivery.Nak)
	for range 2 {
		forget(worker.Delivery.Ack)
	}
	if d, err := q.Fetch(t.Context()); !errors.Is(err, worker.ErrDrained) {
		t.Errorf("Fetch = %v, %v", d, err)
	}
}

func TestErrors(t *testing.T) {
	token := start(t, ServerOptions{Listen: "127.0.0.1:0", Token: "secret"})
	open := start(t, ServerOptions{Listen: "127.0.0.1:0"})
	empty := start(t, ServerOptions{})
	nobody := freePort(t)
	here := Identity{Sweep: "s", Folder: "here", Version: "v1"}
	for _, id := range []Identity{here, {Sweep: "other", Folder: "here"}} {
		q, err := Create(t.Context(), open.Address(), id, Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(q.Close)
	}
	old := create(t, token.Address(), "old", Options{})
	config := old.tasksConfig(stateOpen)
	config.Metadata[formatKey] = "workbench.queue/v0"
	if _, err := old.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	url := func(s *Server) Address { return Address{URL: s.URL()} }
	joined := func(a Address, name, version string) error {
		q, err := Join(t.Context(), a, name, version, Options{})
		if err == nil {
			q.Close()
		}
		return err
	}
	created := func(a Address, id Identity) error {
		q, err := Create(t.Context(), a, id, Options{})
		if err == nil {
			q.Close()
		}
		return err
	}
	started := func(o ServerOptions) error {
		o.Dir = t.TempDir()
		s, err := Start(o)
		if err == nil {
			s.Stop()
		}
		return err
	}
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, emptyToken := Token(file)
	_, noToken := Token(file + "x")
	tests := []struct {
		name string
		err  error
		want []string
	}{
		{
			"no server", joined(Address{URL: "nats://user:pw@" + nobody}, "", ""),
			[]string{"no NATS server answers at nats://" + nobody, "bench serve"},
		},
		{"no machine", joined(Address{URL: "nats://no.such.machine.invalid:1"}, "", ""), []string{"no.such.machine.invalid"}},
		{"no token", joined(url(token), "", ""), []string{"requires a token", "--token-file"}},
		{"wrong token", joined(Address{URL: token.URL(), Token: "x"}, "", ""), []string{"rejects this token"}},
		{"no sweep", joined(empty.Address(), "", ""), []string{"holds no sweep", "bench serve"}},
		{"another sweep", joined(url(open), "t", ""), []string{`no sweep "t"`, `"other", "s"`}},
		{"several sweeps", joined(url(open), "", ""), []string{"several", "--sweep", `"other", "s"`}},
		{"another program", joined(url(open), "s", "v2"), []string{"version v1", "this is v2"}},
		{"another format", joined(Address{URL: token.URL(), Token: "secret"}, "old", ""), []string{"workbench.queue/v0", Format}},
		{
			"coordinator of another format", created(token.Address(), Identity{Sweep: "old", Folder: "here"}),
			[]string{"workbench.queue/v0", "--discard"},
		},
		{"coordinator of another folder", created(url(open), Identity{Sweep: "s", Folder: "there"}), []string{"another folder", "--discard"}},
		{"port in use", started(ServerOptions{Listen: strings.TrimPrefix(open.URL(), "nats://")}), []string{"is already in use", "already"}},
		{"no port", started(ServerOptions{Listen: "127.0.0.1"}), []string{"HOST:PORT"}},
		{"open to all", started(ServerOptions{Listen: "0.0.0.0:0"}), []string{"--token-file"}},
		{"no certificate", started(ServerOptions{Listen: "127.0.0.1:0", Certificate: file, Key: file}), []string{"certificate " + file}},
		{"no authority", joined(Address{URL: open.URL(), CA: file + "x"}, "", ""), []string{"no such file"}},
		{"empty token", emptyToken, []string{"is empty"}},
		{"no token file", noToken, []string{"no such file"}},
	}
	for _, tt := range tests {
		if !errors.Is(tt.err, solve.ErrInput) {
			t.Errorf("%s: %v is not called bad input", tt.name, tt.err)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(tt.err.Error(), want) || strings.Contains(tt.err.Error(), "pw@") {
				t.Errorf("%s: no %q in: %v", tt.name, want, tt.err)
			}
		}
	}
	if err := joined(Address{URL: open.URL()}, "s", "v1"); err != nil {
		t.Errorf("who is right is refused: %v", err)
	}
	if err := Discard(t.Context(), token.Address(), "old"); err != nil {
		t.Error(err)
	}
	if err := created(token.Address(), Identity{Sweep: "old", Folder: "there"}); err != nil {
		t.Errorf("after Discard: %v", err)
	}
}

// A server that does not come back closes the queue.
func TestPatience(t *testing.T) {
	s, err := Start(ServerOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	q, err := Create(t.Context(), s.Address(), Identity{Sweep: "patience", Folder: "here"}, Options{Patience: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	if err := q.Add(t.Context(), queuetest.Tasks(1)); err != nil {
		t.Fatal(err)
	}
	d, err := q.Fetch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.Stop()
	if err := d.Ack(); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("Ack = %v", err)
	}
	if _, err := q.Fetch(t.Context()); !errors.Is(err, worker.ErrClosed) {
		t.Errorf("Fetch = %v", err)
	}
}

// Names of sweeps are anything; names of streams are not.
func TestNames(t *testing.T) {
	t.Parallel()
	s := start(t, ServerOptions{})
	seen := map[string]string{}
	for _, name := range []string{"a", "a b", "a.b", "a_b", "a*", "a>", "A", "ä", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
		q := create(t, s.Address(), name, Options{})
		if before, ok := seen[q.slug()]; ok {
			t.Errorf("%q and %q have one queue", before, name)
		}
		seen[q.slug()] = name
		if err := q.Add(t.Context(), queuetest.Tasks(1)); err != nil {
			t.Errorf("%q: %v", name, err)
		}
		if w := join(t, s.Address(), name); w.Sweep != name {
			t.Errorf("joined %q, not %q", w.Sweep, name)
		}
	}
}

// An embedded queue has no socket, and keeps its tasks.
func TestEmbedded(t *testing.T) {
	dir := t.TempDir()
	for round := range 2 {
		q, err := Embedded(t.Context(), dir, "embedded")
		if err != nil {
			t.Fatal(err)
		}
		if url := q.address.server.URL(); url != "" {
			t.Errorf("listens on %s", url)
		}
		if round == 0 {
			err = q.Add(t.Context(), queuetest.Tasks(2))
		} else if d, fetchErr := q.Fetch(t.Context()); fetchErr != nil || d.Task().Seed != 0 {
			t.Errorf("tasks do not survive: %v, %v", d, fetchErr)
		}
		q.Close()
		q.Close()
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The server is much code of somebody else: who imports models, methods or
// solvers does not link it.
func TestOnlyThisPackageImportsNATS(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}}: {{join .Imports " "}}`, "workbench/...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	seen := false
	for line := range strings.Lines(string(out)) {
		name, imports, _ := strings.Cut(line, ": ")
		if !strings.Contains(imports, "github.com/nats-io/") {
			continue
		}
		seen = seen || name == "workbench/bench/sweep/queue"
		if name != "workbench/bench/sweep/queue" {
			t.Errorf("%s imports NATS: only workbench/bench/sweep/queue does", name)
		}
	}
	if !seen {
		t.Error("go list does not see what this package imports")
	}
}

// The overhead of a task: add, fetch, acknowledge.
func BenchmarkTask(b *testing.B) {
	q, err := Embedded(b.Context(), b.TempDir(), "benchmark")
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close()
	b.ReportAllocs()
	tasks := queuetest.Tasks(b.N)
	b.ResetTimer()
	if err := q.Add(b.Context(), tasks); err != nil {
		b.Fatal(err)
	}
	for range b.N {
		d, err := q.Fetch(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		if err := d.Ack(); err != nil {
			b.Fatal(err)
		}
	}
}
