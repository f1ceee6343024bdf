package main

import (
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"workbench/bench/render/plots"
	"workbench/bench/solve/fragmentation"
	"workbench/model/plan"
	"workbench/model/platform"
)

// swapNetwork is a network of [003] §5, at the image sizes there.
type swapNetwork struct {
	name, spec string
	batches    []int // of the figures
}

var swapNetworks = []swapNetwork{
	{"ResNet-50", "zoo:resnet50?as=functions", []int{64, 128, 190, 256, 384, 512, 720, 928, 1120, 1248, 1440, 1600, 1780}},
	{"DenseNet-121", "zoo:densenet121?as=functions", []int{64, 128, 192, 256, 384, 512, 768, 1024, 1280, 1536, 1770}},
	{"Pix2PixHD", "zoo:pix2pixhd?as=functions", []int{1, 2, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40}},
	{"DeepLabv3+", "zoo:deeplabv3plus?as=functions", []int{6, 12, 18, 24, 36, 48, 72, 96, 120, 144, 168, 200, 240, 280}},
}

// table1Batches are those of [003] Table 1.
var table1Batches = []int{64, 128, 190, 256, 512, 928, 1120, 1248, 1440}

// swapColumn is a method with an allocator.
type swapColumn struct {
	name, method string
	allocator    fragmentation.AllocatorChoice
	keep         bool
	late         bool
	slow         bool // in the first table only
}

const mib = 1 << 20

var swapColumns = []swapColumn{
	{name: "baseline", method: "window", keep: true},
	{name: "LMS", method: "lms"},
	{name: "window", method: "window"},
	{name: "window, VA 2 MiB", method: "window", allocator: fragmentation.AllocatorChoice{Chunk: 2 * mib}},
	{name: "window, VA 40 MiB", method: "window", allocator: fragmentation.AllocatorChoice{Chunk: 40 * mib}},
	{name: "window, mixed 40 MiB", method: "window", allocator: fragmentation.AllocatorChoice{Chunk: 40 * mib, Mixed: true}},
	{name: "window, late", method: "window", late: true},
	{name: "window, VA 2 MiB, late", method: "window", allocator: fragmentation.AllocatorChoice{Chunk: 2 * mib}, late: true},
	{name: "search", method: "search", slow: true},
	{name: "search, VA 2 MiB", method: "search", allocator: fragmentation.AllocatorChoice{Chunk: 2 * mib}, slow: true},
}

// swaps measures [003] Table 1, the largest batches of §5, and how much of the
// memory is lost to fragmentation.
func (m *measurer) swaps(args []string) error {
	if err := m.about(plan.Swap); err != nil {
		return err
	}
	f := flag.NewFlagSet("swap", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	capacity := f.String("capacity", "16GiB", "")
	bandwidth := f.String("bandwidth", "50GB/s", "")
	device := f.String("device", "V100-16GB", "")
	images := f.String("images", "", "")
	if err := f.Parse(args); err != nil {
		return err
	}
	bytes, err := platform.ParseBytes(*capacity)
	if err != nil {
		return err
	}
	if m.setting.Platform.Bandwidth, err = platform.ParseRate(*bandwidth); err != nil {
		return err
	}
	s := &swapTables{measurer: m, capacity: fragmentation.Capacity(bytes), batchers: map[string]*fragmentation.Batcher{}}
	networks := slices.Clone(swapNetworks)
	for i := range networks {
		networks[i].spec += "&device=" + *device
	}
	fmt.Printf("%s, links of %s, %s\n\n", *capacity, *bandwidth, *device)
	if err := s.table1(networks[0].spec); err != nil {
		return err
	}
	if *images != "" {
		if err := s.figures(networks, *images); err != nil {
			return err
		}
	}
	return s.largest(networks)
}

type swapTables struct {
	*measurer
	capacity int64
	batchers map[string]*fragmentation.Batcher
}

// batcher returns what runs the column on a network.
func (s *swapTables) batcher(spec string, c swapColumn) *fragmentation.Batcher {
	key := fmt.Sprint(spec, c.keep, c.late)
	b := s.batchers[key]
	if b == nil {
		b = &fragmentation.Batcher{Problem: s.problem, Network: spec, Setting: s.setting, Capacity: s.capacity, Steps: 3, Keep: c.keep, Late: c.late}
		s.batchers[key] = b
	}
	return b
}

// at runs the column at a batch.
func (s *swapTables) at(spec string, c swapColumn, batch int) (*fragmentation.BatchPoint, error) {
	x, err := s.batcher(spec, c).At(s.ctx, s.method(c.method), c.allocator, batch)
	if err != nil {
		return nil, fmt.Errorf("%s of %s, batch %d: %w", c.name, spec, batch, err)
	}
	x.Method, x.Allocator = c.name, ""
	return x, nil
}

// table1 is [003] Table 1.
func (s *swapTables) table1(spec string) error {
	fmt.Printf("ResNet-50, images/s; in parentheses the budget of the plan; x: does not fit.\n\n| batch |")
	for _, n := range table1Batches {
		fmt.Printf(" %d |", n)
	}
	fmt.Printf("\n|---|%s\n", strings.Repeat("--:|", len(table1Batches)))
	for _, c := range swapColumns {
		fmt.Printf("| %s |", c.name)
		for _, n := range table1Batches {
			x, err := s.at(spec, c, n)
			switch {
			case err != nil:
				return err
			case !x.Fits:
				fmt.Print(" x |")
			case x.Share < 1 && !c.keep:
				fmt.Printf(" %.0f (%.0f %%) |", x.Throughput, 100*x.Share)
			default:
				fmt.Printf(" %.0f |", x.Throughput)
			}
		}
		fmt.Println()
	}
	return nil
}

// largest is how large the batch can be, and the bound [003] (2).
func (s *swapTables) largest(networks []swapNetwork) error {
	fmt.Printf("\nLargest batch (images/s).\n\n| network |")
	var columns []swapColumn
	for _, c := range swapColumns {
		if !c.slow {
			columns = append(columns, c)
			fmt.Printf(" %s |", c.name)
		}
	}
	fmt.Printf(" VA/best fit | the same, late |\n|---|%s--:|--:|\n", strings.Repeat("--:|", len(columns)))
	var rows []string
	for _, n := range networks {
		fmt.Printf("| %s |", n.name)
		found := map[string]int{}
		for _, c := range columns {
			x, err := s.batcher(n.spec, c).Largest(s.ctx, s.method(c.method), c.allocator)
			if err != nil {
				return err
			}
			found[c.name] = x.Batch
			if !x.Fits {
				fmt.Print(" x |")
				continue
			}
			fmt.Printf(" %d (%.4g) |", x.Batch, x.Throughput)
			if c.method == "window" && !c.keep {
				bound := "–"
				if c.allocator.Chunk > 0 && !c.allocator.Mixed {
					bound = platform.FormatBytes(float64(int64(x.Most) * c.allocator.Chunk))
				}
				rows = append(rows, fmt.Sprintf("| %s | %s | %d | %.0f %% | %s | %s | %d | %s | %s |", n.name, c.name, x.Batch, 100*x.Share,
					platform.FormatBytes(x.PeakMemory), platform.FormatBytes(float64(x.Internal)), x.Most, bound, platform.FormatBytes(float64(x.External))))
			}
		}
		for _, late := range []string{"", ", late"} {
			ratio := "–"
			if found["window"+late] > 0 {
				ratio = strconv.FormatFloat(float64(found["window, VA 2 MiB"+late])/float64(found["window"+late]), 'f', 2, 64)
			}
			fmt.Printf(" %s |", ratio)
		}
		fmt.Println()
	}
	fmt.Printf("\nAt the largest batch: internal fragmentation is below N_max·m_c, [003] (2).\n\n| network | allocator | batch | budget | peak | internal | N_max | N_max·m_c | external |\n|---|---|--:|--:|--:|--:|--:|--:|--:|\n%s\n", strings.Join(rows, "\n"))
	return nil
}

// figures are [003] Figures 3 to 5: speed and reserved memory over the batch.
func (s *swapTables) figures(networks []swapNetwork, dir string) error {
	drawn := []string{"baseline", "LMS", "window", "window, VA 2 MiB", "window, late"}
	for _, n := range networks {
		var points []*fragmentation.BatchPoint
		for _, c := range swapColumns {
			if !slices.Contains(drawn, c.name) {
				continue
			}
			for _, batch := range n.batches {
				x, err := s.at(n.spec, c, batch)
				if err != nil {
					return err
				}
				points = append(points, x)
			}
		}
		name := strings.ReplaceAll(strings.ToLower(n.name), "+", "plus")
		for _, q := range []plots.BatchQuantity{plots.BatchSpeed, plots.BatchMemory} {
			f := plots.Batches(fmt.Sprintf("%s, %s", n.name, platform.FormatBytes(float64(s.capacity))), points, q, s.capacity)
			if err := draw(f, filepath.Join(dir, fmt.Sprintf("swap-%s-%s.svg", q, name))); err != nil {
				return err
			}
		}
	}
	return nil
}
