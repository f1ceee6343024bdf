// Package page writes plans as one self-contained HTML file: a timeline of compute and transfers
// over the memory in use, zoomed together, and the largest tensors at the peak.
package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"maps"
	"math"
	"slices"

	"workbench/bench/render/timeline"
	"workbench/model/allocator"
	"workbench/model/plan"
	"workbench/model/verify"
)

//go:embed page.html
var text string

//go:embed page.js
var script string

// A Plan is one plan of a page.
type Plan struct {
	Name     string
	Summary  string // shown above the timeline
	Instance plan.Instance
	Plan     *plan.Plan
	Timeline timeline.Drawer
	Tensors  allocator.Tracer // nil: no table of tensors
}

// shown is a plan as the script reads it. Sizes in bytes, times in microseconds,
// those of tensors in seconds.
type shown struct {
	Name     string     `json:"name"`
	Summary  string     `json:"summary"`
	Limit    float64    `json:"limit"` // 0: none
	Resident []resident `json:"resident"`
	Lanes    []string   `json:"lanes"`
	Boxes    [][]any    `json:"boxes"`  // lane, start, duration, category, name, arguments
	Rects    [][]any    `json:"rects"`  // start, end, offset, size, name
	Memory   []*memory  `json:"memory"` // of each device
}

// memory is a counter of the trace: a row is a time and the value of each part.
type memory struct {
	Name  string      `json:"name"`
	Parts []string    `json:"parts"`
	Rows  [][]float64 `json:"rows"`
}

type resident struct {
	Name  string  `json:"name"`
	Bytes int64   `json:"bytes"`
	Since float64 `json:"since"`
}

// mostResident is how many tensors the table of a plan has.
const mostResident = 10

// Write writes one page with plans on one time axis. The file refers to nothing outside itself.
func Write(w io.Writer, title string, plans ...Plan) error {
	return write(w, title, "", plans)
}

// WriteSlider writes one page that shows one of several plans, which a slider chooses by name; label says what it moves over.
func WriteSlider(w io.Writer, title, label string, plans []Plan) error {
	return write(w, title, label, plans)
}

func write(w io.Writer, title, slider string, plans []Plan) error {
	var list []shown
	for _, p := range plans {
		x, err := show(p)
		if err != nil {
			return err
		}
		list = append(list, x)
	}
	content := map[string]any{"plans": list, "slider": slider, "colours": timeline.Colours()}
	data, err := json.Marshal(content) // escapes <, so that no text ends the element
	if err != nil {
		return err
	}
	page, err := template.New("page").Parse(text)
	if err != nil {
		return err
	}
	return page.Execute(w, map[string]any{"Title": title, "Data": template.JS(data), "Script": template.JS(script)})
}

func show(p Plan) (shown, error) {
	x := shown{
		Name: p.Name, Summary: p.Summary, Resident: []resident{}, Lanes: []string{}, Boxes: [][]any{}, Rects: [][]any{},
		Memory: []*memory{},
	}
	var trace bytes.Buffer
	if err := p.Timeline.Trace(&trace, p.Instance, p.Plan); err != nil {
		return x, fmt.Errorf("page: %w", err)
	}
	if err := x.readTrace(trace.Bytes()); err != nil {
		return x, err
	}
	if m := p.Plan.Platform.Memory; !math.IsInf(m, 1) {
		x.Limit = m
	}
	if p.Tensors == nil {
		return x, nil
	}
	if report, err := verify.Replay(p.Instance, p.Plan); err != nil || !report.Valid() {
		return x, err // an invalid plan is shown, but what it holds has no meaning
	}
	traces, err := allocator.Traces(p.Tensors, p.Instance, p.Plan, 1)
	if err != nil {
		return x, err
	}
	for _, t := range traces {
		x.Resident = append(x.Resident, atPeak(t, len(traces) > 1)...)
	}
	slices.SortStableFunc(x.Resident, func(a, b resident) int { return int(min(1, max(-1, b.Bytes-a.Bytes))) })
	x.Resident = x.Resident[:min(len(x.Resident), mostResident)]
	return x, nil
}

// event is what the page needs of an event of a trace.
type event struct {
	Name, Ph, Cat, ID string
	TS, Dur           float64
	TID               int
	Args              map[string]any
}

// readTrace reads lanes, operations, buffers and memory from a Chrome trace. O(events).
func (x *shown) readTrace(data []byte) error {
	var trace struct{ TraceEvents []event }
	if err := json.Unmarshal(data, &trace); err != nil {
		return fmt.Errorf("page: %w", err)
	}
	lane := map[int]int{}
	open := map[string]event{}
	for _, e := range trace.TraceEvents {
		switch {
		case e.Ph == "M" && e.Name == "thread_name":
			lane[e.TID] = len(x.Lanes)
			x.Lanes = append(x.Lanes, fmt.Sprint(e.Args["name"]))
		case e.Ph == "X":
			maps.DeleteFunc(e.Args, func(k string, _ any) bool { return k == "start" || k == "end" })
			x.Boxes = append(x.Boxes, []any{lane[e.TID], e.TS, e.Dur, e.Cat, e.Name, e.Args})
		case e.Ph == "C":
			x.sample(&e)
		case e.Ph == "b" && e.Args["offset"] != nil:
			open[e.ID] = e
		case e.Ph == "e" && e.Args["offset"] != nil:
			x.Rects = append(x.Rects, []any{open[e.ID].TS, e.TS, e.Args["offset"], e.Args["size"], e.Name})
		}
	}
	return nil
}

// sample appends a value of a counter, unless nothing has changed.
func (x *shown) sample(e *event) {
	k := slices.IndexFunc(x.Memory, func(m *memory) bool { return m.Name == e.Name })
	if k < 0 {
		k = len(x.Memory)
		x.Memory = append(x.Memory, &memory{Name: e.Name, Parts: slices.Sorted(maps.Keys(e.Args))})
	}
	m := x.Memory[k]
	row := []float64{e.TS}
	for _, part := range m.Parts {
		v, _ := e.Args[part].(float64)
		row = append(row, v)
	}
	if n := len(m.Rows); n == 0 || !slices.Equal(m.Rows[n-1][1:], row[1:]) {
		m.Rows = append(m.Rows, row)
	}
}

// atPeak returns the tensors of a device that are there when it holds most. O(events).
func atPeak(t *allocator.Trace, several bool) []resident {
	now, peak := int64(0), int64(-1)
	since := map[int32]float64{}
	var best map[int32]float64
	for _, e := range t.Events {
		if e.Free {
			now -= t.Blocks[e.Block].Size
			delete(since, e.Block)
			continue
		}
		now += t.Blocks[e.Block].Size
		since[e.Block] = e.Time
		if now > peak {
			peak, best = now, nil
		}
		if best == nil {
			best = map[int32]float64{}
			for b, s := range since {
				best[b] = s
			}
		}
	}
	var list []resident
	for b, s := range best {
		name := t.Blocks[b].String()
		if several && t.Device != "" {
			name += " on " + t.Device
		}
		list = append(list, resident{name, t.Blocks[b].Size, s})
	}
	slices.SortFunc(list, func(a, b resident) int {
		if a.Bytes != b.Bytes {
			return int(min(1, max(-1, b.Bytes-a.Bytes)))
		}
		return bytes.Compare([]byte(a.Name), []byte(b.Name))
	})
	return list[:min(len(list), mostResident)]
}
