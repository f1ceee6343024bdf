package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/urfave/cli/v2"

	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/bench/words"
	"workbench/model/platform"
)

// gpuFlags say how large a whole GPU is and what is resident on it.
type gpuFlags struct {
	gpu, reserve, optimizer string
}

func (o *gpuFlags) budgetFlags() []cli.Flag {
	var names []string
	for _, x := range run.Optimizers() {
		names = append(names, x.Name)
	}
	return []cli.Flag{
		&cli.StringFlag{Name: "gpu", Usage: "`SIZE` of the whole GPU, as 16GiB, in place of --memory: weights, gradients, optimizer state, inputs and the reserve are taken off, the rest is for the plan", Destination: &o.gpu, Category: "instance"},
		&cli.StringFlag{Name: "reserve", Usage: "`SIZE` that --gpu leaves to the driver and to fragmentation, or a part of it, as 5%", Value: "4%", Destination: &o.reserve, Category: "instance"},
		&cli.StringFlag{Name: "optimizer", Usage: "`NAME` of the optimizer of which --gpu counts the state: " + strings.Join(names, ", "), Value: "adam", Destination: &o.optimizer, Category: "instance"},
	}
}

// divide divides the GPU that the flags say.
func (o *gpuFlags) divide(p *run.Problem, in *run.Instance) (*run.Budget, error) {
	if p.Slots {
		return nil, usagef("--gpu %s: %s counts memory in slots", o.gpu, p.Name)
	}
	gpu, err := platform.ParseBytes(o.gpu)
	if err != nil {
		return nil, usagef("--gpu: %v", err)
	}
	spec, err := platform.ParseMemory(o.reserve)
	if err != nil {
		return nil, usagef("--reserve: %v", err)
	}
	states, err := optimizerNamed(o.optimizer)
	if err != nil {
		return nil, err
	}
	return p.Budget(in, gpu, in.Resolve(spec, 0, gpu), states)
}

func optimizerNamed(name string) (run.Optimizer, error) {
	var names []string
	for _, x := range run.Optimizers() {
		if x.Name == name {
			return x, nil
		}
		names = append(names, x.Name)
	}
	return run.Optimizer{}, usagef("--optimizer %s: there are %s", name, strings.Join(names, ", "))
}

// gpuLine says what a GPU goes to: "16 GiB = 9.1 GiB resident + 6.9 GiB for the plan".
func gpuLine(b *run.Budget) string {
	return fmt.Sprintf("%s = %s resident and reserved + %s for the plan", platform.FormatBytes(b.GPU), platform.FormatBytes(b.Resident()), platform.FormatBytes(b.Memory))
}

func newBudget(s streams) *cli.Command {
	o := &struct {
		common
		gpuFlags
		problem string
	}{}
	flags := append(o.common.flags(), &cli.StringFlag{Name: "problem", Aliases: []string{"p"}, Usage: "`PROBLEM` whose plans are to fit", Value: "remat", Destination: &o.problem, Category: "instance"})
	return &cli.Command{
		Name:      "budget",
		Usage:     "what the memory of a whole GPU goes to, and what fits in the rest",
		ArgsUsage: "INSTANCE",
		Flags:     append(flags, o.gpuFlags.budgetFlags()...),
		Action: func(c *cli.Context) error {
			names, err := args(c, 1, 1, "budget INSTANCE")
			if err != nil {
				return err
			}
			if _, err := o.check(s); err != nil {
				return err
			}
			if o.gpu == "" {
				return usagef("--gpu is missing; it is the size of the whole GPU, as 16GiB")
			}
			p, err := catalog.FindProblem(o.problem)
			if err != nil {
				return err
			}
			in, err := load(s, p, names[0])
			if err != nil {
				return err
			}
			if err := p.Accepts(in); err != nil {
				return err
			}
			r, err := budgetOf(&o.gpuFlags, p, in)
			if err != nil {
				return err
			}
			if o.json() {
				return writeJSON(s.out, r)
			}
			r.print(s.out, in)
			return nil
		},
	}
}

// budgetReport is what workbench budget says.
type budgetReport struct {
	Problem  string      `json:"problem"`
	Instance string      `json:"instance"`
	Budget   *run.Budget `json:"budget"`
	// Least is the least memory for which a plan is known, Most that of keeping
	// everything.
	Least float64 `json:"least"`
	Most  float64 `json:"most"`
	// Optimizers are those with which a plan fits.
	Optimizers []optimizerFits `json:"optimizers"`
	// LargestBatch is the largest mini-batch at which a plan fits, sizes of
	// activations being in proportion to it; 0: unknown, or none.
	LargestBatch int `json:"largest_batch"`
	Batch        int `json:"batch"`
}

type optimizerFits struct {
	Name   string  `json:"name"`
	Memory float64 `json:"memory"` // for the plan, not positive if nothing is left
	Fits   string  `json:"fits"`
}

func budgetOf(o *gpuFlags, p *run.Problem, in *run.Instance) (*budgetReport, error) {
	r := &budgetReport{Problem: p.Name, Instance: in.Name, Batch: in.Samples()}
	r.Least, r.Most = p.Range(in)
	chosen := *o
	for _, x := range run.Optimizers() {
		o.optimizer = x.Name
		b, err := o.divide(p, in)
		if b == nil {
			return nil, err
		}
		r.Optimizers = append(r.Optimizers, optimizerFits{x.Name, b.Memory, r.verdict(b.Memory)})
		if x.Name == chosen.optimizer {
			r.Budget = b
		}
	}
	*o = chosen
	if r.Budget == nil {
		_, err := optimizerNamed(o.optimizer)
		return nil, err
	}
	if r.Budget.Memory > 0 {
		r.LargestBatch = p.LargestBatch(in, r.Budget)
	}
	return r, nil
}

// verdict says what fits in so much memory for the plan.
func (r *budgetReport) verdict(memory float64) string {
	switch {
	case platform.Fits(r.Most, memory):
		return "everything is kept"
	case platform.Fits(r.Least, memory):
		return "with a plan"
	}
	return "no plan is known"
}

func (r *budgetReport) print(w io.Writer, in *run.Instance) {
	b := r.Budget
	fmt.Fprintf(w, "%s: %s\n\n", r.Instance, gpuLine(b))
	t := words.Table(w, table.Row{"of the GPU", "size", "share"}, 2, 3)
	for _, x := range []struct {
		name string
		size float64
	}{
		{"weights", b.Weights},
		{"gradients of weights", b.Gradients},
		{"optimizer state", b.Optimizer},
		{"inputs, buffers", b.Inputs},
		{"reserve", b.Reserve},
		{"left for the plan", b.Memory},
	} {
		t.AppendRow(table.Row{x.name, platform.FormatBytes(x.size), words.Percent(x.size / b.GPU)})
	}
	t.Render()
	fmt.Fprintf(w, "\n%s needs %s at least, and %s to keep everything: %s\n", r.Problem, platform.FormatBytes(r.Least), platform.FormatBytes(r.Most), r.verdict(b.Memory))
	for _, x := range r.Optimizers {
		fmt.Fprintf(w, "with %-9s %s for the plan: %s\n", x.Name, platform.FormatBytes(max(0, x.Memory)), x.Fits)
	}
	switch {
	case r.LargestBatch > 0:
		fmt.Fprintf(w, "from a batch of %d on no plan is known to fit; this one is of %d (sizes of activations in proportion)\n", r.LargestBatch+1, r.Batch)
	case in.Chain() != nil && r.Batch > 0:
		fmt.Fprintln(w, "no batch fits")
	default:
		fmt.Fprintln(w, "the largest batch is known of chains that say theirs")
	}
}
