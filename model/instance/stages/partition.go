// Package stages holds networks that are cut into the stages of a pipeline, the
// instances of pipelines that flush: of each stage what a micro-batch takes in time
// and memory. The backward of a stage is two operations, B for the gradient of its
// input and W for that of its weights, as in Qi, Wan, Huang and Lin, Zero Bubble
// Pipeline Parallelism, ICLR 2024.
package stages

import (
	"workbench/model/platform"
	"workbench/model/strictjson"
)

// Format names the file format written by this package.
const Format = "workbench.stages/v1"

// Kind names instances of this type.
const Kind = "stages"

// Torch is the runtime of torch.distributed.pipelining: a W directly behind the B of its micro-batch runs as one operation with
// it, a full backward, whose gradient leaves when both have ended and which keeps nothing for W.
const Torch = "torch"

// Partition is a network cut into stages. Times are in seconds, sizes are whole
// numbers of Unit, which is the byte unless a file has decimals.
type Partition struct {
	Name string
	// CommunicationTime is how long the output of a stage, or the gradient of it, is on
	// its way to another GPU, in seconds. Links carry any number of them at once.
	CommunicationTime float64
	Stages            []Stage
	// Runtime names whose rules hold beyond those of the papers: [Torch] or none.
	Runtime string
	Unit    platform.Unit
	Source  map[string]any     // where the numbers come from; free form
	Extra   []strictjson.Extra // the user's own fields ("x-…")
}

// A Stage is what one GPU computes in a row of one micro-batch.
type Stage struct {
	Name                                  string
	ForwardTime, BackwardTime, WeightTime float64 // of F, B and W
	// ForwardMemory is what F takes, from 0 on, WeightMemory what W gives back, from 0 down. BackwardMemory is what B gives
	// back or, above 0, what it takes for W. Their sum is 0.
	ForwardMemory, BackwardMemory, WeightMemory float64
	Weight                                      float64 // resident beside any micro-batch
	// Overhead is what an operation takes beside that while it runs. A GPU runs one at a time, and has
	// room for the largest Overhead of its stages all the time.
	Overhead float64
	// RecomputeTime is the part of BackwardTime in which forward is computed again, for a stage that
	// keeps only its input.
	RecomputeTime float64
	// OffloadMemory is the part of ForwardMemory that goes to the host after F and comes back before B,
	// of every micro-batch, and OffloadTime how long each of the two copies takes on the link between
	// the GPU and its host.
	OffloadMemory, OffloadTime float64
}

// Sends reports whether a part of what F keeps goes to the host. Without OffloadMemory nothing is
// copied, whatever OffloadTime is.
func (s *Stage) Sends() bool { return s.OffloadMemory > 0 }

// Split reports whether the backward of the stage is split: a W that takes no time
// and gives nothing back is no operation, and B is the whole backward.
func (s *Stage) Split() bool { return s.WeightTime > 0 || s.WeightMemory < 0 }

// Kind, Title, Size, Batch, TotalTime and Scale say what is common to all
// instances: see package plan. The time is that of one micro-batch.
func (p *Partition) Kind() string         { return Kind }
func (p *Partition) Title() string        { return p.Name }
func (p *Partition) Size() string         { return platform.Count(len(p.Stages), "stage") }
func (p *Partition) Batch() int           { return 0 }
func (p *Partition) Scale() platform.Unit { return p.Unit }

func (p *Partition) TotalTime() float64 {
	t := 0.0
	for i := range p.Stages {
		s := &p.Stages[i]
		t += s.ForwardTime + s.BackwardTime + s.WeightTime
	}
	return t
}
