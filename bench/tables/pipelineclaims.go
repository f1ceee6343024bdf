package main

import (
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"workbench/bench/run"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/profile"
)

// The grid of [004] 7.3.1: networks of images of 1000 pixels in batches of 8.
var (
	claimNetworks = []string{"resnet50", "resnet101", "inception", "densenet121"}
	claimRates    = []float64{12, 24} // β, GB/s
	claimMost     = 8                 // P = 2..8
	claimMemory   = [2]int{3, 16}     // M, GB
)

// claimMethods are compared, those of the catalogue and then the readings.
var claimMethods = []string{"pipedream", "pipedream-star", "pipedream-star-memory", "1f1b-star", "madpipe", "madpipe-paper", "search"}

// Positions in claimMethods.
const (
	byPipeDream = iota
	byPipeDreamStar
	byPipeDreamMemory
	byOneFOneBStar
	byMadPipe
	byMadPipePaper
	bySearch
)

// claimPoint is one case: a network on one platform.
type claimPoint struct {
	net        string
	compute    float64
	rate       float64 // β, GB/s
	processors int
	memory     int       // M, GB
	period     []float64 // by claimMethods, seconds; NaN: no plan
	infeasible bool      // it is proved that no plan exists
	bound      float64   // the best closed form without assumptions, seconds; NaN if infeasible
	by         string
}

// ofProfile ends the names of networks that are not from the zoo.
const ofProfile = " (measured)"

func (x *claimPoint) measured() bool { return strings.HasSuffix(x.net, ofProfile) }

// claimNetwork is a network to measure.
type claimNetwork struct {
	name string
	in   *run.Instance
}

// pipelineClaims tests what [004] 7.3 says of PipeDream and MadPipe. With a
// folder of PipeDream's profiles, DIR/*/graph.txt, these are measured, too.
func (m *measurer) pipelineClaims(args []string) error {
	flags := flag.NewFlagSet("pipeline-claims", flag.ContinueOnError)
	dir := flags.String("profiles", "", "`DIR` with PipeDream's profiles, DIR/*/graph.txt; absent: none")
	file := flags.String("csv", "", "`FILE` to write all cases to")
	from := flags.String("from", "", "`FILE` of all cases, written before: nothing is measured")
	images := flags.String("images", "", "`DIR` to draw the figures into, "+claimFigureName("NET", 4, "svg")+" and so on")
	format := flags.String("format", "svg", "of the figures: svg or png")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("pipeline-claims takes flags only, not %q", flags.Args())
	}
	points, err := m.claimPoints(*from, *dir)
	if err != nil {
		return err
	}
	if *file != "" {
		if err := writeFile(*file, func(w io.Writer) error { return writeClaims(w, points) }); err != nil {
			return err
		}
	}
	if *images != "" {
		for _, net := range claimNetworks {
			for _, processors := range claimFigures {
				f := claimFigure(net, processors, points)
				path := filepath.Join(*images, claimFigureName(net, processors, *format))
				if err := writeFile(path, func(w io.Writer) error { return f.Write(w, *format) }); err != nil {
					return err
				}
			}
		}
	}
	printClaims(os.Stdout, points)
	return nil
}

// claimPoints reads the cases from a file, or measures them, those of profiles
// in dir included.
func (m *measurer) claimPoints(from, dir string) ([]*claimPoint, error) {
	if from != "" {
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		points, err := readClaims(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		return points, nil
	}
	nets, err := claimInstances(dir)
	if err != nil {
		return nil, err
	}
	methods := readings()
	for k, name := range claimMethods {
		if k != byMadPipePaper {
			methods = append(methods, m.method(name))
		}
	}
	var points []*claimPoint
	for _, net := range nets {
		start := time.Now()
		for _, rate := range claimRates {
			for procs := 2; procs <= claimMost; procs++ {
				for memory := claimMemory[0]; memory <= claimMemory[1]; memory++ {
					x := &claimPoint{net: net.name, compute: net.in.Compute(), rate: rate, processors: procs, memory: memory}
					if err := m.claimPoint(x, net.in, methods); err != nil {
						return nil, err
					}
					points = append(points, x)
				}
			}
		}
		fmt.Fprintf(os.Stderr, "tables: %s took %.0f s\n", net.name, time.Since(start).Seconds())
	}
	return points, nil
}

// claimInstances loads the networks of [004] 7.3 and the profiles below dir, if
// there is such a folder.
func claimInstances(dir string) ([]claimNetwork, error) {
	var nets []claimNetwork
	for _, net := range claimNetworks {
		in, err := run.Load(fmt.Sprintf("zoo:%s?image=1000&batch=8", net), os.Stdin)
		if err != nil {
			return nil, err
		}
		nets = append(nets, claimNetwork{net, in})
	}
	if dir == "" {
		return nets, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "graph.txt"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		fmt.Fprintf(os.Stderr, "tables: %s has no */graph.txt of the PipeDream profiler: no rows of measured profiles\n", dir)
	}
	for _, file := range files {
		in, err := loadPipeDream(file)
		if err != nil {
			return nil, err
		}
		nets = append(nets, claimNetwork{in.Chain.Name + ofProfile, in})
	}
	return nets, nil
}

func loadPipeDream(file string) (*run.Instance, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	c, _, err := profile.PipeDream(f, file)
	if err != nil {
		return nil, err
	}
	return run.NewInstance(c)
}

// claimPoint runs all methods on one case.
func (m *measurer) claimPoint(x *claimPoint, in *run.Instance, methods []*run.Method) error {
	s := m.setting
	s.Platform = platform.Platform{Memory: float64(x.memory) * 1e9, Bandwidth: x.rate * 1e9, Processors: x.processors, WeightCopies: platform.DefaultWeightCopies}
	x.period, x.bound = make([]float64, len(claimMethods)), math.NaN()
	for _, method := range methods {
		r := run.Run(m.ctx, m.problem, method, in, s)
		if m.ctx.Err() != nil {
			return m.ctx.Err()
		}
		period := math.NaN()
		switch {
		case r.Objective != nil:
			period = *r.Objective
		case r.Status == run.Infeasible:
			x.infeasible = true
		case !errors.Is(r.Err, plan.ErrNoPlan):
			return fmt.Errorf("%s on %s, P = %d, M = %d GB, β = %g GB/s: %w", method.Name, x.net, x.processors, x.memory, x.rate, r.Err)
		}
		for k, name := range claimMethods {
			if name == method.Name {
				x.period[k] = period
			}
		}
		if b := r.Bound; b != nil && len(b.Assumptions) == 0 && !(b.Value <= x.bound) {
			x.bound, x.by = b.Value, b.By
		}
	}
	return nil
}

// writeFile writes a file, or says why it cannot.
func writeFile(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// claimColumns are those of the CSV.
func claimColumns() []string {
	head := append([]string{"net", "bandwidth_gb_s", "processors", "memory_gb", "compute_s"}, claimMethods...)
	return append(head, "bound_s", "bound_by", "infeasible")
}

// writeClaims writes all cases as CSV: periods and bounds in seconds, nothing
// where there is none.
func writeClaims(w io.Writer, points []*claimPoint) error {
	out := csv.NewWriter(w)
	if err := out.Write(claimColumns()); err != nil {
		return err
	}
	number := func(x float64) string {
		if math.IsNaN(x) {
			return ""
		}
		return strconv.FormatFloat(x, 'g', 9, 64)
	}
	for _, x := range points {
		row := []string{x.net, number(x.rate), strconv.Itoa(x.processors), strconv.Itoa(x.memory), number(x.compute)}
		for _, t := range x.period {
			row = append(row, number(t))
		}
		if err := out.Write(append(row, number(x.bound), x.by, strconv.FormatBool(x.infeasible))); err != nil {
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// readClaims reads what writeClaims wrote.
func readClaims(r io.Reader) ([]*claimPoint, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 || !slices.Equal(rows[0], claimColumns()) {
		return nil, fmt.Errorf("the first line must name the columns %s", strings.Join(claimColumns(), ","))
	}
	var points []*claimPoint
	for k, row := range rows[1:] {
		var bad error
		number := func(s string) float64 {
			if s == "" {
				return math.NaN()
			}
			x, err := strconv.ParseFloat(s, 64)
			bad = errors.Join(bad, err)
			return x
		}
		whole := func(s string) int {
			n, err := strconv.Atoi(s)
			bad = errors.Join(bad, err)
			return n
		}
		n := 5 + len(claimMethods)
		x := &claimPoint{
			net: row[0], rate: number(row[1]), processors: whole(row[2]), memory: whole(row[3]), compute: number(row[4]),
			bound: number(row[n]), by: row[n+1], infeasible: row[n+2] == "true",
		}
		for _, s := range row[5:n] {
			x.period = append(x.period, number(s))
		}
		if bad != nil {
			return nil, fmt.Errorf("line %d: %w", k+2, bad)
		}
		points = append(points, x)
	}
	return points, nil
}
