//go:build !linux

package process

// watchMemory does nothing: only Linux tells.
func watchMemory(int, <-chan struct{}, func(int64)) {}

// dataInUse is unknown; a generous guess keeps small limits from killing the
// process outright. Used on Unix only.
func dataInUse() int64 { return 256 << 20 }
