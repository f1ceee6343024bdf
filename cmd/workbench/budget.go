package main

import (
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/platform"
)

// gpuFlags say how large a whole GPU is and what is resident on it.
type gpuFlags struct {
	gpu, reserve, optimizer string
}

func (o *gpuFlags) budgetFlags() []cli.Flag {
	return []cli.Flag{
		stringFlag("instance", "gpu", &o.gpu, "",
			"`SIZE` of the whole GPU, as 16GiB, in place of --memory: weights, gradients, optimizer state, inputs and the reserve are "+
				"subtracted, the remainder is for the plan"),
		stringFlag("instance", "reserve", &o.reserve, "4%",
			"`SIZE` that --gpu leaves to the driver and to fragmentation, or a part of it, as 5%"),
		stringFlag("instance", "optimizer", &o.optimizer, "adam",
			"`NAME` of the optimizer whose state --gpu counts: "+strings.Join(optimizerNames(), ", ")),
	}
}

// parse returns what the flags say of the GPU and of the reserve, in bytes.
func (o *gpuFlags) parse(p *solve.Problem, in *solve.Instance) (gpu, reserve float64, x solve.Optimizer, err error) {
	if p.Slots {
		return 0, 0, x, usagef("--gpu %s: %s counts memory in slots", o.gpu, p.Name)
	}
	if gpu, err = platform.ParseBytes(o.gpu); err != nil {
		return 0, 0, x, usagef("--gpu: %v", err)
	}
	spec, err := platform.ParseMemory(o.reserve)
	if err != nil {
		return 0, 0, x, usagef("--reserve %s: a size is needed, as 1GiB, or a part of the GPU, as 4%%", o.reserve)
	}
	x, err = optimizerNamed(o.optimizer)
	return gpu, in.Resolve(spec, 0, gpu), x, err
}

// divide divides the GPU that the flags say.
func (o *gpuFlags) divide(p *solve.Problem, in *solve.Instance) (*solve.Budget, error) {
	gpu, reserve, x, err := o.parse(p, in)
	if err != nil {
		return nil, err
	}
	return p.Budget(in, gpu, reserve, x)
}

// optimizerNamed returns an optimizer. AdamW has the state of Adam.
func optimizerNamed(name string) (solve.Optimizer, error) {
	for _, x := range solve.Optimizers() {
		if x.Name == strings.Replace(name, "adamw", "adam", 1) {
			return x, nil
		}
	}
	return solve.Optimizer{}, usagef("--optimizer %s: there are %s", name, strings.Join(optimizerNames(), ", "))
}

func optimizerNames() (names []string) {
	for _, x := range solve.Optimizers() {
		names = append(names, x.Name)
	}
	return names
}

func newBudget(s streams) *cli.Command {
	o := &struct {
		common
		gpuFlags
		problem string
	}{}
	flags := append(o.common.flags(), stringFlag("instance", "problem, p", &o.problem, "remat", "`PROBLEM` whose plans are to fit"))
	return &cli.Command{
		Name:      "budget",
		Usage:     "divide the memory of a whole GPU, and report what fits in the remainder",
		ArgsUsage: "INSTANCE",
		Flags:     append(flags, o.gpuFlags.budgetFlags()...),
		Action: o.action(s, 1, 1, "budget INSTANCE", func(c *cli.Context, a []string) error {
			if o.gpu == "" {
				return usagef("--gpu is missing; it is the size of the whole GPU, as 16GiB")
			}
			p, err := catalog.FindProblem(o.problem)
			if err != nil {
				return err
			}
			in, err := load(s, p, a[0])
			if err != nil {
				return err
			}
			if err := p.Accepts(in); err != nil {
				return err
			}
			gpu, reserve, x, err := o.parse(p, in)
			if err != nil {
				return err
			}
			r := p.BudgetReport(in, gpu, reserve, x)
			return o.print(s.out, "workbench.budget/v1", r, func(w io.Writer) { render.Budget(w, in, r) })
		}),
	}
}
