package remat

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/testfile"
)

// drawSteps draws a step function with breakpoints at small whole numbers.
func drawSteps(t *rapid.T, name string) stepFunction {
	var f stepFunction
	c := 40.0
	for _, m := range rapid.SliceOfNDistinct(rapid.IntRange(0, 30), 0, 12, rapid.ID[int]).Draw(t, name) {
		f.m = append(f.m, float64(m))
		c -= float64(rapid.IntRange(1, 4).Draw(t, name+" falls by"))
		f.c = append(f.c, c)
	}
	slices.Sort(f.m)
	return f
}

func (f *stepFunction) clone() stepFunction {
	return stepFunction{slices.Clone(f.m), slices.Clone(f.c)}
}

// valid reports whether memory rises and values fall.
func (f *stepFunction) valid() bool {
	for i := 1; i < len(f.m); i++ {
		if f.m[i] <= f.m[i-1] || f.c[i] >= f.c[i-1] {
			return false
		}
	}
	return len(f.m) == len(f.c)
}

func TestEnvelope(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		start, f, g := drawSteps(t, "e"), drawSteps(t, "f"), drawSteps(t, "g")
		plus := float64(rapid.IntRange(-40, 10).Draw(t, "plus"))
		by := float64(rapid.IntRange(0, 10).Draw(t, "by"))
		least := float64(rapid.IntRange(0, 30).Draw(t, "least"))
		most := float64(rapid.IntRange(0, 40).Draw(t, "most"))
		var e envelope
		e.stepFunction = start.clone()
		e.lower(plus, &f, &g, by, least, most)
		if !e.valid() {
			t.Fatalf("%v", e.stepFunction)
		}
		for m := 0.0; m <= 45; m += 0.5 {
			want := start.value(m)
			for x := least; x <= min(m, most); x += 0.5 {
				want = min(want, plus+f.value(x)+g.value(x-by))
			}
			if got := e.value(m); got != want {
				t.Fatalf("at %g: %g, want %g", m, got, want)
			}
		}
		var h stepFunction
		h.shifted(&f, by, least, most)
		if !h.valid() {
			t.Fatalf("shifted: %v", h)
		}
		for m := 0.0; m <= 45; m += 0.5 {
			want := math.Inf(1)
			if x := min(m, most); x >= least {
				want = f.value(x - by)
			}
			if got := h.value(m); got != want {
				t.Fatalf("shifted at %g: %g, want %g", m, got, want)
			}
		}
	})
}

// What is kept stays as it was while there is more to keep.
func TestFloats(t *testing.T) {
	var x floats
	for range 3 { // reusing the blocks
		var kept []stepFunction
		for n := range 2000 {
			var f stepFunction
			for i := range n * 17 % 400 {
				f.push(float64(n+i), float64(n-i))
			}
			kept = append(kept, x.keep(&f))
		}
		for n, f := range kept {
			if len(f.m) != n*17%400 || !f.valid() || len(f.m) > 0 && (f.m[0] != float64(n) || f.c[0] != float64(n)) {
				t.Fatalf("function %d has changed", n)
			}
		}
		x.reset()
	}
}
