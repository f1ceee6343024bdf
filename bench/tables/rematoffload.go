package main

import (
	"fmt"
	"strings"

	"workbench/bench/run"
	"workbench/model/platform"
	combinedview "workbench/model/rematoffload"
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

// rematOffloadDivisors tests "memory ÷ 4 to 6 at less than 20 %" at 12 GB/s: by how
// much each method divides the memory of keeping everything before its overhead is
// no longer less, and by how much none can.
func (m *measurer) rematOffloadDivisors(nets []string) error {
	if err := m.about(combinedview.Problem); err != nil {
		return err
	}
	if len(nets) == 0 {
		nets = vision
	}
	m.setting.Slots, m.setting.Platform.Bandwidth = 0, 12e9
	fmt.Printf("By how much the memory of keeping everything can be divided at an overhead of less than %.0f %%, by bisection; at most: proved for every plan.\n\n| net | image | batch | N | %s | at most |\n|---|--:|--:|--:|%s--:|\n", 100*most, strings.Join(dividing, " | "), strings.Repeat("--:|", len(dividing)))
	reached := make([][len(thesis)]int, len(dividing)) // instances
	var possible [len(thesis)]int
	instances := 0
	err := m.networks(nets, func(net string, image, batch int, in *run.Instance) error {
		fmt.Printf("| %s | %d | %d | %d |", net, image, batch, in.Chain().Len())
		_, high := combinedview.Range(in.Chain())
		least, _ := combinedview.Least(in.Chain())
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
			bounds, err := combinedview.Bounds(in.Chain(), p)
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
				r := run.Run(m.ctx, m.problem, m.method(method), in, s)
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
