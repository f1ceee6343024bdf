package timeline

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
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

// events returns the trace of a chart: names, operations, what is kept, the memory in use.
func (c *chart) events() []traceEvent {
	events := []traceEvent{{Name: "process_name", Phase: "M", PID: 1, Args: map[string]any{"name": c.process}}}
	for i, t := range c.tracks {
		events = append(
			events,
			traceEvent{Name: "thread_name", Phase: "M", PID: 1, TID: i + 1, Args: map[string]any{"name": t.name}},
			traceEvent{Name: "thread_sort_index", Phase: "M", PID: 1, TID: i + 1, Args: map[string]any{"sort_index": i}},
		)
		events = append(events, trackEvents(i+1, t.boxes)...)
	}
	for _, s := range c.stays {
		for _, p := range s.pieces {
			e := traceEvent{Name: s.name, Phase: "b", Cat: s.category, ID: s.id, Time: inMicroseconds(p.start), PID: 1, Args: s.args}
			f := e
			f.Phase, f.Time = "e", max(e.Time, inMicroseconds(p.end))
			events = append(events, e, f)
		}
	}
	for _, d := range c.memory.devices {
		of := ""
		if d.name != "" {
			of = "of " + d.name + " "
		}
		for _, l := range d.levels {
			args := map[string]any{}
			for k, p := range c.memory.parts {
				args[p.key] = l.parts[k]
			}
			events = append(events, traceEvent{Name: "memory " + of + "(bytes)", Phase: "C", Time: inMicroseconds(l.time), PID: 1, Args: args})
		}
	}
	return events
}

// trackEvents returns the events of one resource, none overlapping another.
func trackEvents(tid int, boxes []box) (events []traceEvent) {
	for _, b := range boxes {
		args := maps.Clone(b.args)
		args["start"], args["end"] = b.Start, b.End
		for _, p := range b.pieces {
			e := traceEvent{Name: b.name, Phase: "X", Cat: b.Op.Op, Time: inMicroseconds(p.start), PID: 1, TID: tid, Args: args}
			if b.instant {
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
