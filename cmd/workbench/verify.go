package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/instance/layout"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/verify"
)

func newVerify(s streams) *cli.Command {
	o := &common{}
	var certificate, memoryModel, to string
	return &cli.Command{
		Name:  "verify",
		Usage: "replay a plan and print every violated rule, or check the proof of a bound",
		Description: "The instance is the one recorded in the plan, or in the plan's folder; INSTANCE names another place.\n" +
			"PLAN may be a placement that another program made: a CSV of minimalloc with the column\n" +
			"offset, or a solution of dsa-solver. PLACED.csv alone is an instance and its placement.",
		ArgsUsage: "[INSTANCE] PLAN | PLACED.csv | --bound CERTIFICATE INSTANCE [--to vipr FILE]",
		Flags: append([]cli.Flag{
			stringFlag("", "bound", &certificate, "",
				"check the certificate in `FILE`, which solve --certificate writes, in exact arithmetic"),
			stringFlag("", "memory-model", &memoryModel, "", "with --bound, reject a proof in another `MODEL` of memory: task or stage"),
			stringFlag("", "to", &to, "", "with --bound, write the proof to FILE as `FORMAT`: vipr"),
		}, o.flags()...),
		Action: func(c *cli.Context) error {
			if certificate != "" {
				files := 1
				if to != "" {
					files = 2
				}
				a, err := args(c, files, files, "verify --bound CERTIFICATE INSTANCE [--to vipr FILE]")
				switch {
				case err != nil:
					return err
				case to != "" && to != "vipr":
					return usagef("--to %s: proofs are written as vipr", to)
				}
				return verifyBound(s, o, certificate, memoryModel, a)
			}
			if to != "" {
				return usagef("--to %s: only with --bound CERTIFICATE", to)
			}
			a, err := args(c, 1, 2, "verify [INSTANCE] PLAN [flags]")
			if err != nil {
				return err
			}
			if err := o.check(s); err != nil {
				return err
			}
			if len(a) == 1 && strings.HasSuffix(a[0], ".csv") {
				return verifyPlaced(s, o, a[0])
			}
			if len(a) == 1 {
				p, in, err := planAndInstance(s, a[0], "")
				if err != nil {
					return err
				}
				return verifyPlan(s, o, in, p)
			}
			in, err := solve.Load(a[0], s.in)
			if err != nil {
				return err
			}
			p, err := readPlanOf(s, a[1], in)
			if err != nil {
				return err
			}
			if err := in.MadeFor(p, a[0]); err != nil {
				return err
			}
			return verifyPlan(s, o, in, p)
		},
	}
}

// readPlan reads a plan file, or standard input for "-".
func readPlan(s streams, name string) (*plan.Plan, error) {
	if name == "-" {
		p, err := plan.Read(s.in, "standard input")
		return p, solve.InputError(err)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, usagef("plan %s cannot be read: %v", name, err)
	}
	defer f.Close()
	p, err := plan.Read(f, name)
	if err != nil {
		if data, failed := os.ReadFile(name); failed == nil && layout.Is(data) {
			return nil, usagef("%s has no instance and no times, as layout/v1 has none: verify the plan that it was exported from", name)
		}
	}
	return p, solve.InputError(err)
}

// planAndInstance reads a plan and its instance: that of a name or, if it is "", the one that the plan remembers.
func planAndInstance(s streams, file, instance string) (*plan.Plan, *solve.Instance, error) {
	p, err := readPlan(s, file)
	if err != nil {
		return nil, nil, err
	}
	in, err := solve.LoadOf(p, file, instance, s.in)
	return p, in, err
}

// readPlanOf reads a plan file, or a placement that another program wrote.
func readPlanOf(s streams, name string, in *solve.Instance) (*plan.Plan, error) {
	data, err := readAll(s, name)
	if err != nil {
		return nil, err
	}
	p, err := solve.ForeignPlacement(data, name, in.Instance)
	if p != nil || err != nil {
		return p, solve.InputError(err)
	}
	if name == "-" {
		name = "standard input"
	}
	p, err = plan.Read(bytes.NewReader(data), name)
	return p, solve.InputError(err)
}

// verifyPlaced checks the placement in a CSV of minimalloc with offsets, which is an
// instance and its plan.
func verifyPlaced(s streams, o *common, name string) error {
	data, err := readAll(s, name)
	if err != nil {
		return err
	}
	l, p, err := solve.ImportLifetimes(bytes.NewReader(data), name, true)
	if err != nil {
		return solve.InputError(err)
	}
	digest, err := l.Digest()
	if err != nil {
		return solve.InputError(err)
	}
	return verifyPlan(s, o, &solve.Instance{Instance: l, Name: l.Name, SHA256: digest}, p)
}

// verdict is what verify prints with --format json.
type verdict struct {
	Valid       bool             `json:"valid"`
	Makespan    float64          `json:"makespan"`
	Span        *float64         `json:"span,omitempty"` // of a synchronous pipeline schedule
	PeakMemory  float64          `json:"peak_memory"`
	Penalty     *float64         `json:"penalty,omitempty"` // of a placement
	Violations  []plan.Violation `json:"violations"`
	ClaimErrors []string         `json:"claim_errors"`
	Warnings    []string         `json:"warnings"`
}

func verifyPlan(s streams, o *common, in *solve.Instance, p *plan.Plan) error {
	r, err := verify.Replay(in.Instance, p)
	if err != nil {
		return solve.InputError(err)
	}
	v := verdict{
		Valid: r.Valid(), Makespan: r.Makespan, PeakMemory: r.PeakMemory,
		Violations: append([]plan.Violation{}, r.Violations...), ClaimErrors: append([]string{}, r.ClaimErrors...), Warnings: []string{},
	}
	if r.Flush != nil {
		v.Span = &r.Flush.Span
	}
	if x := r.Placement; x != nil && x.Penalty > 0 {
		v.Penalty = &x.Penalty
	}
	if err := o.print(s.out, "workbench.verdict/v1", v, func(io.Writer) { printVerdict(s, p, v) }); err != nil {
		return err
	}
	if !v.Valid {
		return &exitError{exitInvalid}
	}
	return nil
}

func printVerdict(s streams, p *plan.Plan, v verdict) {
	word := "valid"
	if !v.Valid {
		word = "INVALID: " + render.BrokenRules(len(v.Violations))
	}
	fmt.Fprintf(s.out, "%s plan by %s: %s\n", p.Problem, p.Method, word)
	const stepTime = "step time"
	word, memory, objective := stepTime, platform.FormatBytes, platform.FormatSeconds(v.Makespan)
	if known, err := catalog.FindProblem(p.Problem); err == nil {
		memory = func(x float64) string { return render.Memory(known, x) }
		if known.Word != plan.MakespanObjective {
			word = known.Word
		}
		if plan.MinimisesMemory(p.Problem) {
			objective = known.Write(v.PeakMemory)
		}
		if v.Penalty != nil {
			fmt.Fprintf(s.out, "  %-11s %g\n", "penalty", *v.Penalty)
		}
	}
	if v.Span != nil {
		fmt.Fprintf(s.out, "  %-11s %s\n", "span", platform.FormatSeconds(*v.Span))
		word = stepTime
	}
	fmt.Fprintf(s.out, "  %-11s %s\n", word, objective)
	fmt.Fprintf(s.out, "  peak memory %s of %s\n", memory(v.PeakMemory), memory(p.Platform.Memory))
	if len(v.Violations) > 0 {
		fmt.Fprintln(s.out)
		t := render.Table(s.out, table.Row{"rule", "op", "at", "amount", "what"}, 2, 3, 4)
		for _, x := range v.Violations {
			op, at := "-", "-"
			if x.Op >= 0 {
				op = fmt.Sprint(x.Op)
			}
			if x.Op >= 0 || x.Time != 0 { // what no operation breaks may have no time
				at = platform.FormatSeconds(x.Time)
			}
			t.AppendRow(table.Row{x.Rule, op, at, fmt.Sprintf("%.6g", x.Amount), render.Wrap(x.Detail, 70)})
		}
		t.Render()
	}
	for _, c := range v.ClaimErrors {
		fmt.Fprintf(s.out, "  claim       %s\n", c)
	}
}
