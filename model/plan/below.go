package plan

// RoundDown returns a number that is no larger than the exact value of a quantity
// computed as x, of which each step was rounded: sums, products and quotients of
// terms of one sign, at most so many on the way from the numbers of the instance
// to x. Subtractions count if what is lost is a part of x, as when what precedes
// an operation is taken from the sum of all. It states closed-form bounds and
// those of searches so that rounding does not lift them above the optimum.
func RoundDown(x float64, roundings int) float64 {
	return x * (1 - float64(roundings+2)*0x1p-52) // each rounding changes x by 2⁻⁵³ of it at most
}
