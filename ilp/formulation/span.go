package formulation

import "workbench/model/milp"

// Span is a list of columns numbered from From.
type Span struct {
	From int
	Cols milp.List
}

// Column returns column t, and false if there is none.
func (s Span) Column(t int) (milp.Var, bool) {
	if t < s.From || t >= s.From+s.Cols.Len() {
		return milp.Var{}, false
	}
	return s.Cols.At(t - s.From), true
}

// negligible is a time below the resolution of solvers, where a good plan takes 2¹⁰.
const negligible = 0x1p-20

// Waits returns the time by which one event follows another, for the right side of a precedence row. Negligible
// times become 0 or slightly less, which only weakens the row.
func Waits(time float64) float64 {
	switch {
	case time >= 0:
		return Counts(time)
	case time > -negligible:
		return -negligible
	}
	return time
}

// Counts returns a transfer's time as a coefficient of a capacity row. Negligible times become 0, which only
// weakens the row.
func Counts(time float64) float64 {
	if time < negligible {
		return 0
	}
	return time
}
