package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"workbench/bench/sweep"
	"workbench/bench/sweep/results"
	"workbench/bench/sweep/results/resultstest"
	"workbench/bench/sweep/store"
	"workbench/model/testfile"
)

// keep writes a night into a folder, its rows changed.
func keep(t *testing.T, dir, version string, seed uint64, change func(*sweep.Row)) string {
	t.Helper()
	made := resultstest.Rows(resultstest.Size{Instances: 8, Limits: 3, Repetitions: 3}, version, seed)
	s, err := store.Open(dir, "nightly")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range made {
		if change != nil && r.Result != nil {
			change(r)
		}
		if err := s.Append(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A nightly job fails if, and only if, the night is worse.
func TestBenchCompareEndsWithStatus1OnRegressions(t *testing.T) {
	dir := t.TempDir()
	old := keep(t, filepath.Join(dir, "old"), "a", 1, nil)
	type night struct {
		name   string
		change func(*sweep.Row)
		flags  string
		status int
		want   string
	}
	for _, x := range testfile.Few(1, []night{
		{"plans 2 % worse", func(r *sweep.Row) {
			if r.Task.Method == "floating" && r.Result.Instance.Name == "net002" {
				*r.Result.Objective *= 1.02
			}
		}, "", exitInternal, "REGRESSION a..b: 3 worse-plan: worse-plan remat floating on net002"},
		{"noise", nil, "", exitOK, "no regression"},
		{"times 20 % longer", func(r *sweep.Row) {
			if r.Task.Method == "persistent" {
				r.Result.CPUTime *= 1.2
			}
		}, "", exitInternal, "method-slower remat persistent"},
		{"times 20 % longer, and half more asked for", func(r *sweep.Row) {
			if r.Task.Method == "persistent" {
				r.Result.CPUTime *= 1.2
			}
		}, "--slower=0.5", exitOK, "no regression"},
		{"no such share", nil, "--slower=0", exitUsage, "a share above 0 is needed"},
		{"no such chance", nil, "--alpha=1", exitUsage, "a chance between 0 and 1"},
	}...) {
		t.Run(x.name, func(t *testing.T) {
			night := keep(t, filepath.Join(t.TempDir(), "new"), "b", 2, x.change)
			command := []string{"workbench", "bench", "compare", old, night}
			if x.flags != "" {
				command = append(command, x.flags)
			}
			var out, errs bytes.Buffer
			if status := runApp(context.Background(), command, nil, &out, &errs); status != x.status {
				t.Errorf("status %d, want %d\n%s%s", status, x.status, &out, &errs)
			}
			if !strings.Contains(out.String()+errs.String(), x.want) {
				t.Errorf("%q is not said:\n%s%s", x.want, &out, &errs)
			}
			if x.status == exitUsage {
				return
			}
			// As JSON, the same.
			out.Reset()
			var c results.Comparison
			status := runApp(context.Background(), append(command, "--format", "json", "--html", filepath.Join(t.TempDir(), "r.html")), nil, &out,
				&errs)
			if err := json.Unmarshal(out.Bytes(), &c); err != nil || status != x.status || c.Regressed != (x.status == exitInternal) {
				t.Errorf("status %d, %v, regressed %v", status, err, c.Regressed)
			}
		})
	}
}

// Files whose rows have no checksum are refused with their number, not as empty.
func TestBenchCompareNamesLinesWithoutChecksum(t *testing.T) {
	dir := keep(t, filepath.Join(t.TempDir(), "old"), "a", 1, nil)
	text, err := os.ReadFile(filepath.Join(dir, "rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`,"crc":"[0-9a-f]*"`).ReplaceAll(text, nil)
	file := filepath.Join(t.TempDir(), "rows-without-sums.jsonl")
	if err := os.WriteFile(file, bytes.Join(bytes.SplitAfter(lines, []byte("\n"))[:2], nil), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	status := runApp(context.Background(), []string{"workbench", "bench", "compare", file, file}, nil, &out, &errs)
	if status != exitUsage || !strings.Contains(errs.String(), "2 lines without checksum") {
		t.Errorf("status %d, %q", status, &errs)
	}
}
