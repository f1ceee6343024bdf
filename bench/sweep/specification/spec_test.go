package specification_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/bench/sweep"
	"workbench/bench/sweep/specification"
	"workbench/model/testfile"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// good is a specification to spoil.
const good = `name: night
experiments:
  - problem: remat
    instances: [{zoo: rnn, seq: [2, 3]}]
    methods: [persistent, chain-milp]
    memory: [range 0%, range 50%, 1MB]
`

func expand(t testing.TB, text, dir string) (*specification.Expansion, error) {
	t.Helper()
	s, err := specification.Parse("night.yaml", dir, []byte(text))
	if err != nil {
		return nil, err
	}
	return s.Expand(t.Context(), "v1")
}

func TestExpand(t *testing.T) {
	x, err := expand(t, good, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Tasks) != 2*3*2 || len(x.Files) != 0 {
		t.Fatalf("%d tasks, %d files", len(x.Tasks), len(x.Files))
	}
	in, err := solve.Load("zoo:rnn?seq=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := catalog.FindProblem("remat")
	if err != nil {
		t.Fatal(err)
	}
	low, high := p.Range(in, solve.Setting{})
	want := sweep.Task{
		Format: sweep.TaskFormat, Problem: "remat", Method: "persistent", Instance: "zoo:rnn?seq=2", SHA256: in.SHA256,
		Memory: low, MemoryName: "range 0%", TimeLimit: 60, TaskMemory: 4 << 30, Version: "v1",
	}
	if x.Tasks[0] != want {
		t.Errorf("%+v\nwant %+v", x.Tasks[0], want)
	}
	want.Method, want.Backend, want.Threads = "chain-milp", "highs", 1
	if x.Tasks[1] != want {
		t.Errorf("%+v\nwant %+v", x.Tasks[1], want)
	}
	want.Memory, want.MemoryName = low+(high-low)/2, "range 50%"
	if x.Tasks[3] != want {
		t.Errorf("%+v\nwant %+v", x.Tasks[3], want)
	}
	want.Memory, want.MemoryName = 1e6, "1MB"
	if x.Tasks[5] != want {
		t.Errorf("%+v\nwant %+v", x.Tasks[5], want)
	}
}

// Every axis is there, those that do not apply are left out, and what two
// experiments share is done once.
func TestAxes(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		tasks int
	}{
		"seeds and repetitions": {good + "    seeds: [1, 2, 3]\n    repetitions: 2\n", 12 * 6},
		"time limits":           {good + "    time_limit: [1s, none]\n", 24},
		"solver axes":           {good + "    threads: [1, 2]\n    backends: [highs, lpsolve]\n", 6 + 6*4},
		"slots":                 {good + "    slots: [10, 20]\n", 12},
		"slots that apply":      {strings.Replace(good, "persistent,", "persistent-slots,", 1) + "    slots: [10, 20]\n", 12 + 6},
		"many repetitions":      {good + "    repetitions: 400\n", 12 * 400},
		"defaults":              {"seeds: [1, 2]\nbandwidth: [1GB/s, 2GB/s]\nprocessors: [2, 3]\n" + good, 24},
		"all without":           {strings.Replace(good, "[persistent, chain-milp]", "all\n    without: [chain-milp]", 1), 6 * (onChains(t) - 1)},
		"the same again":        {good + strings.Join(strings.SplitAfter(good, "\n")[2:], ""), 12},
		"an alias": {
			strings.Replace(strings.Replace(good, "[range 0%, range 50%, 1MB]", "*m", 1), "name", "x-limits: &m [range 10%, peak 20%]\nname", 1),
			8,
		},
		"several problems": {"name: n\nexperiments:\n  problems: [activation-offload, pipeline]\n  instances: zoo:rnn?seq=4\n  methods: " +
			"[greedy, madpipe]\n  bandwidth: [1GB/s, 2GB/s]\n  processors: [2, 3]\n", 2 + 4},
		"replicas": {"name: n\nexperiments:\n  problem: pipeline\n  instances: zoo:rnn?seq=4\n  methods: [pipedream, madpipe]\n " +
			" replicas: [false, true]\n", 2 + 1},
	} {
		x, err := expand(t, c.text, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen := map[string]bool{}
		for _, task := range x.Tasks {
			seen[task.ID()] = true
			if task.Backend == "" && task.Threads > 0 {
				t.Errorf("%s: threads of %s, which has none", name, task.Method)
			}
		}
		if len(x.Tasks) != c.tasks || len(seen) != c.tasks {
			t.Errorf("%s: %d tasks, %d names, want %d", name, len(x.Tasks), len(seen), c.tasks)
		}
		if !slices.IsSortedFunc(x.Tasks, func(a, b sweep.Task) int { return a.Repetition - b.Repetition }) {
			t.Errorf("%s: repetitions are not one after the other", name)
		}
		again, err := expand(t, c.text, "")
		if err != nil || !slices.Equal(again.Tasks, x.Tasks) {
			t.Errorf("%s: other tasks the second time, %v", name, err)
		}
	}
}

// onChains returns how many methods of rematerialization work on chains.
func onChains(t *testing.T) int {
	t.Helper()
	p, err := catalog.FindProblem("remat")
	if err != nil {
		t.Fatal(err)
	}
	in, err := solve.Load("zoo:rnn?seq=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(catalog.MethodsFor(p, in))
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	in, err := solve.Load("zoo:rnn?seq=2", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b.json", "a.json"} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		in.Chain().Name = name
		if err := errors.Join(in.Write(f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	x, err := expand(t, strings.Replace(good, "[{zoo: rnn, seq: [2, 3]}]", `"*.json"`, 1), dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Tasks) != 12 || x.Tasks[0].Instance != "a.json" || x.Tasks[6].Instance != "b.json" || len(x.Files) != 2 {
		t.Errorf("%d tasks, %s, %s, %d files", len(x.Tasks), x.Tasks[0].Instance, x.Tasks[6].Instance, len(x.Files))
	}
}

// Each mistake is found at its place, with what would be right.
func TestMistakes(t *testing.T) {
	change := func(old, new string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("no %q to change", old)
		}
		return strings.Replace(good, old, new, 1)
	}
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "night.yaml:1:1: is empty"},
		{"comment only", "# nothing\n", "is empty"},
		{"no mapping", "- a\n- b\n", "must be keys and values"},
		{"syntax", "name: [a\n", "night.yaml:1:7: sequence end token ']' not found"},
		{"twice", "name: a\nname: b\n", `night.yaml:2:1: mapping key "name" already defined at [1:1]`},
		{"two documents", good + "---\n" + good, "night.yaml:8:1: a second document"},
		{"no name", change("name: night\n", ""), "the specification has no name"},
		{"bad name", change("night", "../night"), `night.yaml:1:7: name "../night": letters`},
		{"newer", "format: workbench.sweep/v2\n" + good, `night.yaml:1:9: format "workbench.sweep/v2": this program knows "workbench.sweep/v1"`},
		{"unknown key", change("methods", "metods"), `night.yaml:5:5: unknown key "metods" of an experiment: did you mean methods?`},
		{"unknown key above", "memry: 1GB\n" + good, `night.yaml:1:1: unknown key "memry" of the specification: did you mean memory?`},
		{"no value", change("remat", ""), "night.yaml:3:5: problem has no value"},
		{"unknown problem", change("remat", "remt"), `night.yaml:3:14: unknown problem "remt": did you mean remat?`},
		{
			"unknown method", change("persistent,", "persistant,"),
			`night.yaml:5:15: unknown method "persistant" of remat: did you mean persistent?`,
		},
		{"unknown network", change("rnn", "rnm"), `night.yaml:4:23: unknown network "rnm": did you mean rnn?`},
		{"unknown parameter", change("seq:", "sec:"), `night.yaml:4:28: rnn has no parameter "sec": did you mean seq?`},
		{"bad parameter", change("[2, 3]", "[2, x]"), "night.yaml:4:17: zoo:rnn: seq:"},
		{"empty grid", change("[2, 3]", "[]"), "night.yaml:4:33: seq: the list is empty"},
		{"empty list", change("[range 0%, range 50%, 1MB]", "[]"), "night.yaml:6:13: memory: the list is empty, so there is nothing to run"},
		{"no experiments", "name: a\nexperiments: []\n", "night.yaml:2:14: experiments: the list is empty"},
		{"no instances", change("    instances: [{zoo: rnn, seq: [2, 3]}]\n", ""), "an experiment has no instances"},
		{"no problem", change("problem: remat\n    ", ""), "night.yaml:3:5: an experiment has no problem: known are remat"},
		{"negative percentage", change("50%", "-5%"), `night.yaml:6:24: memory: "range -5%": not a quantity: it may not be negative`},
		{"impossible percentage", change("50%", "150%"), `night.yaml:6:24: memory: "range 150%": not a quantity: write a percentage from 0% to 100%`},
		{"a percentage of what", change("range 50%", "50%"), "night.yaml:6:24: memory 50%: write range 50% for a share between"},
		{"a value twice", change("50%", "0%"), "night.yaml:6:24: memory: range 0% is given twice"},
		{"bad unit", change("1MB", "1MP"), "night.yaml:6:35: memory: \"1MP\": not a quantity"},
		{"a number that is none", change("1MB", ".nan"), "night.yaml:6:35: .nan: a finite number is needed"},
		{"bandwidth of nothing", good + "    bandwidth: 1GB/s\n", "night.yaml:7:16: bandwidth: remat has no such thing"},
		{"processors of nothing", good + "    processors: 2\n", "night.yaml:7:17: processors: remat has no such thing"},
		{"replicas of nothing", good + "    replicas: true\n", "night.yaml:7:15: replicas: remat has no such thing"},
		{"replicas that are no word", "replicas: 2\n" + good, `night.yaml:1:11: replicas "2"`},
		{"no bandwidth", "bandwidth: -1\n" + good, `night.yaml:1:12: bandwidth: "-1"`},
		{"threads", "threads: 0\n" + good, `night.yaml:1:10: threads "0": an integer from 1 to 1024 is needed`},
		{"seed", "seeds: [1.5]\n" + good, `night.yaml:1:9: seeds "1.5": an integer`},
		{"gap", "gap: 2\n" + good, `night.yaml:1:6: gap "2": a fraction`},
		{"time", "time_limit: soon\n" + good, `night.yaml:1:13: time_limit: "soon": not a quantity`},
		{"repetitions", "repetitions: 0\n" + good, `night.yaml:1:14: repetitions "0": an integer`},
		{"task memory", "task_memory: 1kB\n" + good, `night.yaml:1:14: task_memory "1kB": from 64 MiB on, or none`},
		{"backend", "backends: higs\n" + good, `night.yaml:1:11: backends "higs": did you mean highs?`},
		{"model", "memory_models: tsk\n" + good, `night.yaml:1:16: memory_models "tsk": did you mean task?`},
		{"plans", "plans: perhaps\n" + good, `night.yaml:1:8: plans: "perhaps": true or false is needed`},
		{"a list for a value", "repetitions: [1, 2]\n" + good, "night.yaml:1:14: one value is needed"},
		{"merge key", change("memory:", "<<:"), "night.yaml:6:5: << is not supported"},
		{"alias of nothing", change("[range 0%, range 50%, 1MB]", "*limits"), "night.yaml:6:13: no value has the name &limits"},
		{"alias of itself", change("[range 0%, range 50%, 1MB]", "&a *a"), "night.yaml:6:16: unexpected scalar value type"},
		{"no file", change("[{zoo: rnn, seq: [2, 3]}]", "none-*.json"), "night.yaml:4:16: no file matches none-*.json"},
		{"a network as a file", change("[{zoo: rnn, seq: [2, 3]}]", "rnn"), "built-in networks are written zoo:rnn"},
		{"graphs only", change("chain-milp", "chen"), "night.yaml:5:27: chen works on none of these instances"},
		{"wrong form", change("zoo: rnn, seq: [2, 3]", "zoo: siamese, as: join"), "is a join, and remat is about chains and graphs"},
		{"two wrong things", change("remat", "remt") + "threads: x\n", "night.yaml:3:14"},
		{
			"too many tasks", change("seq: [2, 3]", "batch: 1") + "    repetitions: 10000\n    seeds: [" + numbers(200) + "]\n",
			"its lists make 6e+06 tasks",
		},
		{
			"too many networks", change("seq: [2, 3]", "seq: ["+numbers(200)+"], batch: ["+numbers(200)+"]"),
			"the grid has more than 10000 networks",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := expand(t, c.text, t.TempDir())
			if err == nil || !strings.Contains(err.Error(), c.want) || !errors.Is(err, solve.ErrInput) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
		})
	}
}

func numbers(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(1000 + i)
	}
	return strings.Join(list, ", ")
}

// All mistakes are reported at once, in the order of the file.
func TestAllMistakesAtOnce(t *testing.T) {
	_, err := expand(t, "nam: x\n"+strings.Replace(good, "persistent,", "persistant,", 1)+"    threads: 0\n    seeds: x\n", "")
	var many interface{ Unwrap() []error }
	if !errors.As(err, &many) || len(many.Unwrap()) != 4 {
		t.Fatalf("%v", err)
	}
	for i, want := range []string{"night.yaml:1:1", "night.yaml:6:15", "night.yaml:8:14", "night.yaml:9:12"} {
		if e := many.Unwrap()[i]; !strings.HasPrefix(e.Error(), want) {
			t.Errorf("%d: %v, want %s", i, e, want)
		}
	}
}

// The specifications that come with the program have tasks, those of every night
// and of the papers of most problems.
func TestBuiltin(t *testing.T) {
	for _, name := range testfile.Few(2, specification.Builtin()...) {
		s, err := specification.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		x, err := s.Expand(t.Context(), "v1")
		if err != nil {
			t.Fatal(err)
		}
		problems := map[string]bool{}
		for _, task := range x.Tasks {
			problems[task.Problem] = true
		}
		if s.Name != name || len(problems) < 6 {
			t.Errorf("%s: named %s, problems %v", name, s.Name, problems)
		}
	}
}

func TestOpen(t *testing.T) {
	for name, want := range map[string]string{"quik": "did you mean quick?", "./none.yaml": "cannot be read"} {
		if _, err := specification.Open(name); err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, solve.ErrInput) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "testdata", "sweeps", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	tables, err := filepath.Glob(filepath.Join("tables", "*.yaml"))
	if err != nil || len(tables) == 0 {
		t.Fatalf("%v, %v", tables, err)
	}
	for _, name := range append(files, tables...) {
		s, err := specification.Open(name)
		if err != nil {
			t.Error(err)
			continue
		}
		if made := bytes.Contains(s.Text, []byte("sweeps/instances/")); !made { // by scripts/instances.sh
			if x, err := s.Expand(t.Context(), ""); err != nil || len(x.Tasks) == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
		if filepath.Dir(name) == "tables" && s.Name != strings.TrimSuffix(filepath.Base(name), ".yaml") {
			t.Errorf("%s is named %s", name, s.Name) // scripts/table.sh
		}
	}
}

// Whatever a file is, reading it ends with a specification or with mistakes
// that have places.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	for _, name := range specification.Builtin() {
		text, err := os.ReadFile(name + ".yaml")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	for _, s := range []string{
		"a: &a *a", "? [a]\n: b", "- - -", "{a: 1}: 2", "!!x y: z", "a: |\n  x\n", "\t", "name: \xff", "a: .inf",
		"<<: *x", "experiments: {problem: remat, instances: {zoo: []}}",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := specification.Parse("f.yaml", "", text)
		if err == nil {
			if len(s.Experiments) == 0 || s.Name == "" {
				t.Fatalf("%+v", s)
			}
			return
		}
		if !errors.Is(err, solve.ErrInput) || !strings.HasPrefix(err.Error(), "f.yaml:") {
			t.Fatalf("%v", err)
		}
	})
}

// Every method that users are offered is in quick or nightly, and quick has every problem: what no
// sweep runs can get worse unseen.
func TestSweepsCoverEveryMethod(t *testing.T) {
	run := map[string]bool{}
	for _, name := range []string{"quick", "nightly"} {
		for _, task := range tasksOf(t, name) {
			run[name+" "+task.Problem], run[task.Problem+" "+task.Method] = true, true
		}
	}
	for _, p := range catalog.Problems() {
		if !run["quick "+p.Name] {
			t.Errorf("quick.yaml has no task of problem %s", p.Name)
		}
		for _, m := range p.Methods() {
			if !run[p.Name+" "+m.Name] {
				t.Errorf("neither quick.yaml nor nightly.yaml runs method %s of %s: add it to an experiment of that problem", m.Name, p.Name)
			}
		}
	}
}

func tasksOf(t *testing.T, name string) []sweep.Task {
	t.Helper()
	s, err := specification.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Expand(t.Context(), "v")
	if err != nil {
		t.Fatal(err)
	}
	return x.Tasks
}

// The instances of quick and nightly are pinned by their digests: a generator that makes another instance
// under the same name ends the comparison with older nights, which must be meant (-update).
func TestInstancesArePinned(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the last bits of times differ where multiplication and addition are fused")
	}
	digests := map[string]string{}
	for _, name := range []string{"quick", "nightly"} {
		for _, task := range tasksOf(t, name) {
			digests[task.Instance] = task.SHA256
		}
	}
	var b strings.Builder
	for _, instance := range slices.Sorted(maps.Keys(digests)) {
		fmt.Fprintf(&b, "%.16s %s\n", digests[instance], instance)
	}
	testfile.Golden(t, "digests.txt", b.String())
}
