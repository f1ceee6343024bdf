package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"workbench/bench/curve"
	"workbench/bench/run"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/proof"
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
	line("method", "%s", method)
	if r.Backend != nil {
		line("backend", "%s %s", r.Backend.Name, r.Backend.Version)
	}
	if r.Plan != nil && r.Report != nil {
		compute := j.in.Compute()
		more := r.Report.Makespan - compute
		if more < plan.Tolerance*compute {
			more = 0
		}
		switch r.Problem {
		case plan.Pipeline:
			line("period", "%s a mini-batch: T = %s for %d", platform.FormatSeconds(r.Report.Makespan), platform.FormatSeconds(*r.Plan.Period), max(1, r.Plan.K))
		case plan.WeightOffload:
			line("period", "%s: compute %s, idle %s", platform.FormatSeconds(r.Report.Makespan), platform.FormatSeconds(compute), platform.FormatSeconds(more))
		case plan.ActivationOffload, plan.RematOffload:
			line("makespan", "%s", busyLine(j, r))
			line("moved", "%.1f %% of the activations to the host", 100*curve.Moved(j.in, r.Plan))
		case plan.Swap:
			line("makespan", "%s", busyLine(j, r))
		default:
			line("makespan", "%s: computing once %s, again %s (%.2f %%)", platform.FormatSeconds(r.Report.Makespan), platform.FormatSeconds(compute), platform.FormatSeconds(more), 100*more/max(compute, math.SmallestNonzeroFloat64))
		}
		line("peak", "%s of %s", j.memory(r.Report.PeakMemory), j.memory(r.Platform.Memory))
		line("plan", "%s", planLine(r))
	} else {
		line("plan", "none")
	}
	if r.Throughput != nil {
		line("throughput", "%.4g samples/s", *r.Throughput)
	}
	if b := r.Bound; b != nil {
		line("bound", "%s, %s", platform.FormatSeconds(b.Value), provedBy(b))
	}
	if b := r.Conditional; b != nil {
		line("", "%s", conditionalLine(b))
	}
	for _, c := range r.Claims {
		line("", "%s", claimLine(c))
	}
	if r.Gap != nil {
		line("gap", "%s", percent(*r.Gap))
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
	line("ended", "%s", endedWords(r))
	line("time", "%.2f s wall, %.2f s processor", r.WallTime, r.CPUTime)
	if r.Note != "" {
		line("note", "%s", r.Note)
	}
}

// busyLine splits the makespan of a plan with transfers into computing once,
// computing again and waiting.
func busyLine(j *job, r *run.Result) string {
	once, busy := j.in.Compute(), 0.0
	for _, op := range r.Plan.Ops {
		if op.Op != plan.OpO && op.Op != plan.OpP && op.Op != plan.OpIn && op.Op != plan.OpOut {
			busy += op.End - op.Start
		}
	}
	// What rounding leaves is none.
	positive := func(x float64) float64 {
		if x < plan.Tolerance*r.Report.Makespan {
			return 0
		}
		return x
	}
	s := fmt.Sprintf("%s: computing once %s", platform.FormatSeconds(r.Report.Makespan), platform.FormatSeconds(once))
	if r.Problem == plan.RematOffload {
		s += ", again " + platform.FormatSeconds(positive(busy-once))
	}
	return s + fmt.Sprintf(", idle %s (%.2f %% longer)", platform.FormatSeconds(positive(r.Report.Makespan-busy)), 100*positive(r.Report.Makespan-once)/max(once, math.SmallestNonzeroFloat64))
}

// planLine says what the plan does.
func planLine(r *run.Result) string {
	count := map[string]int{}
	for _, op := range r.Plan.Ops {
		count[op.Op]++
	}
	verdict := "verified"
	if !r.Report.Valid() {
		verdict = "INVALID, " + brokenRules(len(r.Report.Violations))
	}
	var what string
	switch {
	case r.Problem == plan.WeightOffload:
		what = fmt.Sprintf("%d computations, %d prefetches, %d uploads, %d deletions a cycle", count[plan.OpF]+count[plan.OpB], count[plan.OpP], count[plan.OpO], count[plan.OpD])
	case r.Problem == plan.Pipeline:
		what = allocationLine(r.Plan)
	case r.Problem == plan.ActivationOffload:
		what = fmt.Sprintf("%d computations, %d offloads, %d prefetches", count[plan.OpFAll]+count[plan.OpB], count[plan.OpO], count[plan.OpP])
	case r.Problem == plan.RematOffload:
		what = fmt.Sprintf("%d F_all, %d F_ck, %d F_none, %d B, %d discards, %d offloads, %d prefetches", count[plan.OpFAll], count[plan.OpFCk], count[plan.OpFNone], count[plan.OpB], count[plan.OpD], count[plan.OpO], count[plan.OpP])
	case r.Problem == plan.Join:
		what = fmt.Sprintf("%d forwards, %d backwards, %d copies, %d discards", count[plan.OpF], count[plan.OpB], count[plan.OpS], count[plan.OpD])
	case r.Problem == plan.Swap:
		what = fmt.Sprintf("%d functions, %d in, %d out, %d drops", count[plan.OpRun], count[plan.OpIn], count[plan.OpOut], count[plan.OpDrop])
	case count[plan.OpC] > 0:
		what = fmt.Sprintf("%d computations, %d discards", count[plan.OpC], count[plan.OpD])
	default:
		what = fmt.Sprintf("%d F_all, %d F_ck, %d F_none, %d B, %d discards", count[plan.OpFAll], count[plan.OpFCk], count[plan.OpFNone], count[plan.OpB], count[plan.OpD])
	}
	return fmt.Sprintf("%s; %s by replay", what, verdict)
}

// allocationLine says which layers each GPU computes: "gpu0 1–7, gpu1 8–12".
func allocationLine(p *plan.Plan) string {
	var order []int
	layers := map[int][]string{}
	for _, s := range p.Allocation {
		if layers[s.Processor] == nil {
			order = append(order, s.Processor)
		}
		text := fmt.Sprintf("%d–%d", s.From, s.To)
		if s.From == s.To {
			text = fmt.Sprint(s.From)
		}
		layers[s.Processor] = append(layers[s.Processor], text)
	}
	var parts []string
	for _, g := range order {
		parts = append(parts, fmt.Sprintf("gpu%d %s", g, strings.Join(layers[g], " and ")))
	}
	return "layers on " + strings.Join(parts, ", ")
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

// percent writes a fraction; what rounding leaves below zero is zero.
func percent(x float64) string {
	if x < 0 && x > -plan.Tolerance {
		x = 0
	}
	return fmt.Sprintf("%.3f %%", 100*x)
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

// newTable returns a table in the house style: headers as written, numbers
// aligned right in the columns named.
func newTable(w io.Writer, header table.Row, right ...int) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Format.Header, style.Format.Footer = text.FormatDefault, text.FormatDefault
	style.Options.DrawBorder, style.Options.SeparateColumns = false, false
	t.SetStyle(style)
	t.AppendHeader(header)
	configs := make([]table.ColumnConfig, len(right))
	for i, n := range right {
		configs[i] = table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight}
	}
	t.SetColumnConfigs(configs)
	return t
}

// wrap breaks words into lines of at most width cells.
func wrap(s string, width int) string { return strings.TrimSpace(text.WrapSoft(s, width)) }

// provedBy says who proved a bound and how that was checked.
func provedBy(b *run.Bound) string {
	switch b.Proof {
	case proof.Certified:
		return "certified: " + b.By
	case proof.Search:
		return "proved by " + b.By
	}
	return "by the word of " + b.By
}

// conditionalLine shows a bound that holds under assumptions.
func conditionalLine(b *run.Bound) string {
	return fmt.Sprintf("%s, %s, of plans that keep: %s", platform.FormatSeconds(b.Value), provedBy(b), strings.Join(b.Assumptions, "; "))
}

// claimLine says what a solver claims.
func claimLine(c proof.Claim) string {
	what := platform.FormatSeconds(c.Value)
	if math.IsInf(c.Value, 0) {
		what = c.Status
	}
	why := c.Why
	if why == "" {
		why = "not certified"
	}
	return fmt.Sprintf("%s claims %s; %s", c.By, what, why)
}

// endedWords says why a run ended.
func endedWords(r *run.Result) string {
	switch r.Ended {
	case proof.Closed:
		switch {
		case r.Status == run.Infeasible:
			return "closed: that there is no plan is proved"
		case r.Plan == nil:
			return "closed: the bounding model is solved"
		case len(r.OptimalWithin) > 0:
			return "closed: plan and bound of such plans have met"
		}
		return "closed: plan and bound have met"
	case proof.Gap:
		return "gap: the gap asked for is reached"
	case proof.TimeLimit:
		return "time-limit"
	case proof.NoProof:
		return "no-proof: the method has no more to do, the gap is open"
	}
	return string(r.Ended)
}
