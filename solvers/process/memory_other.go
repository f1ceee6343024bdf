//go:build !linux

package process

// watchMemory does nothing: only Linux reports the memory of a process.
func watchMemory(int, <-chan struct{}, func(int64)) {}

// dataInUse returns an estimate, which is large so that small limits do not kill the process at once. It is used
// on Unix only.
func dataInUse() int64 { return 256 << 20 }
