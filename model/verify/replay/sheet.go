package replay

import (
	"fmt"
	"strings"

	"workbench/model/plan"
	"workbench/model/platform"
)

// About is what every summary begins with.
type About struct {
	Problem  string `json:"problem"`
	Method   string `json:"method"`
	Instance string `json:"instance"`
}

// Peak is what a summary says of memory, in bytes, of a join in slots.
type Peak struct {
	Memory     float64 `json:"memory"` // the limit
	PeakMemory float64 `json:"peak_memory"`
	PeakTime   float64 `json:"peak_time"`         // when it is first reached
	PeakOp     string  `json:"peak_op,omitempty"` // and by what: "B_3"; empty: from the start
}

// NewAbout returns what a summary of p begins with.
func NewAbout(p *plan.Plan) About { return About{p.Problem, p.Method, p.Instance.Name} }

// NewPeak returns the peak that a report on p has, in a unit.
func NewPeak(p *plan.Plan, r *plan.Report, unit platform.Unit) Peak {
	x := Peak{Memory: p.Unit.Bytes(p.Platform.Memory), PeakMemory: unit.Bytes(r.PeakMemory), PeakTime: r.PeakTime}
	if r.PeakOp >= 0 {
		x.PeakOp = p.Ops[r.PeakOp].String()
	}
	return x
}

// First says with what the peak is first reached; otherwise where it is there always.
func (x *Peak) First(otherwise string) string {
	if x.PeakOp == "" {
		return otherwise
	}
	return fmt.Sprintf("first with %s at %s", x.PeakOp, platform.FormatSeconds(x.PeakTime))
}

// A Sheet is a summary as lines of text.
type Sheet struct{ strings.Builder }

// Title begins a sheet; an instance without a name is so called.
func (b *Sheet) Title(a *About, nameless string) {
	name := a.Instance
	if name == "" {
		name = nameless
	}
	fmt.Fprintf(b, "%s plan for %s by %s\n", a.Problem, name, a.Method)
}

// Line writes a line under its name.
func (b *Sheet) Line(name, format string, args ...any) {
	fmt.Fprintf(b, "  %-11s "+format+"\n", append([]any{name}, args...)...)
}

// End says how many rules are broken, and returns the sheet.
func (b *Sheet) End(violations int) string {
	if violations > 0 {
		b.Line("INVALID", "breaks the rules %s; verify says where", platform.Count(violations, "time"))
	}
	return b.String()
}
