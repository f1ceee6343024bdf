package swap

import (
	"context"
	"fmt"
	"math"

	"workbench/model/instance/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// VDNNSwap returns the plan of vDNN and similar methods as described in [003] §2. Variables that a
// forward and a backward function use are transferred out after the last forward that uses them,
// and fetched when the function before the first backward that uses them starts. The loss counts as
// a forward. A variable without a function in between stays resident, as does everything else.
// Variables on the host are fetched one function ahead.
//
// It ignores memory, so it often finds no plan. In a sequence that does not mark backward functions
// all count as forwards, and everything stays resident. O(uses).
func VDNNSwap(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	o := newOrders(in)
	marked := in.vdnn(o)
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("vdnn-swap: %w: %w", plan.ErrNoPlan, err)
	}
	m, list := newMachine(in), o.list(nil)
	m.issued = true
	if math.IsInf(m.run(list), 1) {
		err := m.explain("vdnn-swap", list)
		if !marked {
			err = fmt.Errorf("%w; no function of %q is marked as %s, so nothing is offloaded", err, s.Name, functions.Backward)
		}
		return nil, err
	}
	return m.plan("vdnn-swap"), nil
}

// vdnn orders what VDNNSwap does, and reports whether any function is a backward.
func (in *instance) vdnn(o *orders) (marked bool) {
	backward := func(i int) bool { return in.Sequence.Functions[i].Kind == functions.Backward }
	for i := range in.N {
		marked = marked || backward(i)
		for k := in.At[i]; k < in.At[i+1]; k++ {
			if j := in.Next[k]; j < in.N && !backward(i) && backward(j) && j-1 > i+1 {
				o.addRoundTrip(in.Use[k], i, j-1)
			}
		}
	}
	o.fetchInitial(1)
	return marked
}
