//go:build unix

package isolate

import "workbench/solvers"

// memoryFeature is what limiting the memory adds to any engine.
const memoryFeature = solvers.CanMemory
