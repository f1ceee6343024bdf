package formulation

import "workbench/model/milp"

// Span is a list of columns whose first one has the number from.
type Span struct {
	From int
	Cols milp.List
}

// At returns column t, false if there is none.
func (s Span) Column(t int) (milp.Var, bool) {
	if t < s.From || t >= s.From+s.Cols.Len() {
		return milp.Var{}, false
	}
	return s.Cols.At(t - s.From), true
}

// negligible is the time, beside 2¹⁰ for a good plan, that no solver can tell
// from nothing.
const negligible = 0x1p-20

// Waits returns how long one event waits for another as the right side of a row
// "so much later", 0, or a little less than that, if it is negligible, which only
// weakens the row.
func Waits(time float64) float64 {
	switch {
	case time >= 0:
		return Counts(time)
	case time > -negligible:
		return -negligible
	}
	return time
}

// Counts returns a transfer's time as a coefficient of a row "no more than the
// interval is long": 0 if it is negligible, which only weakens the row.
func Counts(time float64) float64 {
	if time < negligible {
		return 0
	}
	return time
}
