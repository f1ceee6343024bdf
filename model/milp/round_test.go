package milp

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// anyFloat draws finite numbers of all magnitudes, and many small whole ones.
func anyFloat(t *rapid.T, label string) float64 {
	if rapid.Bool().Draw(t, label+" is whole") {
		return float64(rapid.IntRange(-100, 100).Draw(t, label))
	}
	return rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, label)
}

// TestDirections: the rounded value is on its side of the exact one, and the
// next float64 towards that is not.
func TestDirections(t *testing.T) {
	operations := map[string]struct {
		float func(Direction, float64, float64) float64
		exact func(z, x, y *big.Rat) *big.Rat
	}{
		"add": {Direction.Add, (*big.Rat).Add},
		"sum": {func(r Direction, a, b float64) float64 { return r.Sum(a, b) }, (*big.Rat).Add},
		"mul": {Direction.Mul, (*big.Rat).Mul},
		"quo": {Direction.Quo, (*big.Rat).Quo},
	}
	for name, op := range operations {
		t.Run(name, func(t *testing.T) {
			testfile.Property(t, func(t *rapid.T) {
				a, b := anyFloat(t, "a"), anyFloat(t, "b")
				if name == "quo" && b == 0 {
					return
				}
				x := new(big.Rat).SetFloat64(a)
				x = op.exact(x, x, new(big.Rat).SetFloat64(b))
				for _, r := range []Direction{Down, Up} {
					v := op.float(r, a, b)
					if math.IsInf(v, int(r)) {
						continue // nothing finite lies there
					}
					if c := new(big.Rat).SetFloat64(v).Cmp(x); c*int(r) < 0 {
						t.Fatalf("%v of %v and %v is %v: on the wrong side", r, a, b, v)
					}
					back := math.Nextafter(v, math.Inf(-int(r)))
					if !math.IsInf(back, 0) && new(big.Rat).SetFloat64(back).Cmp(x)*int(r) >= 0 {
						t.Fatalf("%v of %v and %v is %v: %v is nearer", r, a, b, v, back)
					}
				}
			})
		})
	}
	if v := Down.Quo(1, 3); v >= Up.Quo(1, 3) {
		t.Errorf("1/3 rounded down is %v", v)
	}
	inf := math.Inf(1)
	for _, v := range []float64{Down.Add(inf, 1), Up.Mul(inf, 2), Down.Sum(1, inf), Up.Quo(1, 0)} {
		if v != inf {
			t.Errorf("%v, want +Inf", v)
		}
	}
	if v := Down.Mul(math.MaxFloat64, 2); v != math.MaxFloat64 {
		t.Errorf("an overflow rounded down is %v", v)
	}
}

func TestPowerOfTwo(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		x := math.Ldexp(rapid.Float64Range(0.1, 1).Draw(t, "x"), rapid.IntRange(-300, 300).Draw(t, "exponent"))
		target := rapid.Float64Range(1e-3, 1e6).Draw(t, "target")
		p := PowerOfTwo(-x, target)
		if fraction, _ := math.Frexp(p); fraction != 0.5 || p*x >= target || p*x < target/2 {
			t.Fatalf("%v scales %v to %v, want at most %v", p, x, p*x, target)
		}
	})
	for _, x := range []float64{0, math.Inf(1), math.NaN()} {
		if p := PowerOfTwo(x, 1024); p != 1 {
			t.Errorf("%v scales %v", p, x)
		}
	}
}
