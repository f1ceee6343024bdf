package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"workbench/bench/run"
	"workbench/bench/words"
)

// printResult prints one run for a person: what was solved, the plan, the
// proof, the time.
func printResult(w io.Writer, j *job, r *run.Result) {
	fmt.Fprintf(w, "%s of %s: %s, memory %s%s\n", r.Problem, r.Instance.Name, j.in.Size(), memoryLine(j), j.link())
	line := func(label, format string, a ...any) {
		fmt.Fprintf(w, "  %-11s %s\n", label, fmt.Sprintf(format, a...))
	}
	method := fmt.Sprintf("%s (%s)", r.Method, r.Kind)
	if f := r.Formulation; f != nil {
		method += fmt.Sprintf(", MILP %s: %d variables (%d integer), %d constraints", f.Name, f.Variables, f.Integers, f.Constraints)
	}
	if b := j.budget; b != nil {
		line("GPU", "%s", gpuLine(b))
	}
	line("method", "%s", method)
	if r.Backend != nil {
		line("backend", "%s %s", r.Backend.Name, r.Backend.Version)
	}
	if r.Plan != nil && r.Report != nil {
		for _, x := range j.problem.Times(j.in, r) {
			line(x.Label, "%s", x.Text)
		}
		line("peak", "%s of %s", j.memory(r.Report.PeakMemory), j.memory(r.Platform.Memory))
		line("plan", "%s", planLine(j.problem, r))
	} else {
		line("plan", "none")
	}
	if r.Throughput != nil {
		line("throughput", "%.4g samples/s", *r.Throughput)
	}
	if b := r.Bound; b != nil {
		line("bound", "%s, %s", j.problem.Write(b.Value), words.ProvedBy(b))
	}
	if b := r.Conditional; b != nil {
		line("", "%s", words.Conditional(j.problem, b))
	}
	for _, c := range r.Claims {
		line("", "%s", words.Claim(j.problem, c))
	}
	if r.Gap != nil {
		line("gap", "%s", words.Percent(*r.Gap))
	}
	status := string(r.Status)
	switch {
	case r.Status == run.Optimal && r.Kind == run.Relaxed:
		status += " (of the bounding model; it makes no plan)"
	case r.Status == run.Optimal:
		status += " (the gap is closed)"
	case len(r.OptimalWithin) > 0:
		status += " (optimal among plans that keep: " + strings.Join(r.OptimalWithin, "; ") + ")"
	case r.Status == run.Limit && r.Kind == run.Relaxed:
		status += " (stopped early; the bound holds)"
	}
	line("status", "%s", status)
	line("ended", "%s", words.Ended(r))
	line("time", "%.2f s wall, %.2f s processor", r.WallTime, r.CPUTime)
	if r.Note != "" {
		line("note", "%s", r.Note)
	}
}

// planLine says what the plan does.
func planLine(p *run.Problem, r *run.Result) string {
	verdict := "verified"
	if !r.Report.Valid() {
		verdict = "INVALID, " + brokenRules(len(r.Report.Violations))
	}
	return fmt.Sprintf("%s; %s by replay", p.Does(r.Plan), verdict)
}

// memoryLine shows the limit, and where it lies in the instance's range.
func memoryLine(j *job) string {
	m := j.setting.Platform.Memory
	s := j.memory(m)
	if j.high > j.low {
		s += fmt.Sprintf(" (%.4g %% of %s to %s)", 100*(m-j.low)/(j.high-j.low), j.memory(j.low), j.memory(j.high))
	}
	return s
}

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
