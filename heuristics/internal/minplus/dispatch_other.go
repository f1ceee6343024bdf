//go:build !amd64 || purego

package minplus

func fold(out *[Block]float64, a, b []float64) { foldGo(out, a, b) }
func add(out, a, b []float64, c float64)       { addGo(out, a, b, c) }
func least(out, a []float64)                   { minGo(out, a) }
