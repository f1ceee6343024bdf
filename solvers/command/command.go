// Package command solves models with solvers that are programs: CBC, GLPK, HiGHS, SCIP, Gurobi and CPLEX. It
// writes the model to a file in free MPS format, runs the program in a process group of its own, and reads its
// solution file and log. Its answer is judged like that of a linked library, by [solvers.New].
//
// Programs do not support progress and intermediate incumbents, duals, and raw options. A program that is killed
// because it exceeds its time limit loses its solution.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// Engine runs a program. Program is its name on PATH or its path; Arguments precede those of the dialect.
type Engine struct {
	Dialect   *Dialect
	Program   string
	Arguments []string
}

// Available returns nil if the program is installed, else an error that says why not.
func (e Engine) Available() error {
	if _, err := exec.LookPath(e.Program); err != nil {
		return fmt.Errorf("%w: no program %s on PATH; install it with: %s", solvers.ErrMissing, e.Program, e.Dialect.Install)
	}
	return nil
}

// versions caches the versions of programs, by path, since each query costs a process.
var versions sync.Map

// Version returns the version that the program prints, "" if it prints none.
func (e Engine) Version() string {
	path, err := exec.LookPath(e.Program)
	if err != nil {
		return ""
	}
	if v, ok := versions.Load(path); ok {
		return v.(string)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c := program(ctx, path, append(e.Arguments[:len(e.Arguments):len(e.Arguments)], e.Dialect.version...))
	text, _ := c.CombinedOutput() // output without a version number yields no version
	v := regexp.MustCompile(`\d+\.\d+(\.\d+)*`).FindString(string(text))
	versions.Store(path, v)
	return v
}

// Name implements [solvers.Engine].
func (e Engine) Name() string {
	return strings.TrimSpace(e.Dialect.Name + " " + e.Version() + " (by command)")
}

// Can implements [solvers.Engine].
func (e Engine) Can() solvers.Features {
	return e.Dialect.can | solvers.CanInteger | solvers.CanLog | solvers.CanLarge
}

// job is one run of a program. Models are minimised, without a constant.
type job struct {
	p       *solvers.Problem
	folder  string
	start   bool    // a start file exists
	seconds float64 // time limit; 0: none
	log     string  // output of the program
}

func (j *job) path(name string) string { return filepath.Join(j.folder, name) }

// Names of the files of a job.
const (
	modelFile    = "model.mps"
	solutionFile = "solution.sol"
	startFile    = "start.mst"
	optionFile   = "options.txt"
)

// patience is how long an interrupted program may take to write its answer: less than [solvers.New] waits.
const patience = 700 * time.Millisecond

// Run implements [solvers.Engine].
func (e Engine) Run(ctx context.Context, p *solvers.Problem) (*solvers.Answer, error) {
	begin := time.Now()
	if err := e.Available(); err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "workbench-"+e.Dialect.Name)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	j := &job{p: p, folder: folder}
	if err := j.write(); err != nil {
		return nil, err
	}
	if p.Time > 0 { // a margin remains for starting it and reading its answer
		margin := min(p.Time/10, 100*time.Millisecond) + time.Since(begin)
		j.seconds = max(0.01, (p.Time - margin).Seconds())
	}
	arguments, err := e.Dialect.arguments(j)
	if err != nil {
		return nil, err
	}
	path, err := exec.LookPath(e.Program)
	if err != nil {
		return nil, err
	}
	c := program(ctx, path, append(e.Arguments[:len(e.Arguments):len(e.Arguments)], arguments...))
	var printed bytes.Buffer
	c.Dir, c.Stdout = folder, &printed
	if p.Log != nil {
		c.Stdout = io.MultiWriter(&printed, p.Log)
	}
	c.Stderr = c.Stdout
	err = c.Run()
	reap(c)
	j.log = printed.String()
	if ctx.Err() != nil {
		if a, err := e.Dialect.read(j); err == nil { // of a program that stops when it is interrupted
			return a, nil
		}
		return &solvers.Answer{Status: solvers.NoSolution, Stop: solvers.Time, Bound: math.NaN(), Raw: "killed: it did not keep its time limit"},
			nil
	}
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() >= 0 && exit.ExitCode() <= e.Dialect.exit:
	case err != nil:
		return nil, fmt.Errorf("%w: %s: %w; it printed last: %s", solvers.ErrSolver, e.Program, err, lastLine(j.log))
	}
	a, err := e.Dialect.read(j)
	if err == nil && j.start {
		a.StartAccepted = strings.Contains(j.log, e.Dialect.accepted)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w; it printed last: %s", solvers.ErrSolver, e.Program, err, lastLine(j.log))
	}
	return a, nil
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return fmt.Sprintf("%.200q", lines[len(lines)-1])
}

// write writes the model, and the start if there is one.
func (j *job) write() error {
	d := j.p.Model
	d.ColNames, d.RowNames, d.Groups, d.RowGroup = make([]string, len(d.Cost)), make([]string, len(d.RowLower)), nil, nil
	cost := make([]float64, len(d.Cost))
	for k, c := range d.Cost {
		cost[k], d.ColNames[k] = c*float64(d.Sense), column(k)
	}
	for i := range d.RowNames {
		d.RowNames[i] = "r" + strconv.Itoa(i)
	}
	d.Name, d.Sense, d.Cost, d.Offset = "model", milp.Minimize, cost, 0
	m := milp.FromData(d)
	if err := m.Err(); err != nil {
		return err
	}
	var text bytes.Buffer
	if _, err := m.WriteMPS(&text, milp.FreeMPS); err != nil {
		return err
	}
	return os.WriteFile(j.path(modelFile), text.Bytes(), 0o600)
}

// column returns the name of column k in files.
func column(k int) string { return "x" + strconv.Itoa(k) }

// writeStart writes the given values of the start, one a line.
func (j *job) writeStart(header, format, footer string) error {
	if j.p.Start == nil {
		return nil
	}
	b := []byte(header)
	for k, v := range j.p.Start {
		if !math.IsNaN(v) {
			b = fmt.Appendf(b, format, column(k), v, k)
		}
	}
	j.start = true
	return os.WriteFile(j.path(startFile), append(b, footer...), 0o600)
}

// solution reads the solution file.
func (j *job) solution() (string, error) {
	text, err := os.ReadFile(j.path(solutionFile))
	if errors.Is(err, os.ErrNotExist) {
		return "", errors.New("it has written no solution file")
	}
	return string(text), err
}

// point sets the value of a column by its name. Other names belong to columns that the program added, and are
// ignored.
func (j *job) point(x []float64, name, value string) error {
	k, err := strconv.Atoi(strings.TrimPrefix(name, "x"))
	if err != nil || k < 0 || k >= len(x) || name[0] != 'x' {
		return fmt.Errorf("its solution file has the column %.40q, which is not one of this model", name)
	}
	if x[k], err = strconv.ParseFloat(value, 64); err != nil {
		return fmt.Errorf("its solution file has the value %.40q of column %d", value, k)
	}
	return nil
}

// bound converts a bound on the minimised objective to the user's sense.
func (j *job) bound(b float64) float64 {
	return float64(j.p.Model.Sense)*b + j.p.Model.Offset
}

// claim maps a phrase in a program's output to a status.
type claim struct {
	phrase string
	status solvers.Status
	stop   solvers.Stop
}

// answer returns the answer for the first claim whose phrase is in text, with a point, nil: none, and a bound,
// NaN: none.
func (j *job) answer(claims []claim, text string, x []float64, bound float64) (*solvers.Answer, error) {
	for _, c := range claims {
		if !strings.Contains(text, c.phrase) {
			continue
		}
		a := &solvers.Answer{Status: c.status, Stop: c.stop, Raw: c.phrase, Bound: j.bound(bound)}
		switch {
		case c.status == solvers.Optimal:
			a.X = x
		case c.status == solvers.NoSolution && x != nil:
			a.Status, a.X = solvers.Feasible, x
		}
		return a, nil
	}
	return nil, fmt.Errorf("its status is unknown: %.200q", strings.TrimSpace(text))
}

// numberAfter returns the number after the last occurrence of a phrase in text, NaN: none.
func numberAfter(text, phrase string) float64 {
	at := strings.LastIndex(text, phrase)
	if at < 0 {
		return math.NaN()
	}
	fields := strings.FieldsFunc(text[at+len(phrase):], func(r rune) bool { return strings.ContainsRune(" \t\n\r,=:\"", r) })
	if len(fields) == 0 {
		return math.NaN()
	}
	v, err := strconv.ParseFloat(fields[0], 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
