//go:build !unix

package isolate

// memoryFeature is empty: nothing limits the memory here.
const memoryFeature = 0
