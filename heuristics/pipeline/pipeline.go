// Package pipeline plans pipelined model parallelism ([004] chapters 5 to 7):
// which processor computes which layers of a chain, and a periodic pattern of
// their operations that overlaps several mini-batches.
//
// Every method takes a chain and a platform and returns a k-periodic pattern, a
// *plan.Infeasible error when it proved that no pattern fits, or an error
// wrapping plan.ErrNoPlan when it found none though one may exist. Methods
// promise nothing about optimality beyond what their comments say; the bounds of
// model/problem/pipeline say how far from it a plan can be at most.
//
// Layers are numbered 1..n as in [004], n = L+1 being the loss; layer 0 is the
// input. A stage is a run of layers on one processor, an item a stage or a
// communication between two of them: Algorithm 6 makes no difference between
// the two.
package pipeline

import (
	"errors"
	"fmt"

	"workbench/model/instance/chain"
	"workbench/model/plan"
	"workbench/model/platform"
	view "workbench/model/problem/pipeline"
)

// Errors of the arguments of methods other than the instance; those of instances are in
// model/problem/pipeline.
var (
	ErrAllocation = errors.New("allocation unfit for the chain")
	ErrOptions    = errors.New("options unfit for pipelining")
)

var errGrid = fmt.Errorf("%w: a grid needs at least 2 values of time and memory, and 0 or at least 2 of the delay", ErrOptions)

// Options of all methods.
type Options struct {
	// Model is the memory model in which plans have to fit: plan.StageModel or
	// plan.TaskModel; "" is the task model.
	Model string
	// Stop, once closed, ends every method with the best so far, if there is one:
	// the Done of a context, or nil. What takes milliseconds is not cut off.
	Stop plan.Stop
	// Progress, if not nil, is called by Exact with the shortest period that is known, that of the start included, and a
	// lower bound on those of 1-periodic patterns, seconds.
	Progress func(period, bound float64, allocations int64)
	// Better, if not nil, is called by SearchOnePeriodic with each plan that is better than those before.
	Better func(*plan.Plan)
}

// instance is a chain on a platform with a stop condition.
type instance struct {
	*view.Instance
	better func(*plan.Plan)
}

// stopRows is the number of table rows between checks for a stop.
const stopRows = 32

// stopped reports whether the caller wants no more.
func (in *instance) stopped() bool { return in.Stop.Given() }

// newInstance checks that c and p mean something, and that no proof says that
// nothing fits.
func newInstance(c *chain.Chain, p platform.Platform, o Options) (*instance, error) {
	in, err := readInstance(c, p, o)
	if err != nil {
		return nil, err
	}
	if err := in.Infeasible(); err != nil {
		return nil, err
	}
	return in, nil
}

func readInstance(c *chain.Chain, p platform.Platform, o Options) (*instance, error) {
	x, err := view.New(c, p, o.Model)
	if err != nil {
		return nil, err
	}
	x.Stop = o.Stop
	return &instance{x, o.Better}, nil
}

// noPlan returns the error of a method without a plan.
func (in *instance) noPlan(method, why string) error {
	if in.stopped() {
		why = "in the time that there was"
	}
	return fmt.Errorf("%s: %s: %w in %s on each of %d processors, %s", plan.Pipeline, method, plan.ErrNoPlan, in.Chain.Unit.Exactly(in.Memory),
		in.Platform.Processors, why)
}
