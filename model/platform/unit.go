package platform

import (
	"math"
	"math/big"
	"strconv"
)

// Fits reports whether a plan that uses so much memory at its peak fits in a
// memory of so much, both in one unit. It is the only rule: sizes are whole
// numbers of a [Unit], their sums are exact, and there is no tolerance.
func Fits(used, memory float64) bool { return used <= memory }

// Unit is what the sizes of an instance are whole numbers of: 10^-Unit bytes.
// The zero value is the byte; a file whose sizes have decimals is of the
// largest unit that makes all of them whole. Instances, platforms and plans in
// memory hold sizes in units and bandwidths in units per second; files, results
// and screens speak bytes.
type Unit uint8

const (
	// Byte is the unit of a file without decimals.
	Byte Unit = 0
	// FinestUnit is the finest unit that files may need, 10^-9 bytes.
	FinestUnit Unit = 9
)

// PerByte returns how many units are a byte.
func (u Unit) PerByte() float64 {
	return [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9}[u]
}

// MaxTotal is what all sizes of an instance together stay below, in units: sums
// that count every size up to eight times are whole numbers below 2^53, exact in
// float64, and a size with decimals has at most 15 digits, so that it is read
// back from the number of bytes that is written.
const MaxTotal = 1e15

// Bytes returns so many units, or units per second, in bytes. A whole number of
// units gives the float64 that its decimal number of bytes is read as.
func (u Unit) Bytes(x float64) float64 { return x / u.PerByte() }

// Rate returns so many bytes per second in units per second.
func (u Unit) Rate(bytes float64) float64 { return bytes * u.PerByte() }

// FromBytes returns so many bytes in units, rounded down to a whole number:
// exactly, where the bytes are meant as the shortest decimal number that is
// read as this float64. Infinity and NaN are returned as they are.
func (u Unit) FromBytes(bytes float64) float64 {
	if math.IsInf(bytes, 0) || math.IsNaN(bytes) {
		return bytes
	}
	if u == Byte {
		return math.Floor(bytes)
	}
	if x := math.Round(bytes * u.PerByte()); math.Abs(x) < MaxTotal && u.Bytes(x) == bytes {
		return x // 15 digits name one float64 only
	}
	exact, _ := new(big.Rat).SetString(strconv.FormatFloat(bytes, 'e', -1, 64))
	return u.Floor(exact)
}

// In returns so many units of u in units of v: whole numbers of v and, if that is
// not the byte, rounded down.
func (u Unit) In(v Unit, x float64) float64 {
	switch {
	case u == v:
		return x
	case v == Byte:
		return u.Bytes(x)
	}
	return v.FromBytes(u.Bytes(x))
}

// Floor returns an exact, non-negative number of bytes in units, rounded down
// to a whole number that float64 holds.
func (u Unit) Floor(bytes *big.Rat) float64 {
	perByte := new(big.Rat).SetFloat64(u.PerByte())
	units := new(big.Rat).Mul(bytes, perByte)
	whole := new(big.Float).SetMode(big.ToZero).SetPrec(53)
	whole.SetInt(new(big.Int).Div(units.Num(), units.Denom()))
	x, _ := whole.Float64()
	return x
}
