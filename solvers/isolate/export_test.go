package isolate

import (
	"bufio"
	"errors"
	"io"
	"os/exec"
	"testing"

	"workbench/model/milp"
	"workbench/solvers"
)

// CheckOrphan starts a child, gives it a request and closes its input, as the
// death of its parent would. Nobody kills it.
func CheckOrphan(t *testing.T, engine string) {
	t.Helper()
	c, err := spawn(engine)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(c.Stdin)
	p := &solvers.Problem{Model: milp.Data{
		Cost: []float64{1}, Lower: []float64{0}, Upper: []float64{1}, Integer: []bool{true},
		Start: []int32{0},
	}}
	if err := errors.Join(writeProblem(w, p), w.Flush(), c.Stdin.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := readMessage(c.Answers); !errors.Is(err, io.EOF) {
		t.Errorf("it says %v", err)
	}
	exit, _ := c.Wait()
	var status *exec.ExitError
	if !errors.As(exit, &status) || status.ExitCode() != 1 {
		t.Errorf("ends with %v", exit)
	}
	c.Answers.Close()
}
