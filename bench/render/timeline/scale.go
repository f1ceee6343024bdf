package timeline

import (
	"math"
	"strconv"
)

// ticks returns the multiples of a round step (1, 2 or 5 times a power of ten)
// from 0 to most, at most n+1 of them. most must be positive.
func ticks(most float64, n int) []float64 {
	step := math.Pow(10, math.Floor(math.Log10(most/float64(n))))
	for _, f := range []float64{1, 2, 5, 10} {
		if most/(f*step) <= float64(n) {
			step *= f
			break
		}
	}
	var t []float64
	for k := 0; float64(k)*step <= most*(1+1e-9); k++ {
		t = append(t, float64(k)*step)
	}
	return t
}

// number writes x with no more digits than a picture needs.
func number(x float64) string {
	if x == 0 {
		return "0" // not -0
	}
	if x >= 1e4 && x < 1e7 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 4, 64)
}
