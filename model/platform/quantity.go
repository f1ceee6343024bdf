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

// unit is a suffix and its factor times over: the quotient is exact, 1e-9 is no float64.
type unit struct {
	suffix       string
	factor, over float64
}

// Units, longest suffix first where one ends in another.
var (
	byteUnits = []unit{
		{"KiB", 1 << 10, 1},
		{"MiB", 1 << 20, 1},
		{"GiB", 1 << 30, 1},
		{"TiB", 1 << 40, 1},
		{"kB", 1e3, 1},
		{"KB", 1e3, 1},
		{"MB", 1e6, 1},
		{"GB", 1e9, 1},
		{"TB", 1e12, 1},
		{"B", 1, 1},
	}
	rateUnits = perSecond(byteUnits)
	// Both the micro sign and the Greek letter are on keyboards.
	secondUnits = []unit{
		{"ns", 1, 1e9},
		{"us", 1, 1e6},
		{"µs", 1, 1e6},
		{"μs", 1, 1e6},
		{"ms", 1, 1e3},
		{"min", 60, 1},
		{"s", 1, 1},
		{"m", 60, 1},
		{"h", 3600, 1},
	}
)

func perSecond(sizes []unit) []unit {
	rates := make([]unit, len(sizes))
	for i, u := range sizes {
		rates[i] = unit{u.suffix + "/s", u.factor, u.over}
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
	part, err := parse(text, text, []unit{{"%", 1, 100}}, "")
	if err != nil || part >= 1 {
		return 0, fmt.Errorf("%q: a fraction from 0 to below 1 or a percentage is needed, as 0.01 or 1%%", text)
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
	return parse(s, s, rateUnits, "a bandwidth in bytes as 12GB/s, 500MiB/s, 1.2e10 or inf")
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

// MemorySpec is a memory limit as people give it: bytes, or a percentage of the peak of keeping everything or,
// with Range, of the range from the minimum memory of the instance to that peak.
type MemorySpec struct {
	Percent, Range bool
	Value          float64 // percent or bytes
}

// The words before a percentage in [ParseMemory].
const (
	PeakWord  = "peak "
	RangeWord = "range "
)

// ParseMemory reads a size, or a percentage from 0 to 100: "40%" and "peak 40%" are of the peak of keeping everything,
// "range 40%" is of the range from the minimum to that.
func ParseMemory(s string) (m MemorySpec, err error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(s), "%")
	if !percent {
		m.Value, err = parse(s, s, byteUnits, "a size as 16GiB or 1.5e9, or a percentage of the peak of keeping everything as 40%")
		return m, err
	}
	m.Percent = true
	if number, m.Range = strings.CutPrefix(number, RangeWord); !m.Range {
		number = strings.TrimPrefix(number, PeakWord)
	}
	if m.Value, err = parse(s, number, nil, "a percentage as 40%"); err == nil && m.Value > 100 {
		err = wrong(s, "a percentage from 0% to 100%; more memory than keeping everything takes has no use")
	}
	return m, err
}

// Resolve is [MemorySpec.ResolveIn] for an instance in bytes.
func (m MemorySpec) Resolve(low, high float64) float64 { return m.ResolveIn(low, high, Byte) }

// ResolveIn returns the limit in units of u, an integer, for an instance of that unit.
// Low is the minimum memory of the instance and high the memory beyond which more does
// not help, the peak of keeping everything. The result is exact, then
// rounded down as [Unit.FromBytes] does; it is NaN for a percentage of a range without ends.
func (m MemorySpec) ResolveIn(low, high float64, u Unit) float64 {
	if !m.Percent || math.IsInf(m.Value, 0) || math.IsNaN(m.Value) {
		return u.FromBytes(m.Value)
	}
	if !m.Range {
		low = 0
	}
	length := high - low
	if math.IsNaN(length) || math.IsInf(length, 0) {
		return math.NaN()
	}
	part := new(big.Rat).SetFloat64(length)
	part.Mul(part, Decimal(m.Value))
	return low + Byte.Floor(part.Quo(part, big.NewRat(100, 1)))
}

func wrong(s, right string) error { return fmt.Errorf("%q: %w: write %s", s, ErrQuantity, right) }

// parse reads text, a non-negative finite number with an optional unit, as the nearest
// float64. Errors quote s, of which it is a part.
func parse(s, text string, units []unit, right string) (float64, error) {
	t, u := split(text, units)
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
	case math.IsInf(x*u.factor, 0):
		return 0, fmt.Errorf("%q: %w: too large; write %s", s, ErrQuantity, right)
	case x == 0 || u.factor == u.over:
		return x, nil
	}
	exact, ok := new(big.Rat).SetString(t)
	if !ok {
		return 0, wrong(s, right)
	}
	exact.Mul(exact, new(big.Rat).SetFloat64(u.factor))
	x, _ = exact.Quo(exact, new(big.Rat).SetFloat64(u.over)).Float64()
	return x, nil
}

// split returns the number of text and its unit.
func split(text string, units []unit) (number string, u unit) {
	t := strings.TrimSpace(text)
	for _, u := range units {
		if number, ok := strings.CutSuffix(t, u.suffix); ok {
			return strings.TrimSpace(number), u
		}
	}
	return t, unit{"", 1, 1}
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
	return scaled(x, []unit{{" TiB", 1 << 40, 1}, {" GiB", 1 << 30, 1}, {" MiB", 1 << 20, 1}, {" KiB", 1 << 10, 1}, {" B", 1, 1}}, 4)
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
	return scaled(x, []unit{{" TB/s", 1e12, 1}, {" GB/s", 1e9, 1}, {" MB/s", 1e6, 1}, {" kB/s", 1e3, 1}, {" B/s", 1, 1}}, 4)
}

// FormatSeconds writes a duration with five significant digits.
func FormatSeconds(x float64) string {
	if x == 0 {
		return "0 s"
	}
	return scaled(x, []unit{{" s", 1, 1}, {" ms", 1, 1e3}, {" µs", 1, 1e6}}, 5)
}

// scaled writes x in the first unit of which it is at least one when rounded
// to so many significant digits, else in the last. Exponents stand only where
// digits would not do.
func scaled(x float64, units []unit, digits int) string {
	last := units[len(units)-1]
	for _, u := range units {
		s := strconv.FormatFloat(x*u.over/u.factor, 'g', digits, 64)
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
