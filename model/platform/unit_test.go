package platform_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/platform"
	"workbench/model/testfile"
)

func TestFits(t *testing.T) {
	for _, x := range []struct {
		used, memory float64
		want         bool
	}{{0, 0, true}, {1e15, 1e15, true}, {1e15 + 1, 1e15, false}, {math.Nextafter(1, 2), 1, false}, {1, math.Inf(1), true}} {
		if got := platform.Fits(x.used, x.memory); got != x.want {
			t.Errorf("%v in %v: %v", x.used, x.memory, got)
		}
	}
}

// A whole number of units is read back from what a file says of it.
func TestUnitRoundTrip(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		u := platform.Unit(rapid.IntRange(0, int(platform.FinestUnit)).Draw(t, "unit"))
		units := math.Floor(rapid.Float64Range(0, platform.MaxTotal-1).Draw(t, "units"))
		text, err := json.Marshal(u.Bytes(units))
		if err != nil {
			t.Fatal(err)
		}
		var bytes float64
		if err := json.Unmarshal(text, &bytes); err != nil {
			t.Fatal(err)
		}
		exact, _ := new(big.Rat).SetString(string(text))
		if got := u.FromBytes(bytes); got != units || u.Floor(exact) != units {
			t.Fatalf("%v units of 1e-%d bytes are written %s and read %v, exactly %v", units, u, text, got, u.Floor(exact))
		}
	})
}

func TestUnitRoundsDown(t *testing.T) {
	for _, x := range []struct {
		unit  platform.Unit
		bytes float64
		want  float64
	}{
		{0, 7.9, 7},
		{0, 1e300, 1e300},
		{1, 0.3, 3}, // the float64 is below 3/10
		{1, 0.1 + 0.2, 3},
		{1, 0.29999, 2},
		{2, 0.57, 57},
		{9, 1e-10, 0},
		{3, math.Inf(1), math.Inf(1)},
	} {
		if got := x.unit.FromBytes(x.bytes); got != x.want {
			t.Errorf("%v bytes in units of 1e-%d: %v, want %v", x.bytes, x.unit, got, x.want)
		}
	}
	if got := platform.Byte.Floor(new(big.Rat).SetInt64(1<<53 + 1)); got != 1<<53 {
		t.Errorf("2^53+1 bytes are rounded to %v", got)
	}
}
