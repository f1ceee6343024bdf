package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// ratios are quotients of periods, of the cases in which both methods have a
// plan.
type ratios []float64

// compared returns the periods of one method in periods of another.
func compared(points []*claimPoint, method, with int) ratios {
	var r ratios
	for _, x := range points {
		if q := x.period[method] / x.period[with]; !math.IsNaN(q) {
			r = append(r, q)
		}
	}
	return r
}

// geometric returns the geometric mean, NaN of nothing.
func (r ratios) geometric() float64 {
	sum := 0.0
	for _, q := range r {
		sum += math.Log(q)
	}
	return math.Exp(sum / float64(len(r)))
}

// median returns the middle one, or the mean of the two in the middle; NaN of
// nothing.
func (r ratios) median() float64 {
	n := len(r)
	if n == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(r))
	return (s[(n-1)/2] + s[n/2]) / 2
}

// most returns the largest, NaN of nothing.
func (r ratios) most() float64 {
	if len(r) == 0 {
		return math.NaN()
	}
	return slices.Max(r)
}

// above counts those that exceed q by more than rounding.
func (r ratios) above(q float64) int {
	n := 0
	for _, x := range r {
		if x > q*(1+1e-6) {
			n++
		}
	}
	return n
}

// below counts those that stay below q by more than rounding.
func (r ratios) below(q float64) int {
	n := 0
	for _, x := range r {
		if x < q*(1-1e-6) {
			n++
		}
	}
	return n
}

// planned counts the cases in which a method has a plan.
func planned(points []*claimPoint, method int) int {
	n := 0
	for _, x := range points {
		if !math.IsNaN(x.period[method]) {
			n++
		}
	}
	return n
}

// chosen returns the points for which keep holds.
func chosen(points []*claimPoint, keep func(*claimPoint) bool) []*claimPoint {
	var list []*claimPoint
	for _, x := range points {
		if keep(x) {
			list = append(list, x)
		}
	}
	return list
}

// claimGroup is a row of the tables: cases under one name.
type claimGroup struct {
	name, rate string
	points     []*claimPoint
}

// groups returns the cases of each network and β, in the order measured, then
// those of all networks of the zoo, and of all measured ones.
func groups(points []*claimPoint) []claimGroup {
	var list []claimGroup
	for _, x := range points {
		rate := fmt.Sprintf("%g", x.rate)
		k := slices.IndexFunc(list, func(g claimGroup) bool { return g.name == x.net && g.rate == rate })
		if k < 0 {
			k = len(list)
			list = append(list, claimGroup{name: x.net, rate: rate})
		}
		list[k].points = append(list[k].points, x)
	}
	for _, measured := range []bool{false, true} {
		all := chosen(points, func(x *claimPoint) bool { return x.measured() == measured })
		if len(all) > 0 {
			list = append(list, claimGroup{map[bool]string{false: "**all of the zoo**", true: "**all measured**"}[measured], "both", all})
		}
	}
	return list
}

// quotient formats a ratio; NaN: there is none.
func quotient(q float64) string {
	if math.IsNaN(q) {
		return "–"
	}
	return fmt.Sprintf("%.2f", q)
}

// printClaims prints all tables.
func printClaims(w io.Writer, points []*claimPoint) {
	all := groups(points)
	printPlanned(w, all)
	printCompared(w, all)
	zoo := chosen(points, func(x *claimPoint) bool { return !x.measured() })
	printByMemory(w, zoo)
	printByProcessors(w, zoo)
	for _, g := range all {
		if g.rate == "both" {
			printRemarks(w, g)
		}
	}
}

// printPlanned says who has a plan in how many cases.
func printPlanned(w io.Writer, all []claimGroup) {
	fmt.Fprintf(w, "| net | GB/s | cases | proved that nothing fits | %s |\n", strings.Join(claimMethods, " | "))
	fmt.Fprintf(w, "|---|--:|--:|--:|%s\n", strings.Repeat("--:|", len(claimMethods)))
	for _, g := range all {
		infeasible := len(chosen(g.points, func(x *claimPoint) bool { return x.infeasible }))
		fmt.Fprintf(w, "| %s | %s | %d | %d |", g.name, g.rate, len(g.points), infeasible)
		for k := range claimMethods {
			fmt.Fprintf(w, " %d |", planned(g.points, k))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// printCompared says how much longer than MadPipe's the periods are: in how
// many cases of both, geometric mean, median and largest.
func printCompared(w io.Writer, all []claimGroup) {
	full := []int{byPipeDream, byPipeDreamStar, byPipeDreamMemory}
	mean := []int{byOneFOneBStar, byMadPipePaper, bySearch}
	fmt.Fprint(w, "| net | GB/s |")
	for _, k := range full {
		fmt.Fprintf(w, " %s longer | mean | median | max |", claimMethods[k])
	}
	for _, k := range mean {
		fmt.Fprintf(w, " %s mean |", claimMethods[k])
	}
	fmt.Fprintf(w, "\n|---|--:|%s\n", strings.Repeat("--:|", 4*len(full)+len(mean)))
	for _, g := range all {
		fmt.Fprintf(w, "| %s | %s |", g.name, g.rate)
		for _, k := range full {
			r := compared(g.points, k, byMadPipe)
			fmt.Fprintf(w, " %d/%d | %s | %s | %s |", r.above(1), len(r), quotient(r.geometric()), quotient(r.median()), quotient(r.most()))
		}
		for _, k := range mean {
			fmt.Fprintf(w, " %s |", quotient(compared(g.points, k, byMadPipe).geometric()))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// printByMemory is [004] Figure 7.8: geometric means over P and β.
func printByMemory(w io.Writer, points []*claimPoint) {
	of := []int{byPipeDream, byPipeDreamStar, byPipeDreamMemory, byOneFOneBStar}
	fmt.Fprint(w, "| M, GB |")
	for _, net := range claimNetworks {
		fmt.Fprintf(w, " %s |", net)
	}
	fmt.Fprintf(w, " all |\n|--:|%s\n", strings.Repeat("---|", len(claimNetworks)+1))
	for memory := claimMemory[0]; memory <= claimMemory[1]; memory++ {
		fmt.Fprintf(w, "| %d |", memory)
		for k := range len(claimNetworks) + 1 {
			here := chosen(points, func(x *claimPoint) bool {
				return x.memory == memory && (k == len(claimNetworks) || x.net == claimNetworks[k])
			})
			cells := make([]string, len(of))
			for i, method := range of {
				cells[i] = quotient(compared(here, method, byMadPipe).geometric())
			}
			fmt.Fprintf(w, " %s |", strings.Join(cells, " / "))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w)
}

// printByProcessors has, for each P, the periods in MadPipe's, and [004] Figure
// 7.9: speedups against one processor, over the cases in which both have a plan.
func printByProcessors(w io.Writer, points []*claimPoint) {
	of := []int{byPipeDream, byPipeDreamStar, byPipeDreamMemory, byOneFOneBStar, bySearch}
	memories := []int{6, 8, 12, 16}
	fmt.Fprint(w, "| P |")
	for _, method := range of {
		fmt.Fprintf(w, " %s |", claimMethods[method])
	}
	for _, memory := range memories {
		fmt.Fprintf(w, " speedup, %d GB |", memory)
	}
	fmt.Fprintf(w, "\n|--:|%s\n", strings.Repeat("--:|", len(of)+len(memories)))
	for procs := 2; procs <= claimMost; procs++ {
		here := chosen(points, func(x *claimPoint) bool { return x.processors == procs })
		fmt.Fprintf(w, "| %d |", procs)
		for _, method := range of {
			fmt.Fprintf(w, " %s |", quotient(compared(here, method, byMadPipe).geometric()))
		}
		for _, memory := range memories {
			var star, mad ratios
			for _, x := range here {
				if x.memory == memory && !math.IsNaN(x.period[byPipeDreamStar]) && !math.IsNaN(x.period[byMadPipe]) {
					star, mad = append(star, x.compute/x.period[byPipeDreamStar]), append(mad, x.compute/x.period[byMadPipe])
				}
			}
			fmt.Fprintf(w, " %s / %s |", quotient(star.geometric()), quotient(mad.geometric()))
		}
		fmt.Fprintln(w)
	}
}

// printRemarks prints what [004] 7.3.3 says beside, counted.
func printRemarks(w io.Writer, g claimGroup) {
	fmt.Fprintf(w, "\n%s:\n\n", g.name)
	for _, k := range []int{byPipeDream, byPipeDreamStar, byPipeDreamMemory, byOneFOneBStar, byMadPipePaper, bySearch} {
		r := compared(g.points, k, byMadPipe)
		only := len(chosen(g.points, func(x *claimPoint) bool { return math.IsNaN(x.period[k]) && !math.IsNaN(x.period[byMadPipe]) }))
		without := len(chosen(g.points, func(x *claimPoint) bool { return !math.IsNaN(x.period[k]) && math.IsNaN(x.period[byMadPipe]) }))
		fmt.Fprintf(w, "- %s against madpipe: longer in %d, by more than 20 %% in %d, twice in %d, three times in %d, shorter in %d of %d; without a plan where madpipe has one in %d, the other way in %d.\n",
			claimMethods[k], r.above(1), r.above(1.2), r.above(2), r.above(3), r.below(1), len(r), only, without)
	}
	r := lowered(g.points, byPipeDream, byMadPipe)
	fmt.Fprintf(w, "- pipedream with the best of its plans for this memory and less: mean %s, longer in %d, by more than 20 %% in %d of %d.\n", quotient(r.geometric()), r.above(1), r.above(1.2), len(r))
	for _, k := range []int{byPipeDream, byPipeDreamStar, byPipeDreamMemory} {
		r := compared(g.points, k, byMadPipePaper)
		fmt.Fprintf(w, "- %s against madpipe-paper: mean %s, longer in %d, by more than 20 %% in %d, shorter in %d of %d.\n", claimMethods[k], quotient(r.geometric()), r.above(1), r.above(1.2), r.below(1), len(r))
	}
	known := chosen(g.points, func(x *claimPoint) bool {
		return !math.IsNaN(x.period[byPipeDreamStar] + x.period[byOneFOneBStar] + x.period[byMadPipe])
	})
	fmt.Fprintf(w, "- On the %d cases of all three: pipedream-star / 1f1b-star %s, 1f1b-star / madpipe %s, the product %s.\n", len(known),
		quotient(compared(known, byPipeDreamStar, byOneFOneBStar).geometric()), quotient(compared(known, byOneFOneBStar, byMadPipe).geometric()), quotient(compared(known, byPipeDreamStar, byMadPipe).geometric()))
	fmt.Fprint(w, "- Periods that grow by more than 0.01 % with one GB more:")
	for k, name := range claimMethods {
		fmt.Fprintf(w, " %s %d,", name, growths(g.points, k))
	}
	fmt.Fprintf(w, " of %d steps.\n- Twice the bandwidth: period of", len(g.points)*(claimMemory[1]-claimMemory[0])/(claimMemory[1]-claimMemory[0]+1))
	for _, k := range []int{byPipeDreamStar, byMadPipe, bySearch} {
		fmt.Fprintf(w, " %s × %.3f,", claimMethods[k], faster(g.points, k).geometric())
	}
	fmt.Fprint(w, " in geometric mean.\n- Over the best closed-form bound:")
	for k, name := range claimMethods {
		var r ratios
		for _, x := range g.points {
			if q := x.period[k] / x.bound; !math.IsNaN(q) {
				r = append(r, q)
			}
		}
		fmt.Fprintf(w, " %s %s,", name, quotient(r.geometric()))
	}
	fmt.Fprint(w, " in geometric mean.\n")
}

// lowered is compared with the shortest period of the method for this memory or
// less of the same platform: what fits in less fits here ([004] 6.5 takes "a
// large number of possible memory targets").
func lowered(points []*claimPoint, method, with int) ratios {
	var r ratios
	for _, x := range points {
		best := math.NaN()
		for _, y := range points {
			if y.net == x.net && y.rate == x.rate && y.processors == x.processors && y.memory <= x.memory && !(y.period[method] >= best) && !math.IsNaN(y.period[method]) {
				best = y.period[method]
			}
		}
		if q := best / x.period[with]; !math.IsNaN(q) {
			r = append(r, q)
		}
	}
	return r
}

// growths counts the steps of memory at which a method's period grows.
func growths(points []*claimPoint, method int) int {
	n := 0
	for _, x := range points {
		for _, y := range points {
			if y.net == x.net && y.rate == x.rate && y.processors == x.processors && y.memory == x.memory+1 &&
				y.period[method] > x.period[method]*(1+1e-4) {
				n++
			}
		}
	}
	return n
}

// faster returns the periods at the second β in those at the first.
func faster(points []*claimPoint, method int) ratios {
	var r ratios
	for _, x := range points {
		for _, y := range points {
			if y.net == x.net && y.processors == x.processors && y.memory == x.memory && x.rate == claimRates[0] && y.rate == claimRates[1] {
				if q := y.period[method] / x.period[method]; !math.IsNaN(q) {
					r = append(r, q)
				}
			}
		}
	}
	return r
}
