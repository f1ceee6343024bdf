package strictjson

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"workbench/model/platform"
)

// Size is a number of bytes in a document, an integer number of units of a
// [platform.Unit], see [ReadSizes]. Its float64 is converted by [platform.Unit.FromBytes].
type Size float64

// size raises the unit to the one that the size in text needs.
func (w *walker) size(begin int, text []byte) error {
	n := decimals(text)
	if n > int(platform.FinestUnit) || n > 0 && digits(text) > platform.MaxDigits {
		x, err := strconv.ParseFloat(string(text), 64)
		if err != nil {
			return nil // out of range, for number to report
		}
		nearest := nearestSize(x)
		if y, _ := strconv.ParseFloat(nearest, 64); !platform.Near(x, y) {
			return w.fail(begin, "%s bytes are not exact: sizes have at most %d digits, at most %d of them decimals; the nearest such size is %s",
				brief(text), platform.MaxDigits, platform.FinestUnit, nearest)
		}
		n = decimals([]byte(nearest))
	}
	w.unit = max(w.unit, platform.Unit(n))
	return nil
}

// nearestSize returns the decimal nearest to x among those with at most
// [platform.MaxDigits] digits, at most [platform.FinestUnit] of them decimals.
func nearestSize(x float64) string {
	places := platform.MaxDigits
	for y := math.Abs(x); y >= 1 && places > 0; y /= 10 {
		places--
	}
	s := strconv.FormatFloat(x, 'f', min(places, int(platform.FinestUnit)), 64)
	if strings.Contains(s, ".") {
		s = strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
	}
	return s
}

// decimals returns the number of decimals of a JSON number without an exponent, 0
// for an integer however it is written: 1.5 and 15e-1 have one, 1.50e1 none.
func decimals(number []byte) int {
	mantissa, exponent := number, 0
	if k := bytes.IndexAny(number, "eE"); k >= 0 {
		mantissa = number[:k]
		x, err := strconv.Atoi(string(number[k+1:]))
		if exponent = x; err != nil { // out of range, with the sign of that
			exponent = math.MaxInt32
			if number[k+1] == '-' {
				exponent = -math.MaxInt32
			}
		}
	}
	whole, fraction, _ := bytes.Cut(bytes.TrimLeft(mantissa, "-"), []byte("."))
	digits := append(bytes.Clone(whole), fraction...)
	significant := len(bytes.TrimRight(digits, "0"))
	if significant == 0 {
		return 0
	}
	return max(0, significant-len(whole)-exponent)
}

// digits returns the number of significant digits of a JSON number.
func digits(number []byte) int {
	mantissa, _, _ := bytes.Cut(bytes.ToLower(number), []byte("e"))
	return len(bytes.Trim(bytes.ReplaceAll(bytes.TrimLeft(mantissa, "-"), []byte("."), nil), "0"))
}

// CheckSize is an error, about the field, unless x is a number from 0 on, finite,
// of whole units.
func CheckSize(field func() string, x float64, unit platform.Unit) error {
	if x >= 0 && x == math.Trunc(x) && !math.IsInf(x, 0) {
		return nil
	}
	path := field()
	if err := CheckAmount(path, unit.Bytes(x)); err != nil {
		return err
	}
	return &FieldError{path, fmt.Sprintf("%v is not an integer multiple of the unit of sizes, %v bytes", x, unit.Bytes(1))}
}

// CheckSizes is an error unless every size of an instance is a number from 0 on, finite,
// of whole units, and their sum is exact, which is about the field total.
func CheckSizes(sizes iter.Seq2[*float64, func() string], total string, unit platform.Unit) error {
	sum := 0.0
	for x, field := range sizes {
		if err := CheckSize(field, *x, unit); err != nil {
			return err
		}
		sum += *x
	}
	return CheckTotal(total, sum, unit)
}

// Bytes returns a size in units as files have it, in bytes, -0 as 0.
func Bytes(unit platform.Unit, x float64) Size { return Size(unit.Bytes(x) + 0.0) }

// CheckTotal is an error, about the field at path, unless all sizes of an instance
// together, total units, stay so far below 2^53 that every sum is exact.
func CheckTotal(path string, total float64, unit platform.Unit) error {
	if total < platform.MaxTotal {
		return nil
	}
	limit := fmt.Sprintf("%v bytes", unit.Bytes(platform.MaxTotal))
	if unit != platform.Byte {
		limit += fmt.Sprintf(" (%v units of %v bytes, the last decimal of the sizes)", platform.MaxTotal, unit.Bytes(1))
	}
	return &FieldError{path, fmt.Sprintf("all sizes together are %v bytes; they are added exactly below %s", unit.Bytes(total), limit)}
}
