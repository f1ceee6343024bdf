package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"workbench/model/testfile"
)

// The page that adds a formulation is followed as it stands: its files are laid over those
// of ilp/placement, the program is built, and says of the model with the mistake and of
// the one without what the page says it does.
func TestTheHalfHourPageIsTrue(t *testing.T) {
	testfile.Long(t)
	t.Parallel()
	read := func(file string) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	page := read("../../docs/add-a-formulation.md")
	block := func(after string) string {
		_, rest, ok := strings.Cut(page, after)
		_, rest, begins := strings.Cut(rest, "```")
		text, _, ends := strings.Cut(rest, "\n```")
		if !ok || !begins || !ends {
			t.Fatalf("the page has no block after %q", after)
		}
		_, text, _ = strings.Cut(text, "\n") // the language
		return text + "\n"
	}
	wrong := block("## 1.")
	table, fixed := block("## 2."), block("## 4.")
	begin, end := strings.Index(wrong, "\tm := milp.New"), strings.Index(wrong, "\tm.Minimize")
	if begin < 0 || end < begin || !strings.Contains(fixed, "in.pair()") {
		t.Fatal("the blocks of the page are not those that are put together here")
	}
	formulations := read("../../ilp/placement/formulations.go")
	formulations = strings.Replace(formulations, "\n\t}\n}\n", "\n"+table+"\n\t}\n}\n", 1)
	for model, after := range map[string]string{wrong: "## 3.", wrong[:begin] + fixed + wrong[end:]: "`in.pair()` finds"} {
		_, said, _ := strings.Cut(page[strings.Index(page, after):], "check placement-pairs --cases 200\n")
		said, _, _ = strings.Cut(said, "```")
		if got := outcomes(overlaid(t, map[string]string{"pairs.go": model, "formulations.go": formulations})); got != outcomes(said) {
			t.Errorf("after %q the page says\n%s\nand it is\n%s", after, said, got)
		}
	}
}

// outcomes is what formulation check says but for what depends on the time that it has: numbers,
// versions and the counterexamples themselves.
func outcomes(said string) string {
	var list []string
	for line := range strings.Lines(said) {
		if !strings.HasPrefix(line, "   ") {
			list = append(list, regexp.MustCompile(`[0-9][0-9.]*`).ReplaceAllString(strings.TrimSpace(line), "N"))
		}
	}
	return strings.Join(list, "\n")
}

// overlaid returns what formulation check says of placement-pairs with some files of
// ilp/placement replaced.
func overlaid(t *testing.T, files map[string]string) string {
	t.Helper()
	folder := t.TempDir()
	replace := map[string]string{}
	for name, text := range files {
		target, err := filepath.Abs(filepath.Join("../../ilp/placement", name))
		if err != nil {
			t.Fatal(err)
		}
		replace[target] = filepath.Join(folder, name)
		if err := os.WriteFile(replace[target], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s", "-overlay", filepath.Join(folder, "overlay.json"), "-o",
		filepath.Join(folder, "workbench"), ".")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("the page's files do not build: %v\n%s", err, out)
	}
	c = exec.CommandContext(t.Context(), filepath.Join(folder, "workbench"), "formulation", "check", "placement-pairs", "--quiet")
	out, err := c.Output()
	if err != nil && len(out) == 0 { // counterexamples have an exit status of their own
		t.Fatal(err)
	}
	return string(out)
}
