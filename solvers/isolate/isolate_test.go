//go:build unix

package isolate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"workbench/model/milp"
	"workbench/model/testfile"
	"workbench/solvers"
	"workbench/solvers/enumerate"
	"workbench/solvers/isolate"
	"workbench/solvers/solvertest"
)

// engines are what the test binary serves as a child.
func engines() map[string]solvers.Engine {
	m := libraries()
	m["enumerate"] = enumerate.Engine{}
	for name, die := range deaths() {
		m[name] = dying{name, false, die}
		m[name+" with incumbent"] = dying{name, true, die}
	}
	return m
}

func TestMain(m *testing.M) {
	isolate.Main(engines())
	os.Exit(m.Run())
}

// dying streams an incumbent, if asked to, and meets its end.
type dying struct {
	name      string
	incumbent bool
	die       func(ctx context.Context, p *solvers.Problem)
}

func (d dying) Name() string        { return d.name }
func (dying) Can() solvers.Features { return solvers.CanInteger | solvers.CanProgress | solvers.CanLog }

func (d dying) Run(ctx context.Context, p *solvers.Problem) (*solvers.Answer, error) {
	if d.incumbent {
		p.OnProgress(solvers.Progress{X: []float64{2, 2}, Bound: 12, Nodes: 5})
	}
	d.die(ctx, p)
	return &solvers.Answer{Status: solvers.Optimal, X: []float64{3, 1}, Bound: 11}, nil
}

func deaths() map[string]func(context.Context, *solvers.Problem) {
	return map[string]func(context.Context, *solvers.Problem){
		"hang": func(context.Context, *solvers.Problem) { select {} },
		"spin": func(context.Context, *solvers.Problem) {
			runtime.LockOSThread()
			for n := 0; ; n++ {
				if n < 0 {
					return
				}
			}
		},
		"exit": func(context.Context, *solvers.Problem) {
			fmt.Fprintln(os.Stderr, "terminate called after throwing an instance of 'int'")
			os.Exit(3)
		},
		"segv": func(context.Context, *solvers.Problem) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGSEGV)
			select {}
		},
		"oom killer": func(context.Context, *solvers.Problem) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		},
		"panic": func(context.Context, *solvers.Problem) { panic("engine bug") },
		"eat": func(context.Context, *solvers.Problem) {
			var eaten [][]byte
			for {
				b := make([]byte, 1<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				eaten = append(eaten, b)
				if len(eaten) == 1<<12 {
					panic("4 GiB eaten, nobody minded")
				}
			}
		},
		"polite": func(ctx context.Context, _ *solvers.Problem) { <-ctx.Done() },
		"print":  func(context.Context, *solvers.Problem) { fmt.Println("a banner on standard output") },
	}
}

// pick is max 3x + 2y, x + y ≤ 4, x ≤ 3, integers: 11 at (3, 1).
func pick() *milp.Model {
	m := milp.New("pick")
	x, y := m.Var("x", milp.Integer, 0, 3), m.Var("y", milp.Integer, 0, 4)
	var e milp.Expr
	m.Group("sum", "").AtMost(e.Add(1, x).Add(1, y), 4)
	m.Maximize(e.Reset().Add(3, x).Add(2, y))
	return m
}

// The isolated backend keeps the whole contract.
func TestContract(t *testing.T) {
	testfile.Long(t)
	solvertest.Run(t, isolate.New(enumerate.Engine{}, "enumerate"), nil)
}

// endless is longer than any solve here takes on a busy machine, and shorter
// than waiting for an engine that never returns.
const endless = 20 * time.Second

func TestDeaths(t *testing.T) {
	// limit is enough for a child to start and to stream its incumbent.
	const limit = 500 * time.Millisecond
	for _, c := range []struct {
		engine  string
		options solvers.Options
		status  solvers.Status // with the incumbent if Feasible
		stop    solvers.Stop
		err     string // of the error, or of the note: a regular expression
	}{
		{"hang", solvers.Options{Time: limit}, solvers.NoSolution, solvers.Time, "killed"},
		{"hang with incumbent", solvers.Options{Time: limit}, solvers.Feasible, solvers.Time, "killed"},
		{"spin", solvers.Options{Time: limit}, solvers.NoSolution, solvers.Time, "killed|left behind"}, // by whoever is first on a busy machine
		{"spin with incumbent", solvers.Options{Time: limit}, solvers.Feasible, solvers.Time, "killed|left behind"},
		{"polite with incumbent", solvers.Options{Time: limit}, solvers.Optimal, solvers.NotStopped, ""},
		{"print", solvers.Options{}, solvers.Optimal, solvers.NotStopped, ""},
		{"exit", solvers.Options{}, 0, 0, "exit status 3: terminate called"},
		{"exit with incumbent", solvers.Options{}, solvers.Feasible, solvers.Unknown, "exit status 3: terminate called"},
		{"segv", solvers.Options{}, 0, 0, "SIGSEGV"},
		{"segv with incumbent", solvers.Options{}, solvers.Feasible, solvers.Unknown, "SIGSEGV"},
		{"oom killer", solvers.Options{}, 0, 0, "signal: killed"},
		{"oom killer with incumbent", solvers.Options{}, solvers.Feasible, solvers.Unknown, "signal: killed"},
		{"panic", solvers.Options{}, 0, 0, "engine bug"},
		{"eat", solvers.Options{Memory: 100 << 20}, solvers.NoSolution, solvers.Memory, ""},
		{"eat with incumbent", solvers.Options{Memory: 100 << 20}, solvers.Feasible, solvers.Memory, ""},
		{"nobody", solvers.Options{}, 0, 0, `no engine "nobody"`},
	} {
		t.Run(strings.ReplaceAll(c.engine, " ", "_"), func(t *testing.T) {
			t.Parallel()
			e, known := engines()[c.engine]
			if !known {
				e = dying{name: c.engine}
			}
			b := isolate.New(e, c.engine)
			said := regexp.MustCompile(c.err)
			begin := time.Now()
			r, err := b.Solve(t.Context(), pick(), c.options)
			if took := time.Since(begin); c.options.Time > 0 && took > endless {
				t.Errorf("took %v", took)
			}
			if c.status == solvers.NoSolution && c.stop == solvers.NotStopped {
				if err == nil || !said.MatchString(err.Error()) || !errors.Is(err, solvers.ErrSolver) && !errors.Is(err, solvers.ErrMissing) {
					t.Fatalf("error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if c.status == solvers.NoSolution && r.Bound != 17 {
				t.Errorf("bound %v, want that of the column bounds, 17", r.Bound)
			}
			if r.Status != c.status || r.Stop != c.stop || !said.MatchString(r.Note) {
				t.Errorf("%v, %v, %q, want %v, %v, %q", r.Status, r.Stop, r.Note, c.status, c.stop, c.err)
			}
			if x, ok := r.Solution(); c.status == solvers.Feasible && (!ok || x[0] != 2 || r.Obj != 10 || r.Bound != 12 || r.Nodes != 5) {
				t.Errorf("the incumbent did not survive: %+v", r)
			}
		})
	}
}

func TestCancel(t *testing.T) {
	for _, name := range []string{"hang", "spin with incumbent"} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer time.AfterFunc(100*time.Millisecond, cancel).Stop()
			begin := time.Now()
			r, err := isolate.New(engines()[name], name).Solve(ctx, pick(), solvers.Options{})
			if err != nil || r.Stop != solvers.Cancelled {
				t.Fatalf("%v, %v", r, err)
			}
			if took := time.Since(begin); took > endless {
				t.Errorf("took %v", took)
			}
		})
	}
}

// A child must not outlive its parent: it exits when its input ends, even if
// its engine hangs.
func TestOrphan(t *testing.T) {
	isolate.CheckOrphan(t, "hang")
}

// BenchmarkSolve is the cost of isolation: of a model of no size, and of one of
// a million nonzeros that needs no search.
func BenchmarkSolve(b *testing.B) {
	large := milp.New("large")
	x := large.List("x", 1000, milp.Binary, 1, 1)
	g := large.Group("row", "")
	var e milp.Expr
	for range 1000 {
		e.Reset()
		for j := range 1000 {
			e.Add(1, x.At(j))
		}
		g.AtMost(&e, 1000)
	}
	for _, m := range []*milp.Model{pick(), large} {
		for name, backend := range map[string]solvers.Backend{
			"here":     enumerate.New(),
			"isolated": isolate.New(enumerate.Engine{}, "enumerate"),
		} {
			b.Run(m.Name()+"/"+name, func(b *testing.B) {
				for b.Loop() {
					if _, err := backend.Solve(b.Context(), m, solvers.Options{}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
