package picture

import (
	"math"
	"slices"
)

// An overlap says what of a series would hide another one or be hidden.
type overlap struct {
	under int    // how many later series lie on it
	same  string // an earlier series that has all its values; "": none
}

// widths of lines in pixels, by how many lie on them: wide enough to leave a rim.
var widths = [...]float64{2, 4.4, 6.6, 8.2, 9.6}

// width is that of the series' line.
func (o overlap) width() float64 { return widths[min(o.under, len(widths)-1)] }

// words are what the legend says behind the series' name.
func (o overlap) words() string {
	if o.same == "" {
		return ""
	}
	return " = " + o.same
}

// overlaps finds for each series which later ones lie on it: those that are within
// a thousandth of it at a third of the places or more where both have a value.
// O(n·m²) for n series of m points.
func (f *Figure) overlaps() []overlap {
	all := make([]overlap, len(f.Series))
	for k := range f.Series {
		for i := range f.Series[:k] {
			same, of := agree(&f.Series[i], &f.Series[k])
			if of == 0 || 3*same < of {
				continue
			}
			all[i].under++
			if same == of && all[k].same == "" && f.Series[k].coveredBy(&f.Series[i]) {
				all[k].same = f.Series[i].Name
			}
		}
	}
	return all
}

// agree counts the places where both series have a value, and those of them where
// it is the same.
func agree(a, b *Series) (same, of int) {
	places := append(a.finite(), b.finite()...)
	slices.Sort(places)
	for _, x := range slices.Compact(places) {
		y, z := a.Value(x), b.Value(x)
		if math.IsNaN(y) || math.IsNaN(z) {
			continue
		}
		of++
		if math.Abs(y-z) <= 1e-3*max(math.Abs(y), math.Abs(z)) {
			same++
		}
	}
	return same, of
}

// coveredBy says whether s has more than one value, and none where other has none.
func (s *Series) coveredBy(other *Series) bool {
	places := s.finite()
	return len(places) > 1 && !slices.ContainsFunc(places, func(x float64) bool { return math.IsNaN(other.Value(x)) })
}

// finite returns where the series has values.
func (s *Series) finite() (x []float64) {
	for i := range s.X {
		if finite(s.Y[i]) {
			x = append(x, s.X[i])
		}
	}
	return x
}

// Value returns the value at x, NaN for none: of lines at their points only.
func (s *Series) Value(x float64) float64 {
	i, here := slices.BinarySearch(s.X, x)
	for here && i+1 < len(s.X) && s.X[i+1] == x {
		i++
	}
	switch {
	case here:
		return s.Y[i]
	case s.Steps && i > 0:
		return s.Y[i-1]
	}
	return math.NaN()
}
