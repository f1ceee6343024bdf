//go:build cgo && !nohighs

package highs

import (
	"testing"

	"workbench/solvers/solvertest"
)

func TestContract(t *testing.T) { solvertest.Run(t, New(), nil) }
