package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/solve"
	"workbench/bench/solve/method"
	"workbench/model/importer/torchcsv"
	"workbench/model/instance/chain"
	"workbench/model/instance/layout"
	"workbench/model/instance/stages"
	"workbench/model/plan"
	"workbench/model/platform"
	verify "workbench/model/verify/layout"
)

// layoutFlags are those of layouts alone.
type layoutFlags struct {
	split, latency, runtime string
}

func (f *layoutFlags) flags() []cli.Flag {
	return []cli.Flag{
		stringFlag("instance", "split", &f.split, "",
			"`PART` of the backward of layers that do not say it that is the gradient of the weights, of a layout", "50%"),
		stringFlag("instance", "latency", &f.latency, "",
			"`DURATION` of each transfer between GPUs in addition to its bytes, of a layout", "0s"),
		stringFlag("instance", "runtime", &f.runtime, "",
			"`RULES` of a layout: torch (outputs held until the backward, the first stage without gradient of its input, B where W "+
				"follows it) or paper", stages.Torch),
	}
}

// set sets what a layout needs, and refuses it of other problems.
func (f *layoutFlags) set(c *cli.Context, p *solve.Problem, m *platform.Platform) (err error) {
	if p.Name != plan.Layout {
		if flag := given(c, "split", "latency", "runtime"); flag != "" {
			return usagef("%s: %s is not cut from a chain; --problem %s is", flag, p.Name, plan.Layout)
		}
		return nil
	}
	if m.Split, err = part("--split", cmp.Or(f.split, "50%")); err != nil {
		return err
	}
	if m.Latency, err = platform.ParseSeconds(cmp.Or(f.latency, "0")); err != nil {
		return usagef("--latency: %v", err)
	}
	switch m.Runtime = cmp.Or(f.runtime, stages.Torch); m.Runtime {
	case "paper":
		m.Runtime = ""
	case stages.Torch:
	default:
		return usagef("--runtime %q: torch or paper", f.runtime)
	}
	return nil
}

// layoutTargets are what layouts alone are exported to.
var layoutTargets = []string{"megatron", "torchtitan", "deepspeed", "layout"}

// showLayout prints a layout file.
func showLayout(s streams, o *common, data []byte, name string) error {
	f, err := layout.Read(data, name)
	if err != nil {
		return solve.InputError(err)
	}
	if o.json() {
		return f.Write(s.out)
	}
	_, err = fmt.Fprint(s.out, method.LayoutText(f, false))
	return err
}

// exportLayout writes a layout, a plan or a layout/v1 document, for a training script; done is false for files of anything else. The
// instance, if it is given, names the layers.
func exportLayout(s streams, a []string, to, out string, check bool) (done bool, err error) {
	data, err := os.ReadFile(a[0])
	if err != nil {
		return slices.Contains(layoutTargets, to), solve.InputError(err)
	}
	var f *layout.File
	switch target := slices.Contains(layoutTargets, to); {
	case layout.Is(data):
		f, err = layout.Read(data, a[0])
	case !target:
		return false, nil
	default:
		p, failed := plan.Read(bytes.NewReader(data), a[0])
		if err = failed; err == nil && p.Problem != plan.Layout {
			err = usagef("--to %s: %s is a plan of %s; a layout is written for it", to, a[0], p.Problem)
		}
		if err == nil {
			var c *chain.Chain
			if len(a) > 1 {
				in, failed := solve.Load(a[1], s.in)
				if failed != nil {
					return true, failed
				}
				c = in.Chain()
			}
			f, err = method.LayoutFile(p, c)
		}
	}
	if err != nil {
		return true, solve.InputError(err)
	}
	text, note, err := method.LayoutFor(f, to)
	if err != nil {
		return true, solve.InputError(err)
	}
	if check && to != "torch-csv" {
		text = checked(text, func(written string) error {
			if err := f.Check(to, written); err != nil {
				return err
			}
			_, err := fmt.Fprintf(s.err, "workbench: read back: %s as in the layout\n", platform.Count(len(f.Cuts), "stage"))
			return err
		})
	} else if check {
		return true, usagef("--check: the times of %s need its plan; export that to torch-csv", a[0])
	}
	if err := emit(s, out, text); err != nil || note == "" {
		return true, err
	}
	_, err = fmt.Fprintln(s.err, "workbench: "+note)
	return true, err
}

// checked returns a writer of what write writes that has it read back first.
func checked(write func(io.Writer) error, back func(written string) error) func(io.Writer) error {
	return func(w io.Writer) error {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			return err
		}
		if err := back(b.String()); err != nil {
			return err
		}
		_, err := w.Write(b.Bytes())
		return err
	}
}

// checkSchedule reads a written schedule of a plan back, compares its time with the plan's, and says what queues of transfers cost.
func checkSchedule(s streams, p *plan.Plan, in *solve.Instance, written string) error {
	cut := plan.As[*stages.Partition](in.Instance)
	if p.Problem == plan.Layout {
		var err error
		if cut, _, err = verify.Schedule(in.Chain(), p); err != nil {
			return err
		}
	}
	schedule, err := torchcsv.Read(strings.NewReader(written), "torch-csv")
	if err != nil {
		return fmt.Errorf("%w: %w", layout.ErrCheck, err)
	}
	var times [2]float64
	for k, queue := range []bool{false, true} {
		if times[k], err = schedule.Step(cut, queue); err != nil {
			return fmt.Errorf("%w: %w", layout.ErrCheck, err)
		}
	}
	end := 0.0
	for _, o := range p.Ops {
		end = max(end, o.End)
	}
	if times[0] > end*(1+1e-9) {
		return fmt.Errorf("%w: the step takes %s, and that of the plan %s", layout.ErrCheck, platform.FormatSeconds(times[0]),
			platform.FormatSeconds(end))
	}
	_, err = fmt.Fprintf(s.err, "workbench: read back: step time %s with free links, %s with one queue of transfers between two GPUs\n",
		platform.FormatSeconds(times[0]), platform.FormatSeconds(times[1]))
	return err
}
