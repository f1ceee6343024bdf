// Package addressreport compares the heights of placements of the plans of a sweep with
// their loads: what fixed addresses, given before the run, cost in memory.
package addressreport

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"

	"github.com/aclements/go-moremath/stats"
	"workbench/bench/render"
	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/solve/fragmentation"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/heuristics/placement"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/placement"
)

// Format names the JSON of [Report].
const Format = "workbench.heights/v1"

// Report has a placement of the tensors of every plan of a sweep.
type Report struct {
	Format string      `json:"format"`
	Sweep  string      `json:"sweep"`
	Align  int64       `json:"align"` // bytes
	Plans  []Placement `json:"plans"` // in the order of the sweep, each plan once
}

// Placement is the placement of a plan on the device where it has most. Sizes are in bytes.
type Placement struct {
	Plan     string  `json:"plan"` // its digest
	Problem  string  `json:"problem"`
	Instance string  `json:"instance"`
	Method   string  `json:"method"`
	Memory   float64 `json:"memory"` // the plan's limit
	Buffers  int     `json:"buffers"`
	Load     int64   `json:"load"`   // the most that is alive at a time
	Height   int64   `json:"height"` // of the placement
	Bound    int64   `json:"bound"`  // no placement is lower
}

// AboveLoad returns by how much the height is above the load, in parts of the load.
func (h *Placement) AboveLoad() float64 {
	return float64(h.Height-h.Load) / math.Max(float64(h.Load), 1)
}

// rounds is how long a placement is improved; most are at the load at once.
const rounds = 1

// PlaceSweep places the tensors of every plan in the folder of a sweep, at multiples of
// align bytes, by first fit and a round of search ([placement.Least]): the same
// heights on every machine. Plans that count in slots are left out. progress may be
// nil. If ctx ends the report has the plans so far. Plans that cannot be placed, because
// their instance has changed since, for example, are counted in the error; the report has the others.
func PlaceSweep(ctx context.Context, dir string, align int64, progress func(done, all int)) (*Report, error) {
	night, err := store.Read(dir)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	planned := slices.DeleteFunc(slices.Clone(night.Rows), func(r *sweep.Row) bool {
		p, err := catalog.FindProblem(r.Task.Problem)
		repeated := seen[r.Plan]
		seen[r.Plan] = true
		return r.Plan == "" || repeated || err != nil || p.Slots || p.Tensors == nil
	})
	h := &Report{Format: Format, Sweep: night.Sweep, Align: align, Plans: []Placement{}}
	var first error
	failed := 0
	folder := &worker.Folder{Dir: dir}
	for k, r := range planned {
		if ctx.Err() != nil {
			break
		}
		if progress != nil {
			progress(k, len(planned))
		}
		x, err := placeRow(ctx, dir, folder, r, align)
		switch {
		case err != nil:
			if failed++; first == nil {
				first = fmt.Errorf("plan %s of %s by %s: %w", r.Plan, r.Task.Instance, r.Task.Method, err)
			}
		case x != nil:
			h.Plans = append(h.Plans, *x)
		}
	}
	if first != nil {
		return h, fmt.Errorf("%d of %d plans were not placed; the first: %w", failed, len(planned), first)
	}
	return h, nil
}

// placeRow places the plan of a row; nil if it has nothing on any device.
func placeRow(ctx context.Context, dir string, folder *worker.Folder, r *sweep.Row, align int64) (*Placement, error) {
	problem, err := catalog.FindProblem(r.Task.Problem)
	if err != nil {
		return nil, err
	}
	doc, err := folder.Document(r.Task)
	if err != nil {
		return nil, err
	}
	in, err := solve.Load("-", bytes.NewReader(doc))
	if err != nil {
		return nil, err
	}
	text, err := store.Plan(dir, r.Plan)
	if err != nil {
		return nil, err
	}
	p, err := plan.Read(bytes.NewReader(text), r.Plan)
	if err != nil {
		return nil, err
	}
	t, err := fragmentation.Fullest(problem, in, p, "")
	if err != nil || t == nil {
		return nil, err
	}
	l := t.Lifetimes(in.Name, align)
	if err := l.Validate(); err != nil {
		return nil, solve.InputError(err)
	}
	v := view.New(l)
	f := placement.Least(ctx, v, placement.Goal{Rounds: rounds})
	return &Placement{
		Plan: r.Plan, Problem: p.Problem, Instance: in.Name, Method: r.Task.Method, Memory: in.Unit().Bytes(p.Platform.Memory),
		Buffers: len(l.Buffers), Load: v.Load(), Height: f.Height, Bound: f.Bound,
	}, nil
}

// Write writes a line for each problem: how many plans have a placement at their load,
// by how much the others are above it, and in how many the placement takes more than
// the plan's memory. Means are geometric, of height over load.
func (h *Report) Write(w io.Writer) {
	t := render.Table(w, table.Row{"problem", "plans", "at the load", "proved least", "mean over", "worst over", "of", "beyond memory"}, 2, 3,
		4, 5, 6, 8)
	for _, p := range catalog.Problems() {
		var over []float64
		atLoad, least, beyond := 0, 0, 0
		worst := &Placement{}
		for i := range h.Plans {
			x := &h.Plans[i]
			if x.Problem != p.Name {
				continue
			}
			over = append(over, 1+x.AboveLoad())
			if x.Height == x.Load {
				atLoad++
			}
			if x.Height == x.Bound {
				least++
			}
			if !platform.Fits(float64(x.Height), x.Memory) {
				beyond++
			}
			if x.AboveLoad() > worst.AboveLoad() {
				worst = x
			}
		}
		if len(over) == 0 {
			continue
		}
		of := "–"
		if worst.Instance != "" {
			of = worst.Instance + ", " + worst.Method
		}
		t.AppendRow(table.Row{
			p.Name, len(over), atLoad, least, render.Percent(stats.GeoMean(over) - 1), render.Percent(worst.AboveLoad()), of,
			beyond,
		})
	}
	t.Render()
}
