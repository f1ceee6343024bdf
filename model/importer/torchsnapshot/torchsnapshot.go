// Package torchsnapshot reads memory snapshots of PyTorch (torch.cuda.memory._snapshot())
// as lifetimes, and writes placements as such. A snapshot is a pickle of builtins, which is
// read without running anything in it, or the same as JSON.
package torchsnapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/instance/lifetimes"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Align is what addresses of PyTorch's allocator on CUDA are multiples of, in bytes.
const Align = 512

// Options choose a part of a snapshot.
type Options struct {
	Device   int // -1: the only one with events
	From, To int // events; To 0: up to the last one
}

// event is an entry of a trace.
type event struct {
	action        string
	address, size int64
	stream        int64
	frame         string
}

// Read reads the events of one device as lifetimes: a block lives from its alloc to its
// free_completed, an instant for each event. What lives on from before the part, or to
// after it, lives from its start or to its end. The stream and the innermost frame of a
// block are kept as notes, what the allocator reserved at most in the part, and its load,
// in the source, "reserved" and "load". The warnings count the blocks that are cut. Name is
// for errors. O(events · log).
func Read(r io.Reader, name string, o Options) (*lifetimes.Lifetimes, []string, error) {
	data, err := strictjson.Read(r, name, strictjson.MostBytes)
	if err != nil {
		return nil, nil, err
	}
	doc, err := decode(data)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	l, warnings, err := read(doc, o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, warnings, nil
}

// decode reads a pickle or JSON.
func decode(data []byte) (dict, error) {
	var v any
	var err error
	if text := bytes.TrimLeft(data, " \t\r\n"); len(text) > 0 && text[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		err = d.Decode(&v)
	} else {
		v, err = unpickle(data)
	}
	if err != nil {
		return nil, err
	}
	doc, ok := v.(dict)
	if !ok || doc["device_traces"] == nil {
		return nil, errors.New("it has no device_traces: a snapshot is what torch.cuda.memory._snapshot() returns while the history is recorded")
	}
	return doc, nil
}

// items returns the elements of a list.
func items(v any) []any {
	switch v := v.(type) {
	case *list:
		return v.items
	case []any:
		return v
	}
	return nil
}

// whole returns an integer, 0 where there is none.
func whole(v any) int64 {
	switch v := v.(type) {
	case int64:
		return v
	case json.Number:
		x, err := strconv.ParseInt(v.String(), 10, 64)
		if err == nil {
			return x
		}
	}
	return 0
}

func word(v any) string {
	s, _ := v.(string)
	return s
}

// trace returns the events of a device.
func trace(v any) (events []event) {
	for _, x := range items(v) {
		d, _ := x.(dict)
		e := event{action: word(d["action"]), address: whole(d["addr"]), size: whole(d["size"]), stream: whole(d["stream"])}
		if frames := items(d["frames"]); len(frames) > 0 {
			f, _ := frames[0].(dict)
			e.frame = fmt.Sprintf("%s:%d %s", word(f["filename"]), whole(f["line"]), word(f["name"]))
		}
		events = append(events, e)
	}
	return events
}

// choose returns the device that is asked for, or the only one with events.
func choose(traces [][]event, asked int) (int, error) {
	var with []string
	last := -1
	for d, events := range traces {
		if len(events) > 0 {
			with, last = append(with, strconv.Itoa(d)), d
		}
	}
	switch {
	case len(with) == 0:
		return 0, errors.New("no device has events: record them by torch.cuda.memory._record_memory_history()")
	case asked < 0 && len(with) > 1:
		return 0, fmt.Errorf("devices %s have events; --device N says which", strings.Join(with, ", "))
	case asked >= 0 && !slices.Contains(with, strconv.Itoa(asked)):
		return 0, fmt.Errorf("device %d has no events; devices with events: %s", asked, strings.Join(with, ", "))
	case asked >= 0:
		return asked, nil
	}
	return last, nil
}

func read(doc dict, o Options) (*lifetimes.Lifetimes, []string, error) {
	var traces [][]event
	for _, t := range items(doc["device_traces"]) {
		traces = append(traces, trace(t))
	}
	device, err := choose(traces, o.Device)
	if err != nil {
		return nil, nil, err
	}
	events := traces[device]
	if o.To == 0 {
		o.To = len(events)
	}
	if o.From < 0 || o.From >= o.To || o.To > len(events) {
		return nil, nil, fmt.Errorf("--between %d,%d: the device has events 0 to %d", o.From, o.To, len(events))
	}
	w := &window{Options: o, events: events, live: map[int64]*block{}, segments: map[int64]int64{}}
	w.end(doc, device)
	w.back()
	l, cut := w.lifetimes()
	l.Name, l.Source["device"] = "snapshot", device
	if err := l.Validate(); err != nil {
		return nil, nil, err
	}
	return l, cut, nil
}

// block is a time in which an address is taken, [lower, upper) in events.
type block struct {
	event
	lower, upper int
}

// window goes back through the events of a device from the end of the trace, where the
// snapshot says what is there: the first events may be lost.
type window struct {
	Options
	events   []event
	blocks   []*block
	live     map[int64]*block // by address
	segments map[int64]int64  // sizes by address
	reserved []int64          // before each event, and at the end
}

// end takes over what is there at the end of the trace.
func (w *window) end(doc dict, device int) {
	n := len(w.events)
	for _, s := range items(doc["segments"]) {
		d, _ := s.(dict)
		if whole(d["device"]) != int64(device) {
			continue
		}
		at := whole(d["address"])
		w.segments[at] = whole(d["total_size"])
		for _, x := range items(d["blocks"]) {
			b, _ := x.(dict)
			size := whole(b["requested_size"])
			if size == 0 {
				size = whole(b["size"])
			}
			address := at
			if b["address"] != nil {
				address = whole(b["address"])
			}
			at += whole(b["size"])
			if state := word(b["state"]); state == "active_allocated" || state == "active_awaiting_free" || state == "active_pending_free" {
				w.begin(address, &block{event: event{address: address, size: size, stream: whole(d["stream"])}, upper: n + 1})
			}
		}
	}
}

func (w *window) begin(address int64, b *block) {
	w.live[address] = b
	w.blocks = append(w.blocks, b)
}

// back undoes the events from the last to the first. A block without an event alloc lives
// from -1 on, one without free_completed to n+1.
func (w *window) back() {
	n := len(w.events)
	w.reserved = make([]int64, n+1)
	sum := func() (s int64) {
		for _, size := range w.segments {
			s += size
		}
		return s
	}
	now := sum()
	w.reserved[n] = now
	for k := n - 1; k >= 0; k-- {
		e := w.events[k]
		switch e.action {
		case "alloc":
			b := w.live[e.address]
			if b == nil { // its end is not in the trace
				b = &block{upper: n + 1}
				w.blocks = append(w.blocks, b)
			}
			b.event, b.lower = e, k
			delete(w.live, e.address)
		case "free_completed":
			w.begin(e.address, &block{event: e, upper: k})
		case "segment_alloc", "segment_map":
			now -= e.size
		case "segment_free", "segment_unmap":
			now += e.size
		}
		w.reserved[k] = max(0, now)
	}
	for _, b := range w.live {
		b.lower = -1
	}
}

// lifetimes returns the blocks of the part that is asked for, and how many are cut.
func (w *window) lifetimes() (*lifetimes.Lifetimes, []string) {
	slices.SortFunc(w.blocks, func(a, b *block) int { return cmp.Or(cmp.Compare(a.lower, b.lower), cmp.Compare(a.address, b.address)) })
	l := &lifetimes.Lifetimes{Align: Align, Source: map[string]any{
		"kind": "import", "format": "torch-snapshot",
		"events": []int{w.From, w.To},
	}}
	before, after := 0, 0
	change := map[int]int64{}
	for _, b := range w.blocks {
		if b.upper <= w.From || b.lower >= w.To || b.size == 0 {
			continue
		}
		if b.lower < w.From {
			before++
		}
		if b.upper > w.To {
			after++
		}
		k := len(l.Buffers)
		lower, upper := max(b.lower, w.From), min(b.upper, w.To)
		change[lower] += b.size
		change[upper] -= b.size
		l.Buffers = append(l.Buffers, lifetimes.Buffer{
			ID: "b" + strconv.Itoa(k), Lower: int64(lower), Upper: int64(upper),
			Size: float64(b.size),
		})
		path := fmt.Sprintf("buffers[%d]", k)
		l.Extra = append(l.Extra, strictjson.Extra{Path: path, Key: "x-stream", Value: json.RawMessage(strconv.FormatInt(b.stream, 10))})
		if b.frame != "" {
			text, _ := json.Marshal(b.frame)
			l.Extra = append(l.Extra, strictjson.Extra{Path: path, Key: "x-frame", Value: text})
		}
	}
	now, load, reserved := int64(0), int64(0), w.reserved[w.To]
	for k := w.From; k < w.To; k++ {
		now += change[k]
		load, reserved = max(load, now), max(reserved, w.reserved[k])
	}
	l.Source["reserved"], l.Source["load"] = reserved, load
	warnings := []string{fmt.Sprintf("the caching allocator reserved %d bytes for a load of %d", reserved, load)}
	if before+after > 0 {
		warnings = append(warnings, fmt.Sprintf("%s from before the part and %s to after it live on: they are cut at its ends",
			platform.Count(before, "block"), platform.Count(after, "block")))
	}
	return l, warnings
}

// base is the address of the segment that is written.
const base = int64(0x7f0000000000)

// Write writes a placement of lifetimes as the pickle of a snapshot with one segment, which
// torch.cuda._memory_viz opens: a block for each buffer, at its address, an instant a
// microsecond. O(n log n).
func Write(w io.Writer, p *plan.Plan, in plan.Instance) error {
	l, ok := in.(*lifetimes.Lifetimes)
	if !ok || len(p.Offsets) == 0 {
		return errors.New("torch-snapshot takes a plan of addresses and, after it, its lifetimes: workbench place PLAN --plan FILE --output " +
			"FILE makes both")
	}
	at := map[string]int64{}
	for _, o := range p.Offsets {
		at[o.ID] = int64(o.Offset)
	}
	type edge struct {
		time   int64
		begins int
		buffer int
	}
	var edges []edge
	top := int64(0)
	first := int64(math.MaxInt64)
	for i := range l.Buffers {
		b := &l.Buffers[i]
		offset, placed := at[b.ID]
		if size := l.Unit.Bytes(b.Size); !placed || size != math.Trunc(size) {
			return fmt.Errorf("buffer %q has no offset, or a size with decimals", b.ID)
		} else if size == 0 {
			continue
		}
		top, first = max(top, offset+int64(l.Unit.Bytes(b.Size))), min(first, b.Lower)
		for _, v := range b.Intervals() {
			edges = append(edges, edge{v.Lower, 1, i}, edge{v.Upper, 0, i})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.begins, b.begins), cmp.Compare(a.buffer, b.buffer))
	})
	top = (top + Align - 1) / Align * Align
	record := func(action string, time, address, size int64, name string) any {
		return fields{
			{"action", action},
			{"addr", address},
			{"size", size},
			{"stream", int64(0)},
			{"time_us", time},
			{"frames", []any{fields{{"filename", l.Name}, {"line", int64(0)}, {"name", name}}}},
		}
	}
	events := []any{record("segment_alloc", 0, base, top, "workbench")}
	for _, e := range edges {
		b := &l.Buffers[e.buffer]
		actions := []string{"alloc"}
		if e.begins == 0 {
			actions = []string{"free_requested", "free_completed"}
		}
		for _, a := range actions {
			events = append(events, record(a, e.time-first, base+at[b.ID], int64(l.Unit.Bytes(b.Size)), b.ID))
		}
	}
	segment := fields{
		{"device", int64(0)},
		{"address", base},
		{"total_size", top},
		{"allocated_size", int64(0)},
		{"active_size", int64(0)},
		{"requested_size", int64(0)},
		{"stream", int64(0)},
		{"segment_type", "large"},
		{"segment_pool_id", tuple{int64(0), int64(0)}},
		{"is_expandable", false},
		{"frames", []any{}},
		{"blocks", []any{fields{{"size", top}, {"requested_size", int64(0)}, {"address", base}, {"state", "inactive"}, {"frames", []any{}}}}},
	}
	_, err := w.Write(pickle(fields{
		{"segments", []any{segment}},
		{"device_traces", []any{[]any(events)}},
		{"allocator_settings", fields{}},
		{"external_annotations", []any{}},
	}))
	return err
}
