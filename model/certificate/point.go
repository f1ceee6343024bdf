package certificate

import (
	"math"
	"math/big"

	"workbench/model/milp"
)

// Keeps reports whether x, with one value per column, is a solution of d in exact arithmetic. It must be within
// the columns' bounds, integral, and violate no row by more than within times the sum of the magnitudes of its
// terms. 0 allows no error; 1e-9 covers the rounding of x, but no absolute tolerance of a solver. O(columns +
// entries).
func Keeps(d *milp.Data, x []float64, within float64) bool {
	if len(x) != len(d.Cost) {
		return false
	}
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < d.Lower[j] || v > d.Upper[j] || d.Integer[j] && v != math.Trunc(v) {
			return false
		}
	}
	for i, lower := range d.RowLower {
		sum, size := new(big.Rat), new(big.Rat)
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			product := new(big.Rat).SetFloat64(d.Val[k])
			sum.Add(sum, product.Mul(product, new(big.Rat).SetFloat64(x[d.Col[k]])))
			size.Add(size, product.Abs(product))
		}
		size.Mul(size, new(big.Rat).SetFloat64(within))
		if !math.IsInf(lower, -1) && new(big.Rat).Add(sum, size).Cmp(new(big.Rat).SetFloat64(lower)) < 0 ||
			!math.IsInf(d.RowUpper[i], 1) && sum.Sub(sum, size).Cmp(new(big.Rat).SetFloat64(d.RowUpper[i])) > 0 {
			return false
		}
	}
	return true
}
