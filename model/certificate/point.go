package certificate

import (
	"math"
	"math/big"

	"workbench/model/milp"
)

// Keeps reports whether x, a value a column, is a solution of d in exact arithmetic. O(columns
// + entries).
func Keeps(d *milp.Data, x []float64) bool {
	if len(x) != len(d.Cost) {
		return false
	}
	for j, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) || v < d.Lower[j] || v > d.Upper[j] || d.Integer[j] && v != math.Trunc(v) {
			return false
		}
	}
	for i, lower := range d.RowLower {
		sum, product := new(big.Rat), new(big.Rat)
		for k := d.Start[i]; k < d.Start[i+1]; k++ {
			product.SetFloat64(d.Val[k])
			sum.Add(sum, product.Mul(product, new(big.Rat).SetFloat64(x[d.Col[k]])))
		}
		if !math.IsInf(lower, -1) && sum.Cmp(new(big.Rat).SetFloat64(lower)) < 0 ||
			!math.IsInf(d.RowUpper[i], 1) && sum.Cmp(new(big.Rat).SetFloat64(d.RowUpper[i])) > 0 {
			return false
		}
	}
	return true
}
