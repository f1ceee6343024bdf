// Package minplus has the inner loops of dynamic programs that add costs and
// keep the least.
//
// Numbers may be +Inf but neither NaN nor -0, so that the result is the same to
// the bit whichever instructions the processor has: [Fold], [Add] and [Min] use
// AVX-512 or AVX2 where there is one of them, and plain Go elsewhere and with
// the build tag purego. Which of several equal candidates is the least is not
// recorded: that is found again afterwards, where it is needed.
package minplus

//go:generate go -C asm run . -out ../minplus_amd64.s -stubs ../stubs_amd64.go -pkg minplus

// Block is the number of elements of a block of [Fold].
const Block = 32

const mismatch = "minplus: size mismatch"

// Fold takes a and b as rows of blocks, one block for each candidate k, and
// lowers out to the least of its candidates:
//
//	for k := range len(a) / Block {
//		for i := range out {
//			out[i] = min(out[i], a[k*Block+i]+b[k*Block+i])
//		}
//	}
//
// It panics unless a and b are of the same whole number of blocks.
func Fold(out *[Block]float64, a, b []float64) {
	if len(a) != len(b) || len(a)%Block != 0 {
		panic(mismatch)
	}
	fold(out, a, b)
}

// Add lowers each out[i] to a[i]+b[i]+c if that is less:
//
//	for i := range out {
//		out[i] = min(out[i], a[i]+b[i]+c)
//	}
//
// It panics unless the three are of the same length. a and b may be the same
// slice; out may not overlap them.
func Add(out, a, b []float64, c float64) {
	if len(a) != len(out) || len(b) != len(out) {
		panic(mismatch)
	}
	add(out, a, b, c)
}

// Min lowers each out[i] to a[i] if that is less:
//
//	for i := range out {
//		out[i] = min(out[i], a[i])
//	}
//
// It panics unless both are of the same length; they may not overlap.
func Min(out, a []float64) {
	if len(a) != len(out) {
		panic(mismatch)
	}
	least(out, a)
}

func foldGo(out *[Block]float64, a, b []float64) {
	for len(a) >= Block && len(b) >= Block {
		x, y := (*[Block]float64)(a), (*[Block]float64)(b)
		for i := range out {
			out[i] = min(out[i], x[i]+y[i])
		}
		a, b = a[Block:], b[Block:]
	}
}

func addGo(out, a, b []float64, c float64) {
	a, b = a[:len(out)], b[:len(out)]
	for i := range out {
		out[i] = min(out[i], a[i]+b[i]+c)
	}
}

func minGo(out, a []float64) {
	a = a[:len(out)]
	for i := range out {
		out[i] = min(out[i], a[i])
	}
}
