package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"workbench/bench"
	"workbench/heuristics/combined"
	"workbench/model/platform"
)

// Methods of rematerialization with offloading: those of [004] 4.4, then ours.
var (
	combinedPaper = []string{"pure-remat", "pure-offload", "opportunist", "autocapper", "pofo"}
	combinedOurs  = []string{"search"}
)

// divisors are by how much the memory of keeping everything is divided for the
// claim of [004] 4.4.1, and most is the overhead that it allows.
var divisors = []float64{2, 3, 4, 5, 6}

const most = 0.2

// rematOffloads compares methods on the networks of [004] 4.4 by their overhead
// over computing everything once, and tests "memory ÷ 4 to 6 at less than 20 %".
func (m *measurer) rematOffloads(args []string) error {
	g := newGrid("remat-offload", "0,10,20,30,50,75")
	methods := append(slices.Clone(combinedPaper), combinedOurs...)
	fmt.Printf("Overhead over computing everything once, by memory in percent of the range; pofo¹: what it claims in its own model.\n\n| net | image | batch | N | %% | %s | pofo¹ | bound |\n|---|--:|--:|--:|--:|%s--:|--:|\n", strings.Join(methods, " | "), strings.Repeat("--:|", len(methods)))
	var division []string
	behind, pureBehind, cases := 0, 0, 0
	worst := 1.0
	reached := map[string][]int{"pofo": make([]int, len(divisors)), "search": make([]int, len(divisors))} // by divisor
	possible := make([]int, len(divisors))
	err := m.each(g, args, methods, func(name string, in *bench.Instance, c *bench.Curve) error {
		for _, b := range c.Bounds {
			fmt.Printf("| %s | %.0f |", name, 100*(b.At-c.Low)/(c.High-c.Low))
			paper, pure, pofo, ours := math.Inf(1), math.Inf(1), math.Inf(1), math.Inf(1)
			for i := range c.Series {
				T := c.Series[i].Makespan(b.At)
				fmt.Printf(" %s |", overhead(T, c.Compute))
				if math.IsNaN(T) {
					continue
				}
				switch name := c.Series[i].Method; {
				case name == "search":
					ours = T
				case name == "pofo":
					pofo = T
					paper = min(paper, T)
				case strings.HasPrefix(name, "pure-"):
					pure = min(pure, T)
					paper = min(paper, T)
				default:
					paper = min(paper, T)
				}
			}
			fmt.Printf(" %s | %s |\n", overhead(m.claimed(in, b.At), c.Compute), overhead(b.Value, c.Compute))
			cases++
			if ours > paper*(1+1e-9) {
				behind++
				worst = max(worst, ours/paper)
			}
			if pofo > pure*(1+1e-9) {
				pureBehind++
			}
		}
		row, err := m.divided(name, in, c, reached, possible)
		division = append(division, row)
		return err
	})
	fmt.Printf("\n%d cases. Search is behind one of the paper's on %d (by a factor of at most %.3f). Pofo, timed with whole tensors, is behind a pure strategy on %d.\n", cases, behind, worst, pureBehind)
	header := "| net | image | batch | N |"
	for _, d := range divisors {
		header += fmt.Sprintf(" ÷ %g |", d)
	}
	fmt.Printf("\nOverhead of pofo (search) with the memory of keeping everything divided; –: no plan has so little.\n\n%s\n|---|--:|--:|--:|%s\n%s\n", header, strings.Repeat("--:|", len(divisors)), strings.Join(division, "\n"))
	for k, d := range divisors {
		fmt.Printf("\nMemory ÷ %g at less than %.0f %%: pofo on %d, search on %d of %d that can have so little.", d, 100*most, reached["pofo"][k], reached["search"][k], possible[k])
	}
	fmt.Println()
	return err
}

// claimed is the makespan that pofo claims in its own model, NaN if it has no
// plan.
func (m *measurer) claimed(in *bench.Instance, memory float64) float64 {
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

// divided is a row of the table of the claim, for which it counts.
func (m *measurer) divided(name string, in *bench.Instance, c *bench.Curve, reached map[string][]int, possible []int) (string, error) {
	row := "| " + name + " |"
	for k, d := range divisors {
		s := m.setting
		s.Platform.Memory = c.High / d
		if least, _ := combined.Least(in.Chain); least > s.Platform.Memory {
			row += " – |"
			continue
		}
		possible[k]++
		cells := make([]string, 0, 2)
		for _, method := range []string{"pofo", "search"} {
			r := m.run(method, in, s)
			if r.Status == bench.Failed {
				return row, fmt.Errorf("%s of %s at %s: %w", method, in.Name, platform.FormatBytes(s.Platform.Memory), r.Err)
			}
			T := math.NaN()
			if r.Makespan != nil {
				T = *r.Makespan
			}
			if T < (1+most)*c.Compute {
				reached[method][k]++
			}
			cells = append(cells, overhead(T, c.Compute))
		}
		row += fmt.Sprintf(" %s (%s) |", cells[0], cells[1])
	}
	return row, nil
}

// overhead is what T takes beyond computing everything once.
func overhead(T, compute float64) string {
	if math.IsNaN(T) {
		return "–"
	}
	return fmt.Sprintf("%.1f %%", 100*(T/compute-1))
}
