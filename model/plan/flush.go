package plan

// Flush is the name of the problem of pipelines through which micro-batches pass
// before the weights change.
const Flush = "flush"

// Which GPU has which of S stages, GPUs and stages numbered from 0.
const (
	Straight    = "straight"    // stage i on GPU i
	Interleaved = "interleaved" // stage i on GPU i mod P
	VShaped     = "v"           // stages i and 2P − 1 − i on GPU i
)

// What of a plan is minimised.
const (
	// SpanObjective is the largest time of a GPU from its first start to its last end:
	// where a GPU goes on to the next iteration when it is done, the time of one.
	SpanObjective     = "span"
	MakespanObjective = "makespan" // from 0 to the last end
)

// Rules of pipelines that flush, as violations name them, beside RuleKind, RuleTime,
// RuleDuration, RuleMissing, RuleRepeated, RuleComputeOverlap, RuleDependency,
// RuleResource and RuleMemory.
const (
	RuleStage      = "stage"       // an operation of a stage that there is not
	RuleMicroBatch = "micro-batch" // an operation of a micro-batch that there is not
)

// FlushReport is what only plans of [Flush] have.
type FlushReport struct {
	Objective string    `json:"objective"`
	Span      float64   `json:"span"`   // seconds
	Memory    []float64 `json:"memory"` // the peak of each GPU, units, weights included
}
