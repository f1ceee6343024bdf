package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/verify"
	"workbench/model/verify/replay"
	"workbench/model/verify/weightoffload"
)

// A traceEvent is one event of the Chrome trace format. Times are microseconds.
type traceEvent struct {
	Name  string         `json:"name"`
	Phase string         `json:"ph"`
	Cat   string         `json:"cat,omitempty"`
	ID    string         `json:"id,omitempty"`
	Time  microseconds   `json:"ts"`
	Dur   *microseconds  `json:"dur,omitempty"`
	PID   int            `json:"pid"`
	TID   int            `json:"tid"`
	Scope string         `json:"s,omitempty"`
	Args  map[string]any `json:"args,omitempty"`
}

// microseconds are kept as whole nanoseconds, the resolution of the viewer:
// with fractions of them, neighbours overlap by rounding and are dropped.
type microseconds int64

func (m microseconds) MarshalJSON() ([]byte, error) {
	sign := ""
	if m < 0 {
		sign, m = "-", -m
	}
	return fmt.Appendf(nil, "%s%d.%03d", sign, m/1000, m%1000), nil
}

func inMicroseconds(seconds float64) microseconds { return microseconds(math.Round(seconds * 1e9)) }

func weightsTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	c := plan.As[*chain.Chain](in)
	samples, err := weightoffload.Profile(c, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	stays, err := weightoffload.Residencies(c, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	events := []traceEvent{process("GPU")}
	for k, l := range lanes {
		events = append(events, thread(k+1, l.name)...)
	}
	d := &drawing{chain: c, plan: p, period: *p.Period}
	for k, l := range lanes {
		events = append(events, d.track(k+1, d.ops(l.kinds))...)
	}
	events = append(events, d.stays(stays)...)
	for k := range len(samples) + 1 {
		s, t := samples[min(k, len(samples)-1)], d.period
		if k < len(samples) {
			t = s.Time
		}
		events = append(events, traceEvent{Name: "memory (bytes)", Phase: "C", Time: inMicroseconds(t), PID: 1, Args: map[string]any{
			"activations": s.Activations, "weights": s.Weights, "gradients": s.Gradients,
		}})
	}
	return writeTrace(w, events)
}

// process names what is traced.
func process(name string) traceEvent {
	return traceEvent{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": name}}
}

// thread names a track and gives it its place, from 1 on.
func thread(tid int, name string) []traceEvent {
	return []traceEvent{
		{Name: "thread_name", Phase: "M", PID: 1, TID: tid, Args: map[string]any{"name": name}},
		{Name: "thread_sort_index", Phase: "M", PID: 1, TID: tid, Args: map[string]any{"sort_index": tid - 1}},
	}
}

// track returns the events of one resource, none overlapping another.
func (d *drawing) track(tid int, ops []drawnOp) []traceEvent {
	var events []traceEvent
	for _, o := range ops {
		for _, p := range o.pieces {
			e := traceEvent{Name: o.String(), Phase: "X", Cat: o.Op.Op, Time: inMicroseconds(p.start), PID: 1, TID: tid, Args: map[string]any{
				"layer": o.Layer, "start": o.Start, "end": o.End,
			}}
			if l := d.layer(o.Op); l != nil && l.Name != "" {
				e.Args["name"] = l.Name
			}
			if d.again[o.Op] {
				e.Args["recomputed"] = true
			}
			if o.Resource != "" { // of a pattern
				e.Name += fmt.Sprintf("^%d", o.Shift)
				e.Args["shift"] = o.Shift
			}
			if o.Op.Op == plan.OpD {
				e.Phase, e.Scope = "i", "t"
			} else {
				dur := inMicroseconds(p.end) - e.Time
				e.Dur = &dur
			}
			events = append(events, e)
		}
	}
	slices.SortStableFunc(events, func(a, b traceEvent) int { return cmp.Compare(a.Time, b.Time) })
	var free microseconds // when the last operation has ended
	for k := range events {
		e := &events[k]
		if e.Dur == nil {
			continue
		}
		start, end := max(free, e.Time), max(free, e.Time+*e.Dur)
		e.Time, *e.Dur, free = start, end-start, end
	}
	return events
}

// stays returns a pair of events for each time that a weight is in GPU memory,
// two pairs where that goes on in the next period. All of one weight have its
// id and follow one another.
func (d *drawing) stays(residencies []weightoffload.Residency) []traceEvent {
	var events []traceEvent
	for _, r := range residencies {
		parts := []piece{{r.Start, min(r.End, d.period)}}
		if r.End > d.period {
			parts = []piece{{0, min(r.End-d.period, r.Start)}, {r.Start, d.period}}
		}
		name := fmt.Sprintf("w_%d", r.Layer)
		for _, p := range parts {
			e := traceEvent{
				Name: name, Phase: "b", Cat: "weight", ID: name, Time: inMicroseconds(p.start), PID: 1,
				Args: map[string]any{"bytes": d.chain.Unit.Bytes(d.chain.Layers[r.Layer-1].Weight)},
			}
			f := e
			f.Phase, f.Time, f.Args = "e", max(e.Time, inMicroseconds(p.end)), nil
			events = append(events, e, f)
		}
	}
	return events
}

// writeTrace writes one event a line.
func writeTrace(w io.Writer, events []traceEvent) error {
	b := bufio.NewWriter(w)
	b.WriteString("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n") // errors stay in b until Flush
	for k := range events {
		line, err := json.Marshal(&events[k])
		if err != nil {
			return fmt.Errorf("trace: event %q: %w", events[k].Name, err)
		}
		if k > 0 {
			b.WriteString(",\n")
		}
		b.Write(line)
	}
	b.WriteString("\n]}\n")
	return b.Flush()
}

// stepsTrace writes a plan of remat or join: its computations on one track,
// what is kept when, and the memory in use.
func stepsTrace(w io.Writer, in plan.Instance, p *plan.Plan) error {
	memory, err := verify.Profile(in, p)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	s := stepsOf(in, p)
	events := []traceEvent{
		process("GPU"),
		{Name: "thread_name", Phase: "M", PID: 1, TID: 1, Args: map[string]any{"name": "compute"}},
	}
	var free microseconds
	for _, c := range s.computed {
		start := max(free, inMicroseconds(c.start))
		free = max(start, inMicroseconds(c.end))
		dur := free - start
		args := map[string]any{"layer": s.label(c.row)}
		if c.recomputed {
			args["recomputed"] = true
		}
		events = append(events, traceEvent{Name: c.title, Phase: "X", Cat: c.kind, Time: start, Dur: &dur, PID: 1, TID: 1, Args: args})
	}
	for _, k := range s.kept {
		begin := traceEvent{
			Name: k.title, Phase: "b", Cat: "kept", ID: fmt.Sprintf("%s %d", k.kind, k.row), Time: inMicroseconds(k.start),
			PID: 1,
		}
		end := begin
		end.Phase, end.Time = "e", inMicroseconds(k.end)
		events = append(events, begin, end)
	}
	for _, m := range memory {
		events = append(events, memoryEvent(m.Start, m.During), memoryEvent(m.End, m.After))
	}
	return writeTrace(w, events)
}

// memoryEvents are those of steps that follow one another.
func memoryEvents(memory []replay.MemoryStep, event func(t float64, m replay.MemoryParts) traceEvent) []traceEvent {
	var events []traceEvent
	for _, m := range memory {
		events = append(events, event(m.Start, m.During))
	}
	if n := len(memory); n > 0 {
		events = append(events, event(memory[n-1].End, memory[n-1].After))
	}
	return events
}

func memoryEvent(t float64, m replay.MemoryParts) traceEvent {
	return traceEvent{Name: "memory (bytes)", Phase: "C", Time: inMicroseconds(t), PID: 1, Args: map[string]any{
		"activations": m.Fixed + m.Activations, "saved": m.Saved, "gradients": m.Gradients, "overhead": m.Overhead,
	}}
}
