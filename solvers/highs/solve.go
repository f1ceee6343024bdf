//go:build cgo && !nohighs

package highs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"runtime/cgo"
	"sync"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// Available returns nil if HiGHS can be used, else an error that says why not.
func Available() error {
	have, text := libraryVersion()
	built := headerVersion()
	if have.major != built.major || have.minor != built.minor {
		// The layout of the callback data changes with minor versions.
		return fmt.Errorf("%w: built with the headers of HiGHS %d.%d, but the library is %s: build again",
			solvers.ErrMissing, built.major, built.minor, text)
	}
	return nil
}

// Version returns the version of the library: "1.15.1".
func Version() string {
	_, text := libraryVersion()
	return text
}

// Name implements [solvers.Engine].
func (Engine) Name() string { return "highs " + Version() }

// Run implements [solvers.Engine]. It locks its OS thread permanently.
func (Engine) Run(ctx context.Context, p *solvers.Problem) (*solvers.Answer, error) {
	begin := time.Now()
	if err := Available(); err != nil {
		return nil, err
	}
	// HiGHS keeps its task scheduler per OS thread and rejects a different number of threads on it. The thread is
	// never unlocked, so that it ends with the goroutine and the scheduler with it.
	runtime.LockOSThread()
	s := &sink{p: p}
	var a *solvers.Answer
	err := use(s, func(h instance) (err error) {
		if err = h.load(p); err != nil {
			return err
		}
		if p.Time > 0 {
			h.set("time_limit", timeLimit(p.Time, time.Since(begin)))
		}
		a, err = h.runUntil(ctx, s)
		return err
	})
	switch {
	case errors.Is(err, errMemory):
		return &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Memory, Bound: math.NaN(), Raw: "out of memory"}, nil
	case err != nil:
		return nil, err
	}
	a.StartAccepted = s.accepted || p.Start != nil && a.X != nil && agrees(a.X, p.Start)
	return a, nil
}

// load sets the options and passes model and start.
func (h instance) load(p *solvers.Problem) error {
	if err := h.configure(p); err != nil {
		return err
	}
	if p.Log != nil {
		h.openLog()
	}
	if err := h.pass(&p.Model, integrality(p.Model.Integer)); err != nil {
		return err
	}
	if index, value := sparse(p.Start); len(index) != 0 {
		h.start(index, value)
	}
	return nil
}

// timeLimit returns the seconds that HiGHS gets of a time limit after used of it. It leaves a margin
// for reading and checking the answer.
func timeLimit(limit, used time.Duration) float64 {
	margin := min(limit/20, 50*time.Millisecond)
	return max(0, limit-used-margin).Seconds()
}

// runUntil runs until ctx ends or HiGHS does.
func (h instance) runUntil(ctx context.Context, s *sink) (*solvers.Answer, error) {
	ended := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		h.stop()
		close(ended)
	})
	rc := h.run()
	if !unwatch() {
		<-ended // h may only be freed after this
	}
	if s.panicked != nil {
		panic(s.panicked)
	}
	return h.answer(s.p, rc)
}

// integrality returns the types of columns for HiGHS, nil if all are continuous: HiGHS then solves a linear
// program.
func integrality(integer []bool) []int32 {
	var kinds []int32
	for j, is := range integer {
		if !is {
			continue
		}
		if kinds == nil {
			kinds = make([]int32, len(integer))
		}
		kinds[j] = 1
	}
	return kinds
}

// sparse returns the given values of start.
func sparse(start []float64) (index []int32, value []float64) {
	for j, v := range start {
		if !math.IsNaN(v) {
			index, value = append(index, int32(j)), append(value, v)
		}
	}
	return index, value
}

// agrees reports whether x has the given values of start.
func agrees(x, start []float64) bool {
	for j, v := range start {
		if math.Abs(x[j]-v) > 0.5 { // false for NaN
			return false
		}
	}
	return true
}

// answer returns the results of HiGHS, after its run returned rc.
func (h instance) answer(p *solvers.Problem, rc int) (*solvers.Answer, error) {
	if rc < -1 {
		return nil, failure("run", rc)
	}
	model := h.modelStatus()
	quality := h.infoInt("primal_solution_status", noPoint)
	f := facts{
		point: quality != noPoint, feasible: quality == feasiblePoint,
		nodes: max(0, h.infoInt64("mip_node_count", 0)), nodeLimit: p.Nodes,
	}
	c, ok := claimOf(model, f)
	if !ok || rc < 0 && c.status != solvers.Numerical && c.stop != solvers.Memory {
		return nil, fmt.Errorf("%w (model status %d %s)", failure("run", rc), model, c.name)
	}
	a := &solvers.Answer{
		Status: c.status, Stop: c.stop, Bound: math.NaN(), Raw: c.name,
		Nodes: f.nodes, Iterations: h.iterations(),
	}
	mip := integrality(p.Model.Integer) != nil
	switch c.status {
	case solvers.Optimal, solvers.Feasible, solvers.Imprecise:
		if err := h.takePoint(p, a, mip); err != nil {
			return nil, err
		}
	}
	switch {
	case c.status == solvers.Optimal && !mip:
		a.Bound, a.BoundBy = h.infoDouble("objective_function_value", math.NaN()), "linear programming"
	case mip && (c.status == solvers.Optimal || c.stop != solvers.NotStopped):
		a.Bound = h.infoDouble("mip_dual_bound", math.NaN())
	}
	return a, nil
}

// Values of primal_solution_status and dual_solution_status.
const (
	noPoint       = 0
	feasiblePoint = 2
)

// takePoint reads the solution, and the duals of an optimal linear program.
//
// HiGHS has the signs of [solvers.Duals] for either sense: the dual of a row is the derivative of the objective,
// as given, with respect to its active side.
func (h instance) takePoint(p *solvers.Problem, a *solvers.Answer, mip bool) error {
	d := &p.Model
	a.X = make([]float64, len(d.Cost))
	if mip || a.Status != solvers.Optimal || h.infoInt("dual_solution_status", noPoint) != feasiblePoint {
		return h.solution(a.X, nil, nil)
	}
	a.Dual = &solvers.Duals{Row: make([]float64, len(d.RowLower)), Reduced: make([]float64, len(d.Cost))}
	return h.solution(a.X, a.Dual.Reduced, a.Dual.Row)
}

// iterations returns the number of iterations of all linear-programming algorithms, including those within a
// branch and bound.
func (h instance) iterations() int64 {
	sum := 0
	for _, name := range []string{
		"simplex_iteration_count", "ipm_iteration_count", "crossover_iteration_count", "pdlp_iteration_count",
	} {
		sum += max(0, h.infoInt(name, 0))
	}
	return int64(sum)
}

// sink receives the events of one solve, on its OS thread.
type sink struct {
	p        *solvers.Problem
	begun    bool // an incumbent has arrived
	accepted bool // the first one equalled the start
	deaf     bool // ignores everything but log lines
	panicked any
}

func (s *sink) log(text string) {
	if s.p.Log != nil {
		fmt.Fprint(s.p.Log, text)
	}
}

// incumbent passes on a new incumbent. An accepted start is the first one.
func (s *sink) incumbent(x []float64, progress solvers.Progress) {
	if s.deaf {
		return
	}
	if !s.begun {
		s.begun = true
		s.accepted = s.p.Start != nil && agrees(x, s.p.Start)
	}
	progress.X = x
	s.p.OnProgress(progress)
}

func (s *sink) report(progress solvers.Progress) {
	if !s.deaf {
		s.p.OnProgress(progress)
	}
}

// solves counts the solves running in this process, which share the scheduler of HiGHS.
var solves lifetimes

// lifetimes defers the destruction of instances while others run.
type lifetimes struct {
	mu      sync.Mutex
	running int
	ended   []func() // pending destructions
}

func (l *lifetimes) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running++
}

// end ends one solve and destroys its instance when no solve runs: the destruction resets the scheduler, which
// crashes running instances (ERGO-Code/HiGHS #3141).
func (l *lifetimes) end(destroy func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
	l.ended = append(l.ended, destroy)
	if l.running > 0 {
		return
	}
	for _, destroy := range l.ended {
		destroy()
	}
	l.ended = nil
}

// use calls f with a new instance, which sends its events to s and is destroyed later.
func use(s *sink, f func(instance) error) error {
	handle := cgo.NewHandle(s)
	solves.begin()
	h, err := newInstance(handle)
	if err != nil {
		solves.end(handle.Delete)
		return err
	}
	defer solves.end(func() {
		h.free()
		handle.Delete()
	})
	return f(h)
}

// Read reads a model from a file in the LP or MPS format, chosen by its extension, with the reader of HiGHS. Tests
// compare it with [milp.ReadFile]. HiGHS drops unsupported sections silently; those that a model cannot represent
// are rejected by name, as [milp.ErrNotRepresented].
func Read(file string) (*milp.Model, error) {
	d, err := read(file)
	if err == nil {
		err = represented(file)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	m := milp.FromData(d)
	return m, m.Err()
}

// represented returns the error of this project's reader if it concerns features that models cannot represent.
func represented(file string) error {
	if _, err := milp.OpenFile(file); errors.Is(err, milp.ErrNotRepresented) {
		return err
	}
	return nil
}

func read(file string) (d milp.Data, err error) {
	if err := Available(); err != nil {
		return milp.Data{}, err
	}
	info, err := os.Stat(file)
	if err != nil {
		return d, fmt.Errorf("%w: %w", solvers.ErrSolver, err)
	}
	// No name is longer than the file; generated names have up to 16 characters.
	longest := int(info.Size()) + 16
	err = use(new(sink), func(h instance) error {
		if !h.set("output_flag", false) {
			return fmt.Errorf("%w: HiGHS cannot be silenced", solvers.ErrSolver)
		}
		if err := h.read(file); err != nil {
			return err
		}
		var kinds []int32
		if d, kinds, err = h.model(); err != nil {
			return err
		}
		d.Integer = make([]bool, len(kinds))
		d.ColNames, d.RowNames = make([]string, len(kinds)), make([]string, len(d.RowLower))
		for j, kind := range kinds {
			d.Integer[j], d.ColNames[j] = kind == 1, h.colName(j, longest)
			if kind > 1 {
				return fmt.Errorf("%w: column %s is semi-continuous or semi-integer", solvers.ErrUnsupported, d.ColNames[j])
			}
		}
		for i := range d.RowNames {
			d.RowNames[i] = h.rowName(i, longest)
		}
		return nil
	})
	return d, err
}
