package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"workbench/bench/catalog"
	"workbench/model/plan"
)

func TestRatios(t *testing.T) {
	r := ratios{4, 1, 1, 0.5}
	if g := r.geometric(); math.Abs(g-math.Pow(2, 0.25)) > 1e-12 {
		t.Errorf("geometric mean %v", g)
	}
	if r.median() != 1 || (ratios{3, 1, 2}).median() != 2 || (ratios{1, 4}).median() != 2.5 || r.most() != 4 {
		t.Errorf("median %v, most %v", r.median(), r.most())
	}
	if r.above(1) != 1 || r.below(1) != 1 || (ratios{1 + 1e-9, 1 - 1e-9}).above(1)+(ratios{1 + 1e-9, 1 - 1e-9}).below(1) != 0 {
		t.Errorf("above %d, below %d", r.above(1), r.below(1))
	}
	for _, x := range []float64{ratios(nil).geometric(), ratios(nil).median(), ratios(nil).most()} {
		if !math.IsNaN(x) {
			t.Errorf("%v of nothing", x)
		}
	}
}

// handMade are two cases of one network, one of which pipedream cannot do.
func handMade() []*claimPoint {
	none := math.NaN()
	return []*claimPoint{
		{net: "resnet50", compute: 8, rate: 12, processors: 2, memory: 8, period: []float64{none, 6, 6, 4, 4, 5, 4}, bound: 4, by: "load"},
		{net: "resnet50", compute: 8, rate: 12, processors: 2, memory: 9, period: []float64{9, 7, 3, 4, 3, 3, 3}, bound: 3, by: "load"},
		{net: "resnet50", compute: 8, rate: 24, processors: 2, memory: 9, period: []float64{9, 7, 3, 4, 1.5, 3, 3}, bound: 1.5, by: "load"},
		{net: "resnet50", compute: 8, rate: 24, processors: 2, memory: 3, period: []float64{none, none, none, none, none, none, none}, bound: none, infeasible: true},
	}
}

func TestClaimTables(t *testing.T) {
	points := handMade()
	if got := growths(points, byPipeDreamStar); got != 1 {
		t.Errorf("%d steps up of pipedream-star, want 1", got)
	}
	if got := growths(points, byMadPipe); got != 0 {
		t.Errorf("%d steps up of madpipe, want none", got)
	}
	if got := faster(points, byMadPipe); len(got) != 1 || got[0] != 0.5 {
		t.Errorf("twice the bandwidth: %v, want a half", got)
	}
	if got := lowered(points, byPipeDreamStar, byMadPipe); len(got) != 3 || got[0] != 1.5 || got[1] != 2 || got[2] != 7/1.5 {
		t.Errorf("with the plans of less memory: %v", got)
	}
	var b bytes.Buffer
	printClaims(&b, points)
	for _, want := range []string{
		"| resnet50 | 12 | 2 | 0 | 1 | 2 | 2 | 2 | 2 | 2 | 2 |",
		"| resnet50 | 24 | 2 | 1 | 1 | 1 | 1 | 1 | 1 | 1 | 1 |",
		"| resnet50 | 12 | 1/1 | 3.00 | 3.00 | 3.00 | 2/2 | 1.87 | 1.92 | 2.33 | 1/2 | 1.22 | 1.25 | 1.50 | 1.15 | 1.12 | 1.00 |",
		"| 8 | – / 1.50 / 1.50 / 1.00 |",
		"pipedream against madpipe: longer in 2, by more than 20 % in 2, twice in 2, three times in 1, shorter in 0 of 2; without a plan where madpipe has one in 1, the other way in 0.",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := writeClaims(&b, points); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	again, err := readClaims(&b)
	if err != nil || len(again) != len(points) {
		t.Fatalf("%d cases read: %v", len(again), err)
	}
	if err := writeClaims(&b, again); err != nil || b.String() != text || !again[3].infeasible || !math.IsNaN(again[0].period[byPipeDream]) {
		t.Errorf("%v: read and written\n%swritten\n%s", err, b.String(), text)
	}
	for _, bad := range []string{"", "net\n", strings.Replace(text, ",6,", ",six,", 1)} {
		if _, err := readClaims(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
	if err := claimFigure("resnet50", 4, append(points, &claimPoint{net: "resnet50", rate: 12, processors: 4, memory: 8, period: []float64{1, 1, 1, 1, 1, 1, 1}})).Write(&b, "svg"); err != nil {
		t.Error(err)
	}
}

// Without the folder there are the four networks of the thesis; with it a row
// more for each profile.
func TestClaimInstances(t *testing.T) {
	dir := t.TempDir()
	nets, err := claimInstances(filepath.Join(dir, "absent"))
	if err != nil || len(nets) != len(claimNetworks) {
		t.Fatalf("%d networks without profiles: %v", len(nets), err)
	}
	if err := os.Mkdir(filepath.Join(dir, "tiny"), 0o755); err != nil {
		t.Fatal(err)
	}
	const text = "n1 -- A() -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=4e9, parameter_size=8.0\n" +
		"n2 -- B() -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=4.0, parameter_size=8.0\n\tn1 -- n2\n"
	if err := os.WriteFile(filepath.Join(dir, "tiny", "graph.txt"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	nets, err = claimInstances(dir)
	if err != nil || len(nets) != len(claimNetworks)+1 {
		t.Fatalf("%d networks with a profile: %v", len(nets), err)
	}
	tiny := nets[len(nets)-1]
	if tiny.name != "tiny (measured)" {
		t.Errorf("it is called %s", tiny.name)
	}
	// Too little memory is a proof, enough of it a plan of all methods.
	p, err := catalog.FindProblem(plan.Pipeline)
	if err != nil {
		t.Fatal(err)
	}
	m := &measurer{ctx: context.Background(), problem: p}
	methods := readings()
	for _, name := range []string{"pipedream", "pipedream-star", "pipedream-star-memory", "1f1b-star", "madpipe", "search"} {
		methods = append(methods, m.method(name))
	}
	for memory, fits := range map[int]bool{3: false, 9: true, 16: true} {
		x := &claimPoint{net: tiny.name, rate: 12, processors: 2, memory: memory}
		if err := m.claimPoint(x, tiny.in, methods); err != nil {
			t.Fatal(err)
		}
		if x.infeasible == fits {
			t.Errorf("%d GB: infeasible %v", memory, x.infeasible)
		}
		for k, name := range claimMethods {
			if math.IsNaN(x.period[k]) == fits || fits && x.period[k] < x.bound*(1-1e-9) {
				t.Errorf("%d GB: %s has a period of %v, bound %v", memory, name, x.period[k], x.bound)
			}
		}
	}
}
