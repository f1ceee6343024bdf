package platform

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"
)

// ErrQuantity is wrapped by every parser of this file.
var ErrQuantity = errors.New("not a quantity")

// unit is a suffix and what it multiplies by.
type unit struct {
	suffix string
	factor float64
}

// Units, longest suffix first where one ends in another.
var (
	byteUnits = []unit{
		{"KiB", 1 << 10},
		{"MiB", 1 << 20},
		{"GiB", 1 << 30},
		{"TiB", 1 << 40},
		{"kB", 1e3},
		{"KB", 1e3},
		{"MB", 1e6},
		{"GB", 1e9},
		{"TB", 1e12},
		{"B", 1},
	}
	rateUnits = perSecond(byteUnits)
	// Both the micro sign and the Greek letter are on keyboards.
	secondUnits = []unit{{"ns", 1e-9}, {"us", 1e-6}, {"µs", 1e-6}, {"μs", 1e-6}, {"ms", 1e-3}, {"min", 60}, {"s", 1}, {"m", 60}, {"h", 3600}}
)

func perSecond(sizes []unit) []unit {
	rates := make([]unit, len(sizes))
	for i, u := range sizes {
		rates[i] = unit{u.suffix + "/s", u.factor}
	}
	return rates
}

// ParseBytes reads a size: a plain number of bytes ("1.5e9", "6") or one with
// a unit ("16GiB", "350MB").
func ParseBytes(s string) (float64, error) {
	return parse(s, s, byteUnits, "a size as 16GiB, 350MB or 1.5e9 (units B, kB, MB, GB, TB, KiB, MiB, GiB, TiB)")
}

// Bandwidths of two words: so high that nothing takes a time that counts, and so low that
// whatever moves never arrives. They are numbers, since all that is computed with
// a bandwidth divides by it.
const (
	Unlimited = 0x1p+160 // "inf"
	NoLink    = 0x1p-100 // "0"
)

// ParsePart reads a part of something, from 0 to below 1: a fraction, or a percentage.
func ParsePart(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	part, err := strconv.ParseFloat(number, 64)
	if percent {
		part /= 100
	}
	if err != nil || !(part >= 0 && part < 1) {
		return 0, fmt.Errorf("%s: a fraction from 0 to below 1 or a percentage is needed, as 0.01 or 1%%", text)
	}
	return part, nil
}

// ParseRate reads a bandwidth in bytes per second: a plain number or a size
// with /s ("12GB/s"); "inf" is [Unlimited], zero [NoLink].
func ParseRate(s string) (float64, error) {
	if strings.TrimSpace(s) == "inf" {
		return Unlimited, nil
	}
	rate, err := parseRate(s)
	if err == nil && rate == 0 {
		return NoLink, nil
	}
	return rate, err
}

func parseRate(s string) (float64, error) {
	return parse(s, s, rateUnits, "a bandwidth as 12GB/s, 500MiB/s, 1.2e10 or inf")
}

// ParseSeconds reads a duration in seconds: a plain number of seconds or one
// with a unit ("350ms", "2min").
func ParseSeconds(s string) (float64, error) {
	return parse(s, s, secondUnits, "a duration as 350ms, 90s or 10m (units ns, us, ms, s, m, min, h)")
}

// ParseTimeLimit reads a duration as ParseSeconds does; "0" and "none" are no
// limit, which is 0. A shorter time than a nanosecond is one.
func ParseTimeLimit(s string) (time.Duration, error) {
	if strings.TrimSpace(s) == "none" {
		return 0, nil
	}
	x, err := ParseSeconds(s)
	if err != nil {
		return 0, err
	}
	ns := x * 1e9
	switch {
	case ns >= math.MaxInt64:
		return 0, fmt.Errorf("%q: %w: longer than 292 years; write 0 for no limit", s, ErrQuantity)
	case ns > 0 && ns < 1:
		return 1, nil
	}
	return time.Duration(math.Round(ns)), nil
}

// MemorySpec is a memory limit as people give it: bytes, or a percentage of an
// instance's own range.
type MemorySpec struct {
	Percent bool
	Value   float64 // percent or bytes
	exact   string  // what the text says, as a fraction; "": the decimal number of Value
}

// ParseMemory reads a size or a percentage ("40%").
func ParseMemory(s string) (MemorySpec, error) {
	if number, ok := strings.CutSuffix(strings.TrimSpace(s), "%"); ok {
		x, err := parse(s, number, nil, "a percentage as 40%")
		return MemorySpec{true, x, fraction(number, nil, x)}, err
	}
	x, err := parse(s, s, byteUnits, "a size as 16GiB or 1.5e9, or a percentage of the instance's range as 40%")
	return MemorySpec{false, x, fraction(s, byteUnits, x)}, err
}

// fraction returns what a text that has been parsed as x says exactly. What is
// too small for a float64 is nothing.
func fraction(text string, units []unit, x float64) string {
	if x == 0 {
		return "0"
	}
	number, factor := split(text, units)
	exact, ok := new(big.Rat).SetString(number)
	if !ok {
		return "" // not parsed
	}
	return exact.Mul(exact, new(big.Rat).SetFloat64(factor)).RatString()
}

// Resolve is [MemorySpec.ResolveIn] for an instance in bytes.
func (m MemorySpec) Resolve(low, high float64) float64 { return m.ResolveIn(low, high, Byte) }

// ResolveIn returns the limit in units of u, a whole number, for an instance of
// that unit whose least useful memory is low and whose largest useful memory is
// high. What the text says is taken exactly, then rounded down; a percentage of
// a range without ends is NaN.
func (m MemorySpec) ResolveIn(low, high float64, u Unit) float64 {
	text := m.exact
	if text == "" {
		text = strconv.FormatFloat(m.Value, 'e', -1, 64)
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return m.Value // infinite, or not a number
	}
	if !m.Percent {
		return u.Floor(exact)
	}
	length := high - low
	if math.IsNaN(length) || math.IsInf(length, 0) {
		return math.NaN()
	}
	part := new(big.Rat).SetFloat64(length)
	part.Mul(part, exact.Quo(exact, big.NewRat(100, 1)))
	return low + Byte.Floor(part)
}

func wrong(s, right string) error { return fmt.Errorf("%q: %w: write %s", s, ErrQuantity, right) }

// parse reads text, a non-negative finite number with an optional unit. Errors
// quote s, of which it is a part.
func parse(s, text string, units []unit, right string) (float64, error) {
	t, factor := split(text, units)
	// ParseFloat also reads "inf", "nan", hexadecimal and digits with "_".
	if t == "" || strings.Trim(t, "0123456789.eE+-") != "" {
		if likely := correct(s, units); likely != "" {
			right = likely + "; quantities are " + right
		}
		return 0, wrong(s, right)
	}
	x, err := strconv.ParseFloat(t, 64)
	switch {
	case err != nil && !errors.Is(err, strconv.ErrRange):
		return 0, wrong(s, right)
	case x < 0 || math.Signbit(x):
		return 0, fmt.Errorf("%q: %w: it may not be negative; write %s", s, ErrQuantity, right)
	case math.IsInf(x*factor, 0):
		return 0, fmt.Errorf("%q: %w: too large; write %s", s, ErrQuantity, right)
	}
	return x * factor, nil
}

// split returns the number of text and what its unit multiplies by.
func split(text string, units []unit) (number string, factor float64) {
	t := strings.TrimSpace(text)
	for _, u := range units {
		if number, ok := strings.CutSuffix(t, u.suffix); ok {
			return strings.TrimSpace(number), u.factor
		}
	}
	return t, 1
}

// correct returns s with the unit that it differs from in capitals or in what
// is left out at the end, "" if there is none.
func correct(s string, units []unit) string {
	t := strings.TrimSpace(s)
	end := len(strings.TrimRight(t, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/"))
	number, written := t[:end], t[end:]
	if number == "" || written == "" {
		return ""
	}
	for _, u := range units {
		for _, rest := range []string{"", "B", "/s", "B/s"} {
			if strings.EqualFold(u.suffix, written+rest) {
				return number + u.suffix
			}
		}
	}
	return ""
}

// FormatBytes writes a size with four significant digits, in binary units from
// 1 KiB on and as a plain number of bytes below.
func FormatBytes(x float64) string {
	return scaled(x, []unit{{" TiB", 1 << 40}, {" GiB", 1 << 30}, {" MiB", 1 << 20}, {" KiB", 1 << 10}, {" B", 1}}, 4)
}

// Exactly writes so many units to be read, and every digit, since two sizes that are
// told apart may be near: 753.4 MiB (789976064 bytes).
func (u Unit) Exactly(x float64) string {
	x = u.Bytes(x)
	all := strconv.FormatFloat(x, 'f', -1, 64) + " bytes"
	if x == 1 {
		all = "1 byte"
	}
	if x < 1<<10 || math.IsInf(x, 1) {
		return all
	}
	return FormatBytes(x) + " (" + all + ")"
}

// Count writes a number of things: 1 layer, 22 layers.
func Count[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	for _, end := range [][2]string{{"ch", "ches"}, {"x", "xes"}, {"s", "ses"}, {"leaf", "leaves"}, {"copy", "copies"}} {
		if stem, ok := strings.CutSuffix(one, end[0]); ok {
			return fmt.Sprintf("%d %s%s", n, stem, end[1])
		}
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// FormatRate writes a bandwidth with four significant digits in decimal units,
// as link speeds are given.
func FormatRate(x float64) string {
	switch {
	case x >= Unlimited:
		return "inf B/s"
	case x <= NoLink:
		return "0 B/s"
	}
	return scaled(x, []unit{{" TB/s", 1e12}, {" GB/s", 1e9}, {" MB/s", 1e6}, {" kB/s", 1e3}, {" B/s", 1}}, 4)
}

// FormatSeconds writes a duration with five significant digits.
func FormatSeconds(x float64) string {
	if x == 0 {
		return "0 s"
	}
	return scaled(x, []unit{{" s", 1}, {" ms", 1e-3}, {" µs", 1e-6}}, 5)
}

// scaled writes x in the first unit of which it is at least one when rounded
// to so many significant digits, else in the last. Exponents stand only where
// digits would not do.
func scaled(x float64, units []unit, digits int) string {
	last := units[len(units)-1]
	for _, u := range units {
		s := strconv.FormatFloat(x/u.factor, 'g', digits, 64)
		rounded, err := strconv.ParseFloat(s, 64)
		if err == nil && (math.Abs(rounded) >= 1 || u == last) {
			if a := math.Abs(rounded); a >= 1 && a < 1e9 {
				s = strconv.FormatFloat(rounded, 'f', -1, 64)
			}
			return s + u.suffix
		}
	}
	return strconv.FormatFloat(x, 'g', digits, 64) + last.suffix // not a number
}
