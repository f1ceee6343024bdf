package main

import (
	"fmt"
	"math"

	"workbench/bench/plots"
)

// claimFigures are the numbers of processors that figures are drawn for.
var claimFigures = []int{4, 8}

// claimFigureName names the figure of a network.
func claimFigureName(net string, processors int, format string) string {
	return fmt.Sprintf("pipeline-claims-%s-p%d.%s", net, processors, format)
}

// claimFigure draws periods against memory at the first β, as [004] Figures 7.4
// to 7.7.
func claimFigure(net string, processors int, points []*claimPoint) *plots.Figure {
	f := &plots.Figure{
		Title: fmt.Sprintf("%s, image 1000, batch 8: %d GPUs, %g GB/s", net, processors, claimRates[0]),
		X:     "memory per GPU (GB)", Y: "period (ms)", FromZero: true,
		Bound: &plots.Bound{Name: "excluded by the closed forms"},
	}
	here := chosen(points, func(x *claimPoint) bool {
		return x.net == net && x.rate == claimRates[0] && x.processors == processors
	})
	for style, method := range []int{byPipeDreamStar, byPipeDreamMemory, byPipeDream, byOneFOneBStar, byMadPipe} {
		s := plots.Series{Name: claimMethods[method], Points: true, Style: style, Dashed: method == byMadPipe}
		for _, x := range here {
			s.X, s.Y = append(s.X, float64(x.memory)), append(s.Y, 1e3*x.period[method])
		}
		f.Series = append(f.Series, s)
	}
	for _, x := range here {
		if !math.IsNaN(x.bound) {
			f.Bound.X, f.Bound.Y = append(f.Bound.X, float64(x.memory)), append(f.Bound.Y, 1e3*x.bound)
		}
	}
	return f
}
