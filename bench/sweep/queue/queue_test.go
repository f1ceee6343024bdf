package queue

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"workbench/bench/sweep/queue/queuetest"
)

func TestMain(m *testing.M) {
	if childOrContinue() {
		return
	}
	// Putting a small file into an object store starts a publisher of nats.go
	// 1.55.0 and cleans it up at once: if its goroutine begins only then, it reads
	// a channel set to nil and waits forever (jetstream/publish.go,
	// resetPendingAcksOnReconnect). A few kilobytes, and not ours to end.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats.go/jetstream.(*jetStream).resetPendingAcksOnReconnect"))
}

// shortLease is for workers that die in tests.
const shortLease = 300 * time.Millisecond

// start starts a server that ends with the test.
func start(t *testing.T, o ServerOptions) *Server {
	t.Helper()
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func create(t *testing.T, a Address, name string, o Options) *Queue {
	t.Helper()
	q, err := Create(t.Context(), a, Identity{Sweep: name, Folder: "here"}, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func join(t *testing.T, a Address, name string) *Queue {
	t.Helper()
	q, err := Join(t.Context(), a, name, "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

// The queue that other tests have: leases of an hour, and no time passes.
func TestMemory(t *testing.T) {
	for _, c := range queuetest.Cases(time.Hour) {
		t.Run(c.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.Run(t, queuetest.NewMemory(c.Lease)) })
		})
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	s := start(t, ServerOptions{})
	for i, c := range queuetest.Cases(shortLease) {
		t.Run(c.Name, func(t *testing.T) {
			c.Run(t, create(t, s.Address(), fmt.Sprintf("case %d", i), Options{Lease: c.Lease}))
		})
	}
}
