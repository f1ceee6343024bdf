package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"workbench/bench/solve"
	"workbench/model/platform"
	combinedview "workbench/model/problem/rematoffload"
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
// no longer less, and by how much none can. A row a network: the least and the largest
// divisor of its instances. The limit is that of each run.
func (m *measurer) rematOffloadDivisors(limit time.Duration, nets []string) error {
	if err := m.about(combinedview.Problem); err != nil {
		return err
	}
	m.setting.Slots, m.setting.Platform.Bandwidth, m.setting.Time = 0, 12e9, limit
	columns := append(slices.Clone(dividing), "not excluded")
	fmt.Printf("| net | N | instances | %s |\n|---|--:|--:|%s\n", strings.Join(columns, " | "), strings.Repeat("--:|", len(columns)))
	all := make([][]float64, len(columns))
	err := m.networks(nets, func(net string, instances []*solve.Instance) error {
		mine := make([][]float64, len(columns))
		for _, in := range instances {
			d, err := m.divisors(in)
			if err != nil {
				return err
			}
			for i, x := range d {
				mine[i], all[i] = append(mine[i], x), append(all[i], x)
			}
		}
		fmt.Printf("| %s | %d | %d |", net, instances[0].Chain().Len(), len(instances))
		for _, list := range mine {
			fmt.Printf(" %.1f to %.1f |", slices.Min(list), slices.Max(list))
		}
		fmt.Println()
		return nil
	})
	for _, d := range thesis {
		fmt.Printf("| **÷ %g or more** | | %d |", d, len(all[0]))
		for _, list := range all {
			reached := 0
			for _, x := range list {
				if x >= d {
					reached++
				}
			}
			fmt.Printf(" %d |", reached)
		}
		fmt.Println()
	}
	return err
}

// divisors are what each method divides memory by, last what is not excluded.
func (m *measurer) divisors(in *solve.Instance) (list []float64, err error) {
	_, high := combinedview.Range(in.Chain())
	least, _ := combinedview.Least(in.Chain())
	allowed := (1 + most) * in.Compute()
	possible := min(high/least, fineness+lastDivisor(1, high/least, func(d float64) bool {
		p := m.setting.Platform
		p.Memory = high / d
		bounds, err := combinedview.Bounds(in.Chain(), p)
		return err != nil || bounds[0].Value < allowed
	}))
	best := 1.0
	for _, method := range dividing {
		from := 1.0
		if method == "search" {
			from = best // it is behind none of these
		}
		d := lastDivisor(from, possible, func(d float64) bool {
			s := m.setting
			s.Platform.Memory = high / d
			r := solve.Run(m.ctx, m.problem, m.method(method), in, s)
			if r.Status == solve.Failed {
				err = fmt.Errorf("%s of %s at %s: %w", method, in.Name, platform.FormatBytes(s.Platform.Memory), r.Err)
			}
			return r.Makespan != nil && *r.Makespan < allowed
		})
		if err != nil {
			return nil, err
		}
		list, best = append(list, d), max(best, d)
	}
	return append(list, possible), nil
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
