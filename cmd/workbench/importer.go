package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/model/importer"
	"workbench/model/importer/dsasolver"
	"workbench/model/importer/torchsnapshot"
	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/lifetimes"
	"workbench/model/nearest"
	"workbench/model/plan"
)

// foreign is a file to import: what the flags say of it.
type foreign struct {
	file, from     string
	as             string // "chain" or "graph"; empty: the format's own
	unit           string // of costs or times
	sizes, stages  string // second files
	align          string // of lifetimes, bytes
	device         int    // of a snapshot
	between        string // events of a snapshot
	pin            bool   // offsets are pins, which is the default
	placement      string // file for the plan that offsets are
	name, out      string
	layers         int    // how often a network has the layer that a profile lists once
	granularity    string // "layer" or "operation"; empty: the former
	data, sizeData []byte // of file and sizes
	placed         *plan.Plan
}

// foreignFormat is one foreign format.
type foreignFormat struct {
	name, what string
	forms      []string // what it makes, its own first
	units      []string // what --cost-unit may be
	read       func(f *foreign) (file, []string, error)
}

// file is what an importer makes: an instance or a plan.
type file interface{ Write(io.Writer) error }

func (f *foreign) reader() io.Reader { return bytes.NewReader(f.data) }

var importers = []foreignFormat{
	{"pipedream", "graph.txt of the PipeDream profiler", []string{"chain", "graph"}, nil, func(f *foreign) (file, []string, error) {
		if f.as == "graph" {
			return imported(importer.PipeDreamGraph(f.data, f.file))
		}
		return imported(importer.PipeDream(f.data, f.file))
	}},
	{
		"dnn-partitioning", "JSON graphs of the dnn-partitioning data set",
		[]string{"chain", "graph"},
		[]string{"s", "ms"},
		func(f *foreign) (file, []string, error) {
			if f.as == "graph" {
				return imported(importer.DNNPartitioningGraph(f.data, f.file, importer.DNNOptions{CostUnit: f.unit}))
			}
			return imported(importer.DNNPartitioning(f.data, f.file, importer.DNNOptions{CostUnit: f.unit}))
		},
	},
	{
		"checkmate", "DFGraph of Checkmate as JSON (a graph), or its .npy table of costs with --sizes FILE (a chain)",
		[]string{"graph", "chain"},
		[]string{"us", "ms", "s"},
		func(f *foreign) (file, []string, error) {
			if f.sizes == "" && f.as != "chain" {
				return imported(importer.CheckmateGraph(f.data, f.file, importer.CheckmateOptions{CostUnit: f.unit}))
			}
			return imported(importer.CheckmateCosts(f.data, f.file, f.sizeData, f.sizes))
		},
	},
	{"rotor", "rotor's Chain as JSON", []string{"chain"}, []string{"us", "ms", "s"}, func(f *foreign) (file, []string, error) {
		return imported(importer.Rotor(f.data, f.file, importer.RotorOptions{TimeUnit: f.unit}))
	}},
	{
		"aceso", "CSV of operations of Aceso, measured; --layers N repeats the one of GPT and T5 (a chain)",
		[]string{"chain"},
		nil,
		func(f *foreign) (file, []string, error) {
			return imported(importer.Aceso(f.data, f.file, importer.AcesoOptions{Layers: f.layers, Operations: f.granularity == "operation"}))
		},
	},
	{
		"layout-profile", "text of an analytic profile of a transformer, with selective and full recomputation (a chain)",
		[]string{"chain"},
		nil,
		func(f *foreign) (file, []string, error) { return imported(importer.LayoutProfile(f.data, f.file)) },
	},
	{
		"minimalloc", "CSV of buffers of minimalloc and idealloc (lifetimes); offsets pin buffers, or with --placement FILE are a plan to check",
		[]string{"lifetimes"},
		nil, func(f *foreign) (file, []string, error) {
			l, p, err := solve.ImportLifetimes(f.reader(), f.file, f.placement != "")
			if err != nil {
				return imported(l, nil, err)
			}
			if f.align != "" {
				if l.Align, err = positiveBytes("--align", f.align); err == nil {
					err = l.Validate()
				}
			}
			if f.placed = p; f.pin && p == nil && !slices.ContainsFunc(l.Buffers, func(b lifetimes.Buffer) bool { return b.Pinned }) {
				err = fmt.Errorf("--pin: %s has no offset of any buffer", f.file)
			}
			return imported(l, nil, err)
		},
	},
	{
		"dsa-solver", "problem of dsa-solver, schema v1, with pools, pins, pairs and penalties (lifetimes)",
		[]string{"lifetimes"},
		nil,
		func(f *foreign) (file, []string, error) {
			if f.align != "" {
				return nil, nil, fmt.Errorf("--align %s: the file has the alignment of each buffer", f.align)
			}
			return imported(dsasolver.Read(f.reader(), f.file))
		},
	},
	{
		"torch-snapshot", "memory snapshot of PyTorch, a pickle or JSON: the blocks of --device, of the events --between (lifetimes)",
		[]string{"lifetimes"},
		nil, func(f *foreign) (file, []string, error) {
			o := torchsnapshot.Options{Device: f.device}
			if f.between != "" {
				if n, err := fmt.Sscanf(f.between, "%d,%d", &o.From, &o.To); n != 2 || err != nil {
					return nil, nil, fmt.Errorf("--between %q: the first event and the one after the last, as 0,1000", f.between)
				}
			}
			return imported(torchsnapshot.Read(f.reader(), f.file, o))
		},
	},
	{
		"torch-csv", "a schedule of torch.distributed.pipelining for the stages in --stages FILE (a plan)",
		[]string{"plan"},
		nil,
		func(f *foreign) (file, []string, error) {
			p, err := solve.ImportSchedule(f.reader(), f.file, f.stages)
			return imported(p, nil, err)
		},
	},
}

// mostLayers is more than any network has.
const mostLayers = 1 << 14

func importerNames() (names []string) {
	for _, i := range importers {
		names = append(names, i.name)
	}
	return names
}

func newImport(s streams) *cli.Command {
	o := &common{}
	f := &foreign{}
	return &cli.Command{
		Name:        "import",
		Usage:       "convert a profile of another program to an instance file, or a schedule to a plan",
		ArgsUsage:   "FILE",
		Description: "Formats:\n" + describeImporters(),
		Flags: append([]cli.Flag{
			stringFlag("input", "from", &f.from, "", "`FORMAT` of FILE: "+strings.Join(importerNames(), ", ")),
			stringFlag("input", "cost-unit", &f.unit, "",
				"`UNIT` of times (us, ms, s) or of edge costs in dnn-partitioning files (default: the format's, with a warning where that "+
					"is a guess)"),
			stringFlag("input", "sizes", &f.sizes, "", "second `FILE` with the sizes that a table of costs lacks"),
			stringFlag("input", "stages", &f.stages, "", "`FILE` with the stages that a schedule is for"),
			intFlag("input", "layers", &f.layers, 0, "`N`: how often the network has the layer that an Aceso profile lists once"),
			stringFlag("input", "granularity", &f.granularity, "",
				"`WHAT` of an Aceso profile becomes a layer of the chain: layer or operation", "layer"),
			stringFlag("output", "align", &f.align, "", "addresses of lifetimes are multiples of `SIZE` bytes (default: the file's)"),
			intFlag("input", "device", &f.device, -1, "`N` of a snapshot with events of several devices", "the only one"),
			stringFlag("input", "between", &f.between, "", "`FROM,TO`: the events of a snapshot that count, the latter excluded", "all"),
			boolFlag("input", "pin", &f.pin,
				"the column offset of minimalloc's CSV pins the buffers (the default, unless --placement is given)"),
			stringFlag("output", "placement", &f.placement, "",
				"the column offset is a placement, no pins: write it to `FILE` as a plan for workbench verify"),
			stringFlag("output", "as", &f.as, "", "`FORM` to make: chain, graph or lifetimes (default: the format's own)"),
			stringFlag("output", "name", &f.name, "", "`NAME` of the instance (default: from the file's, of standard input the format)"),
			stringFlag("output", "output, o", &f.out, "", "write to `FILE` instead of standard output"),
		}, o.flags()...),
		Action: o.action(s, 1, 1, "import --from FORMAT FILE", func(c *cli.Context, a []string) error {
			f.file = a[0]
			i, err := f.importer()
			if err != nil {
				return err
			}
			return f.run(s, o, i)
		}),
	}
}

// importer returns the importer that the flags ask for, and checks the others
// against it.
func (f *foreign) importer() (*foreignFormat, error) {
	if f.from == "" {
		return nil, usagef("import: --from is needed: %s", strings.Join(importerNames(), ", "))
	}
	k := slices.IndexFunc(importers, func(i foreignFormat) bool { return i.name == f.from })
	if k < 0 {
		return nil, usagef("unknown format %q: %s", f.from, nearest.Hint(f.from, importerNames()))
	}
	i := &importers[k]
	switch {
	case f.as != "" && !slices.Contains(i.forms, f.as):
		return nil, usagef("--as %q: %s makes a %s", f.as, i.name, strings.Join(i.forms, " or a "))
	case f.unit != "" && i.units == nil:
		return nil, usagef("--cost-unit %q: %s says what its numbers are", f.unit, i.name)
	case f.unit != "" && !slices.Contains(i.units, f.unit):
		return nil, usagef("--cost-unit %q: %s is needed", f.unit, strings.Join(i.units, " or "))
	case (f.layers != 0 || f.granularity != "") && i.name != "aceso":
		return nil, usagef("--layers, --granularity: %s lists every layer as it is", i.name)
	case f.layers < 0 || f.layers > mostLayers:
		return nil, usagef("--layers %d: from 1 to %d", f.layers, mostLayers)
	case !slices.Contains([]string{"", "layer", "operation"}, f.granularity):
		return nil, usagef("--granularity %q: %s", f.granularity, nearest.Hint(f.granularity, []string{"layer", "operation"}))
	case f.align != "" && i.forms[0] != lifetimes.Kind:
		return nil, usagef("--align %q: %s makes a %s, which has no addresses", f.align, i.name, i.forms[0])
	case (f.device >= 0 || f.between != "") && i.name != "torch-snapshot":
		return nil, usagef("--device, --between: %s has no events of devices", i.name)
	case (f.pin || f.placement != "") && i.name != "minimalloc":
		return nil, usagef("--pin, --placement: %s has no column offset", i.name)
	case f.pin && f.placement != "":
		return nil, usagef("--pin, --placement %s: offsets are pins or a placement; one of them is needed", f.placement)
	case f.stages != "" && i.name != "torch-csv":
		return nil, usagef("--stages %s: %s is no schedule", f.stages, i.name)
	case f.sizes != "" && i.name != "checkmate":
		return nil, usagef("--sizes %s: %s has sizes of its own", f.sizes, i.name)
	}
	return i, nil
}

func describeImporters() string {
	var lines []string
	for _, i := range importers {
		lines = append(lines, fmt.Sprintf("  %-18s %s", i.name, i.what))
	}
	return strings.Join(lines, "\n")
}

func (f *foreign) run(s streams, o *common, i *foreignFormat) (err error) {
	if f.data, err = readAll(s, f.file); err != nil {
		return err
	}
	if f.sizes != "" {
		if f.sizeData, err = readAll(s, f.sizes); err != nil {
			return err
		}
	}
	made, warnings, err := i.read(f)
	if err != nil {
		return solve.InputError(err)
	}
	if !o.quiet {
		for _, w := range warnings {
			fmt.Fprintf(s.err, "workbench: warning: %s\n", render.OneLine(w))
		}
	}
	if f.name == "" && f.file == "-" {
		f.name = i.name // "-" is no name
	}
	if f.name != "" {
		switch made := made.(type) {
		case *chain.Chain:
			made.Name = f.name
		case *graph.Graph:
			made.Name = f.name
		case *lifetimes.Lifetimes:
			made.Name = f.name
		}
	}
	if f.placed != nil {
		if f.placed.Instance, err = referTo(made, f.out); err != nil {
			return err
		}
		if err := emit(s, f.placement, f.placed.Write); err != nil {
			return err
		}
	}
	return emit(s, f.out, made.Write)
}

// referTo returns how a plan names lifetimes that are written to a file, "" if to none.
func referTo(made file, out string) (plan.InstanceRef, error) {
	l, ok := made.(*lifetimes.Lifetimes)
	if !ok {
		return plan.InstanceRef{}, nil
	}
	digest, err := l.Digest()
	return plan.InstanceRef{Name: l.Name, SHA256: digest, Source: out}, err
}

// imported is what an importer returns: nothing where there is an error.
func imported[T file](made T, warnings []string, err error) (file, []string, error) {
	if err != nil {
		return nil, warnings, err
	}
	return made, warnings, nil
}

// mostImport is the most bytes a foreign file may have.
const mostImport = 1 << 30

// readAll reads a file, or standard input for "-".
func readAll(s streams, name string) ([]byte, error) {
	in := s.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, usagef("%s cannot be read: %v", name, err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, mostImport+1))
	switch {
	case err != nil:
		return nil, usagef("%s cannot be read: %v", name, err)
	case len(data) > mostImport:
		return nil, usagef("%s has more than %d bytes, which no profile has", name, mostImport)
	}
	return data, nil
}
