//go:build cgo && !nohighs

package highs

import (
	"testing"

	"workbench/solvers/solvertest"
)

func TestContract(t *testing.T) { solvertest.Run(t, New(), nil) }

func TestDifferential(t *testing.T) { solvertest.Differential(t, New()) }

func TestCycles(t *testing.T) { solvertest.Cycles(t, New(), 3000) }
