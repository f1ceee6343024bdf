package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"workbench/bench/render/plots"
)

// measured is a line of `go test -bench` whose name ends in N=…/S=….
type measured struct {
	name    string
	n, s    int
	seconds float64
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(\w+)/N=(\d+)/S=(\d+)(?:-\d+)?\s+\d+\s+([0-9.]+) ns/op`)

// readBenchmarks reads the output of go test -bench. Repeated measurements
// count with their least time.
func readBenchmarks(r io.Reader) ([]measured, error) {
	var all []measured
	for s := bufio.NewScanner(r); s.Scan(); {
		f := benchmarkLine.FindStringSubmatch(s.Text())
		if f == nil {
			continue
		}
		m := measured{name: f[1]}
		ns, err := strconv.ParseFloat(f[4], 64)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s.Text(), err)
		}
		m.n, _ = strconv.Atoi(f[2]) // the expression lets only digits pass
		m.s, _ = strconv.Atoi(f[3])
		m.seconds = ns / 1e9
		if k := slices.IndexFunc(all, func(x measured) bool { return x.name == m.name && x.n == m.n && x.s == m.s }); k >= 0 {
			all[k].seconds = min(all[k].seconds, m.seconds)
			continue
		}
		all = append(all, m)
	}
	return all, nil
}

// growth draws how the times of benchmarks grow with N and with S, from the
// output of go test -bench on standard input, into a folder: growth-n.svg and
// growth-s.svg.
func (m *measurer) growth(args []string) error {
	dir := args[0]
	all, err := readBenchmarks(os.Stdin)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("growth: no benchmark named N=…/S=… on standard input; pipe in go test -bench Slots ./heuristics/remat")
	}
	fmt.Println("| benchmark | N | S | s |\n|---|--:|--:|--:|")
	for _, m := range all {
		fmt.Printf("| %s | %d | %d | %.4g |\n", m.name, m.n, m.s, m.seconds)
	}
	byN := figure(all, "time against N", "N (layers)", func(m measured) int { return m.s }, func(m measured) int { return m.n }, "S")
	byS := figure(all, "time against S", "S (slots)", func(m measured) int { return m.n }, func(m measured) int { return m.s }, "N")
	for name, f := range map[string]*plots.Figure{"growth-n.svg": byN, "growth-s.svg": byS} {
		if err := draw(f, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// figure has a line for each benchmark and value of the other parameter that
// was measured more than once.
func figure(all []measured, title, x string, fixed, along func(measured) int, other string) *plots.Figure {
	f := &plots.Figure{Title: title, X: x, Y: "time (s)", LogX: true, LogY: true}
	type line struct {
		name  string
		fixed int
	}
	points := map[line][]measured{}
	var lines []line
	for _, m := range all {
		l := line{m.name, fixed(m)}
		if points[l] == nil {
			lines = append(lines, l)
		}
		points[l] = append(points[l], m)
	}
	for _, l := range lines {
		if len(points[l]) < 2 {
			continue
		}
		s := plots.Series{Name: fmt.Sprintf("%s, %s = %d", l.name, other, l.fixed), Points: true, Style: -1}
		slices.SortFunc(points[l], func(a, b measured) int { return along(a) - along(b) })
		for _, m := range points[l] {
			s.X, s.Y = append(s.X, float64(along(m))), append(s.Y, m.seconds)
		}
		f.Series = append(f.Series, s)
	}
	return f
}
