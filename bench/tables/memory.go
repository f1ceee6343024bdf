package main

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
)

// memory runs the methods of a problem at so many equal steps of the range of memory, and
// lists where one of them has a worse plan than it had with less: PROBLEM LIMIT STEPS INSTANCE….
// A method that the limit ended may have lacked time and is told apart.
func (m *measurer) memory(args []string) error {
	if err := m.about(args[0]); err != nil {
		return err
	}
	limit, err := time.ParseDuration(args[1])
	if err != nil {
		return err
	}
	steps, err := strconv.Atoi(args[2])
	if err != nil || steps < 1 {
		return fmt.Errorf("%s steps", args[2])
	}
	m.setting.Time = limit
	fmt.Println("| instance | method | ended | memory | plan | with | before |")
	fmt.Println("|---|---|---|--:|--:|--:|--:|")
	plans, worse := 0, 0
	for _, spec := range args[3:] {
		in, err := instanceNamed(spec)
		if err != nil {
			return err
		}
		for _, method := range catalog.MethodsFor(m.problem, in) {
			if method.Unverified || method.Kind == solve.Relaxed {
				continue
			}
			best, at := math.Inf(1), 0
			for k := 0; k <= steps && m.ctx.Err() == nil; k++ {
				if err := m.give(in, strconv.FormatFloat(100*float64(k)/float64(steps), 'g', -1, 64)); err != nil {
					return err
				}
				r := solve.Run(m.ctx, m.problem, method, in, m.setting)
				plans++
				if value := planOf(r); value > best*(1+solve.Exactness) {
					worse++
					fmt.Printf("| %s | %s | %s | %d/%d | %.9g | %d/%d | %.9g |\n", in.Name, method.Name, r.Ended, k, steps, value, at, steps, best)
				} else if value < best {
					best, at = value, k
				}
			}
		}
	}
	fmt.Printf("\n%d runs, %d worse\n", plans, worse)
	return m.ctx.Err()
}
