package pipeline

import (
	"fmt"
	"math/bits"
	"strings"

	"workbench/model/proof"
)

// processors is a set of processors below 64; others are never members.
type processors uint64

// allProcessors has every processor, however many there are.
const allProcessors = ^processors(0)

func one(r int) processors { return 1 << r }

func (s processors) has(r int) bool {
	return r != noProcessor && (s == allProcessors || s>>r&1 == 1)
}

// argument is why the allocations that begin alike are excluded.
type argument struct {
	kind argumentKind
	gpus processors
}

type argumentKind uint8

const (
	noArgument argumentKind = iota
	loadOf
	linkBetween
	loadOfAll
	delayBehind
	memoryOf
	memoryOfAll
	occupancyOf
	nogood
	noPattern
)

// String names the argument in the words of docs/pipeline-proofs.md. GPUs are numbered by their first layers.
func (a argument) String() string {
	var list []string
	for s := a.gpus; s != 0 && a.gpus != allProcessors; s &= s - 1 {
		list = append(list, fmt.Sprint(bits.TrailingZeros64(uint64(s))))
	}
	gpus := strings.Join(list, ", ")
	switch a.kind {
	case loadOf:
		return "load of GPU " + gpus
	case linkBetween:
		return "link between GPUs " + gpus
	case loadOfAll:
		return "load of all GPUs"
	case delayBehind:
		return "no cut of the other layers fits"
	case memoryOf:
		return "memory of GPU " + gpus
	case memoryOfAll:
		return "average memory of all GPUs"
	case occupancyOf:
		return "occupancy of GPU " + gpus
	case nogood:
		if len(list) == 0 {
			return "nogood of all GPUs"
		}
		return "nogood {" + gpus + "}"
	case noPattern:
		return "enumerated: no pattern"
	}
	return "open"
}

// excluded sums up by argument which part of the allocations it excluded. The part of a node of the search tree is
// that of its parent, divided by the number of children (Knuth 1975, "Estimating the efficiency of backtrack
// programs").
type excluded map[argument]float64

func (x excluded) add(why argument, part float64) { x[why] += part }

// shares returns the parts, the largest first.
func (x excluded) shares() []proof.Share {
	list := make([]proof.Share, 0, len(x))
	for why, part := range x {
		list = append(list, proof.Share{By: why.String(), Part: part})
	}
	return proof.LargestFirst(list)
}
