package plan

// Names of problems whose verifiers replay operations on one device.
const (
	Remat = "remat" // on chains and on graphs
	Join  = "join"
)
