package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was asked for and does not exist is said before a memory in which nothing fits;
// a file of another kind is told where it belongs.
func TestWhatIsWrongIsSaidFirst(t *testing.T) {
	plan := filepath.Join(t.TempDir(), "plan.json")
	if err := os.WriteFile(plan, []byte(`{"format": "workbench.plan/v1"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const buffers = " zoo:siamese?as=lifetimes --memory 1 "
	for command, want := range map[string]string{
		"formulation solve placement-cliques" + buffers + "--without loads":                   "did you mean load?",
		"formulation stats placement-cliques" + buffers + "--without loads":                   "did you mean load?",
		"formulation diff placement-cliques placement-cliques" + buffers + "--without loads":  "did you mean load?",
		"formulation solve placement-cliques" + buffers + "--without load":                    "no plan fits",
		"formulation solve placement-cliques" + buffers:                                       "no plan fits",
		"formulation solve placement-load" + buffers + "--option nonsense=1":                  `no option "nonsense"`,
		"formulation solve placement-load" + buffers + "--option mip_heuristic_effort=x":      `"x" is not a number`,
		"formulation diff placement-load placement-cliques" + buffers + "--option nonsense=1": `no option "nonsense"`,
		"formulation solve placement-load" + buffers + "--option mip_heuristic_effort=0.1":    "no plan fits",
		"solve --problem placement zoo:resnet18":                                              "zoo:resnet18?as=lifetimes is one",
		"solve --problem placement zoo:resnet18?as=graph":                                     "workbench place PLAN",
		"export " + plan: "--to is needed: minimalloc",
		"import " + plan: "--from is needed: pipedream",
		"solve --problem remat zoo:resnet18 --memory 1 --bandwidth 1":  "remat transfers nothing",
		"solve --problem remat zoo:resnet18 --memory 1 --processors 2": "is about one GPU",
		"solve --problem remat zoo:resnet18 --gap 2":                   "a fraction from 0 to below 1",
		"solve --problem placement " + plan:                            "show, verify and place take plans",
	} {
		var out, failed bytes.Buffer
		code := runApp(t.Context(), strings.Fields("workbench "+command), strings.NewReader(""), &out, &failed)
		if code == 0 || !strings.Contains(failed.String(), want) {
			t.Errorf("%s: status %d, no %q in\n%s", command, code, want, &failed)
		}
	}
}
