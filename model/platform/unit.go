package platform

import (
	"math"
	"math/big"
	"strconv"
)

// Fits reports whether a plan with this peak fits in this memory, both in one
// unit. Sizes are integers of a [Unit], their sums are exact, and there is no tolerance.
func Fits(used, memory float64) bool { return used <= memory }

// Unit is the unit that all sizes of an instance are integers of: 10^-Unit bytes.
// The zero value is the byte; a file whose sizes have decimals has the largest
// unit that makes all of them integers. Instances, platforms and plans in memory
// hold sizes in units and bandwidths in units per second; files, results and
// printed output hold bytes.
type Unit uint8

const (
	// Byte is the unit of a file without decimals.
	Byte Unit = 0
	// FinestUnit is the finest unit that files may need, 10^-12 bytes.
	FinestUnit Unit = 12
)

// PerByte returns the number of units in a byte, a power of ten that is exact in float64.
func (u Unit) PerByte() float64 {
	return [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12}[u]
}

// MaxTotal is a strict upper limit on the sum of all sizes of an instance, in units.
// Sums that count every size up to eight times are then integers below 2^53, exact in
// float64, and a size has at most [MaxDigits] digits, so that the number of bytes that
// is written is read back as the same size.
const (
	MaxTotal  = 1e15
	MaxDigits = 15
)

// MinTime and MaxTime are the smallest and the largest time above 0 in an instance,
// seconds, and MaxTime also is an upper limit on its sums of times, on memory in bytes
// and on bandwidth. Products of four such numbers, and quotients, are finite in float64.
const (
	MinTime = 1e-60
	MaxTime = 1e60
)

// Bytes converts x from units, or units per second, to bytes. An integer below MaxTotal
// gives the float64 nearest to its decimal number of bytes.
func (u Unit) Bytes(x float64) float64 { return x / u.PerByte() }

// Exact converts bytes, or bytes per second, to the nearest float64 number of units. The
// argument stands for the shortest decimal that is read as this float64, so that 0.29
// bytes are 29 units of 1e-2 bytes, although 0.29·100 is 28.999999999999996 in float64.
// A number within one unit in the last place of an integer number of units is that
// integer: such numbers are results of a computation that should have been exact.
func (u Unit) Exact(bytes float64) float64 {
	x := math.Round(bytes * u.PerByte())
	if math.Abs(x) < MaxTotal && Near(u.Bytes(x), bytes) {
		return x
	}
	if u == Byte || math.IsInf(bytes, 0) || math.IsNaN(bytes) {
		return bytes
	}
	f, _ := u.rational(bytes).Float64()
	return f
}

// Near reports whether x and y are equal or neighbours among the float64 numbers.
func Near(x, y float64) bool { return x == y || math.Nextafter(x, y) == y }

// rational returns bytes, a finite number, in units.
func (u Unit) rational(bytes float64) *big.Rat {
	x := Decimal(bytes)
	return x.Mul(x, new(big.Rat).SetFloat64(u.PerByte()))
}

// Decimal returns the shortest decimal that is read as x, a finite number.
func Decimal(x float64) *big.Rat {
	exact, _ := new(big.Rat).SetString(strconv.FormatFloat(x, 'e', -1, 64))
	return exact
}

// FromBytes converts bytes to units as [Unit.Exact] does and rounds down to an integer.
// Infinity and NaN are returned unchanged.
func (u Unit) FromBytes(bytes float64) float64 {
	x := u.Exact(bytes)
	if u == Byte || x == math.Trunc(x) && math.Abs(x) < MaxTotal || math.IsInf(x, 0) || math.IsNaN(x) {
		return math.Floor(x)
	}
	return u.Floor(Decimal(bytes))
}

// Convert converts x from units of u to units of v; other units than the byte get integers,
// rounded down.
func (u Unit) Convert(v Unit, x float64) float64 {
	switch {
	case u == v:
		return x
	case v == Byte:
		return u.Bytes(x)
	}
	return v.FromBytes(u.Bytes(x))
}

// Rate converts bytes per second to units per second, see [Unit.Exact].
func (u Unit) Rate(bytes float64) float64 { return u.Exact(bytes) }

// Floor converts an exact, non-negative number of bytes to units, rounded down to an
// integer that float64 holds.
func (u Unit) Floor(bytes *big.Rat) float64 {
	perByte := new(big.Rat).SetFloat64(u.PerByte())
	units := new(big.Rat).Mul(bytes, perByte)
	whole := new(big.Float).SetMode(big.ToZero).SetPrec(53)
	whole.SetInt(new(big.Int).Div(units.Num(), units.Denom()))
	x, _ := whole.Float64()
	return x
}
