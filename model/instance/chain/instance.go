package chain

import (
	"workbench/model/platform"
)

// Kind names instances of this type.
const Kind = "chain"

// Kind, Title, Size, Batch and Scale say what is common to all instances: see
// package plan.
func (c *Chain) Kind() string         { return Kind }
func (c *Chain) Title() string        { return c.Name }
func (c *Chain) Size() string         { return platform.Count(c.Len(), "layer") }
func (c *Chain) Batch() int           { return c.Samples }
func (c *Chain) Scale() platform.Unit { return c.Unit }
