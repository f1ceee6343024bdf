//go:build !amd64 || purego

package minplus

// available lists what there is.
func available() []kernels {
	return []kernels{{"go", foldGo, addGo, minGo}, {"dispatched", Fold, Add, Min}}
}
