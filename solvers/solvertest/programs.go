package solvertest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"workbench/solvers"
)

// Program is a solver of other people's that reads files. Tests ask it what a file
// means to it.
type Program struct {
	Name    string
	command string
	// args are those for a file, with the answer into another.
	args func(file, answer string) []string
	// doubt in what it prints asks for another try, with instead after its first argument.
	doubt   string
	instead []string
	// read reads the answer, and what was printed besides.
	read func(answer, printed string) (solvers.Status, float64, error)
}

// Programs are those that package milp writes for: CBC (coinor-cbc) and GLPK
// (glpk-utils).
func Programs() []Program {
	return []Program{
		{
			Name: "CBC", command: "cbc", read: readCBC,
			args: func(file, answer string) []string { return []string{file, "solve", "solution", answer} },
			// CBC 2.10 reports an optimum of 1536 as 2304, and says this. Without its presolve it
			// crashes on some models that have no solution.
			doubt: "try without preprocessing", instead: []string{"preprocess", "off"},
		},
		{
			Name: "GLPK", command: "glpsol", read: readGLPK,
			args: func(file, answer string) []string {
				format := "--freemps"
				if strings.HasSuffix(file, ".lp") {
					format = "--lp"
				}
				return []string{format, file, "-w", answer}
			},
		},
	}
}

// Here reports whether the program is installed.
func (p Program) Here() bool {
	_, err := exec.LookPath(p.command)
	return err == nil
}

// Solve returns what the program says of the model in a file: Optimal and an objective, in
// the file's own sense, or Infeasible or InfeasibleOrUnbounded. An error is about a
// file that it does not take.
func (p Program) Solve(ctx context.Context, file string) (solvers.Status, float64, error) {
	folder, err := os.MkdirTemp("", "")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(folder)
	answer := filepath.Join(folder, "answer")
	args := p.args(file, answer)
	printed, err := exec.CommandContext(ctx, p.command, args...).CombinedOutput()
	if p.doubt != "" && strings.Contains(string(printed), p.doubt) {
		printed, err = exec.CommandContext(ctx, p.command, slices.Insert(args, 1, p.instead...)...).CombinedOutput()
	}
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w\n%s", p.Name, err, printed)
	}
	text, err := os.ReadFile(answer)
	if err != nil {
		return 0, 0, fmt.Errorf("%s answers nothing:\n%s", p.Name, printed)
	}
	status, objective, err := p.read(string(text), string(printed))
	if err != nil {
		return 0, 0, fmt.Errorf("%s: %w:\n%s\n%s", p.Name, err, text, printed)
	}
	return status, objective, nil
}

// readCBC reads "Optimal - objective value 12.5", or another word than Optimal. What CBC
// cannot read it reports and goes on.
func readCBC(answer, printed string) (solvers.Status, float64, error) {
	for line := range strings.Lines(printed) {
		if strings.HasPrefix(line, "###") || strings.Contains(line, " read with ") && !strings.Contains(line, " read with 0 errors") {
			return 0, 0, fmt.Errorf("it reads: %s", strings.TrimSpace(line))
		}
	}
	first, _, _ := strings.Cut(answer, "\n")
	what, value, _ := strings.Cut(first, " - objective value ")
	switch {
	case what == "Optimal" && !strings.Contains(value, "("):
		x, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return solvers.Optimal, x, err
	case strings.HasPrefix(first, "Infeasible"), strings.HasPrefix(first, "Integer infeasible"):
		return solvers.Infeasible, 0, nil
	case strings.HasPrefix(first, "Unbounded"):
		return solvers.InfeasibleOrUnbounded, 0, nil
	}
	return 0, 0, fmt.Errorf("status %q", first)
}

// readGLPK reads the line "s mip ROWS COLUMNS o 12.5" or "s bas ROWS COLUMNS f f 12.5"
// of the answer.
func readGLPK(answer, _ string) (solvers.Status, float64, error) {
	for line := range strings.Lines(answer) {
		words := strings.Fields(line)
		if len(words) < 6 || words[0] != "s" {
			continue
		}
		states := words[4 : len(words)-1]
		x, err := strconv.ParseFloat(words[len(words)-1], 64)
		switch {
		case err != nil:
			return 0, 0, err
		case words[1] == "mip" && states[0] == "o", words[1] == "bas" && slices.Equal(states, []string{"f", "f"}):
			return solvers.Optimal, x, nil
		case slices.Contains(states, "n"), slices.Contains(states, "u"): // none, undefined
			return solvers.InfeasibleOrUnbounded, 0, nil
		}
		return 0, 0, fmt.Errorf("status %v", states)
	}
	return 0, 0, fmt.Errorf("no status")
}
