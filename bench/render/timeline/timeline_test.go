package timeline

import (
	"bytes"
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/testfile"
	"workbench/model/verify"
)

// example is a plan with an idle processor, full memory, a weight that stays
// and an upload that runs past the period.
func example() (*chain.Chain, *plan.Plan) {
	c := &chain.Chain{Name: "example", Input: chain.Input{Activation: 1 << 30}, Layers: []chain.Layer{
		{Name: "embed & encode", ForwardTime: 0.3, BackwardTime: 0.1, Activation: 1 << 30, Weight: 3 << 30},
		{Name: "block", ForwardTime: 0.3, BackwardTime: 0.3, Weight: 2 << 30},
		{Name: "head", ForwardTime: 0.1, BackwardTime: 0.3, Activation: 1 << 30, Weight: 3 << 30},
	}}
	period := 1.8
	p := &plan.Plan{
		Format: plan.Format, Problem: plan.WeightOffload, Method: "by hand",
		Platform: platform.Platform{Memory: 9 << 30, Bandwidth: 10 << 30}, Period: &period,
		Instance: plan.InstanceRef{Name: "example"},
		Claims:   plan.Claims{Makespan: 1.8, PeakMemory: 9 << 30},
		Ops: []plan.Op{
			{Op: "B", Layer: 3, Start: 0.85, End: 1.15},
			{Op: "D", Tensor: "w", Layer: 2, Start: 0.85, End: 0.85},
			{Op: "P", Tensor: "w", Layer: 2, Start: 1.15, End: 1.35},
			{Op: "O", Tensor: "w", Layer: 3, Start: 1.15, End: 1.45},
			{Op: "B", Layer: 2, Start: 1.35, End: 1.65},
			{Op: "D", Tensor: "w", Layer: 3, Start: 1.45, End: 1.45},
			{Op: "P", Tensor: "w", Layer: 1, Start: 1.45, End: 1.75},
			{Op: "O", Tensor: "w", Layer: 2, Start: 1.65, End: 1.85},
			{Op: "B", Layer: 1, Start: 1.85, End: 1.95},
			{Op: "D", Tensor: "w", Layer: 2, Start: 1.85, End: 1.85},
			{Op: "F", Layer: 1, Start: 1.95, End: 2.25},
			{Op: "O", Tensor: "w", Layer: 1, Start: 1.95, End: 2.25},
			{Op: "P", Tensor: "w", Layer: 2, Start: 1.95, End: 2.15},
			{Op: "F", Layer: 2, Start: 2.25, End: 2.55},
			{Op: "P", Tensor: "w", Layer: 3, Start: 2.25, End: 2.55},
			{Op: "D", Tensor: "w", Layer: 1, Start: 2.25, End: 2.25},
			{Op: "F", Layer: 3, Start: 2.55, End: 2.65},
		},
	}
	return c, p
}

func TestExampleIsValid(t *testing.T) {
	c, p := example()
	checkValid(t, c, p)
}

func checkValid(t *testing.T, in plan.Instance, p *plan.Plan) {
	t.Helper()
	r, err := verify.Replay(in, p)
	if err != nil || !r.Valid() || r.ClaimErrors != nil {
		t.Fatalf("%v, %+v", err, r)
	}
}

func TestGolden(t *testing.T) {
	c, p := example()
	checkGolden(t, "example", c, p)
}

// checkGolden compares the picture and the trace of a plan with those in files.
func checkGolden(t *testing.T, name string, in plan.Instance, p *plan.Plan) {
	t.Helper()
	var picture, trace bytes.Buffer
	if err := drawSVG(&picture, in, p, Options{}); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, name+".svg", picture.String())
	if err := drawTrace(&trace, in, p); err != nil {
		t.Fatal(err)
	}
	testfile.Golden(t, name+".json", trace.String())
}

// drawPlan draws a chain and any plan for it, valid or not.
func drawPlan(t *rapid.T) (*chain.Chain, *plan.Plan) {
	n := rapid.IntRange(1, 80).Draw(t, "layers")
	c := &chain.Chain{Name: "<&>\x00"}
	size := rapid.Float64Range(0, 1e12)
	for range n {
		c.Layers = append(c.Layers, chain.Layer{
			Name: "\"layer\"", ForwardTime: 1, BackwardTime: 2, Activation: size.Draw(t, "a"),
			Weight: size.Draw(t, "w"),
		})
	}
	period := rapid.Float64Range(1e-6, 1e5).Draw(t, "period")
	p := &plan.Plan{
		Problem: plan.WeightOffload, Period: &period,
		Platform: platform.Platform{Memory: 1 + size.Draw(t, "memory"), Bandwidth: 1e9},
	}
	time := rapid.OneOf(rapid.Float64Range(-2*period, 3*period), rapid.SampledFrom([]float64{0, period, math.NaN(), math.Inf(1)}))
	for range rapid.IntRange(0, 200).Draw(t, "ops") {
		o := plan.Op{
			Op:    rapid.SampledFrom([]string{"F", "B", "P", "O", "D", "?"}).Draw(t, "op"),
			Layer: rapid.IntRange(-1, n+2).Draw(t, "layer"),
			Start: time.Draw(t, "start"),
		}
		o.End = o.Start + rapid.Float64Range(-0.1*period, 1.5*period).Draw(t, "length")
		if strings.Contains("POD", o.Op) {
			o.Tensor = plan.TensorW
		}
		p.Ops = append(p.Ops, o)
	}
	return c, p
}

// Whatever the plan, the picture is well-formed and everything in it has a
// finite place.
func TestSVGWellFormed(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPlan(t)
		var b bytes.Buffer
		if err := drawSVG(&b, c, p, Options{Width: rapid.IntRange(0, 3000).Draw(t, "width")}); err != nil {
			t.Fatal(err)
		}
		checkPicture(t, b.String())
	})
}

// checkPicture checks that a picture is XML, with numbers alone.
func checkPicture(t rapid.TB, picture string) {
	t.Helper()
	for _, bad := range []string{"NaN", "Inf", "%!"} {
		if strings.Contains(picture, bad) {
			t.Fatalf("%q in the picture:\n%s", bad, picture)
		}
	}
	for x := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := x.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

// Every operation of a valid plan is one group with a title, drawn in its lane
// with a width that adds up to its duration.
func TestSVGOperations(t *testing.T) {
	c, p := example()
	var b bytes.Buffer
	if err := drawSVG(&b, c, p, Options{Width: 1900}); err != nil {
		t.Fatal(err)
	}
	var svg struct {
		Groups []struct {
			Title string `xml:"title"`
			Rects []struct {
				X     float64 `xml:"x,attr"`
				Width float64 `xml:"width,attr"`
			} `xml:"rect"`
		} `xml:"g"`
	}
	if err := xml.Unmarshal(b.Bytes(), &svg); err != nil {
		t.Fatal(err)
	}
	scale := (1900 - left - right) / 1.8
	for k := range p.Ops {
		o := &p.Ops[k]
		found := 0
		for _, g := range svg.Groups {
			if !strings.HasPrefix(g.Title, o.String()+" ") || !strings.Contains(g.Title, fmt.Sprintf(" %.6g ", o.Start)) {
				continue
			}
			found++
			width := 0.0
			for _, r := range g.Rects {
				width += r.Width
			}
			if want := (o.End - o.Start) * scale; o.Op != plan.OpD && math.Abs(width-want) > 0.02 {
				t.Errorf("%s is %g wide, want %g", g.Title, width, want)
			}
			if wraps := o.Start < 1.8 && o.End > 1.8; wraps != (len(g.Rects) == 2) {
				t.Errorf("%s has %d pieces", g.Title, len(g.Rects))
			}
		}
		if found != 1 {
			t.Errorf("%s is drawn %d times", o, found)
		}
	}
}

// parsed is a trace as a viewer reads it.
type parsed struct {
	TraceEvents []struct {
		Name     string
		Ph       string
		ID       string
		Ts, Dur  float64
		Pid, Tid int
		Args     map[string]any
	}
}

// Events of a track do not overlap in whole nanoseconds, stays of a weight
// begin and end in turn, counters are in order.
func TestTraceNesting(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPlan(t)
		checkTrace(t, c, p)
	})
	c, p := example()
	trace := checkTrace(t, c, p)
	// The resource is busy as long as the plan says.
	busy := map[int]float64{}
	for _, e := range trace.TraceEvents {
		if e.Ph == "X" {
			busy[e.Tid] += e.Dur
		}
	}
	for tid, want := range map[int]float64{1: 1.4e6, 2: 1.0e6, 3: 0.8e6} {
		if math.Abs(busy[tid]-want) > 0.01 {
			t.Errorf("track %d is busy for %g µs, want %g", tid, busy[tid], want)
		}
	}
}

func checkTrace(t interface{ Fatalf(string, ...any) }, c *chain.Chain, p *plan.Plan) parsed {
	var b bytes.Buffer
	if err := drawTrace(&b, c, p); err != nil {
		t.Fatalf("%v", err)
	}
	var trace parsed
	if err := json.Unmarshal(b.Bytes(), &trace); err != nil {
		t.Fatalf("%v\n%s", err, b.String())
	}
	type span struct{ from, to int64 }
	tracks := map[[2]int][]span{}
	stays := map[string][]span{}
	last := int64(-1)
	for k, e := range trace.TraceEvents {
		ns := int64(math.Round(e.Ts * 1000))
		switch e.Ph {
		case "X":
			key := [2]int{e.Pid, e.Tid}
			tracks[key] = append(tracks[key], span{ns, ns + int64(math.Round(e.Dur*1000))})
		case "b":
			end := trace.TraceEvents[k+1]
			if end.Ph != "e" || end.ID != e.ID {
				t.Fatalf("stay %q does not end", e.ID)
			}
			stays[e.ID] = append(stays[e.ID], span{ns, int64(math.Round(end.Ts * 1000))})
		case "C":
			if ns < last {
				t.Fatalf("memory at %d ns after %d ns", ns, last)
			}
			last = ns
		}
	}
	disjoint := func(what any, s []span) {
		slices.SortFunc(s, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
		for k := range s {
			if s[k].to < s[k].from || k > 0 && s[k].from < s[k-1].to {
				t.Fatalf("%v: %v overlaps %v", what, s[k], s[max(0, k-1)])
			}
		}
	}
	for key, s := range tracks {
		disjoint(key, s)
	}
	r, err := verify.Replay(c, p)
	if err == nil && r.Valid() { // stays of broken plans may overlap
		for id, s := range stays {
			disjoint(id, s)
		}
	}
	return trace
}

func TestErrors(t *testing.T) {
	c, p := example()
	p.Period = nil
	if err := drawSVG(io.Discard, c, p, Options{}); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("SVG without period: %v", err)
	}
	if err := drawTrace(io.Discard, c, p); !errors.Is(err, plan.ErrUnreadable) {
		t.Errorf("trace without period: %v", err)
	}
	c, p = example()
	if err := drawSVG(broken{}, c, p, Options{}); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("SVG to a full disk: %v", err)
	}
	if err := drawTrace(broken{}, c, p); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("trace to a full disk: %v", err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrShortWrite }

// Pages draw what memory is used for in the colours of pictures.
func TestColoursOfMemoryAreOfAllPages(t *testing.T) {
	c, p := example()
	charts := map[string]func() (*chart, error){"weights": func() (*chart, error) { return weightsChart(c, p) }}
	for name, x := range map[string]struct {
		example func() (plan.Instance, *plan.Plan)
		chart   func(plan.Instance, *plan.Plan) (*chart, error)
	}{"steps": {threeLayers, stepsChart}, "offload": {awayAndBack, offloadChart}, "swap": {outAndIn, swapChart}, "pattern": {twoGPUs, patternChart}} {
		charts[name] = func() (*chart, error) { return x.chart(x.example()) }
	}
	charts["flush"] = func() (*chart, error) { return flushChart(twoStages()) }
	for name, make := range charts {
		c, err := make()
		if err != nil || len(c.memory.parts) == 0 {
			t.Fatal(name, err)
		}
		for _, part := range c.memory.parts {
			if got := Colours()[part.key]; got != part.fill {
				t.Errorf("%s: memory for %s is %q on pages, %q in pictures", name, part.key, got, part.fill)
			}
		}
	}
}
