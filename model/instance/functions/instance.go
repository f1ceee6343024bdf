package functions

import (
	"workbench/model/platform"
)

// Kind names instances of this type.
const Kind = "functions"

// Kind, Title, Size, Batch and Scale say what is common to all instances: see
// package plan.
func (s *Sequence) Kind() string  { return Kind }
func (s *Sequence) Title() string { return s.Name }
func (s *Sequence) Size() string {
	return platform.Count(s.Len(), "function") + " of " + platform.Count(len(s.Variables), "variable")
}
func (s *Sequence) Batch() int           { return s.Samples }
func (s *Sequence) Scale() platform.Unit { return s.Unit }
