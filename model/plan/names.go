package plan

// Names of problems; those of offloading are in files of their own.
const (
	Remat    = "remat"    // on chains, graphs and training steps
	Join     = "join"     // [004] chapter 1
	Swap     = "swap"     // [003]: out-of-core execution, with the operations OpRun, OpIn, OpOut and OpDrop
	Pipeline = "pipeline" // [004] chapters 5 to 7
)
