package solvertest

import (
	"bytes"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"sync"
	"testing"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// maxGrowth is by how much the resident memory may grow over the second half of
// Cycles: C allocators settle, they do not stand still.
const maxGrowth = 8 << 20

// Cycles solves n small models after each other, of all verdicts and with an
// early end now and then, and expects neither goroutines nor memory to be left
// behind. Memory is looked at on Linux. 3000 cycles tell much; a library costs
// 1 to 10 ms each.
func Cycles(t *testing.T, b solvers.Backend, n int) {
	t.Helper()
	before := runtime.NumGoroutine()
	h := &harness{ctx: t.Context(), backend: b}
	half := int64(0)
	for i := range n {
		if i == n/2 {
			half = residentMemory()
		}
		if err := cycle(h, i); err != nil {
			t.Fatalf("cycle %d: %v", i, err)
		}
	}
	if grown := residentMemory() - half; grown > maxGrowth {
		t.Errorf("resident memory grew by %d MiB over %d cycles", grown>>20, n-n/2)
	}
	if left := settledGoroutines(before) - before; left > 0 {
		t.Errorf("%d goroutines left behind", left)
	}
}

// Concurrent solves m many times at once and expects each answer to be that of
// a solve alone, down to the nodes and iterations it took.
func Concurrent(t *testing.T, b solvers.Backend, m *milp.Model) {
	t.Helper()
	want, err := b.Solve(t.Context(), m, solvers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 3 {
				r, err := b.Solve(t.Context(), m, solvers.Options{})
				if err != nil || r.Status != want.Status || r.Obj != want.Obj || r.Nodes != want.Nodes || r.Iterations != want.Iterations {
					t.Errorf("%+v, %v, want %+v", r, err, want)
				}
			}
		})
	}
	group.Wait()
}

// cycle solves one model, by turns feasible, infeasible, and cut short.
func cycle(h *harness, i int) error {
	switch i % 8 {
	case 0:
		_, err := h.status(text(infeasiblePick), solvers.Options{}, solvers.Infeasible)
		return err
	case 1:
		return h.stopped(h.ctx, newMarketSplit(4, 30, int64(i)).slackModel(), solvers.Options{Time: time.Millisecond}, solvers.Time,
			solvers.Feasible, solvers.NoSolution)
	case 2:
		_, err := h.optimum(text(lp), solvers.Options{}, 3.5)
		return err
	}
	k := newKnapsack(8, int64(i))
	_, err := h.optimum(k.model(), solvers.Options{}, k.optimum())
	return err
}

// residentMemory returns the resident set of this process after a garbage
// collection, 0 where the system does not tell.
func residentMemory() int64 {
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b)
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}

// settledGoroutines waits up to 5 s for the number of goroutines to fall to
// want: those of a solve may still be on their way out when it returns.
func settledGoroutines(want int) int {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range 5000 {
		if runtime.NumGoroutine() <= want {
			break
		}
		<-tick.C
	}
	return runtime.NumGoroutine()
}
