package zoo

import (
	"fmt"

	"workbench/model/instance/functions"
	"workbench/model/instance/lifetimes"
)

// LoadLifetimes returns the lifetimes of "zoo:NAME?key=value&…": those of the variables of [Functions] without
// swapping, with one time step per function. Variables that are on the host or the device before the first
// function live from the start, others from the first function that uses them. Each lives to its last use, or to
// the end.
func LoadLifetimes(spec string) (*lifetimes.Lifetimes, error) {
	s, err := LoadFunctions(spec)
	if err != nil {
		return nil, err
	}
	l := &lifetimes.Lifetimes{Name: s.Name, Unit: s.Unit, Source: s.Source, Buffers: make([]lifetimes.Buffer, len(s.Variables))}
	last := s.LastUse()
	for v := range s.Variables {
		x := &s.Variables[v]
		l.Buffers[v] = lifetimes.Buffer{ID: x.ID, Lower: int64(s.Len()), Upper: int64(last[v] + 1), Size: x.Size}
		if x.Initial != functions.Nowhere {
			l.Buffers[v].Lower = 0
		}
	}
	for i := range s.Functions {
		for _, v := range s.Functions[i].Uses {
			l.Buffers[v].Lower = min(l.Buffers[v].Lower, int64(i))
		}
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("lifetimes of %s: %w", spec, err)
	}
	return l, nil
}
