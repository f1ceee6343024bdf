package milp

import (
	"math"
	"math/big"
)

// Direction is the direction in which a computed coefficient is rounded. A model remains a relaxation in exact
// arithmetic if every computed number is rounded towards the weaker row. For example, a transfer time on the left
// of "≤" is rounded down, one on the right up. In a sequence of operations every one is rounded in the same
// direction.
//
// Numbers that need no rounding are exact; so are infinite operands.
type Direction int8

// The two directions.
const (
	Down Direction = -1 // the largest float64 that is at most the exact value
	Up   Direction = 1  // the smallest float64 that is at least the exact value
)

// errorFree limits the magnitudes for which the rounding error of one operation is itself a float64: between its
// inverse and it, operations neither underflow nor overflow.
const errorFree = 0x1p900

// Add returns a + b, rounded.
func (r Direction) Add(a, b float64) float64 {
	s := a + b
	if !(math.Abs(s) < errorFree) {
		return r.slow(a, b, s, (*big.Rat).Add)
	}
	t := s - a
	return r.step(s, (a-(s-t))+(b-t)) // Knuth's error-free sum
}

// Sum returns the exact sum of the terms, rounded once.
func (r Direction) Sum(terms ...float64) float64 {
	total := new(big.Rat)
	for _, t := range terms {
		if math.IsInf(t, 0) || math.IsNaN(t) {
			return naive(terms)
		}
		total.Add(total, new(big.Rat).SetFloat64(t))
	}
	return r.Rat(total)
}

func naive(terms []float64) (sum float64) {
	for _, t := range terms {
		sum += t
	}
	return sum
}

// Mul returns a · b, rounded.
func (r Direction) Mul(a, b float64) float64 {
	p := a * b
	if !(math.Abs(p) < errorFree && math.Abs(p) > 1/errorFree) {
		return r.slow(a, b, p, (*big.Rat).Mul)
	}
	return r.step(p, math.FMA(a, b, -p))
}

// Quo returns a / b, rounded: the time of a transfer of a bytes at b bytes per second.
func (r Direction) Quo(a, b float64) float64 {
	q := a / b
	if !(math.Abs(q) < errorFree && math.Abs(q) > 1/errorFree && math.Abs(a) > 1/errorFree) {
		if b == 0 {
			return q
		}
		return r.slow(a, b, q, (*big.Rat).Quo)
	}
	rest := math.FMA(-q, b, a) // a − q b, exactly
	if b < 0 {
		rest = -rest
	}
	return r.step(q, rest)
}

// Rat returns x, rounded.
func (r Direction) Rat(x *big.Rat) float64 {
	f, exact := x.Float64()
	switch {
	case exact:
		return f
	case math.IsInf(f, 0):
		return r.step(f, -f) // beyond the largest finite number, but not infinite
	}
	return r.step(f, float64(x.Cmp(new(big.Rat).SetFloat64(f))))
}

// step moves the rounded value v by one float64 if the exact one, by the sign
// of rest, lies beyond it on the side of r.
func (r Direction) step(v, rest float64) float64 {
	if rest*float64(r) > 0 {
		return math.Nextafter(v, math.Inf(int(r)))
	}
	return v
}

// slow rounds an operation whose nearest float64 v is too large or too small
// for error-free arithmetic.
func (r Direction) slow(a, b, v float64, op func(z, x, y *big.Rat) *big.Rat) float64 {
	x, y := new(big.Rat), new(big.Rat)
	if x.SetFloat64(a) == nil || y.SetFloat64(b) == nil {
		return v
	}
	return r.Rat(op(x, x, y))
}

// PowerOfTwo returns the power of two p for which p·|x| lies in [target/2, target), so that scaling by it is
// exact; 1 if x is 0 or not finite. target is positive. The result is well within the range of float64, as the
// numbers of a model should be.
func PowerOfTwo(x, target float64) float64 {
	if x == 0 || math.IsInf(x, 0) || math.IsNaN(x) {
		return 1
	}
	fx, ex := math.Frexp(math.Abs(x))
	ft, et := math.Frexp(target)
	if fx >= ft {
		et--
	}
	return math.Ldexp(1, min(max(et-ex, -900), 900))
}
