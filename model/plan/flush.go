package plan

import (
	"slices"
	"strconv"
	"strings"
)

// Flush is the name of the problem of pipelines through which micro-batches pass
// before the weights change.
const Flush = "flush"

// Layout is the name of the problem of such pipelines whose stages are cut from a chain: cut, recomputation and schedule together.
const Layout = "layout"

// Which GPU has which of S stages, GPUs and stages numbered from 0.
const (
	Straight    = "straight"    // stage i on GPU i
	Interleaved = "interleaved" // stage i on GPU i mod P
	VShaped     = "v"           // stages i and 2P − 1 − i on GPU i
)

// ListedRanks returns the GPU of each stage, both from 0, of an explicit placement such as "0,1,1,0";
// false if text is none for that many stages and GPUs: each GPU has a stage at least.
func ListedRanks(text string, stages, gpus int) ([]int, bool) {
	if strings.Count(text, ",") != stages-1 {
		return nil, false
	}
	ranks := make([]int, 0, stages)
	for word := range strings.SplitSeq(text, ",") {
		g, err := strconv.Atoi(word)
		if err != nil || g < 0 || g >= gpus {
			return nil, false
		}
		ranks = append(ranks, g)
	}
	for g := range gpus {
		if !slices.Contains(ranks, g) {
			return nil, false
		}
	}
	return ranks, true
}

// WriteRanks returns the explicit placement that [ListedRanks] reads.
func WriteRanks(ranks []int) string {
	words := make([]string, len(ranks))
	for i, g := range ranks {
		words[i] = strconv.Itoa(g)
	}
	return strings.Join(words, ",")
}

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
