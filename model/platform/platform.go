// Package platform describes the machine a plan runs on, and the quantities
// (sizes, bandwidths, durations) people write on command lines and in files.
package platform

import "encoding/json"

// Platform is the machine: what limits a plan beside the instance itself.
// Zero fields do not apply to the problem.
type Platform struct {
	Memory     float64 `json:"memory,omitempty"`     // bytes on each processor
	Bandwidth  float64 `json:"bandwidth,omitempty"`  // bytes per second of each link
	Processors int     `json:"processors,omitempty"` // number of GPUs
	// WeightCopies is C of [004] (6.33): how often each GPU of a pipeline
	// stores the weights of its layers.
	WeightCopies int `json:"weight_copies,omitempty"`
	// Replicas allows stages of a pipeline that are on several GPUs.
	Replicas bool `json:"replicas,omitempty"`
	// Of a pipeline that flushes: how many micro-batches pass through it, which GPUs
	// have which stages, and what is minimised, in the words of package plan.
	MicroBatches int    `json:"micro_batches,omitempty"`
	Placement    string `json:"placement,omitempty"`
	Objective    string `json:"objective,omitempty"`
	// Model says what asynchronous pipelines and weight offloading count as the memory of a layer: [SavedModel] or, in the
	// same meaning, [PaperModel] and nothing.
	Model string `json:"model,omitempty"`
	// Of a layout: the share of the backward of layers without a weight gradient time that is the gradient of the weights, from 0,
	// not split, to below 1; seconds of each transfer in addition to its bytes; and whose rules the stages follow, "" or "torch".
	Split   float64 `json:"split,omitempty"`
	Latency float64 `json:"latency,omitempty"`
	Runtime string  `json:"runtime,omitempty"`
}

// Models of memory.
const (
	SavedModel = "saved" // what autograd saves, and the overheads of what runs
	PaperModel = "paper" // the output of a layer, as [001] and [004] print it
)

// DefaultWeightCopies is C where nothing is said, [004] 6.3: weights, gradients
// and a stale version.
const DefaultWeightCopies = 3

// MarshalJSON writes that there are no weight copies where there are GPUs of a
// pipeline: a file that says nothing has [DefaultWeightCopies].
func (p Platform) MarshalJSON() ([]byte, error) {
	type plain Platform
	if p.Processors > 0 && p.WeightCopies == 0 && p.MicroBatches == 0 {
		return json.Marshal(struct {
			plain
			WeightCopies int `json:"weight_copies"`
		}{plain: plain(p)})
	}
	return json.Marshal(plain(p))
}

// InBytes returns the platform of an instance of unit u as files have it.
func (p Platform) InBytes(u Unit) Platform {
	p.Memory, p.Bandwidth = u.Bytes(p.Memory), u.Bytes(p.Bandwidth)
	return p
}
