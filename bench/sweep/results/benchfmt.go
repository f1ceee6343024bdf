package results

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// units of the measures beside sec/op, and which of them are not noise: benchstat
// compares those as they are. Less is better of all but the bound.
const units = `Unit objective-sec better=lower
Unit bound-sec better=higher
Unit gap-pct better=lower
Unit peak-bytes better=lower assume=exact
Unit nodes better=lower
Unit failed better=lower assume=exact
Unit stopped better=lower assume=exact
`

// writeBenchfmt writes the night in the Go benchmark format (golang.org/x/perf,
// benchfmt), one line a row, its repetitions being lines of the same name:
//
//	BenchmarkSolve/problem=remat/instance=resnet50/memory=range_40%/method=floating-1 1 20160000 ns/op 1.5 gap-pct 0 failed 0 stopped
//
// so that benchstat compares nights:
//
//	benchstat -filter '/method:floating .unit:(sec/op OR gap-pct)' old.txt new.txt
//
// The number behind the last - is that of threads. A run that was stopped or
// failed has no sec/op, since that is not how long it takes; sec/op is the processor time of
// single-threaded runs, see [Time].
func writeBenchfmt(w io.Writer, n *Night) error {
	return buffered(w, func(b *bufio.Writer) {
		// Not as keys: benchstat compares only what has the same.
		fmt.Fprintf(b, "# sweep %s\n", oneLine(n.Name))
		b.WriteString(units)
		version := ""
		for _, r := range Records(n) {
			if r.Version != version {
				version = r.Version
				fmt.Fprintf(b, "# version %s\n", oneLine(version))
			}
			b.WriteString(name(&r))
			b.WriteString(" 1")
			measure := func(x *float64, scale float64, unit string) {
				if x != nil && !math.IsNaN(*x) && !math.IsInf(*x, 0) {
					fmt.Fprintf(b, " %s %s", strconv.FormatFloat(*x*scale, 'g', -1, 64), unit)
				}
			}
			if !r.Stopped {
				measure(&r.Time, 1e9, "ns/op")
			}
			measure(r.Objective, 1, "objective-sec")
			measure(r.Bound, 1, "bound-sec")
			measure(r.BestGap, 100, "gap-pct")
			measure(r.PeakMemory, 1, "peak-bytes")
			if r.Nodes != nil {
				fmt.Fprintf(b, " %d nodes", *r.Nodes)
			}
			fmt.Fprintf(b, " %d failed %d stopped\n", bit(r.Failed), bit(r.Stopped))
		}
	})
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}

// name returns the benchmark's name: what the task is, up to version and
// repetition.
func name(r *Record) string {
	var b strings.Builder
	b.WriteString("BenchmarkSolve")
	part := func(key, value string) {
		if value != "" {
			b.WriteString("/" + key + "=" + word(value))
		}
	}
	number := func(key string, x int64) {
		if x > 0 {
			part(key, strconv.FormatInt(x, 10))
		}
	}
	exact := func(x *float64) string {
		if x == nil {
			return ""
		}
		return strconv.FormatFloat(*x, 'g', -1, 64)
	}
	part("problem", r.Problem)
	part("instance", r.Name)
	part("sha256", r.SHA256[:min(8, len(r.SHA256))])
	memory := r.MemoryName
	if memory == "" {
		memory = exact(&r.Memory)
	}
	part("memory", memory)
	part("bandwidth", exact(r.Bandwidth))
	number("processors", r.Processors)
	part("model", r.MemoryModel)
	number("micro_batches", r.MicroBatches)
	part("placement", r.Placement)
	part("minimised", r.Minimised)
	if r.Model != "paper" { // else the name is as before there was a choice
		part("counts", r.Model)
	}
	if r.Processors > 0 {
		part("copies", strconv.FormatInt(r.WeightCopies, 10))
	}
	if r.Replicas {
		part("replicas", "true")
	}
	part("method", r.Method)
	number("slots", r.Slots)
	part("backend", r.Backend)
	part("limit", exact(r.TimeLimit))
	if r.TaskGap > 0 {
		part("gap", exact(&r.TaskGap))
	}
	number("seed", r.Seed)
	return b.String() + "-" + strconv.FormatInt(max(r.Threads, 1), 10)
}

// word replaces what divides names: white space and slashes.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r <= ' ' || r == '/' || r == 0x7f || r == 0x85 || r == 0xa0 {
			return '_'
		}
		return r
	}, s)
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
