package command

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"

	"workbench/solvers"
)

// Dialect describes how a program is called and how it answers.
type Dialect struct {
	Name    string
	Program string // its usual name
	Install string // the command that installs it
	// Lost names features of a linked library that this program lacks, in addition to those that all programs
	// lack.
	Lost string

	can       solvers.Features
	version   []string // arguments that print the version
	exit      int      // the greatest exit status of a valid answer
	accepted  string   // the phrase in its log when it accepts a start
	arguments func(j *job) ([]string, error)
	read      func(j *job) (*solvers.Answer, error)
}

// Dialects returns the built-in dialects.
func Dialects() []*Dialect {
	const gaps = solvers.CanRelGap | solvers.CanAbsGap
	return []*Dialect{
		{
			Name: "cbc", Program: "cbc", Install: "apt-get install coinor-cbc", Lost: "seed, node limit",
			can: gaps | solvers.CanThreads | solvers.CanStart | solvers.CanRetry, version: []string{"-stop"},
			accepted: "MIPStart provided solution with cost", arguments: cbcArguments, read: readCBC,
		},
		{
			Name: "glpk", Program: "glpsol", Install: "apt-get install glpk-utils",
			Lost: "absolute gap, threads, start, node limit; bounds of stopped searches",
			can:  solvers.CanRelGap | solvers.CanRetry, version: []string{"--version"},
			arguments: glpkArguments, read: readGLPK,
		},
		{
			Name: "highs-command", Program: "highs", Install: "a HiGHS of https://highs.dev, 1.15 or later", Lost: "start",
			can:     gaps | solvers.CanThreads | solvers.CanSeed | solvers.CanNodes | solvers.CanRetry,
			version: []string{"--version"}, exit: 1, arguments: highsArguments, read: readHiGHS,
		},
		{
			Name: "scip", Program: "scip", Install: "SCIP of https://scipopt.org", Lost: "threads",
			can: gaps | solvers.CanSeed | solvers.CanNodes | solvers.CanStart, version: []string{"--version"},
			accepted: "feasible", arguments: scipArguments, read: readSCIP,
		},
		{
			Name: "gurobi", Program: "gurobi_cl", Install: "Gurobi of https://gurobi.com and a licence", Lost: "nothing else",
			can:     gaps | solvers.CanThreads | solvers.CanSeed | solvers.CanNodes | solvers.CanStart,
			version: []string{"--version"}, accepted: "User MIP start produced solution", arguments: gurobiArguments, read: readGurobi,
		},
		{
			Name: "cplex", Program: "cplex", Install: "CPLEX of IBM and a licence", Lost: "start",
			can:     gaps | solvers.CanThreads | solvers.CanSeed | solvers.CanNodes,
			version: []string{"-c", "quit"}, arguments: cplexArguments, read: readCPLEX,
		},
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// given returns an argument with its value if that is set.
func given(set bool, arguments ...string) []string {
	if !set {
		return nil
	}
	return arguments
}

func join(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// ---- CBC

const cbcPoint = "point.bin"

func cbcArguments(j *job) ([]string, error) {
	p := j.p
	if err := j.writeStart("Feasible - objective value 0\n", "%[3]d %[1]s %[2]v 0\n", ""); err != nil {
		return nil, err
	}
	return join(
		[]string{modelFile, "-ratioGap", number(p.RelGap), "-allowableGap", number(p.AbsGap), "-timeMode", "elapsed"},
		given(j.seconds > 0, "-seconds", number(j.seconds)),
		given(p.Threads > 1, "-threads", strconv.Itoa(p.Threads)),
		given(p.Attempt > 0, "-preprocess", "off"),
		given(j.start, "-mipstart", startFile),
		// The text has 8 digits, the other file all digits.
		[]string{"-solve", "-saveSolution", cbcPoint, "-solution", solutionFile, "-quit"},
	), nil
}

func readCBC(j *job) (*solvers.Answer, error) {
	text, err := j.solution()
	if err != nil {
		return nil, err
	}
	head, _, _ := strings.Cut(text, "\n")
	n := len(j.p.Model.Cost)
	var x []float64
	objective := math.NaN()
	if raw, err := os.ReadFile(j.path(cbcPoint)); err == nil && !strings.Contains(head, "no integer solution") {
		var size [2]int32
		_ = binary.Read(bytes.NewReader(raw), binary.NativeEndian, size[:]) // a short file fails the comparison below
		rows, cols := int(size[0]), int(size[1])
		if cols != n || len(raw) != 16+16*(rows+cols) {
			return nil, fmt.Errorf("its solution file has %d rows and %d columns in %d bytes, unlike this model", rows, cols, len(raw))
		}
		numbers := make([]float64, 1+2*rows+cols)
		if err := binary.Read(bytes.NewReader(raw[8:]), binary.NativeEndian, numbers); err != nil {
			return nil, err
		}
		objective, x = numbers[0], numbers[1+2*rows:]
	}
	bound := numberAfter(j.log, "Lower bound:")
	if strings.HasPrefix(head, "Optimal") && math.IsNaN(bound) {
		bound = objective
	}
	a, err := j.answer([]claim{
		{"Optimal", solvers.Optimal, solvers.NotStopped},
		{"nfeasible", solvers.Infeasible, solvers.NotStopped},
		{"Unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"Stopped on time", solvers.NoSolution, solvers.Time},
		{"Stopped on iterations", solvers.NoSolution, solvers.Unknown},
		{"Stopped", solvers.NoSolution, solvers.Unknown},
		{"unknown", solvers.Numerical, solvers.NotStopped},
	}, head, x, bound)
	// CBC 2.10 reports an optimum of 1536 as 2304, with this message.
	if err == nil && strings.Contains(j.log, "try without preprocessing") {
		a.Status, a.Note = solvers.Numerical, "CBC says: try without preprocessing"
	}
	if err == nil && a.Status == solvers.Feasible && a.Stop == solvers.Time && !feasibleIn(j.log) {
		a.Status, a.X = solvers.NoSolution, nil
	}
	return a, err
}

// feasibleIn reports whether CBC's log reports a solution.
func feasibleIn(log string) bool { return !strings.Contains(log, "No feasible solution found") }

// ---- GLPK

func glpkArguments(j *job) ([]string, error) {
	p := j.p
	return join(
		[]string{"--freemps", modelFile, "--write", solutionFile},
		given(p.RelGap > 0, "--mipgap", number(p.RelGap)),
		given(j.seconds > 0, "--tmlim", strconv.Itoa(max(1, int(j.seconds)))),
		given(p.Attempt == 0, "--cuts"),
		given(p.Attempt > 0, "--nopresol"),
	), nil
}

func readGLPK(j *job) (*solvers.Answer, error) {
	text, err := j.solution()
	if err != nil {
		return nil, err
	}
	x := make([]float64, len(j.p.Model.Cost))
	status, objective := "", math.NaN()
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 6 && f[0] == "s":
			status = f[1] + " " + f[4] // primal status of an LP, status of a MIP
			objective, err = strconv.ParseFloat(f[len(f)-1], 64)
			if f[1] == "bas" {
				status += " " + f[5]
			}
			if f[3] != strconv.Itoa(len(x)) {
				return nil, fmt.Errorf("its solution file is of %s columns, the model has %d", f[3], len(x))
			}
		case len(f) >= 3 && f[0] == "j":
			k, wrong := strconv.Atoi(f[1])
			if wrong != nil || k < 1 || k > len(x) {
				return nil, fmt.Errorf("its solution file has the column %.40q", f[1])
			}
			at := 2
			if strings.HasPrefix(status, "bas") { // the number after the status of the column
				at = 3
			}
			if at < len(f) {
				x[k-1], err = strconv.ParseFloat(f[at], 64)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	verdict := j.log + "\nstatus: " + status + "."
	bound := numberAfter(j.log, " >= ")
	if strings.Contains(verdict, "status: mip o") || strings.Contains(verdict, "status: bas f f") {
		bound = objective
	}
	if strings.Contains(verdict, "status: mip u") || strings.Contains(verdict, "status: mip n") || strings.Contains(status, "bas u") ||
		strings.Contains(status, "bas i") {
		x = nil
	}
	return j.answer([]claim{
		{"status: mip o.", solvers.Optimal, solvers.NotStopped},
		{"RELATIVE MIP GAP TOLERANCE REACHED", solvers.Optimal, solvers.NotStopped},
		{"status: bas f f.", solvers.Optimal, solvers.NotStopped},
		{"HAS NO PRIMAL FEASIBLE SOLUTION", solvers.Infeasible, solvers.NotStopped},
		{"HAS NO INTEGER FEASIBLE SOLUTION", solvers.Infeasible, solvers.NotStopped},
		{"status: mip n.", solvers.Infeasible, solvers.NotStopped},
		{"HAS UNBOUNDED", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"HAS NO DUAL FEASIBLE SOLUTION", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"TIME LIMIT EXCEEDED", solvers.NoSolution, solvers.Time},
		{"status: ", solvers.Numerical, solvers.NotStopped},
	}, verdict, x, bound)
}

// ---- HiGHS

func highsArguments(j *job) ([]string, error) {
	p := j.p
	options := fmt.Sprintf("solution_file = %s\nwrite_solution_to_file = true\nmip_allow_restart = false\nsmall_matrix_value = "+
		"1e-12\nlarge_matrix_value = 1e16\nthreads = %d\nrandom_seed = %d\nmip_rel_gap = %s\nmip_abs_gap = %s\n",
		solutionFile, p.Threads, p.Seed^p.Attempt, number(p.RelGap), number(p.AbsGap))
	if p.Nodes >= 0 {
		options += fmt.Sprintf("mip_max_nodes = %d\n", min(p.Nodes, math.MaxInt32))
	}
	if p.Attempt > 0 {
		options += "presolve = off\n"
	}
	if err := os.WriteFile(j.path(optionFile), []byte(options), 0o600); err != nil {
		return nil, err
	}
	return join(
		[]string{"--options_file", optionFile, "--model_file", modelFile},
		given(j.seconds > 0, "--time_limit", number(j.seconds)),
	), nil
}

func readHiGHS(j *job) (*solvers.Answer, error) {
	text, err := j.solution()
	if err != nil {
		return nil, err
	}
	var x []float64
	_, primal, _ := strings.Cut(text, "# Primal solution values\n")
	if strings.HasPrefix(primal, "Feasible") {
		x = make([]float64, len(j.p.Model.Cost))
		_, columns, _ := strings.Cut(primal, "# Columns")
		columns, _, _ = strings.Cut(columns, "# Rows")
		for line := range strings.Lines(columns) {
			if f := strings.Fields(line); len(f) == 2 {
				if err := j.point(x, f[0], f[1]); err != nil {
					return nil, err
				}
			}
		}
	}
	bound := numberAfter(j.log, "\n  Dual bound")
	status, _, _ := strings.Cut(text, "\n\n")
	if math.IsNaN(bound) && strings.HasSuffix(status, "\nOptimal") {
		bound = numberAfter(primal, "Objective")
	}
	return j.answer([]claim{
		{"\nOptimal", solvers.Optimal, solvers.NotStopped},
		{"\nInfeasible", solvers.Infeasible, solvers.NotStopped},
		{"\nUnbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"infeasible or unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"Time limit", solvers.NoSolution, solvers.Time},
		{"Solution limit", solvers.NoSolution, solvers.Nodes},
		{"\nUnknown", solvers.Numerical, solvers.NotStopped},
	}, status, x, bound)
}

// ---- SCIP

func scipArguments(j *job) ([]string, error) {
	p := j.p
	if err := j.writeStart("solution status: unknown\n", "%[1]s %[2]v\n", ""); err != nil {
		return nil, err
	}
	set := func(set bool, name, value string) []string { return given(set, "-c", "set "+name+" "+value) }
	return join(
		[]string{"-c", "read " + modelFile},
		set(true, "limits gap", number(p.RelGap)), set(true, "limits absgap", number(p.AbsGap)),
		set(j.seconds > 0, "limits time", number(j.seconds)),
		set(p.Nodes >= 0, "limits totalnodes", strconv.FormatInt(p.Nodes, 10)),
		set(true, "randomization randomseedshift", strconv.Itoa(p.Seed)),
		given(j.start, "-c", "read "+startFile),
		[]string{"-c", "optimize", "-c", "write solution " + solutionFile, "-c", "quit"},
	), nil
}

func readSCIP(j *job) (*solvers.Answer, error) {
	text, err := j.solution()
	if err != nil {
		return nil, err
	}
	head, values, _ := strings.Cut(text, "\n")
	var x []float64
	if _, values, ok := strings.Cut(values, "\n"); ok || strings.HasPrefix(text, "solution status") &&
		strings.Contains(text, "objective value:") {
		x = make([]float64, len(j.p.Model.Cost))
		for line := range strings.Lines(values) {
			if f := strings.Fields(line); len(f) >= 2 {
				if err := j.point(x, f[0], f[1]); err != nil {
					return nil, err
				}
			}
		}
	}
	return j.answer([]claim{
		{"optimal solution found", solvers.Optimal, solvers.NotStopped},
		{"gap limit reached", solvers.Optimal, solvers.NotStopped},
		{"infeasible or unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"infeasible", solvers.Infeasible, solvers.NotStopped},
		{"unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"time limit", solvers.NoSolution, solvers.Time},
		{"node limit", solvers.NoSolution, solvers.Nodes},
		{"memory limit", solvers.NoSolution, solvers.Memory},
		{"unknown", solvers.Numerical, solvers.NotStopped},
	}, head, x, numberAfter(j.log, "Dual Bound"))
}

// ---- Gurobi

func gurobiArguments(j *job) ([]string, error) {
	p := j.p
	if err := j.writeStart("", "%[1]s %[2]v\n", ""); err != nil {
		return nil, err
	}
	return join(
		[]string{
			"ResultFile=" + solutionFile, "MIPGap=" + number(p.RelGap), "MIPGapAbs=" + number(p.AbsGap),
			"Threads=" + strconv.Itoa(p.Threads), "Seed=" + strconv.Itoa(p.Seed),
		},
		given(j.seconds > 0, "TimeLimit="+number(j.seconds)),
		given(p.Nodes >= 0, "NodeLimit="+strconv.FormatInt(p.Nodes, 10)),
		given(j.start, "InputFile="+startFile),
		[]string{modelFile},
	), nil
}

func readGurobi(j *job) (*solvers.Answer, error) {
	var x []float64
	text, err := j.solution()
	if err == nil { // without a solution there is no file
		x = make([]float64, len(j.p.Model.Cost))
		for line := range strings.Lines(text) {
			if f := strings.Fields(line); len(f) == 2 && f[0] != "#" {
				if err := j.point(x, f[0], f[1]); err != nil {
					return nil, err
				}
			}
		}
	}
	bound := numberAfter(j.log, "best bound")
	if math.IsNaN(bound) && strings.Contains(j.log, "Optimal objective") { // of a linear program
		bound = numberAfter(j.log, "Optimal objective")
	}
	return j.answer([]claim{
		{"Infeasible or unbounded model", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"Model is infeasible or unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"Infeasible model", solvers.Infeasible, solvers.NotStopped},
		{"Model is infeasible", solvers.Infeasible, solvers.NotStopped},
		{"nbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"Time limit reached", solvers.NoSolution, solvers.Time},
		{"Node limit reached", solvers.NoSolution, solvers.Nodes},
		{"Optimal solution found", solvers.Optimal, solvers.NotStopped},
		{"Optimal objective", solvers.Optimal, solvers.NotStopped},
		{"Numerical trouble", solvers.Numerical, solvers.NotStopped},
	}, j.log, x, bound)
}

// ---- CPLEX

var (
	cplexVariable = regexp.MustCompile(`<variable name="([^"]*)"[^>]* value="([^"]*)"`)
	cplexStatus   = regexp.MustCompile(`solutionStatusString="([^"]*)"`)
)

func cplexArguments(j *job) ([]string, error) {
	p := j.p
	set := func(is bool, name, value string) []string { return given(is, "set "+name+" "+value) }
	return join(
		[]string{"-c", "read " + modelFile + " mps"},
		set(true, "mip tolerances mipgap", number(p.RelGap)), set(true, "mip tolerances absmipgap", number(p.AbsGap)),
		set(true, "threads", strconv.Itoa(p.Threads)), set(true, "randomseed", strconv.Itoa(p.Seed)),
		set(j.seconds > 0, "timelimit", number(j.seconds)),
		set(p.Nodes >= 0, "mip limits nodes", strconv.FormatInt(p.Nodes, 10)),
		[]string{"optimize", "write " + solutionFile + " sol", "quit"},
	), nil
}

func readCPLEX(j *job) (*solvers.Answer, error) {
	var x []float64
	verdict, bound := j.log, numberAfter(j.log, "Current MIP best bound")
	if text, err := j.solution(); err == nil {
		x = make([]float64, len(j.p.Model.Cost))
		for _, v := range cplexVariable.FindAllStringSubmatch(text, -1) {
			if err := j.point(x, v[1], v[2]); err != nil {
				return nil, err
			}
		}
		if s := cplexStatus.FindStringSubmatch(text); s != nil {
			verdict = s[1]
		}
		if math.IsNaN(bound) && strings.Contains(verdict, "optimal") {
			bound = numberAfter(text, "objectiveValue")
		}
	}
	return j.answer([]claim{
		{"nfeasible or unbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"nfeasible", solvers.Infeasible, solvers.NotStopped},
		{"nbounded", solvers.InfeasibleOrUnbounded, solvers.NotStopped},
		{"time limit", solvers.NoSolution, solvers.Time},
		{"node limit", solvers.NoSolution, solvers.Nodes},
		{"optimal", solvers.Optimal, solvers.NotStopped},
	}, verdict, x, bound)
}
