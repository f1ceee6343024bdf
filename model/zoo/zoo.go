// Package zoo generates networks as chains, as graphs, as sequences of functions and, where branches meet in one
// loss, as joins: architectures priced by a cost model, and the instances of Table 1 of [001] reconstructed from
// its numbers.
//
// The cost model is a roofline: an operation takes the longer of its arithmetic and its memory traffic at the
// rates of a named device, plus a fixed time per kernel. It yields instances with realistic proportions; for
// accurate seconds, use measured profiles.
package zoo

import (
	"fmt"
	"slices"
	"strings"

	"workbench/model/instance/chain"
	"workbench/model/instance/graph"
	"workbench/model/instance/join"
	"workbench/model/nearest"
)

// Scheme begins the name of a built-in network on a command line.
const Scheme = "zoo:"

// Default is the default instance: GPT-2 as a chain of 38 layers (embedding, 36 blocks, head and loss) with hidden
// size 3072 and batch 16, the smallest GPT-2 of [001] §7. As there, only the input of each layer is kept, and its
// backward includes the recomputation. With sequences of 128, which [001] does not state, a layer has 453 MB of
// weights, keeps 25 MB and takes about 0.16 s, near the 431 MB, 20 MB and 0.161 s of [001].
const Default = Scheme + "gpt2?layers=36&hidden=3072&heads=24&seq=128&batch=16&checkpoint=true&device=V100-16GB"

// Entry describes a built-in network.
type Entry struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Forms       []string `json:"forms"` // FormChain, …; the first is the default
	Parameters  []Param  `json:"parameters"`
}

// Param is a parameter of a network.
type Param struct {
	Name        string   `json:"name"`
	Default     string   `json:"default"`
	Description string   `json:"description"`
	Choices     []string `json:"choices,omitempty"` // nil: an integer from Min to Max
	Forms       []string `json:"forms,omitempty"`   // forms that have the parameter; nil: all forms of the network
	Min         int      `json:"min,omitempty"`
	Max         int      `json:"max,omitempty"`
}

// Params are the values of parameters by name; missing ones have defaults.
type Params map[string]string

// List returns the built-in networks.
func List() []Entry {
	var list []Entry
	for _, g := range generators() {
		list = append(list, g.Entry)
	}
	return list
}

// Names returns the names of List.
func Names() []string {
	var names []string
	for _, g := range generators() {
		names = append(names, g.Name)
	}
	return names
}

// Parse reads "zoo:NAME?key=value&key=value". Chain checks whether the network has such parameters.
func Parse(spec string) (name string, p Params, err error) {
	rest, ok := strings.CutPrefix(spec, Scheme)
	if !ok {
		return "", nil, fmt.Errorf("%q is no built-in network: write %sNAME?key=value&key=value", spec, Scheme)
	}
	name, query, asked := strings.Cut(rest, "?")
	if name == "" {
		return "", nil, fmt.Errorf("%s: the name of the network is missing; known are %s", spec, strings.Join(Names(), ", "))
	}
	p = Params{}
	if !asked || query == "" {
		return name, p, nil
	}
	for _, pair := range strings.Split(query, "&") {
		key, value, ok := strings.Cut(pair, "=")
		if !ok || key == "" || value == "" {
			return "", nil, fmt.Errorf("%s: %q is not key=value", spec, pair)
		}
		if _, twice := p[key]; twice {
			return "", nil, fmt.Errorf("%s: %s is given twice", spec, key)
		}
		p[key] = value
	}
	return name, p, nil
}

// Load returns the chain of "zoo:NAME?key=value&…".
func Load(spec string) (*chain.Chain, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Chain(name, p)
}

// Chain generates a network as a chain. Errors name the network and the parameter, with a correction.
func Chain(name string, p Params) (*chain.Chain, error) {
	g, v, err := find(name, p, FormChain)
	if err != nil {
		return nil, err
	}
	c, err := g.generate(v)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, name, err)
	}
	c.Name = g.label(v, FormChain)
	return c, nil
}

// LoadGraph returns the graph of "zoo:NAME?key=value&…".
func LoadGraph(spec string) (*graph.Graph, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Graph(name, p)
}

// Graph generates a network as the graph of a training step: a forward node for every operation, the loss, and a
// backward node for every forward node that a gradient passes, in the order in which autograd runs them. An
// operation that works in place shares a node with the one that it overwrites; a view has none. Networks that
// exist only as chains yield the graph of the chain.
//
// A forward node holds its output and what only its own backward reads (masks, indices, statistics). A backward
// node reads the tensors that autograd saved and the gradients of its output, one from each reader, and holds the
// gradients of its inputs. Errors are those of Chain.
func Graph(name string, p Params) (*graph.Graph, error) {
	g, v, err := find(name, p, FormGraph)
	if err != nil {
		return nil, err
	}
	step, err := g.generateGraph(v)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, name, err)
	}
	step.Name = g.label(v, FormGraph)
	return step, nil
}

// LoadJoin returns the join of "zoo:NAME?key=value&…".
func LoadJoin(spec string) (*join.Join, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Join(name, p)
}

// Join generates a network of branches as a join with unit costs. Errors are
// as those of Chain.
func Join(name string, p Params) (*join.Join, error) {
	g, v, err := find(name, p, FormJoin)
	if err != nil {
		return nil, err
	}
	j := g.join(v)
	j.Name, j.Source = g.label(v, FormJoin), map[string]any{
		"kind": "abstract", "from": "[004] 1.4", "model": name,
		"length": float64(v.numbers["length"]),
	}
	return j, nil
}

// find returns the network of that name and the values of its parameters.
func find(name string, p Params, form string) (*generator, values, error) {
	all := generators()
	for i := range all {
		g := &all[i]
		if g.Name != name {
			continue
		}
		if !slices.Contains(g.Forms, form) {
			return nil, values{}, fmt.Errorf("%s%s is no %s; ask for as=%s", Scheme, name, form, strings.Join(g.Forms, " or as="))
		}
		v, err := g.resolve(p, form)
		if err != nil {
			return nil, v, fmt.Errorf("%s%s: %w", Scheme, name, err)
		}
		return g, v, nil
	}
	return nil, values{}, fmt.Errorf("%s%s: no such network; %s", Scheme, name, nearest.Hint(name, Names()))
}

// Forms of an instance.
const (
	FormChain = "chain"
	FormGraph = "graph"
	FormJoin  = "join"

	FormFunctions = "functions"
	FormTraining  = "training"
	FormLifetimes = "lifetimes" // of what the functions use
	FormStages    = "stages"    // of the chain
)

// Form returns the form that the parameter "as" of a specification selects, and the specification without it, for
// Load, LoadGraph, LoadTraining, LoadJoin, LoadFunctions, LoadLifetimes or LoadStages. The default is the first
// form that the network has. An unknown form stays in place, for those to reject.
func Form(spec string) (form, rest string) {
	head, query, _ := strings.Cut(spec, "?")
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if word, ok := strings.CutPrefix(pair, "as="); ok && slices.Contains(forms, word) {
			if query = strings.Join(slices.Delete(pairs, i, i+1), "&"); query != "" {
				head += "?" + query
			}
			return word, head
		}
	}
	for _, g := range generators() {
		if head == Scheme+g.Name {
			return g.Forms[0], spec
		}
	}
	return FormChain, spec
}

var forms = []string{FormChain, FormGraph, FormTraining, FormJoin, FormFunctions, FormLifetimes, FormStages}
