package minplus

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"workbench/model/testfile"
)

// A kernel under test and the loop in Go that it must equal to the bit.
type kernels struct {
	name string
	fold func(out *[Block]float64, a, b []float64)
	add  func(out, a, b []float64, c float64)
	min  func(out, a []float64)
}

// guard stands around every slice and must survive.
const guard = -12345.5

// margin is the number of guards on each side, more than a register holds.
const margin = 16

// guarded returns n elements that begin so many elements (of 8 bytes) later than
// they would with offset 0, with guards around them, and a check that the guards
// are still there. Offsets 0..7 are all alignments in a cache line.
func guarded(n, offset int, value func() float64) (inside []float64, intact func() bool) {
	all := make([]float64, margin+offset+n+margin)
	for i := range all {
		all[i] = guard
	}
	inside = all[margin+offset : margin+offset+n : margin+offset+n]
	for i := range inside {
		inside[i] = value()
	}
	return inside, func() bool {
		for i, x := range all {
			if (i < margin+offset || i >= margin+offset+n) && x != guard {
				return false
			}
		}
		return true
	}
}

// values draws costs as a dynamic program has them: some equal, some
// infinite, some huge or tiny.
func values(r *rand.Rand) func() float64 {
	return func() float64 {
		switch r.IntN(8) {
		case 0:
			return math.Inf(1)
		case 1, 2, 3:
			return float64(r.IntN(4))
		case 4:
			return math.MaxFloat64 * r.Float64()
		case 5:
			return math.SmallestNonzeroFloat64 * float64(r.IntN(5))
		}
		return r.Float64()
	}
}

func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}

// Every length, every alignment of each operand, nothing else touched.
func TestElementwise(t *testing.T) {
	for _, k := range available() {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			draw := values(r)
			for n := range testfile.Cases(201) {
				for offset := range 8 * 8 {
					out, outIntact := guarded(n, offset%8, draw)
					a, aIntact := guarded(n, offset/8, draw)
					b, bIntact := guarded(n, (offset/8+offset)%8, draw)
					c := draw()
					want, a0, b0 := slices.Clone(out), slices.Clone(a), slices.Clone(b)
					addGo(want, a, b, c)
					k.add(out, a, b, c)
					if !same(out, want) {
						t.Fatalf("add, length %d, alignment %d: got %v, want %v", n, offset, out, want)
					}
					for i := range out {
						out[i] = draw()
					}
					copy(want, out)
					minGo(want, a)
					k.min(out, a)
					if !same(out, want) {
						t.Fatalf("min, length %d, alignment %d: got %v, want %v", n, offset, out, want)
					}
					if !same(a, a0) || !same(b, b0) || !outIntact() || !aIntact() || !bIntact() {
						t.Fatalf("length %d, alignment %d: something else was written", n, offset)
					}
				}
			}
		})
	}
}

func TestFold(t *testing.T) {
	for _, k := range available() {
		t.Run(k.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			draw := values(r)
			for blocks := range 13 {
				for offset := range 8 * 8 {
					out, outIntact := guarded(Block, offset%8, draw)
					a, aIntact := guarded(blocks*Block, offset/8, draw)
					b, bIntact := guarded(blocks*Block, (offset/8+offset)%8, draw)
					want, a0, b0 := slices.Clone(out), slices.Clone(a), slices.Clone(b)
					for j := range blocks {
						for i := range want {
							want[i] = min(want[i], a[j*Block+i]+b[j*Block+i])
						}
					}
					k.fold((*[Block]float64)(out), a, b)
					if !same(out, want) {
						t.Fatalf("%d blocks, alignment %d: got %v, want %v", blocks, offset, out, want)
					}
					if !same(a, a0) || !same(b, b0) || !outIntact() || !aIntact() || !bIntact() {
						t.Fatalf("%d blocks, alignment %d: something else was written", blocks, offset)
					}
				}
			}
		})
	}
}

func TestMismatch(t *testing.T) {
	x := make([]float64, 3*Block)
	for name, call := range map[string]func(){
		"add short a":    func() { Add(x[:5], x[5:9], x[10:15], 0) },
		"add long b":     func() { Add(x[:5], x[5:10], x[10:16], 0) },
		"min short a":    func() { Min(x[:5], x[5:9]) },
		"fold short b":   func() { Fold((*[Block]float64)(x), x[Block:], x[:Block]) },
		"fold fractions": func() { Fold((*[Block]float64)(x), x[Block:2*Block-1], x[Block:2*Block-1]) },
	} {
		func() {
			defer func() {
				if got := recover(); got != mismatch {
					t.Errorf("%s: recovered %v, want %q", name, got, mismatch)
				}
			}()
			call()
		}()
	}
}

// The loops on fresh out, of which half the elements improve: on a converged
// one a branch would look cheap.
func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{8, 32, 128, 512, 4096} {
		for _, k := range available() {
			b.Run(fmt.Sprintf("%s/n=%d", k.name, n), func(b *testing.B) {
				r := rand.New(rand.NewPCG(5, 6))
				x, y, fresh, out := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
				for i := range n {
					x[i], y[i], fresh[i] = r.Float64(), r.Float64(), 2*r.Float64()
				}
				for b.Loop() {
					copy(out, fresh)
					k.add(out, x, y, 0.25)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/element")
			})
		}
	}
}

func BenchmarkFold(b *testing.B) {
	for _, blocks := range []int{4, 16, 64, 256} {
		for _, k := range available() {
			b.Run(fmt.Sprintf("%s/blocks=%d", k.name, blocks), func(b *testing.B) {
				r := rand.New(rand.NewPCG(7, 8))
				x, y := make([]float64, blocks*Block), make([]float64, blocks*Block)
				for i := range x {
					x[i], y[i] = r.Float64(), r.Float64()
				}
				var fresh, out [Block]float64
				for i := range fresh {
					fresh[i] = 2 * r.Float64()
				}
				for b.Loop() {
					out = fresh
					k.fold(&out, x, y)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(x)), "ns/element")
			})
		}
	}
}
