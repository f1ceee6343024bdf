//go:build unix

package isolate

import "workbench/solvers"

// memoryFeature is the feature that limiting the memory adds to any engine.
const memoryFeature = solvers.CanMemory
