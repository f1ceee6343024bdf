package plots

import (
	"math"
	"strings"

	"workbench/bench/render/picture"
	"workbench/bench/solve/fragmentation"
	"workbench/model/platform"
)

const gib = 1 << 30

// Fragmentation is the figure of memory over time, of the device that reserves
// most: what the plan requests, what each allocator reserves for it, and what
// of that is stuck, with the device's capacity as the bound if it has one.
func Fragmentation(f *fragmentation.Fragmentation) *picture.Figure {
	if len(f.Runs) == 0 {
		return &picture.Figure{Title: f.Problem}
	}
	most := &f.Runs[0]
	for i := range f.Runs {
		if f.Runs[i].Reserved > most.Reserved {
			most = &f.Runs[i]
		}
	}
	memory := platform.ByteUnit(float64(max(most.Reserved, most.Capacity)))
	time := platform.TimeUnit(0)
	if n := len(most.Samples); n > 0 {
		time = platform.TimeUnit(most.Samples[n-1].Time)
	}
	g := &picture.Figure{
		Title: f.Problem + ", " + f.Instance.Name + ", " + f.Method,
		X:     "time (" + time.Name + ")", Y: "memory (" + memory.Name + ")", FromZero: true,
	}
	if most.Device != "" {
		g.Title += ", " + most.Device
	}
	if f.Late {
		g.Title += ", freed late"
	}
	for i := range f.Runs {
		r := &f.Runs[i]
		if r.Device != most.Device || len(r.Samples) == 0 {
			continue
		}
		requested := picture.Series{Name: "requested", Steps: true, Style: 6}
		reserved := picture.Series{Name: r.Allocator + " reserved", Steps: true, Style: -1}
		stuck := picture.Series{Name: r.Allocator + " stuck", Steps: true, Dashed: true, Style: -1}
		add := func(to *picture.Series, at float64, bytes int64) { to.Add(at/time.Size, float64(bytes)/memory.Size) }
		for _, s := range r.Samples {
			add(&requested, s.Time, s.Requested)
			add(&reserved, s.Time, s.Reserved)
			add(&stuck, s.Time, s.Stuck)
		}
		reserved.Style = len(g.Series)
		if len(g.Series) == 0 {
			g.Series = append(g.Series, requested)
			reserved.Style = 0
		}
		g.Series = append(g.Series, reserved)
		if r.External > 0 {
			stuck.Style = reserved.Style
			g.Series = append(g.Series, stuck)
		}
	}
	if most.Capacity > 0 && len(most.Samples) > 0 {
		end := most.Samples[len(most.Samples)-1].Time / time.Size
		g.Bound = &picture.Bound{Name: "capacity", X: []float64{end}, Y: []float64{float64(most.Capacity) / memory.Size}, Above: true}
	}
	return g
}

// A BatchQuantity is what a figure over batches shows.
type BatchQuantity string

const (
	BatchSpeed  BatchQuantity = "speed"  // samples a second: [003] Figure 4
	BatchMemory BatchQuantity = "memory" // reserved by the allocator: [003] Figures 3 and 5
)

// Batches is the figure of training steps over their batch, a line for each
// method and allocator; batches that do not fit are gaps.
func Batches(title string, points []*fragmentation.BatchPoint, quantity BatchQuantity, capacity int64) *picture.Figure {
	g := &picture.Figure{Title: title, X: "batch", Y: "images/s", FromZero: true}
	if quantity == BatchMemory {
		g.Y = "memory (GiB)"
	}
	at := map[string]int{}
	for _, x := range points {
		name := strings.TrimSuffix(x.Method+", "+x.Allocator, ", ")
		k, known := at[name]
		if !known {
			k = len(g.Series)
			at[name] = k
			g.Series = append(g.Series, picture.Series{Name: name, Points: true, Style: -1})
		}
		y := x.Throughput
		switch {
		case !x.Fits:
			y = math.NaN()
		case quantity == BatchMemory:
			y = float64(x.Reserved) / gib
		}
		s := &g.Series[k]
		s.X, s.Y = append(s.X, float64(x.Batch)), append(s.Y, y)
	}
	if quantity == BatchMemory && len(points) > 0 {
		end := 0.0
		for _, x := range points {
			end = max(end, float64(x.Batch))
		}
		g.Bound = &picture.Bound{Name: "capacity", X: []float64{end}, Y: []float64{float64(capacity) / gib}, Above: true}
	}
	return g
}
