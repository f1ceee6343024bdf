package solvertest_test

import (
	"testing"

	"workbench/solvers/enumerate"
	"workbench/solvers/solvertest"
)

// The enumerating backend passes, so the suite asks for nothing impossible.
func TestEnumerate(t *testing.T) { solvertest.Run(t, enumerate.New(), nil) }
