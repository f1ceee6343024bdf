package rematgraph

import (
	"fmt"
	"slices"
	"strings"

	"workbench/model/instance/training"
	"workbench/model/maxflow"
	"workbench/model/plan"
	"workbench/model/platform"
	"workbench/model/problem/rematgraph"
)

// MinCut returns the plan of PyTorch's default partitioner of a training step
// (torch/_functorch/partitioners.py, min_cut_rematerialization_partition). Forward and loss run
// once and keep for the backward the values of minimum total size from which cheap operations can
// recompute everything it reads. Those operations are recomputed right before the first node that
// needs them; their values are kept until the last reader.
//
// Cheap operations are the partitioner's pointwise ones, if they write at least a quarter of what
// they read. aggressive, as its option aggressive_recomputation, makes all operations cheap but
// random ones, matrix products, convolutions and attention. Views are no nodes, and resident
// storages cost nothing. It differs where PyTorch models fusion: here every operation runs
// separately, so sizes are not weighted by possible fusion, nor is an operation kept because it
// cannot be fused.
//
// There is one plan for all memories: the error wraps plan.ErrNoPlan if it does not fit, or if no
// operation is one of ATen. A maximum flow with a node for each graph node and value.
func MinCut(v *rematgraph.View, p platform.Platform, aggressive bool) (*plan.Plan, error) {
	method, cheap := "min-cut", pointwise
	if aggressive {
		method, cheap = "min-cut-aggressive", light
	}
	if err := v.Fits(p.Memory); err != nil {
		return nil, err
	}
	if !hasOperations(v) {
		return nil, unknown(method)
	}
	c := newPartition(v)
	c.split(cheap)
	return fit(method, c.carryOut(), p)
}

const aten = "aten."

// hasOperations reports whether any node has an operation of ATen, for which it is known whether it
// is cheap.
func hasOperations(v *rematgraph.View) bool {
	return slices.ContainsFunc(v.Graph.Nodes, func(n training.Node) bool { return strings.HasPrefix(n.Operation, aten) })
}

// unknown returns the error for a graph without such operations.
func unknown(method string) error {
	return fmt.Errorf("%s: %w: no node has an operation of ATen (as %sadd.Tensor), so that it is unknown which nodes are cheap to recompute",
		method, plan.ErrNoPlan, aten)
}

// partition is a training step divided into forward (with loss) and backward.
type partition struct {
	v       *rematgraph.View
	allowed []bool // by node: a forward node that may be recomputed though it is not cheap
	again   []bool // by node: a forward node that is recomputed
}

func newPartition(v *rematgraph.View) *partition {
	return &partition{v: v, allowed: make([]bool, v.N), again: make([]bool, v.N)}
}

// forward reports whether node j belongs to the forward part.
func (c *partition) forward(j int) bool {
	phase := c.v.Graph.Nodes[j].Phase
	return phase == training.Forward || phase == training.Loss
}

// split chooses the nodes to recompute by a minimum cut. A value that the backward reads is kept,
// at the price of its size, or its node is recomputed, which needs the inputs of the node.
func (c *partition) split(cheap func(string) bool) {
	v := c.v
	var cut maxflow.Network
	cut.Reset(2 + v.M + v.N)
	needed := func(i int) int { return 2 + i }
	computed := func(j int) int { return 2 + v.M + j }
	for i, w := range v.Writer {
		if !c.forward(w) {
			continue
		}
		if slices.ContainsFunc(v.Succ[i], func(j int) bool { return !c.forward(j) }) {
			cut.Arc(maxflow.Source, needed(i), maxflow.Unlimited)
		}
		cut.Arc(needed(i), computed(w), int64(v.Memory[i]))
	}
	for j := range v.N {
		if !c.forward(j) {
			continue
		}
		if !c.mayRunAgain(j, cheap) {
			cut.Arc(computed(j), maxflow.Sink, maxflow.Unlimited)
		}
		for _, i := range v.Pred[j] {
			cut.Arc(computed(j), needed(i), maxflow.Unlimited)
		}
	}
	cut.Restore()
	cut.Run()
	side := cut.SourceSide()
	for j := range v.N {
		c.again[j] = side[computed(j)]
	}
}

// mayRunAgain reports whether a forward node may be recomputed: it is allowed, or it is cheap and
// no reduction to less than a quarter, whose result may as well be kept.
func (c *partition) mayRunAgain(j int, cheap func(string) bool) bool {
	n := &c.v.Graph.Nodes[j]
	if c.allowed[j] {
		return true
	}
	if c.v.Once[j] || n.Random {
		return false
	}
	for operation := range strings.SplitSeq(n.Operation, "+") {
		if !cheap(operation) {
			return false
		}
	}
	read := 0.0
	for _, s := range n.Reads {
		read += c.v.Graph.Storages[s].Bytes
	}
	return 4*c.v.Written[j] >= read
}

// carryOut returns the schedule of the partition.
func (c *partition) carryOut() *rematgraph.Schedule {
	v := c.v
	out := v.New()
	begin := make([]int, v.N) // by recomputed node: the stage in which it is recomputed
	for j := v.N - 1; j >= 0; j-- {
		begin[j] = v.N
		for _, i := range v.Writes[j] {
			forward, first, last := j, v.N, -1 // readers in the forward part, and after it
			for _, k := range v.Succ[i] {
				switch {
				case !c.forward(k):
					first, last = min(first, k), max(last, k)
				case c.again[k] && begin[k] < v.N:
					first, last = min(first, begin[k]), max(last, begin[k])
					fallthrough
				default:
					forward = max(forward, k)
				}
			}
			from := j // it is kept from there on
			if c.again[j] {
				begin[j], from = min(begin[j], first), first
			}
			if v.Result[i] {
				from, last = j, v.N
			}
			retain(out, i, j, forward)
			retain(out, i, from, last)
		}
	}
	out.Complete()
	return out
}

// retain keeps value i from after node after until stage until.
func retain(s *rematgraph.Schedule, i, after, until int) {
	for t := after + 1; t <= until; t++ {
		s.Retain(t, i, true)
	}
}

// light reports whether an operation is cheap in the aggressive cut.
func light(operation string) bool {
	name := base(operation)
	return !heavy[name] && !strings.Contains(name, "attention")
}

// pointwise reports whether an operation is cheap by default.
func pointwise(operation string) bool { return allowed[base(operation)] }

// base returns the name of an operation of ATen without overload, and without the
// underscores of operations that are in place or private: aten.add_.Tensor is add.
func base(operation string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(operation, aten), ".")
	return strings.Trim(name, "_")
}

// set returns a set of words.
func set(words string) map[string]bool {
	out := map[string]bool{}
	for w := range strings.FieldsSeq(words) {
		out[w] = true
	}
	return out
}

// heavy and allowed are compute_intensive_ops and default_recomputable_ops of the
// partitioner, those for inductor included, as far as they are not views.
var (
	heavy   = set("mm addmm bmm baddbmm convolution convolution_backward upsample_bilinear2d")
	allowed = set(`abs acos acosh add addcdiv addcmul amax amin and any arange argmax asin asinh atan atan2 atanh
		bitwise_and bitwise_not bitwise_or bitwise_xor ceil celu clamp clamp_max clamp_min clone copy cos cosh div
		elu eq erf erfc exp expm1 fill floor fmod frac full full_like gather ge gelu gelu_backward gt hardsigmoid
		hardswish hardtanh index isinf isnan le leaky_relu lerp lgamma log log10 log1p log2 logical_and logical_not
		logical_or logical_xor lshift lt masked_fill max maximum mean min minimum mish mul ne neg new_zeros
		ones or pow reciprocal relu remainder round rshift rsqrt rsub scalar_tensor sgn sigmoid sign silu sin sinh
		softplus sqrt std sub sum tan tanh threshold threshold_backward to_copy triu tril trunc type_as var var_mean
		where xor zero zeros zeros_like`)
)
