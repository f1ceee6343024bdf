package results

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"workbench/bench/sweep"
	"workbench/bench/sweep/results/resultstest"
	"workbench/bench/sweep/store"
	"workbench/model/testfile"
)

// keepNights writes nights into folders of dir, a day apart, each changed.
func keepNights(t *testing.T, count int, change func(k int, r *sweep.Row)) string {
	t.Helper()
	dir := t.TempDir()
	for k := range count {
		version := "v" + string(rune('0'+k))
		rows := resultstest.Rows(resultstest.Size{Instances: 3, Limits: 1, Repetitions: 1}, version, uint64(k))
		folder := filepath.Join(dir, version)
		list := &store.Sweep{Name: "nightly", Specification: "name: nightly"}
		s, err := store.Open(folder, list.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows {
			r.Started, r.Finished = r.Started.AddDate(0, 0, k), r.Finished.AddDate(0, 0, k)
			change(k, r)
			list.Tasks = append(list.Tasks, r.Task)
			if err := s.Append(r, nil); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.WriteTasks(folder, list); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestStatus(t *testing.T) {
	dir := keepNights(t, 4, func(k int, r *sweep.Row) {
		if k == 3 && r.Task.Method == "persistent" {
			*r.Result.Objective *= 1.1
		}
	})
	nights, err := Nights(dir)
	if err != nil || len(nights) != 4 {
		t.Fatalf("%d nights, %v", len(nights), err)
	}
	list := StatusOf(nights, 2, Defaults())
	if len(list) != 2 || list[0].Regressed() || !list[1].Regressed() || list[1].Regressions[WorsePlan] != 3 {
		t.Errorf("%+v", list)
	}
	var text, metrics bytes.Buffer
	WriteStatus(&text, list)
	if lines := strings.Split(strings.TrimSpace(text.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[1], "REGRESSION v2..v3: 3 worse-plan") {
		t.Errorf("%s", &text)
	}
	if err := WritePrometheus(&metrics, list[1]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`workbench_sweep_regressions{sweep="nightly",kind="worse-plan"} 3` + "\n", `workbench_sweep_missing_tasks{sweep="nightly"} 0` + "\n",
		"# TYPE workbench_sweep_end_timestamp_seconds gauge\n",
	} {
		if !strings.Contains(metrics.String(), want) {
			t.Errorf("no %q in\n%s", want, &metrics)
		}
	}
	data, err := json.Marshal(map[string]any{"format": StatusFormat, "nights": list})
	if err != nil {
		t.Fatal(err)
	}
	if err := testfile.Schema(t, "status-v1.json")(string(data)); err != nil {
		t.Error(err)
	}
}

// The oldest nights go, but for one that another process has open.
func TestPrune(t *testing.T) {
	dir := keepNights(t, 4, func(int, *sweep.Row) {})
	nights, err := Nights(dir)
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := Prune(nights, 2, true); err != nil || len(removed) != 2 {
		t.Errorf("%v, %v", removed, err)
	}
	s, err := store.Open(filepath.Join(dir, "v1"), "nightly")
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := Prune(nights, 2, false); err == nil || len(removed) != 1 {
		t.Errorf("a night in use: %v, %v", removed, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if nights, err = Nights(dir); err != nil || len(nights) != 3 {
		t.Fatalf("%d nights, %v", len(nights), err)
	}
	if removed, err := Prune(nights, 2, false); err != nil || len(removed) != 1 {
		t.Errorf("%v, %v", removed, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "v3", "rows.jsonl")); err != nil {
		t.Error(err)
	}
}
