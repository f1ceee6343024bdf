package store_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// row is a row as a MILP makes it, with everything a row may have.
func row(i int) *sweep.Row {
	objective, peak, throughput := 1.2345678901234567+float64(i), 8.1e9, 25.920000000000002
	gap := platform.Gap(objective, 1.2)
	nodes := int64(8123)
	t := sweep.Task{
		Format: sweep.TaskFormat, Problem: "remat", Method: "chain-milp", Instance: "zoo:resnet50?image=500&batch=16",
		SHA256: "b82b0135646e3a030d0ed764f4d135dab34ede5ae4b2467adb978213f211fdcb", Memory: 459536179.2, MemoryName: "10%",
		Slots: 100, Backend: "highs", Threads: 1, TimeLimit: 60, Seed: i, TaskMemory: 4 << 30, Version: "024ed1e2a3b4+dirty",
	}
	at := time.Date(2026, 11, 21, 15, 53, 11, 580e6, time.UTC)
	return &sweep.Row{
		Format: sweep.RowFormat, Sweep: "night", ID: t.ID(), Task: t, Attempt: 1, Worker: "local", Started: at, Finished: at.Add(time.Minute),
		Environment: "d01eef50ed30789ef007d189", Plan: "03069e383b606ff5fa3889f966ecb09b", PeakRSS: 45084672,
		Result: &solve.Result{
			Format: solve.ResultFormat, Problem: t.Problem, Method: t.Method, Kind: solve.Exact,
			Instance: plan.InstanceRef{Name: "resnet50-i500-b16", SHA256: t.SHA256, Source: t.Instance},
			Platform: platform.Platform{Memory: t.Memory}, Parameters: solve.Parameters{TimeLimit: 60, Threads: 1, Slots: 100},
			Status: solve.Feasible, Objective: &objective, Makespan: &objective, Gap: &gap, PeakMemory: &peak, Throughput: &throughput,
			Bound:    &solve.Bound{Value: 1.2, By: "the MILPs chain-bound and chain-milp (column bounds, HiGHS 1.10.0)", Assumptions: []string{}},
			OwnBound: &solve.Bound{Value: 1.2, By: t.Method, Assumptions: []string{}},
			WallTime: 59.123456, CPUTime: 58.987654, Backend: &solve.BackendRef{Name: "HiGHS", Version: "1.10.0"}, Nodes: &nodes, Seed: i,
			Formulation: &solve.Formulation{
				Name: "chain-milp", Version: "3", Variables: 12345, Integers: 2345, Constraints: 23456,
				Nonzeros: 123456,
			},
		},
	}
}

// write makes a store of n rows, without the cost of syncing each.
func write(t testing.TB, dir string, n int) {
	t.Helper()
	var b bytes.Buffer
	for i := range n {
		line, err := store.Encode(row(i))
		if err != nil {
			t.Fatal(err)
		}
		b.Write(line)
	}
	if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is written is read, and takes less than a kilobyte even for a row that
// has everything.
func TestRoundTrip(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	failure := row(1)
	failure.Result, failure.Plan, failure.Failure = nil, "", &sweep.Failure{Reason: sweep.OutOfTime, Detail: "killed: no answer within 1m16s"}
	want := []*sweep.Row{row(0), failure}
	for _, r := range want {
		if err := s.Append(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	here := sweep.Here(map[string]string{}, true, 2)
	for range 2 {
		if err := s.AppendEnvironment(&here); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, c.Rows); d != "" {
		t.Errorf("-written +read\n%s", d)
	}
	if d := cmp.Diff(map[string]sweep.Environment{here.Digest: here}, c.Environments); d != "" {
		t.Errorf("-written +read\n%s", d)
	}
	if line, err := store.Encode(row(0)); err != nil || len(line) >= 1024 {
		t.Errorf("a row has %d bytes, %v", len(line), err)
	} else {
		t.Logf("a row that has everything: %d bytes", len(line))
	}
}

// Every row that JSON can hold survives the store.
func TestRoundTripAny(t *testing.T) {
	testfile.Property(t, func(rt *rapid.T) {
		r := row(rapid.IntRange(0, 1e6).Draw(rt, "seed"))
		number := rapid.Custom(func(rt *rapid.T) *float64 {
			if rapid.Bool().Draw(rt, "none") {
				return nil
			}
			x := rapid.Float64Range(-1e300, 1e300).Draw(rt, "number")
			return &x
		})
		r.Worker = rapid.StringMatching(`[^\x00-\x1f]*`).Draw(rt, "worker")
		r.Task.MemoryName = rapid.StringMatching(`.{0,9}`).Draw(rt, "memory")
		r.Task.Bandwidth = rapid.Float64Range(0, 1e12).Draw(rt, "bandwidth")
		r.Task.Processors = rapid.IntRange(0, 9).Draw(rt, "processors")
		r.ID = r.Task.ID()
		x := r.Result
		x.Platform.Bandwidth, x.Platform.Processors = r.Task.Bandwidth, r.Task.Processors
		x.Error = rapid.StringMatching(`.{0,20}`).Draw(rt, "error")
		x.Objective, x.PeakMemory, x.Throughput = number.Draw(rt, "objective"), number.Draw(rt, "peak"), number.Draw(rt, "throughput")
		x.Makespan, x.Gap = x.Objective, nil
		if rapid.Bool().Draw(rt, "bare") {
			x.Bound, x.OwnBound, x.Backend, x.Formulation, x.Nodes = nil, nil, nil, nil, nil
		}
		if x.Objective != nil && x.Bound != nil {
			gap := platform.Gap(*x.Objective, x.Bound.Value)
			x.Gap = &gap
		}
		line, err := store.Encode(r)
		if err != nil {
			rt.Fatal(err)
		}
		if bytes.Count(line, []byte("\n")) != 1 {
			rt.Fatalf("more than one line: %s", line)
		}
		l, err := store.Decode(line)
		if err != nil {
			rt.Fatalf("%v: %s", err, line)
		}
		if d := cmp.Diff(r, l.Row); d != "" {
			rt.Errorf("-written +read\n%s", d)
		}
	})
}

// Any change of a line is found: by its checksum, or because it is no line at
// all any more.
func TestEveryByteCounts(t *testing.T) {
	line, err := store.Encode(row(0))
	if err != nil {
		t.Fatal(err)
	}
	line = bytes.TrimSpace(line)
	for i := range line {
		for _, bit := range []byte{1, 4, 64} {
			other := bytes.Clone(line)
			other[i] ^= bit
			if other[i] == '\n' {
				continue // two lines, neither is whole
			}
			if l, err := store.Decode(other); err == nil {
				t.Fatalf("byte %d, bit %d: read as %+v", i, bit, l)
			}
		}
		if _, err := store.Decode(line[:i]); err == nil || !store.Damaged(err) {
			t.Fatalf("the first %d bytes: %v", i, err)
		}
	}
}

func TestRefused(t *testing.T) {
	sum := func(text string) string { // as Encode
		line, err := store.Encode(json.RawMessage(text))
		if err != nil {
			t.Fatal(err)
		}
		return string(line)
	}
	good, err := store.Encode(row(0))
	if err != nil {
		t.Fatal(err)
	}
	body := string(good[:bytes.LastIndex(good, []byte(`,"crc"`))]) + "}"
	other := row(1)
	other.Sweep = "papers"
	foreign, err := store.Encode(other)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ text, want string }{
		"newer": {
			sum(`{"format":"workbench.row/v2","a":1}`),
			`rows.jsonl:2: its format is "workbench.row/v2", this program knows "workbench.row/v1": a newer workbench`,
		},
		"newer without a checksum": {`{"format":"workbench.row/v2","a":1}` + "\n", `"workbench.row/v2"`},
		"unknown field": {
			sum(strings.Replace(body, `"attempt"`, `"mood":"good","attempt"`, 1)),
			`rows.jsonl:2: json: unknown field "mood"`,
		},
		"another sweep": {string(foreign), `rows.jsonl:2: the row is of sweep "papers", the store of "night"`},
		"another task":  {sum(strings.Replace(body, `"threads":1`, `"threads":2`, 1)), "its task has the name"},
		"negative time": {
			sum(strings.Replace(body, `"wall_time":`, `"wall_time":-`, 1)),
			"result.wall_time is -",
		},
		"other units": {
			sum(strings.Replace(body, `"attempt"`, `"units":{"objective":"ms","memory":"B","time":"s"},"attempt"`, 1)),
			"its units are {Objective:ms Memory:B Time:s}, rows of remat are in {Objective:s Memory:B Time:s}",
		},
		"neither": {sum(strings.Replace(body, `"result":`, `"x":`, 1)), "unknown field"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), append(bytes.Clone(good), c.text...), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, open := range []func() error{
				func() error { _, err := store.Read(dir); return err },
				func() error { _, err := store.Open(dir, "night"); return err },
			} {
				if err := open(); err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, solve.ErrInput) {
					t.Errorf("%v\nwant %s", err, c.want)
				}
			}
			if after, err := os.ReadFile(filepath.Join(dir, "rows.jsonl")); err != nil || string(after) != string(good)+c.text {
				t.Errorf("the file was changed: %s, %v", after, err)
			}
		})
	}
}

// A file cut at any byte is a store of the whole lines before, which can be gone
// on with.
func TestTornAnywhere(t *testing.T) {
	whole := t.TempDir()
	write(t, whole, 3)
	text, err := os.ReadFile(filepath.Join(whole, "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	name := filepath.Join(dir, "rows.jsonl")
	for cut := 0; cut <= len(text); cut += 53 {
		if err := os.WriteFile(name, text[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(dir, "night")
		if err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if err := s.Append(row(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(name); err != nil || !bytes.Equal(after, text) {
			t.Fatalf("cut at %d: %d bytes, %v, want %d", cut, len(after), err, len(text))
		}
	}
}

// Stores are merged with cat, in any order, also without ends of lines.
func TestCat(t *testing.T) {
	failed := row(1)
	failed.Result, failed.Plan, failed.Failure = nil, "", &sweep.Failure{Reason: sweep.Crashed}
	rows := []*sweep.Row{row(0), failed, row(1), row(2), row(0)}
	testfile.Property(t, func(rt *rapid.T) {
		dir := t.TempDir()
		order := rapid.Permutation(rows).Draw(rt, "order")
		var b bytes.Buffer
		for i, r := range order {
			line, err := store.Encode(r)
			if err != nil {
				rt.Fatal(err)
			}
			if i == len(order)-1 {
				line = bytes.TrimSpace(line)
			}
			b.Write(line)
		}
		if err := os.WriteFile(filepath.Join(dir, "rows-all.jsonl"), b.Bytes(), 0o644); err != nil {
			rt.Fatal(err)
		}
		c, err := store.Read(dir)
		if err != nil || len(c.Rows) != 3 || c.Repeated != 2 || c.Sweep != "night" {
			rt.Fatalf("%+v, %v", c, err)
		}
		for _, r := range c.Rows {
			if r.Failure != nil {
				rt.Error("a failure stands before a result")
			}
		}
	})
}

func TestLock(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(dir, "night"); !errors.Is(err, store.ErrLocked) || !errors.Is(err, solve.ErrInput) {
		t.Errorf("opened twice: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = store.Open(dir, "night"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(row(0), nil); err == nil {
		t.Error("a closed store takes a row")
	}
}

// Appending from many goroutines, each row twice, leaves each once.
func TestConcurrentAppends(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 40 {
		group.Go(func() {
			if err := s.Append(row(i/2), nil); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if c, err := store.Read(dir); err != nil || len(c.Rows) != 20 || c.Repeated != 0 {
		t.Errorf("%d rows, %d repeated, %v", len(c.Rows), c.Repeated, err)
	}
}

// A failure may be replaced by a result, once, and nothing by a failure.
func TestRetry(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	failed := row(0)
	failed.Result, failed.Plan, failed.Failure = nil, "", &sweep.Failure{Reason: sweep.Crashed}
	for i, r := range []*sweep.Row{failed, failed, row(0), row(0), failed} {
		if err := s.Append(r, nil); err != nil {
			t.Fatal(err)
		}
		if want := i < 2; s.Failed(r.ID) != want || !s.Has(r.ID) {
			t.Errorf("after %d rows: failed %v", i+1, s.Failed(r.ID))
		}
		if i == 1 {
			s.Forget()
			if s.Has(r.ID) {
				t.Error("not forgotten")
			}
		}
	}
	if c, err := store.Read(dir); err != nil || len(c.Rows) != 1 || c.Repeated != 1 || c.Rows[0].Failure != nil {
		t.Errorf("%d rows, %d repeated, %v", len(c.Rows), c.Repeated, err)
	}
}

func TestPlans(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(dir, "night")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := &plan.Plan{Problem: "remat", Method: "store-all", Ops: make([]plan.Op, 50)}
	digest, compressed, err := store.EncodePlan(p)
	if err != nil {
		t.Fatal(err)
	}
	r := row(0)
	r.Plan = digest
	if err := s.Append(r, compressed); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := p.Write(&want); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Plan(dir, digest); err != nil || !bytes.Equal(got, want.Bytes()) || len(compressed) > want.Len()/4 {
		t.Errorf("%d bytes, %d compressed, want %d: %v", len(got), len(compressed), want.Len(), err)
	}
	for _, bad := range []string{"", "../../etc", strings.Repeat("0", 32)} {
		if _, err := store.Plan(dir, bad); !errors.Is(err, solve.ErrInput) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestTasks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "sweep")
	want := &store.Sweep{Name: "night", Specification: "name: night\n", Plans: true, Tasks: []sweep.Task{row(0).Task, row(1).Task}}
	if err := store.WriteTasks(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, err := store.ReadTasks(dir); err != nil || !cmp.Equal(got, want) {
		t.Errorf("%v: %s", err, cmp.Diff(want, got))
	}
	name := filepath.Join(dir, "tasks.jsonl")
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	for why, c := range map[string]struct{ text, want string }{
		"cut":     {lines[0] + lines[1], "has 1 tasks of 2: it is incomplete"},
		"empty":   {"", "has 0 tasks of 0"},
		"unknown": {lines[0] + strings.Replace(lines[1], `"seed"`, `"sead"`, 1) + lines[2], `tasks.jsonl:2: json: unknown field "sead"`},
		"newer": {
			strings.Replace(lines[0], "tasks/v1", "tasks/v2", 1) + lines[1] + lines[2],
			`tasks.jsonl:1: its format is "workbench.tasks/v2"`,
		},
	} {
		if err := os.WriteFile(name, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := store.ReadTasks(dir); err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, solve.ErrInput) {
			t.Errorf("%s: %v, want %s", why, err, c.want)
		}
	}
}

// Two shards with a task in common make the whole.
func TestMerge(t *testing.T) {
	whole := []sweep.Task{row(0).Task, row(1).Task, row(2).Task, row(3).Task}
	folders := []string{filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")}
	p := &plan.Plan{Problem: "remat", Method: "store-all"}
	digest, compressed, err := store.EncodePlan(p)
	if err != nil {
		t.Fatal(err)
	}
	for k, seeds := range [][]int{{0, 1}, {1, 2}} {
		if err := store.WriteTasks(folders[k], &store.Sweep{Name: "night", Tasks: whole}); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(folders[k], "night")
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range seeds {
			r := row(i)
			r.Plan = digest
			if err := s.Append(r, compressed); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	into := filepath.Join(t.TempDir(), "all")
	for again := range 2 {
		m, err := store.Merge(into, folders)
		if err != nil {
			t.Fatal(err)
		}
		if m.Sweep != "night" || m.Tasks != 4 || m.Rows != 3 || len(m.Missing) != 1 || m.Missing[0].Seed != 3 || m.Added != []int{3, 0}[again] ||
			m.Repeated != []int{1, 4}[again] {
			t.Errorf("%+v", m)
		}
	}
	if _, err := store.Plan(into, digest); err != nil {
		t.Error(err)
	}
	if _, err := store.Merge(into, []string{into}); !errors.Is(err, solve.ErrInput) {
		t.Errorf("into itself: %v", err)
	}
	if err := store.WriteTasks(folders[1], &store.Sweep{Name: "papers", Tasks: whole}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Merge(into, folders); !errors.Is(err, solve.ErrInput) ||
		!strings.Contains(err.Error(), `of sweep "papers", the others are of "night"`) {
		t.Errorf("another sweep: %v", err)
	}
}

// Whatever a line is, reading it ends with a row or an error.
func FuzzDecode(f *testing.F) {
	good, err := store.Encode(row(0))
	if err != nil {
		f.Fatal(err)
	}
	here := sweep.Here(map[string]string{}, true, 1)
	environment, err := store.Encode(&here)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(environment)
	f.Add(good[:len(good)/2])
	f.Add([]byte(`{"format":"workbench.row/v9"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := store.Decode(line)
		if err != nil {
			return
		}
		if (l.Row == nil) == (l.Environment == nil) {
			t.Fatalf("%+v", l)
		}
		if l.Row != nil {
			again, err := store.Encode(l.Row)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := store.Decode(again); err != nil {
				t.Fatalf("%v: %s", err, again)
			}
		}
	})
}

// Whatever a file of rows is, opening it keeps its sound rows, and what was
// damaged is damaged no more.
func FuzzOpen(f *testing.F) {
	good, err := store.Encode(row(0))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(append([]byte("nonsense\n"), good...), good[:100]...))
	f.Add(bytes.Repeat(append(good, '\n', 'x', '\n'), 3))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "rows.jsonl"), text, 0o644); err != nil {
			t.Fatal(err)
		}
		before, err := store.Read(dir)
		if err != nil {
			return
		}
		name := before.Sweep
		s, err := store.Open(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		after, err := store.Read(dir)
		if err != nil || len(after.Rows) != len(before.Rows) || len(after.Damaged)+len(after.Torn) > 0 {
			t.Fatalf("%v: before %d rows, after %d, damaged %v, torn %v", err, len(before.Rows), len(after.Rows), after.Damaged, after.Torn)
		}
	})
}

// A folder is that of a sweep if it has a list of tasks; a file is none.
func TestExists(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, file, filepath.Join(dir, "nothing")} {
		if store.Exists(path) {
			t.Errorf("%s is said to be the folder of a sweep", path)
		}
	}
	if err := store.WriteTasks(dir, &store.Sweep{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if !store.Exists(dir) {
		t.Error("the folder of a sweep is said to be none")
	}
}

// Lines without a checksum are counted and named apart from damaged ones; descriptions of
// machines are not counted.
func TestLinesWithoutChecksum(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, 4)
	file := filepath.Join(dir, "rows.jsonl")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	unsum := func(line []byte) []byte {
		return append(bytes.Clone(line[:bytes.LastIndex(line, []byte(`,"crc"`))]), "}\n"...)
	}
	environment, err := store.Encode(&sweep.Environment{Format: sweep.EnvironmentFormat, Digest: "d"})
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	all := bytes.Join([][]byte{unsum(environment), lines[0], unsum(lines[1]), unsum(lines[2]), lines[3][20:]}, nil)
	if err := os.WriteFile(file, all, 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := store.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	want := "2 lines without checksum (" + file + ":3), 1 damaged line (" + file + ":5)"
	if got := store.DamageSummary(c.Damaged); got != want || len(c.Rows) != 1 {
		t.Errorf("%d rows, %q, want %q", len(c.Rows), got, want)
	}
}
