package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The manual is a test: every block of README.md and docs/*.md that begins with
// ```console is run, and what it prints must be what stands there. Times and
// versions of libraries may differ; a line of "..." stands for any lines. The
// files of testdata/examples are there.

// varying are the parts of an output that depend on the machine.
var varying = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`time        .*`), "time"},
	{regexp.MustCompile(`^ time +[0-9.]+ s.*`), "time"}, // the last line of a table of curves
	{regexp.MustCompile(`[0-9.]+ s( +(optimal|feasible|error|limit))`), "_ s$1"},
	{regexp.MustCompile(` and lpsolve [0-9.]+`), ""}, // the second backend is optional
	{regexp.MustCompile(`highs +(ok +)?[0-9.]+`), "highs"},
	{regexp.MustCompile(`lpsolve +(ok +)?[0-9.]+`), "lpsolve"},
	{regexp.MustCompile(`threads +.*`), "threads"},
	{regexp.MustCompile(`\([0-9]+ allocations, [0-9]+ decisions`), "(_ allocations, _ decisions"},
	{regexp.MustCompile(`[─ ]+`), " "}, // widths of columns follow the times
}

func comparable(s string) []string {
	var lines []string
	for line := range strings.Lines(s) {
		for _, v := range varying {
			line = v.re.ReplaceAllString(line, v.with)
		}
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// example is one command of a document and what it prints.
type example struct {
	command string
	want    string
	line    int
}

func examples(text string) (all []example) {
	inside := false
	n := 0
	for line := range strings.Lines(text) {
		n++
		trimmed := strings.TrimRight(line, "\n")
		switch {
		case trimmed == "```console":
			inside = true
		case trimmed == "```":
			inside = false
		case inside && strings.HasPrefix(trimmed, "$ "):
			all = append(all, example{command: trimmed[2:], line: n})
		case inside && len(all) > 0:
			all[len(all)-1].want += line
		}
	}
	return all
}

// elide replaces in got what a line of "..." in want stands for.
func elide(want, got []string) []string {
	for i, line := range want {
		if line != "..." || i > len(got) {
			continue
		}
		rest := len(want) - i - 1
		if len(got)-rest < i {
			return got
		}
		return append(append(append([]string{}, got[:i]...), "..."), got[len(got)-rest:]...)
	}
	return got
}

// workbenchOnPath returns a folder with this program by its name.
func workbenchOnPath(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(exe, filepath.Join(bin, "workbench")); err != nil {
		t.Fatal(err)
	}
	return bin
}

// likeClone returns a folder with the examples where a clone has them, and beside,
// where the pages of docs name them.
func likeClone(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	from := os.DirFS(filepath.Join("..", "..", "testdata", "examples"))
	for _, to := range []string{".", filepath.Join("testdata", "examples")} {
		if err := os.CopyFS(filepath.Join(dir, to), from); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What README says to paste into a fresh clone works there, once it is built.
func TestPastedLines(t *testing.T) {
	if testing.Short() {
		t.Skip("runs nine commands, one of which may take its whole limit")
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```sh\\n(make build.*?)```").FindSubmatch(text)
	if block == nil {
		t.Fatal("README has no block that begins with make build")
	}
	dir := likeClone(t)
	if err := os.Symlink(workbenchOnPath(t), filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	_, script, _ := strings.Cut(string(block[1]), "\n") // what make build would do is done
	cmd := exec.Command("bash", "-e", "-c", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs every example of the documents for a minute")
	}
	bin := workbenchOnPath(t)
	ran := 0
	for file, text := range files(t, "docs/*.md", "README.md") {
		dir := likeClone(t)
		for _, e := range examples(text) {
			cmd := exec.Command("sh", "-c", e.command)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
			out, _ := cmd.CombinedOutput() // some examples show errors
			ran++
			want := comparable(e.want)
			if diff := cmp.Diff(want, elide(want, comparable(string(out)))); diff != "" {
				t.Errorf("%s:%d: %s\n(-document +output):\n%s", filepath.Base(file), e.line, e.command, diff)
			}
		}
	}
	if ran < 8 {
		t.Errorf("only %d examples found: are the blocks still marked console?", ran)
	}
}

var sourceFile = regexp.MustCompile(`\b(cmd|bench|heuristics|ilp|solvers|model)/[a-z_/]+\.go\b`)

// The files that documents name are there.
func TestDocumentsNameFilesThatExist(t *testing.T) {
	seen := 0
	for file, text := range files(t, "README.md", "docs/*.md", "docs/*/*.md") {
		for _, name := range sourceFile.FindAllString(text, -1) {
			seen++
			if _, err := os.Stat(filepath.Join("../..", name)); err != nil {
				t.Errorf("%s names %s: %v", file, name, err)
			}
		}
	}
	if seen < 10 {
		t.Errorf("only %d files named", seen)
	}
}
