package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"workbench/bench/curve"
	"workbench/bench/plots"
	"workbench/bench/run"
	offloadview "workbench/model/offload"
	"workbench/model/platform"
)

// Methods of activation offloading: those of [004] 3.4, then ours.
var (
	offloadPaper = []string{"greedy", "vdnn", "tflms", "autoswap", "dynprog-slots", "dynprog"}
	offloadOurs  = []string{"search"}
)

// grid are the flags of the tables over networks, memory limits and bandwidth.
type grid struct {
	*flag.FlagSet
	alphas, rate, images string
}

func newGrid(name, alphas string) *grid {
	g := &grid{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError)}
	g.StringVar(&g.alphas, "alpha", alphas, "`LIST` of memory limits, in percent of the instance's range")
	g.StringVar(&g.rate, "bandwidth", "12GB/s", "`RATE` of the link")
	g.StringVar(&g.images, "images", "", "`DIR` to draw a figure of each instance into")
	return g
}

// percents reads the limits.
func (g *grid) percents() (list []float64, err error) {
	for _, word := range strings.Split(g.alphas, ",") {
		s, err := platform.ParseMemory(strings.TrimSpace(word) + "%")
		if err != nil {
			return nil, fmt.Errorf("-alpha: %w", err)
		}
		list = append(list, s.Value)
	}
	slices.Sort(list)
	return list, nil
}

// each runs methods on every instance of the networks, at every limit, and
// calls row with the curve.
func (m *measurer) each(g *grid, args, methods []string, row func(name string, in *run.Instance, c *curve.Curve) error) error {
	if err := g.Parse(args); err != nil {
		return err
	}
	percents, err := g.percents()
	if err != nil {
		return err
	}
	if m.setting.Platform.Bandwidth, err = platform.ParseRate(g.rate); err != nil {
		return fmt.Errorf("-bandwidth: %w", err)
	}
	nets := g.Args()
	if len(nets) == 0 {
		nets = vision
	}
	var list []*run.Method
	for _, name := range methods {
		list = append(list, m.method(name))
	}
	return m.networks(nets, func(net string, image, batch int, in *run.Instance) error {
		low, high := m.problem.Range(in)
		var limits []float64
		for _, x := range percents {
			limits = append(limits, low+x/100*(high-low))
		}
		c := curve.RunCurve(m.ctx, m.problem, list, in, m.setting, curve.OverMemory, limits)
		for i := range c.Series {
			for _, p := range c.Series[i].Points {
				if p.Status == run.Failed {
					return fmt.Errorf("%s of %s at %.0f bytes: %s", c.Series[i].Method, in.Name, p.At, p.Error)
				}
			}
		}
		if g.images != "" {
			if err := draw(plots.Curve(c, m.problem, curve.Ratio), filepath.Join(g.images, m.problem.Name+"-"+in.Name+".svg")); err != nil {
				return err
			}
		}
		return row(fmt.Sprintf("%s | %d | %d | %d", net, image, batch, in.Chain.Len()), in, c)
	})
}

// draw writes a figure.
func draw(f *plots.Figure, name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := f.Write(file, "svg"); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}

// meanWorst gathers ratios.
type meanWorst struct {
	mean
	worst float64
}

func (a *meanWorst) add(x float64) {
	a.mean.add(x)
	if x > a.worst {
		a.worst = x
	}
}

func (a *meanWorst) String() string {
	if a.n == 0 {
		return "no plan"
	}
	return fmt.Sprintf("%.3f, %.3f", a.value(), a.worst)
}

// offloads compares methods with lower bounds on the networks of [004] 3.4, and
// tests what is said there: dynprog within 1.2 × LB, never behind vdnn, best on
// DenseNets.
func (m *measurer) offloads(args []string) error {
	g := newGrid("offload", "0,10,20,30,40,50,60,70,80,90")
	methods := append(slices.Clone(offloadPaper), offloadOurs...)
	fmt.Printf("Makespan / best lower bound: mean, largest over the memory limits.\n\n| net | image | batch | N | %s |\n|---|--:|--:|--:|%s\n", strings.Join(methods, " | "), strings.Repeat("--:|", len(methods)))
	var claims offloadClaims
	err := m.each(g, args, methods, func(name string, in *run.Instance, c *curve.Curve) error {
		fmt.Printf("| %s |", name)
		for i := range c.Series {
			var a meanWorst
			for k := range c.Series[i].Points {
				p := &c.Series[i].Points[k]
				a.add(c.Of(curve.Ratio, p, p.At))
			}
			fmt.Printf(" %s |", &a)
		}
		fmt.Println()
		return claims.add(m, in, c)
	})
	claims.print(methods)
	return err
}

// offloadClaims counts cases: an instance and a memory limit each.
type offloadClaims struct {
	cases                  int
	overLB                 []meanWorst // by method: makespan / LB of Proposition 3
	plans                  []int       // by method
	within                 []int       // by method: at most 1.2 × LB
	behindVDNN             int         // dynprog, the better of both
	dense, denseBest       int         // cases of DenseNets; dynprog as good as any of the paper's
	behind                 int         // search is behind another method
	optimal                int         // search meets the bound
	worstBehind, worstVDNN float64
}

// add counts the cases of a curve.
func (a *offloadClaims) add(m *measurer, in *run.Instance, c *curve.Curve) error {
	if a.overLB == nil {
		n := len(c.Series)
		a.overLB, a.plans, a.within = make([]meanWorst, n), make([]int, n), make([]int, n)
	}
	for _, limit := range c.Bounds {
		p := m.setting.Platform
		p.Memory = limit.At
		lb, err := closedLB(in, p)
		if err != nil {
			return err
		}
		a.cases++
		by := map[string]float64{}
		for i := range c.Series {
			T := c.Series[i].Makespan(limit.At)
			if math.IsNaN(T) {
				T = math.Inf(1)
			} else {
				a.plans[i]++
				a.overLB[i].add(T / lb)
			}
			if T <= 1.2*lb {
				a.within[i]++
			}
			by[c.Series[i].Method] = T
		}
		paper := math.Inf(1)
		for _, name := range offloadPaper {
			paper = min(paper, by[name])
		}
		dynprog := min(by["dynprog"], by["dynprog-slots"])
		if x := dynprog / by["vdnn"]; x > 1+1e-9 {
			a.behindVDNN++
			a.worstVDNN = max(a.worstVDNN, x)
		}
		if strings.HasPrefix(in.Name, "densenet") {
			a.dense++
			if dynprog <= paper*(1+1e-9) {
				a.denseBest++
			}
		}
		if x := by["search"] / paper; x > 1+1e-9 {
			a.behind++
			a.worstBehind = max(a.worstBehind, x)
		}
		if by["search"] <= limit.Value*(1+1e-6) {
			a.optimal++
		}
	}
	return nil
}

// closedLB is LB of [004] Proposition 3.
func closedLB(in *run.Instance, p platform.Platform) (float64, error) {
	bounds, err := offloadview.Bounds(in.Chain, p)
	if err != nil {
		return 0, err
	}
	for _, b := range bounds {
		if b.By == "lb" {
			return b.Value, nil
		}
	}
	return 0, fmt.Errorf("no bound named lb")
}

func (a *offloadClaims) print(methods []string) {
	if a.cases == 0 {
		return
	}
	fmt.Printf("\n%d cases, an instance and a memory limit each. Makespan / LB of Proposition 3:\n\n| method | plans | mean | largest | at most 1.2 |\n|---|--:|--:|--:|--:|\n", a.cases)
	for i, name := range methods {
		fmt.Printf("| %s | %d | %.3f | %.3f | %d |\n", name, a.plans[i], a.overLB[i].value(), a.overLB[i].worst, a.within[i])
	}
	fmt.Printf("\nThe better dynprog is behind vdnn on %d (by a factor of at most %.3f), and as good as any of the paper's on %d of %d of DenseNets. Search is behind one of the paper's on %d (%.3f) and proved optimal by a closed form on %d.\n",
		a.behindVDNN, max(1, a.worstVDNN), a.denseBest, a.dense, a.behind, max(1, a.worstBehind), a.optimal)
}
