package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The test binary stands in for workbench: in scripts under that name, and as
// the child process of isolated solves.
func TestMain(m *testing.M) {
	childOrContinue()
	testscript.Main(m, map[string]func(){"workbench": main})
}

func TestScripts(t *testing.T) {
	data, err := filepath.Abs(filepath.Join("..", "..", "..", "shared", "data"))
	if err != nil {
		t.Fatal(err)
	}
	deploy, err := filepath.Abs(filepath.Join("..", "..", "docs", "deploy"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(e *testscript.Env) error {
			e.Setenv("WORKBENCH_LPSOLVE", os.Getenv("WORKBENCH_LPSOLVE"))
			e.Setenv("DATA", data)
			e.Setenv("DEPLOY", deploy)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			// Measured profiles made elsewhere, which not every checkout has.
			_, err := os.Stat(data)
			return cond == "profiles" && err == nil, nil
		},
	})
}
