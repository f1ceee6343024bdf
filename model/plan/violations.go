package plan

// Rules, as violations name them. Those of weight offloading, of which many hold elsewhere:
const (
	RuleKind           = "kind"             // an operation of unknown kind, or on no tensor of this problem
	RuleLayer          = "layer"            // an operation of a layer that the chain does not have
	RuleTime           = "time"             // a time that is no number, or an end before its start
	RuleDuration       = "duration"         // an operation does not take its duration in the instance
	RulePeriod         = "period"           // something does not fit into one period
	RuleMissing        = "missing"          // a computation that is not in the plan
	RuleRepeated       = "repeated"         // a computation that is there more than once
	RuleOrder          = "order"            // computations not in the order B_L..B_1, F_1..F_L
	RuleComputeOverlap = "compute-overlap"  // two computations at once
	RuleLinkOverlap    = "link-overlap"     // two transfers on one link at once
	RuleAbsent         = "weight-absent"    // a computation without its weight on the GPU
	RuleUploadAbsent   = "upload-absent"    // an upload of a weight that is not on the GPU
	RuleUploadBackward = "upload-backward"  // an upload of w_i while B_i changes it
	RulePrefetch       = "prefetch-present" // a prefetch of a weight that is on the GPU, or coming
	RuleDiscardAbsent  = "discard-absent"   // a discard of a weight that is not on the GPU
	RuleDiscardUsed    = "discard-used"     // a discard of a weight that is being used or uploaded
	RuleHostStale      = "host-stale"       // a discard while the host does not hold the current value
	RuleMemory         = "memory"           // more memory in use than there is

	// Of patterns of pipelines:
	RuleAllocation = "allocation" // a layer on no processor, on two, or on one that there is not
	RuleColocation = "colocation" // F_ℓ or B_ℓ on another processor than the allocation's
	RuleResource   = "resource"   // an operation on no resource, or on one of the wrong kind, or on the wrong link
	RuleNoCut      = "no-cut"     // a communication between layers of one processor
	RuleShift      = "shift"      // two operations for the same mini-batches, or the first B_1 not of shift 0
	RuleDependency = "dependency" // an operation that starts before the one it needs has ended

	// Of operations that run one at a time on one device, and of transfers:
	RuleUnknownOp       = "unknown-op"       // an operation of unknown kind, or with what its kind does not have
	RuleNode            = "node"             // an operation of a node that the graph does not have
	RuleBranch          = "branch"           // an operation of a branch that the join does not have
	RuleOverlap         = "overlap"          // two operations at once
	RuleMissingInput    = "missing-input"    // an operation whose input is not stored
	RuleNotStored       = "not-stored"       // a discard or an offload of what is not stored
	RuleTwice           = "twice"            // a second run of what runs once
	RuleMissingBackward = "missing-backward" // a backward that is not in the plan
	RuleMissingOutput   = "missing-output"   // a result that is not stored at the end
	RuleLeftOver        = "left-over"        // something else that is
	RuleChanged         = "changed"          // a node that changes or reads what nodes change, in another order than the graph's
	RuleHostAbsent      = "host-absent"      // a prefetch of what the host does not hold
	RuleTravels         = "travels"          // a node that makes what is on its way

	// Of swapping:
	RuleFunction   = "function"    // an operation of a function that the sequence does not have
	RuleVariable   = "variable"    // an operation on a variable that the sequence does not have
	RuleOutWritten = "out-written" // an out of a variable while a function changes it
)
