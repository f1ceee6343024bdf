package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/model/testfile"
)

// What the store writes is of the schemas, which refuse what is not.
func TestSchemas(t *testing.T) {
	encode := func(v any) string {
		line, err := store.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(bytes.TrimSpace(line))
	}
	dir := t.TempDir()
	if err := store.WriteTasks(dir, &store.Sweep{Name: "night", Tasks: []sweep.Task{row(0).Task}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tasks.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Split(string(text), "\n")
	failed := row(0)
	failed.Result, failed.Failure = nil, &sweep.Failure{Reason: sweep.OutOfMemory, Detail: "its limit is 4 GiB"}
	bare := row(0)
	bare.Task = sweep.Task{Problem: "remat", Method: "store-all", Instance: "a.json", SHA256: row(0).Task.SHA256, MemoryName: "0"}
	bare.ID = bare.Task.ID()
	placed := *bare
	placed.Task.Problem = "placement"
	placed.ID = placed.Task.ID()
	here := sweep.Here(map[string]string{"highs": "1.10.0"}, true, 2)
	for _, c := range []struct{ schema, line, broken, with string }{
		{"row-v1.json", encode(row(0)), `"attempt":1`, `"attempt":0`},
		{"row-v1.json", encode(row(0)), `"took"`, `"finished"`},
		{"row-v1.json", encode(row(0)), `23456,123456]`, `23456]`},
		{"row-v1.json", encode(&placed), `"objective":"B"`, `"objective":"MB"`},
		{"row-v1.json", encode(failed), `"reason":"memory"`, `"reason":"greed"`},
		{"row-v1.json", encode(failed), `"failure":{"reason":"memory","detail":"its limit is 4 GiB"},`, ``},
		{"row-v1.json", encode(bare), `"method":"store-all",`, ``},
		{"environment-v1.json", encode(&here), `"jobs":2`, `"jobs":"two"`},
		{"environment-v1.json", encode(&here), `"memory":"B"`, `"memory":"MB"`},
		{"tasks-v1.json", list[0], `"count":1`, `"count":-1`},
		{"task-v1.json", list[1], `"seed":0,`, ``},
	} {
		validate := testfile.Schema(t, c.schema)
		if err := validate(c.line); err != nil {
			t.Errorf("%s: %v\n%s", c.schema, err, c.line)
		}
		other := strings.Replace(c.line, c.broken, c.with, 1)
		if other == c.line || validate(other) == nil {
			t.Errorf("%s takes %s for %s", c.schema, c.with, c.broken)
		}
	}
}
