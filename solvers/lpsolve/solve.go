//go:build cgo && unix

package lpsolve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/cgo"
	"slices"
	"sync"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// load loads the library, once in a process.
var load = sync.OnceValues(func() (*library, error) { return openFirst(candidates(os.Getenv, os.UserCacheDir)) })

// candidates returns the possible paths of the library. A path in WORKBENCH_LPSOLVE is the only candidate.
func candidates(getenv func(string) string, cacheDir func() (string, error)) []string {
	if path := getenv("WORKBENCH_LPSOLVE"); path != "" {
		return []string{path}
	}
	paths := []string{
		"liblpsolve55.so", // the search path of the loader
		"/usr/lib/lp_solve/liblpsolve55.so",
		"/usr/lib/x86_64-linux-gnu/liblpsolve55.so",
		"/usr/lib/aarch64-linux-gnu/liblpsolve55.so",
		"/usr/lib64/liblpsolve55.so",
		"/usr/local/lib/liblpsolve55.so",
		"liblpsolve55.dylib",
		"/opt/homebrew/lib/liblpsolve55.dylib",
		"/usr/local/lib/liblpsolve55.dylib",
	}
	if dir, err := cacheDir(); err == nil { // where scripts/setup.sh unpacks it
		paths = append(paths, filepath.Join(dir, "workbench", "lp_solve", "libworkbench_lpsolve.so"))
	}
	return paths
}

// openFirst loads the first library that exists.
func openFirst(paths []string) (*library, error) {
	var why error
	for _, path := range paths {
		lib, err := open(path)
		if err == nil {
			return lib, nil
		}
		if why == nil {
			why = err
		}
	}
	return nil, fmt.Errorf("%w: lp_solve cannot be loaded; install it with \"apt-get install lp-solve\" or \"brew install lp_solve\", or "+
		"set WORKBENCH_LPSOLVE to the path of liblpsolve55 (%w)",
		solvers.ErrMissing, why)
}

// Available returns nil if lp_solve can be used, else an error that says why not.
func Available() error {
	_, err := load()
	return err
}

// Version returns the version of the library, "5.5.2.5", or "" if it is missing.
func Version() string {
	lib, err := load()
	if err != nil {
		return ""
	}
	return lib.version
}

// Name implements [solvers.Engine].
func (Engine) Name() string {
	if v := Version(); v != "" {
		return "lpsolve " + v
	}
	return "lpsolve"
}

// turn is held by the running solve.
var turn = make(chan struct{}, 1)

// Run implements [solvers.Engine]. It waits until no other solve of the process
// runs.
func (Engine) Run(ctx context.Context, p *solvers.Problem) (*solvers.Answer, error) {
	begin := time.Now()
	lib, err := load()
	if err != nil {
		return nil, err
	}
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		return &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Cancelled, Bound: math.NaN(), Raw: "waiting for another solve"}, nil
	}
	s := &search{ctx: ctx, p: p, lib: lib, begin: begin, granularity: granularity(&p.Model), bound: math.NaN()}
	accepted, err := s.completeStart()
	var a *solvers.Answer
	if err == nil {
		a, err = s.run()
	}
	switch {
	case errors.Is(err, errMemory):
		return &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Memory, Bound: math.NaN(), Raw: "out of memory"}, nil
	case err != nil:
		return nil, err
	}
	a.StartAccepted = accepted
	return a, nil
}

// strategies are by attempt. The first has the library's own defaults except for the scaling, which is the fastest
// of those that never returned wrong answers. The second has those of the manual.
var strategies = [...]strategy{
	{scaling: 4, floor: 2, rule: 5 + 32 + 1024 + 16384}, // pseudo-costs on non-integers, greedy, dynamic, reduced-cost fixing
	{scaling: 4 + 64 + 128, floor: 0, rule: 0},
}

// search is one call of Run.
type search struct {
	ctx         context.Context
	p           *solvers.Problem
	lib         *library
	begin       time.Time
	granularity float64 // of the objective, see granularity

	tableau    *tableau  // the model as lp_solve has it
	best       []float64 // incumbent
	bestObj    float64
	found      bool    // whether lp_solve found an incumbent, rather than the start
	bound      float64 // of the linear relaxation; NaN: not yet known
	completing bool    // the start is being completed
	panicked   any
}

// sense is 1 if smaller objectives are better, else −1.
func (s *search) sense() float64 { return float64(s.p.Model.Sense) }

// left returns the remaining time, < 0 for no limit.
func (s *search) left() time.Duration {
	if s.p.Time <= 0 {
		return -1
	}
	return max(0, s.p.Time-time.Since(s.begin))
}

// solve runs lp_solve on d and returns its code, and why this package ended it. The caller frees the instance.
func (s *search) solve(d *milp.Data, l limits) (m instance, code int, err error) {
	s.tableau = newTableau(d)
	m, err = s.lib.newInstance(s.tableau, strategies[min(s.p.Attempt, len(strategies)-1)])
	if err != nil {
		return m, 0, err
	}
	handle := cgo.NewHandle(s)
	defer handle.Delete()
	ended := make(chan struct{})
	unwatch := context.AfterFunc(s.ctx, func() {
		m.stop()
		close(ended)
	})
	code = m.solve(l, s.p.Log != nil && !s.completing, handle)
	if !unwatch() {
		<-ended // m may only be freed after this
	}
	if s.panicked != nil {
		m.free()
		panic(s.panicked)
	}
	return m, code, nil
}

// startNodes and startShare limit the search for a completion of a start with open integers.
const (
	startNodes = 500
	startShare = 5 // a fifth of the time
)

// completeStart solves with the integers of the start fixed. It reports whether a solution exists, which becomes
// the incumbent.
func (s *search) completeStart() (accepted bool, err error) {
	if s.p.Start == nil {
		return false, nil
	}
	d := s.p.Model
	d.Lower, d.Upper = append([]float64(nil), d.Lower...), append([]float64(nil), d.Upper...)
	for j, v := range s.p.Start {
		if !math.IsNaN(v) {
			d.Lower[j], d.Upper[j] = v, v
		}
	}
	s.completing = true
	defer func() { s.completing = false }()
	l := limits{time: s.left(), nodes: startNodes, cutoff: infinite}
	if l.time > 0 {
		l.time /= startShare
	}
	m, code, err := s.solve(&d, l)
	if err != nil {
		return false, err
	}
	defer m.free()
	c, ok := claimOf(code, m.stopped())
	if !ok || c.status != solvers.Optimal && c.status != solvers.Feasible {
		return false, nil
	}
	y, err := m.solution(len(s.tableau.lower))
	if err != nil || atInfinity(y) {
		return false, err
	}
	x := s.tableau.restore(y)
	s.improve(x)
	s.p.OnProgress(solvers.Progress{X: x, Objective: s.bestObj, Bound: math.NaN()})
	return true, nil
}

// run solves the model.
func (s *search) run() (*solvers.Answer, error) {
	d := &s.p.Model
	l := limits{time: s.left(), nodes: s.p.Nodes, cutoff: infinite}
	if s.best != nil {
		l.cutoff = s.cutoff(d)
	}
	m, code, err := s.solve(d, l)
	if err != nil {
		return nil, err
	}
	defer m.free()
	c, ok := claimOf(code, m.stopped())
	if !ok {
		return nil, fmt.Errorf("%w: solve returns %d %s", solvers.ErrSolver, code, c.name)
	}
	if s.best != nil && !s.found && (c.status == solvers.Infeasible || c.status == solvers.Imprecise) {
		// A search that finds nothing up to the cutoff ends like this.
		return &solvers.Answer{
			Status: solvers.Optimal, X: s.best, Bound: s.bestObj, Raw: c.name + " below the start",
			Nodes: m.nodes(), Iterations: m.iterations(),
		}, nil
	}
	if c.status == solvers.Unbounded && s.best == nil && slices.Contains(d.Integer, true) {
		c.status = solvers.InfeasibleOrUnbounded // only the relaxation is known to be unbounded
	}
	a := &solvers.Answer{
		Status: c.status, Stop: c.stop, Bound: s.bound, BoundBy: "LP relaxation", Raw: c.name,
		Nodes: m.nodes(), Iterations: m.iterations(),
	}
	switch c.status {
	case solvers.Optimal, solvers.Feasible, solvers.Imprecise:
		y, err := m.solution(len(s.tableau.lower))
		if err != nil {
			return nil, err
		}
		if atInfinity(y) {
			return &solvers.Answer{Status: solvers.Unbounded, Bound: math.NaN(), Raw: c.name + " at infinity"}, nil
		}
		x := s.tableau.restore(y)
		s.improve(x)
		a.X = s.best
		if c.status == solvers.Optimal {
			a.Bound, a.BoundBy = objective(d, x), ""
			if !slices.Contains(d.Integer, true) {
				a.BoundBy = "linear programming"
				a.Dual = s.tableau.restoreDuals(d, m.duals(len(s.tableau.kind), len(s.tableau.lower)))
			}
		}
	}
	return a, nil
}

// cutoff returns the maximum objective of interest, in lp_solve's sense. It leaves a margin for the incumbent
// itself.
func (s *search) cutoff(d *milp.Data) float64 {
	z := s.sense() * (s.bestObj - newTableau(d).offset)
	return z + 1e-6*math.Max(1, math.Abs(z))
}

// improve makes x the incumbent if it is better.
func (s *search) improve(x []float64) {
	if obj := objective(&s.p.Model, x); s.best == nil || s.sense()*obj < s.sense()*s.bestObj {
		s.best, s.bestObj = x, obj
	}
}

// closed reports whether incumbent and bound are within the requested gap.
func (s *search) closed() bool {
	return s.best != nil && !math.IsNaN(s.bound) && s.p.Closed(s.bestObj, s.bound, 1e-9)
}

func (s *search) log(text string) {
	if s.p.Log != nil {
		fmt.Fprint(s.p.Log, text)
	}
}

// relaxed sets the bound to the objective of the linear relaxation.
func (s *search) relaxed(z float64, progress solvers.Progress) (closed bool) {
	if s.completing || math.Abs(z) >= milp.Infinite {
		return false
	}
	// The objective is a multiple of the granularity only without the model's offset.
	offset := s.p.Model.Offset
	s.bound = s.sense()*roundUp(s.sense()*(s.tableau.objective(z)-offset), s.granularity) + offset
	s.report(progress)
	return s.closed()
}

// incumbent receives a new incumbent.
func (s *search) incumbent(y []float64, progress solvers.Progress) (closed bool) {
	if s.completing || atInfinity(y) {
		return false
	}
	x := s.tableau.restore(y)
	s.found = true
	s.improve(x)
	progress.X = x
	s.report(progress)
	return s.closed()
}

func (s *search) report(progress solvers.Progress) {
	if s.completing {
		return
	}
	progress.Objective, progress.Bound = math.NaN(), s.bound
	if s.best != nil {
		progress.Objective = s.bestObj
	}
	s.p.OnProgress(progress)
}

// atInfinity reports whether a column is infinite: lp_solve sets columns that appear in no row to infinity, and
// reports that as optimal.
func atInfinity(y []float64) bool {
	return slices.ContainsFunc(y, func(v float64) bool { return v >= milp.Infinite })
}

// objective returns the objective of d at x.
func objective(d *milp.Data, x []float64) float64 {
	sum := d.Offset
	for j, c := range d.Cost {
		sum += c * x[j]
	}
	return sum
}
