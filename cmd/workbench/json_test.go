package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"workbench/model/testfile"
)

// printed are command lines of every command that prints JSON, run one after the other; @
// is a folder with the examples; fails says that it ends with another status than 0.
var printed = []struct {
	line  string
	fails bool
}{
	{line: "solve --problem weight-offload @small.json --method greedy --plan @greedy.json --range 60%"},
	{line: "solve --problem weight-offload @small.json --range 60% --certificate @proof.json"},
	{line: "compare --problem weight-offload @small.json --methods greedy,l2l --range 60%"},
	{line: "curve --problem weight-offload @small.json --methods greedy --points 3"},
	{line: "verify @small.json @greedy.json"},
	{line: "verify --bound @proof.json @small.json"},
	{line: "show @greedy.json --instance @small.json"},
	{line: "fragmentation @greedy.json --instance @small.json"},
	{line: "budget zoo:rnn --problem remat --gpu 16GiB"},
	{line: "plan zoo:rnn --memory 4GiB --time-limit 2s"},
	{line: "problems"},
	{line: "methods --problem remat"},
	{line: "zoo list"},
	{line: "zoo show rnn"},
	{line: "zoo export rnn"},
	{line: "stages @small.json --processors 2"},
	{line: "import --from minimalloc @buffers.csv"},
	{line: "place @greedy.json @small.json"},
	{line: "completion bash"},
	{line: "doctor"},
	{line: "formulation list"},
	{line: "formulation show checkmate-strong"},
	{line: "formulation stats checkmate-strong @fork.graph.json --range 50%"},
	{line: "formulation solve checkmate-strong --values"},
	{line: "formulation solve checkmate-strong --values --relax"},
	{line: "formulation solve @model.lp --values"},
	{line: "formulation certify @model.lp"},
	{line: "formulation diff checkmate checkmate-strong @fork.graph.json --range 50%"},
	{line: "formulation check weights-printed --cases 10 --layers 2 --without memory"},
	{line: "formulation explain weights-printed @small.json --range 60%"},
	{line: "formulation export @set @small.json --problem weight-offload --range 60% --time-limit 10s"},
	{line: "bench run @two.yaml --into @night --dry-run"},
	{line: "bench run @two.yaml --into @night"},
	{line: "bench resume @night"},
	{line: "bench merge --into @all @night"},
	{line: "bench compare @night @all"},
	{line: "bench history @night @all"},
	{line: "bench status @."},
}

// without are commands that take --format and print no JSON, or none of their own.
var without = map[string]string{
	"export":       "it writes the other program's file",
	"bench export": "its --format is that of a table",
	"bench serve":  "it prints what bench run does; testdata/script/bench-queue.txtar",
	"bench work":   "it needs a queue; testdata/script/bench-queue.txtar",
}

// Every command's JSON names its format, is as that format's schema says, and has keys in
// lower case.
func TestJSONOfEveryCommand(t *testing.T) {
	dir := likeClone(t)
	if err := os.WriteFile(filepath.Join(dir, "model.lp"), []byte("max\n obj: 2 x + 3 y\nst\n c: x + y <= 4.5\ngeneral\n x y\nend\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "buffers.csv"), []byte("id,lower,upper,size\na,0,3,4\nb,1,2,5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	spec := "name: two\nmemory: [range 50%]\nexperiments:\n  - problem: weight-offload\n    instances: [" + filepath.Join(dir, "small.json") +
		"]\n    methods: [greedy, l2l]\n    bandwidth: 1\n"
	if err := os.WriteFile(filepath.Join(dir, "two.yaml"), []byte(spec), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, x := range printed {
		var out, errs bytes.Buffer
		args := append([]string{"workbench"}, append(strings.Fields(strings.ReplaceAll(x.line, "@", dir+"/")), "--format", "json", "--quiet")...)
		if code := runApp(t.Context(), args, strings.NewReader(""), &out, &errs); (code != exitOK) != x.fails {
			t.Errorf("%s: status %d\n%s", x.line, code, &errs)
			continue
		}
		if keep := os.Getenv("KEEP_JSON"); keep != "" {
			os.WriteFile(filepath.Join(keep, strings.ReplaceAll(strings.ReplaceAll(x.line, "/", "_"), " ", "_")), out.Bytes(), 0o644)
		}
		if err := wellFormed(t, out.Bytes()); err != nil {
			t.Errorf("%s: %v", x.line, err)
		}
	}
	for _, name := range formatted(newApp(streams{}).Commands, "") {
		tried := slices.ContainsFunc(printed, func(x struct {
			line  string
			fails bool
		},
		) bool {
			return strings.HasPrefix(x.line+" ", name+" ")
		})
		if why := without[name]; tried == (why != "") {
			t.Errorf("%s takes --format: tried %v, excused by %q", name, tried, why)
		}
	}
}

// formatted returns the commands that take --format.
func formatted(commands []*cli.Command, before string) (names []string) {
	for _, c := range commands {
		name := strings.TrimSpace(before + " " + c.Name)
		names = append(names, formatted(c.Subcommands, name)...)
		if len(c.Subcommands) == 0 && slices.ContainsFunc(c.Flags, func(f cli.Flag) bool { return slices.Contains(f.Names(), "format") }) {
			names = append(names, name)
		}
	}
	return names
}

var formatName = regexp.MustCompile(`^workbench\.([a-z-]+)/(v[0-9]+)$`)

// wellFormed checks a document, or each of an array of them.
func wellFormed(t *testing.T, data []byte) error {
	t.Helper()
	documents := []json.RawMessage{data}
	if bytes.HasPrefix(data, []byte("[")) {
		if err := json.Unmarshal(data, &documents); err != nil {
			return err
		}
	}
	if len(documents) == 0 {
		return fmt.Errorf("nothing is printed")
	}
	for _, d := range documents {
		var head struct {
			Format string `json:"format"`
		}
		if err := json.Unmarshal(d, &head); err != nil {
			return err
		}
		name := formatName.FindStringSubmatch(head.Format)
		if name == nil {
			return fmt.Errorf("format %q of %.80s", head.Format, d)
		}
		if _, err := os.Stat(filepath.Join("..", "..", "docs", "schema", name[1]+"-"+name[2]+".json")); err != nil {
			return err
		}
		if err := testfile.Schema(t, name[1]+"-"+name[2]+".json")(string(d)); err != nil {
			return err
		}
		if key := regexp.MustCompile(`"[a-z_]*[A-Z]\w*":`).Find(d); key != nil && !slices.Contains(keysOfModels, name[1]) {
			return fmt.Errorf("key %s", key)
		}
	}
	return nil
}

// keysOfModels are formats with names of rows and columns as keys, which are as the model has
// them.
var keysOfModels = []string{"formulation-solution", "formulation-diff"}
