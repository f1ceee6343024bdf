package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/bench/curve"
	"workbench/bench/run"
	"workbench/heuristics/combined"
	"workbench/model/platform"
	combinedview "workbench/model/rematoffload"
)

// Methods of rematerialization with offloading: those of [004] 4.4, then ours.
var (
	combinedPaper = []string{"pure-remat", "pure-offload", "opportunist", "autocapper", "pofo"}
	combinedOurs  = []string{"search"}
)

// dividing are the methods of which the claim of [004] 4.4.1 is tested, thesis
// the divisors of memory that it names, and most the overhead that it allows.
var (
	dividing = []string{"pure-remat", "autocapper", "pofo", "search"}
	thesis   = [...]float64{4, 6}
)

const (
	most     = 0.2
	fineness = 0.05 // of divisors
)

// rematOffloads compares methods on the networks of [004] 4.4 by their overhead
// over computing everything once.
func (m *measurer) rematOffloads(args []string) error {
	g := newGrid("remat-offload", "10,20,30,50")
	m.setting.Slots = 0 // each method's own
	methods := append(slices.Clone(combinedPaper), combinedOurs...)
	columns := append(slices.Clone(methods), "pofo¹", "bound")
	header := func(first, align string) {
		fmt.Printf("| %s | %s |\n|%s%s\n", first, strings.Join(columns, " | "), align, strings.Repeat("--:|", len(columns)))
	}
	fmt.Print("Overhead over computing everything once, by memory in percent of the range; pofo¹: what it claims in its own model.\n\n")
	header("net | image | batch | N | %", "---|--:|--:|--:|--:|")
	behind, pureBehind, cases := 0, 0, 0
	worst := 1.0
	var limits []string
	means := map[string][]mean{} // of the overheads
	err := m.each(g, args, methods, func(name string, in *run.Instance, c *curve.Curve) error {
		for _, b := range c.Bounds {
			var times []float64
			for i := range c.Series {
				times = append(times, c.Series[i].Makespan(b.At))
			}
			times = append(times, m.claimed(in, b.At), b.Value)
			limit := fmt.Sprintf("%.0f", 100*(b.At-c.Low)/(c.High-c.Low))
			if means[limit] == nil {
				limits, means[limit] = append(limits, limit), make([]mean, len(columns))
			}
			fmt.Printf("| %s | %s |", name, limit)
			by := map[string]float64{}
			for i, T := range times {
				fmt.Printf(" %s |", overhead(T, c.Compute))
				means[limit][i].add(T/c.Compute - 1)
				if by[columns[i]] = T; math.IsNaN(T) {
					by[columns[i]] = math.Inf(1)
				}
			}
			fmt.Println()
			pure, paper := min(by["pure-remat"], by["pure-offload"]), math.Inf(1)
			for _, method := range combinedPaper {
				paper = min(paper, by[method])
			}
			cases++
			if x := by["search"] / paper; x > 1+1e-9 {
				behind++
				worst = max(worst, x)
			}
			if by["pofo"] > pure*(1+1e-9) {
				pureBehind++
			}
		}
		return nil
	})
	fmt.Printf("\n%d cases. Search is behind one of the paper's on %d (by a factor of at most %.3f). Pofo, timed with whole tensors, is behind a pure strategy on %d. Means of the overheads, in brackets of so many plans:\n\n", cases, behind, worst, pureBehind)
	header("%", "--:|")
	for _, limit := range limits {
		fmt.Printf("| %s |", limit)
		for _, x := range means[limit] {
			fmt.Printf(" %.1f %% (%d) |", 100*x.value(), x.n)
		}
		fmt.Println()
	}
	return err
}

// claimed is the makespan that pofo claims in its own model, NaN if it has no
// plan.
func (m *measurer) claimed(in *run.Instance, memory float64) float64 {
	p := m.setting.Platform
	p.Memory = memory
	ctx, cancel := context.WithTimeout(m.ctx, m.setting.Time)
	defer cancel()
	claim, _, err := combined.POFOClaim(ctx, in.Chain, p, m.method("pofo").Slots)
	if err != nil {
		return math.NaN()
	}
	return claim
}

// rematOffloadDivisors tests "memory ÷ 4 to 6 at less than 20 %" at 12 GB/s: by how
// much each method divides the memory of keeping everything before its overhead is
// no longer less, and by how much none can.
func (m *measurer) rematOffloadDivisors(nets []string) error {
	if len(nets) == 0 {
		nets = vision
	}
	m.setting.Slots, m.setting.Platform.Bandwidth = 0, 12e9
	fmt.Printf("By how much the memory of keeping everything can be divided at an overhead of less than %.0f %%, by bisection; at most: proved for every plan.\n\n| net | image | batch | N | %s | at most |\n|---|--:|--:|--:|%s--:|\n", 100*most, strings.Join(dividing, " | "), strings.Repeat("--:|", len(dividing)))
	reached := make([][len(thesis)]int, len(dividing)) // instances
	var possible [len(thesis)]int
	instances := 0
	err := m.networks(nets, func(net string, image, batch int, in *run.Instance) error {
		fmt.Printf("| %s | %d | %d | %d |", net, image, batch, in.Chain.Len())
		_, high := combinedview.Range(in.Chain)
		least, _ := combinedview.Least(in.Chain)
		allowed := (1 + most) * in.Compute()
		count := func(d float64, of *[len(thesis)]int) {
			for k, x := range thesis {
				if d >= x {
					of[k]++
				}
			}
		}
		possibly := min(high/least, fineness+lastDivisor(1, high/least, func(d float64) bool {
			p := m.setting.Platform
			p.Memory = high / d
			bounds, err := combinedview.Bounds(in.Chain, p)
			return err != nil || bounds[0].Value < allowed
		}))
		best := 1.0
		for i, method := range dividing {
			from := 1.0
			if method == "search" {
				from = best // it is behind none of these
			}
			var failed error
			d := lastDivisor(from, possibly, func(d float64) bool {
				s := m.setting
				s.Platform.Memory = high / d
				r := m.runs(method, in, s)
				if r.Status == run.Failed {
					failed = fmt.Errorf("%s of %s at %s: %w", method, in.Name, platform.FormatBytes(s.Platform.Memory), r.Err)
				}
				return r.Makespan != nil && *r.Makespan < allowed
			})
			if failed != nil {
				return failed
			}
			fmt.Printf(" %.2f |", d)
			count(d, &reached[i])
			best = max(best, d)
		}
		fmt.Printf(" %.2f |\n", possibly)
		count(possibly, &possible)
		instances++
		return nil
	})
	for k, d := range thesis {
		fmt.Printf("\nMemory ÷ %g at less than %.0f %%, on %d instances:", d, 100*most, instances)
		for i, method := range dividing {
			fmt.Printf(" %s on %d,", method, reached[i][k])
		}
		fmt.Printf(" not excluded on %d.\n", possible[k])
	}
	return err
}

// lastDivisor is the largest good divisor from low, which is taken to be good, to
// high, by bisection: where what is good does not end at one point, it is one of
// the ends.
func lastDivisor(low, high float64, good func(d float64) bool) float64 {
	if good(high) {
		return high
	}
	for high-low > fineness {
		if d := (low + high) / 2; good(d) {
			low = d
		} else {
			high = d
		}
	}
	return low
}

// overhead is what T takes beyond computing everything once.
func overhead(T, compute float64) string {
	if math.IsNaN(T) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*(T/compute-1))
}
