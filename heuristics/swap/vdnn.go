package swap

import (
	"context"
	"fmt"
	"math"

	"workbench/model/functions"
	"workbench/model/plan"
	"workbench/model/platform"
)

// VDNNSwap is the schedule of vDNN and its like as [003] §2 tells it: variables
// that a forward and a backward function use are sent out after the last forward
// that uses them, and fetched when the function before the first backward that
// uses them begins. The loss counts as a forward. A variable for which that leaves no
// function in between stays, and so does all else; variables from the host are
// fetched one function ahead.
//
// It looks at no memory, so often it finds no plan. A sequence that does not
// say which functions are backward ones is an error wrapping ErrSequence. O(uses).
func VDNNSwap(ctx context.Context, s *functions.Sequence, p platform.Platform) (*plan.Plan, error) {
	in, err := newInstance(s, p)
	if err != nil {
		return nil, err
	}
	list := in.vdnn(nil)
	if list == nil {
		return nil, fmt.Errorf("%w: vdnn-swap: no function of %q is marked as %s, so there is no last forward use", ErrSequence, s.Name, functions.Backward)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("vdnn-swap: %w: %w", plan.ErrNoPlan, err)
	}
	m := newMachine(in)
	m.issued = true
	if math.IsInf(m.run(list), 1) {
		return nil, m.explain("vdnn-swap", list)
	}
	return m.plan("vdnn-swap"), nil
}

// vdnn appends the list of VDNNSwap to list, nil if no function is a backward.
func (in *instance) vdnn(list []int) []int {
	backward := func(i int) bool { return in.seq.Functions[i].Kind == functions.Backward }
	o := newOrders(in)
	some := false
	for i := range in.n {
		some = some || backward(i)
		for k := in.at[i]; k < in.at[i+1]; k++ {
			if j := in.next[k]; j < in.n && !backward(i) && backward(j) && j-1 > i+1 {
				o.away(in.use[k], i, j-1)
			}
		}
	}
	if !some {
		return nil
	}
	o.fetchInitial(1)
	return o.list(list)
}

// orders collects what happens between functions.
type orders struct {
	in            *instance
	before, after [][]int // comings before f_i; leavings after f_{i-1}
}

func newOrders(in *instance) *orders {
	return &orders{in, make([][]int, in.n+1), make([][]int, in.n+1)}
}

// away lets v leave after f_i, -1: at once, and come before f_k.
func (o *orders) away(v, i, k int) {
	o.after[i+1] = append(o.after[i+1], o.in.leave(v))
	o.before[k] = append(o.before[k], o.in.come(v))
}

// fetchInitial fetches variables from the host so many functions before the one
// that uses them first.
func (o *orders) fetchInitial(ahead int) {
	for v, where := range o.in.initial {
		if where == functions.Host && o.in.size[v] > 0 {
			i := max(0, o.in.first[v]-ahead)
			o.before[i] = append(o.before[i], o.in.come(v))
		}
	}
}

// list appends the events to list.
func (o *orders) list(list []int) []int {
	for i := range o.in.n {
		list = append(list, o.after[i]...)
		list = append(list, o.before[i]...)
		list = append(list, i)
	}
	return list
}
