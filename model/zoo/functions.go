package zoo

import (
	"fmt"

	"workbench/model/functions"
)

// LoadFunctions returns the sequence of functions of "zoo:NAME?key=value&…".
func LoadFunctions(spec string) (*functions.Sequence, error) {
	name, p, err := Parse(spec)
	if err != nil {
		return nil, err
	}
	return Functions(name, p)
}

// Functions generates the training step of a network as a sequence of functions:
// the nodes of its graph ([Graph], [functions.OfGraph]), forward and backward.
// Networks that are known as chains only give the functions of the chain. Errors
// are as those of Chain.
func Functions(name string, p Params) (*functions.Sequence, error) {
	g, v, err := find(name, p, FormFunctions)
	if err != nil {
		return nil, err
	}
	s, err := g.generateFunctions(v)
	if err != nil {
		return nil, fmt.Errorf("%s%s: %w", Scheme, name, err)
	}
	s.Name = g.label(v, FormFunctions)
	return s, nil
}

// generateFunctions makes the sequence of v.
func (g *generator) generateFunctions(v values) (*functions.Sequence, error) {
	if g.chain != nil {
		c, err := g.chain(v)
		if err != nil {
			return nil, err
		}
		return functions.Of(c), nil
	}
	step, err := g.generateGraph(v)
	if err != nil {
		return nil, err
	}
	return functions.OfGraph(step), nil
}
