package cycle

import "math"

// Arithmetic rounded towards −∞, so that what is computed from a formula for a
// lower bound still is one. Results that float64 holds are exact. Arguments are
// finite and far from overflow.

// addDown returns a + b rounded down: Knuth's exact error of the sum says
// whether it was rounded up.
func addDown(a, b float64) float64 {
	s := a + b
	v := s - a
	if (a-(s-v))+(b-v) < 0 {
		return below(s)
	}
	return s
}

// mulDown returns a·b rounded down.
func mulDown(a, b float64) float64 {
	p := a * b
	if math.FMA(a, b, -p) < 0 {
		return below(p)
	}
	return p
}

// divDown returns a/b rounded down, b > 0.
func divDown(a, b float64) float64 {
	q := a / b
	if math.FMA(q, b, -a) > 0 {
		return below(q)
	}
	return q
}

func below(x float64) float64 { return math.Nextafter(x, math.Inf(-1)) }
