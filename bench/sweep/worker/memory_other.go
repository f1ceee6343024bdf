//go:build !linux

package worker

// peakMemory returns 0: the peak is not available on this system.
func peakMemory() int64 { return 0 }
