package graph

import (
	"workbench/model/platform"
)

// Kind names instances of this type.
const Kind = "graph"

// Kind, Title, Size, Batch and Scale say what is common to all instances: see
// package plan.
func (g *Graph) Kind() string         { return Kind }
func (g *Graph) Title() string        { return g.Name }
func (g *Graph) Size() string         { return platform.Count(g.Len(), "node") }
func (g *Graph) Batch() int           { return g.Samples }
func (g *Graph) Scale() platform.Unit { return g.Unit }
