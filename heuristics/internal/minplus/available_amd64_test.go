//go:build !purego

package minplus

// available lists what this processor can run.
func available() []kernels {
	list := []kernels{{"go", foldGo, addGo, minGo}, {"dispatched", Fold, Add, Min}}
	if hasAVX2 {
		list = append(list, kernels{"avx2", foldAVX2, addAVX2, minAVX2})
	}
	if hasAVX512 {
		list = append(list, kernels{"avx512", foldAVX512, addAVX512, minAVX512})
	}
	return list
}
