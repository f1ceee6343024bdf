//go:build !purego

package minplus

import "golang.org/x/sys/cpu"

// What the processor has, and the operating system saves.
var (
	hasAVX512 = cpu.X86.HasAVX512F
	hasAVX2   = cpu.X86.HasAVX2
)

func fold(out *[Block]float64, a, b []float64) {
	switch {
	case hasAVX512:
		foldAVX512(out, a, b)
	case hasAVX2:
		foldAVX2(out, a, b)
	default:
		foldGo(out, a, b)
	}
}

func add(out, a, b []float64, c float64) {
	switch {
	case len(out) < short:
		addGo(out, a, b, c)
	case hasAVX512:
		addAVX512(out, a, b, c)
	case hasAVX2:
		addAVX2(out, a, b, c)
	default:
		addGo(out, a, b, c)
	}
}

func least(out, a []float64) {
	switch {
	case len(out) < short:
		minGo(out, a)
	case hasAVX512:
		minAVX512(out, a)
	case hasAVX2:
		minAVX2(out, a)
	default:
		minGo(out, a)
	}
}

// short is the length below which plain Go is as fast.
const short = 8
