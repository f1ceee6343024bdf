package main

import (
	"context"
	"fmt"
	"io"

	"workbench/bench/run"
)

// interrupted says of a run of several methods that was stopped what is missing;
// done of them have run, the last of them until then.
func interrupted(ctx context.Context, w io.Writer, methods []*run.Method, done int) {
	if ctx.Err() == nil || done == 0 {
		return
	}
	fmt.Fprintf(w, "interrupted: %s has what it had by then", methods[done-1].Name)
	for i, m := range methods[done:] {
		fmt.Fprint(w, []string{"; not run: ", ", "}[min(i, 1)], m.Name)
	}
	fmt.Fprintln(w)
}
