// Package torchtags writes plans of training steps as PyTorch's partitioner takes them: a
// policy for each node of the forward, which it reads from meta["recompute"]
// (torch/utils/checkpoint.py, CheckpointPolicy).
package torchtags

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"workbench/model/instance/training"
	"workbench/model/plan"
)

// ErrFormat is wrapped by the errors of this package.
var ErrFormat = errors.New("not expressible as torch-tags")

// Policies of nodes.
const (
	Save      = "MUST_SAVE"
	Recompute = "MUST_RECOMPUTE"
	Offload   = "MUST_CPU_OFFLOAD"
)

// Tags is what is written.
type Tags struct {
	Format string            `json:"format"`
	Tags   map[string]string `json:"tags"`
	// Left are the operations of the plan that no tags make a partitioner do.
	Left []Left `json:"inexpressible"`
}

// Left is an operation that tags do not say.
type Left struct {
	Op   int    `json:"op"` // in the plan, from 0
	Node string `json:"node"`
	Why  string `json:"why"`
}

// Write writes the tags of a plan of g. O(operations + size of the graph).
func Write(w io.Writer, p *plan.Plan, in plan.Instance) error {
	g := plan.As[*training.Graph](in)
	if g == nil {
		return fmt.Errorf("%w: it takes a plan and, after it, the training step (graph/v2) that it is for", ErrFormat)
	}
	t, err := FromPlan(p, g)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(t, "", " ")
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// FromPlan returns the tags of a plan of g. A node of the forward, or the loss, whose values the
// backward or what runs again reads is saved if it runs once, and computed again if it
// runs again after the first node of the backward. The partitioner computes again once,
// right before the first use, and keeps that until the last: what runs a third time, again within
// the forward, or again though it belongs to the backward, is left. A node that runs once
// and of which something is fetched once, after the first node of the backward, is
// offloaded; other fetches are left.
func FromPlan(p *plan.Plan, g *training.Graph) (*Tags, error) {
	t := &Tags{Format: "workbench.torch-tags/v1", Tags: map[string]string{}, Left: []Left{}}
	index := make(map[string]int, g.Len())
	for v := range g.Nodes {
		index[g.Nodes[v].ID] = v
	}
	writer := g.Writers()
	runs := make([]int, g.Len())
	behind := false // the backward has begun
	var fetched []fetch
	storage := make(map[string]int, len(g.Storages))
	for s := range g.Storages {
		storage[g.Storages[s].ID] = s
	}
	for k := range p.Ops {
		o := &p.Ops[k]
		if o.Op == plan.OpP {
			s, is := storage[o.Storage]
			if !is || writer[s] < 0 {
				return nil, fmt.Errorf("%w: ops[%d], %s, is of a storage that no node of %s writes", ErrFormat, k, o, g.Name)
			}
			fetched = append(fetched, fetch{k, s, behind})
		}
		if o.Op != plan.OpC {
			continue
		}
		v, is := index[o.Node]
		if !is {
			return nil, fmt.Errorf("%w: ops[%d], %s, is of a node that %s does not have", ErrFormat, k, o, g.Name)
		}
		n := &g.Nodes[v]
		runs[v]++
		forward := isForward(g, v)
		behind = behind || !forward
		if !forward || runs[v] > 1 {
			for _, s := range n.Reads {
				if u := writer[s]; u >= 0 && t.Tags[g.Nodes[u].ID] == "" && isForward(g, u) {
					t.Tags[g.Nodes[u].ID] = Save
				}
			}
		}
		if why := left(runs[v], forward, behind); why != "" {
			t.Left = append(t.Left, Left{k, o.Node, why})
		} else if runs[v] == 2 {
			t.Tags[o.Node] = Recompute
		}
	}
	t.offloads(g, fetched, writer, runs)
	return t, nil
}

// A fetch is a prefetch: the operation, the storage, and whether the backward has begun.
type fetch struct {
	op, storage int
	behind      bool
}

// offloads tags the nodes of which something is fetched, or leaves the fetches.
func (t *Tags) offloads(g *training.Graph, fetched []fetch, writer, runs []int) {
	times := make([]int, len(g.Storages))
	for _, f := range fetched {
		u := writer[f.storage]
		times[f.storage]++
		why := ""
		switch {
		case !isForward(g, u):
			why = "a value of the backward is fetched"
		case !f.behind:
			why = "it is fetched before the backward begins"
		case runs[u] > 1:
			why = "it is fetched, and recomputed"
		case times[f.storage] > 1:
			why = "it is fetched more than once"
		}
		if why == "" {
			t.Tags[g.Nodes[u].ID] = Offload
		} else {
			t.Left = append(t.Left, Left{f.op, g.Nodes[u].ID, why})
		}
	}
	slices.SortStableFunc(t.Left, func(a, b Left) int { return a.Op - b.Op })
}

func isForward(g *training.Graph, v int) bool {
	return g.Nodes[v].Phase == training.Forward || g.Nodes[v].Phase == training.Loss
}

// left is why tags do not say a run of a node, the so-and-so-many-th.
func left(run int, forward, behind bool) string {
	switch {
	case run == 1:
		return ""
	case !forward:
		return "a node of the backward is recomputed"
	case !behind:
		return "it is recomputed before the backward begins"
	case run > 2:
		return "it is recomputed more than once"
	}
	return ""
}
