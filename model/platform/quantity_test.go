package platform_test

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"workbench/model/platform"
	"workbench/model/testfile"
)

func TestParse(t *testing.T) {
	for _, x := range []struct {
		name  string
		parse func(string) (float64, error)
		text  string
		want  float64
	}{
		{"bytes", platform.ParseBytes, "16GiB", 16 << 30},
		{"bytes", platform.ParseBytes, " 1.5 KiB ", 1536},
		{"bytes", platform.ParseBytes, "350MB", 350e6},
		{"bytes", platform.ParseBytes, "12e9", 12e9},
		{"bytes", platform.ParseBytes, "2kB", 2000},
		{"bytes", platform.ParseBytes, "2KB", 2000},
		{"bytes", platform.ParseBytes, "0", 0},
		{"bytes", platform.ParseBytes, "3TiB", 3 << 40},
		{"bytes", platform.ParseBytes, "7B", 7},
		{"rate", platform.ParseRate, "12GB/s", 12e9},
		{"rate", platform.ParseRate, "500 MiB/s", 500 << 20},
		{"rate", platform.ParseRate, "1.2e10", 1.2e10},
		{"seconds", platform.ParseSeconds, "350ms", 0.35},
		{"seconds", platform.ParseSeconds, "2s", 2},
		{"seconds", platform.ParseSeconds, "1.5e-3", 1.5e-3},
		{"seconds", platform.ParseSeconds, "10m", 600},
		{"seconds", platform.ParseSeconds, "1min", 60},
		{"seconds", platform.ParseSeconds, "2h", 7200},
		{"seconds", platform.ParseSeconds, "5us", 5e-6},
		{"seconds", platform.ParseSeconds, "5µs", 5e-6},
		{"seconds", platform.ParseSeconds, "5\u03bcs", 5e-6},
		{"seconds", platform.ParseSeconds, "5ns", 5e-9},
	} {
		got, err := x.parse(x.text)
		if err != nil || math.Abs(got-x.want) > 1e-15*x.want {
			t.Errorf("%s %q = %v, %v; want %v", x.name, x.text, got, err, x.want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	const sizes, rates, durations = "write a size as 16GiB", "write a bandwidth in bytes as 12GB/s", "write a duration as 350ms"
	for _, x := range []struct {
		name  string
		parse func(string) (float64, error)
		text  string
		want  string
	}{
		{"bytes", platform.ParseBytes, "", sizes},
		{"bytes", platform.ParseBytes, "GB", sizes},
		{"bytes", platform.ParseBytes, "lots", sizes},
		{"bytes", platform.ParseBytes, "NaN", sizes},
		{"bytes", platform.ParseBytes, "Inf", sizes},
		{"bytes", platform.ParseBytes, "0x10", sizes},
		{"bytes", platform.ParseBytes, "1_000", sizes},
		{"bytes", platform.ParseBytes, "1e", sizes},
		{"bytes", platform.ParseBytes, "1..5GB", sizes},
		{"bytes", platform.ParseBytes, "12GB/s", sizes},
		{"bytes", platform.ParseBytes, "16gib", "write 16GiB;"},
		{"bytes", platform.ParseBytes, "8g", "write 8GB;"},
		{"bytes", platform.ParseBytes, "16Gi", "write 16GiB;"},
		{"bytes", platform.ParseBytes, "-1GB", "may not be negative"},
		{"bytes", platform.ParseBytes, "-0", "may not be negative"},
		{"bytes", platform.ParseBytes, "1e999", "too large"},
		{"bytes", platform.ParseBytes, "1e300TB", "too large"},
		{"rate", platform.ParseRate, "12GB", "write 12GB/s;"},
		{"rate", platform.ParseRate, "12gb/s", "write 12GB/s;"},
		{"rate", platform.ParseRate, "/s", rates},
		{"seconds", platform.ParseSeconds, "5 parsecs", durations},
		{"seconds", platform.ParseSeconds, "5MS", "write 5ms;"},
		{"seconds", platform.ParseSeconds, "-2s", "may not be negative"},
	} {
		_, err := x.parse(x.text)
		if !errors.Is(err, platform.ErrQuantity) || !strings.Contains(err.Error(), x.want) ||
			!strings.Contains(err.Error(), strconv.Quote(x.text)) {
			t.Errorf("%s %q: error %v, want one with the text and %q", x.name, x.text, err, x.want)
		}
	}
}

func TestParseTimeLimit(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"none": 0, "0": 0, "1.5s": 1500 * time.Millisecond, "1.1s": 1100 * time.Millisecond, "10m": 10 * time.Minute,
		"1e-12s": 1, // not 0, which is no limit
	} {
		if got, err := platform.ParseTimeLimit(text); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"1e30", "9223372036.854775808", "-1s", "soon"} {
		if got, err := platform.ParseTimeLimit(text); !errors.Is(err, platform.ErrQuantity) {
			t.Errorf("%q = %v, %v; want an error", text, got, err)
		}
	}
}

func TestMemory(t *testing.T) {
	for _, x := range []struct {
		text string
		want platform.MemorySpec
		unit platform.Unit
		at   float64 // units, of a range from 100 to 300
	}{
		{"range 40%", platform.MemorySpec{Percent: true, Range: true, Value: 40}, 0, 180},
		{"range  0 %", platform.MemorySpec{Percent: true, Range: true, Value: 0}, 0, 100},
		{"range 100%", platform.MemorySpec{Percent: true, Range: true, Value: 100}, 0, 300},
		{"range 40.4999%", platform.MemorySpec{Percent: true, Range: true, Value: 40.4999}, 3, 180},
		{"range 0.5%", platform.MemorySpec{Percent: true, Range: true, Value: 0.5}, 0, 101},
		{"40%", platform.MemorySpec{Percent: true, Value: 40}, 0, 120},
		{"peak 0.5%", platform.MemorySpec{Percent: true, Value: 0.5}, 0, 1},
		{"150", platform.MemorySpec{Percent: false, Value: 150}, 0, 150},
		{"1KiB", platform.MemorySpec{Percent: false, Value: 1024}, 0, 1024},
		{"0.1GiB", platform.MemorySpec{Percent: false, Value: 0.1 * (1 << 30)}, 0, 107374182}, // of 107374182.4
		{"0.1GiB", platform.MemorySpec{Percent: false, Value: 0.1 * (1 << 30)}, 1, 1073741824},
		{"7.25", platform.MemorySpec{Percent: false, Value: 7.25}, 0, 7},
		{"0.3", platform.MemorySpec{Percent: false, Value: 0.3}, 1, 3},
		{"0.57kB", platform.MemorySpec{Percent: false, Value: 570}, 0, 570}, // 0.57 as a float64 is below
		{"9007199254740993", platform.MemorySpec{Percent: false, Value: 1 << 53}, 0, 1 << 53},
		{"1e-999999999", platform.MemorySpec{Percent: false, Value: 0}, 9, 0},
	} {
		got, err := platform.ParseMemory(x.text)
		if at := got.ResolveIn(100, 300, x.unit); err != nil || got.Percent != x.want.Percent ||
			math.Abs(got.Value-x.want.Value) > 1e-15*x.want.Value || at != x.at {
			t.Errorf("%q = %+v, %v: %v; want %+v: %v", x.text, got, err, at, x.want, x.at)
		}
		if again, _ := platform.ParseMemory(x.text); again != got {
			t.Errorf("%q is %+v, then %+v", x.text, got, again)
		}
	}
	if at := (platform.MemorySpec{Percent: true, Range: true, Value: 40}).Resolve(100, 200); at != 140 {
		t.Errorf("40 %% without a text: %v", at)
	}
	if at := (platform.MemorySpec{Percent: true, Range: true, Value: 40}).Resolve(math.NaN(), 200); !math.IsNaN(at) {
		t.Errorf("40 %% of no range: %v", at)
	}
	for _, text := range []string{"%", "-5%", "4GB%", "x"} {
		if got, err := platform.ParseMemory(text); !errors.Is(err, platform.ErrQuantity) {
			t.Errorf("%q = %+v, %v; want an error", text, got, err)
		}
	}
}

func TestFormat(t *testing.T) {
	for _, x := range []struct {
		format func(float64) string
		value  float64
		want   string
	}{
		{platform.FormatBytes, 0, "0 B"},
		{platform.FormatBytes, 0.125, "0.125 B"},
		{platform.FormatBytes, 1023, "1023 B"},
		{platform.FormatBytes, 1024, "1 KiB"},
		{platform.FormatBytes, 16 << 30, "16 GiB"},
		{platform.FormatBytes, 1<<30 - 1, "1 GiB"},
		{platform.FormatBytes, -(1 << 20), "-1 MiB"},
		{platform.FormatBytes, 1 << 60, "1049000 TiB"},
		{platform.FormatRate, 12e9, "12 GB/s"},
		{platform.FormatRate, 999.99e6, "1 GB/s"},
		{platform.FormatRate, 0, "0 B/s"},
		{platform.FormatSeconds, 0, "0 s"},
		{platform.FormatSeconds, 47.421, "47.421 s"},
		{platform.FormatSeconds, 123456, "123460 s"},
		{platform.FormatSeconds, 0.03595, "35.95 ms"},
		{platform.FormatSeconds, 0.9999999, "1 s"},
		{platform.FormatSeconds, 5e-6, "5 µs"},
		{platform.FormatSeconds, 1e-9, "0.001 µs"},
		{platform.FormatSeconds, -0.5, "-500 ms"},
		{platform.FormatSeconds, math.Inf(1), "+Inf s"},
		{platform.FormatSeconds, math.NaN(), "NaN µs"},
	} {
		if got := x.format(x.value); got != x.want {
			t.Errorf("%v is written %q, want %q", x.value, got, x.want)
		}
	}
}

// What is written can be read, to the digits that are written.
func TestRoundTrip(t *testing.T) {
	for _, x := range []struct {
		name      string
		format    func(float64) string
		parse     func(string) (float64, error)
		precision float64
	}{
		{"bytes", platform.FormatBytes, platform.ParseBytes, 5.1e-4},
		{"rate", platform.FormatRate, platform.ParseRate, 5.1e-4},
		{"seconds", platform.FormatSeconds, platform.ParseSeconds, 5.1e-5},
	} {
		t.Run(x.name, func(t *testing.T) {
			testfile.Property(t, func(t *rapid.T) {
				v := math.Pow(10, rapid.Float64Range(-12, 24).Draw(t, "exponent"))
				got, err := x.parse(x.format(v))
				if err != nil || math.Abs(got-v) > x.precision*v {
					t.Fatalf("%v is written %q and read %v, %v", v, x.format(v), got, err)
				}
			})
		})
	}
}

// Percentages begin at low and end at high, exactly, and are whole between.
func TestResolve(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		low := float64(rapid.Int64Range(0, 1e15).Draw(t, "low"))
		high := low + float64(rapid.Int64Range(0, 1e15).Draw(t, "range"))
		at := func(percent float64) float64 {
			return platform.MemorySpec{Percent: true, Range: true, Value: percent}.Resolve(low, high)
		}
		a, b := rapid.Float64Range(0, 100).Draw(t, "a"), rapid.Float64Range(0, 100).Draw(t, "b")
		switch {
		case at(0) != low:
			t.Fatalf("0 %% of %v to %v is %v", low, high, at(0))
		case at(100) != high:
			t.Fatalf("100 %% of %v to %v is %v", low, high, at(100))
		case at(a) != math.Trunc(at(a)):
			t.Fatalf("%v %% of %v to %v is %v", a, low, high, at(a))
		case at(min(a, b)) > at(max(a, b)):
			t.Fatalf("%v and %v %% of %v to %v are the wrong way round", a, b, low, high)
		}
	})
}

// FuzzParse: whatever is read is finite and not negative, errors wrap
// ErrQuantity and say what was read.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"16GiB", "12GB/s", "350ms", "40%", "1.5e9", "-1", "NaN", "1e999", "none", "8g", "µs", "1e308TB", "+.5e-3 KiB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		check := func(x float64, err error) {
			if err == nil && (!(x >= 0) || math.IsInf(x, 0)) {
				t.Errorf("%q is read as %v", s, x)
			}
			if err != nil && (!errors.Is(err, platform.ErrQuantity) || !strings.Contains(err.Error(), strconv.Quote(s))) {
				t.Errorf("%q: error %v", s, err)
			}
		}
		check(platform.ParseBytes(s))
		check(platform.ParseRate(s))
		check(platform.ParseSeconds(s))
		m, err := platform.ParseMemory(s)
		check(m.Value, err)
		d, err := platform.ParseTimeLimit(s)
		check(d.Seconds(), err)
	})
}

func TestCount(t *testing.T) {
	for _, x := range []struct {
		n         int
		one, want string
	}{
		{1, "column", "1 column"},
		{0, "column", "0 columns"},
		{2, "micro-batch", "2 micro-batches"},
		{3, "leaf", "3 leaves"},
		{2, "weight copy", "2 weight copies"},
		{1, "copy", "1 copy"},
	} {
		if got := platform.Count(x.n, x.one); got != x.want {
			t.Errorf("%d of %q are written %q, want %q", x.n, x.one, got, x.want)
		}
	}
}

func TestParsePart(t *testing.T) {
	for text, want := range map[string]float64{
		"0": 0, "0.01": 0.01, "1%": 0.01, "99.5%": 0.995, "1": -1, "100%": -1, "-1%": -1, "nan": -1,
		"": -1, "%": -1, "1%%": -1,
	} {
		got, err := platform.ParsePart(text)
		if err != nil {
			got = -1
		}
		if got != want {
			t.Errorf("%q is read as %g, %v; want %g", text, got, err, want)
		}
	}
}
