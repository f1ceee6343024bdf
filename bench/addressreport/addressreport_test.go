package addressreport_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"workbench/bench/addressreport"
	"workbench/bench/solve"
	"workbench/bench/sweep"
	"workbench/bench/sweep/store"
	"workbench/bench/sweep/worker"
	"workbench/model/testfile"
)

// Every plan of a sweep is placed once, on multiples of the alignment, not below what is
// alive; a plan that counts in slots is not.
func TestOfSweep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	night, err := store.Open(dir, "small")
	if err != nil {
		t.Fatal(err)
	}
	folder := &worker.Folder{Dir: dir}
	runner := &worker.InProcess{Instances: folder}
	for _, task := range []sweep.Task{
		{Problem: "remat", Method: "store-all", Instance: "zoo:resnet18?batch=1&image=64", Memory: 1e12},
		{Problem: "remat", Method: "optimum", Instance: "zoo:resnet18?batch=1&image=64", Memory: 1e12}, // the same operations by another name
		{Problem: "remat", Method: "store-all", Instance: "zoo:resnet18?batch=1&image=64", Memory: 2e12},
		{Problem: "swap", Method: "naive", Instance: "zoo:rnn?as=functions&seq=2", Memory: 1e12, Bandwidth: 1e9},
		{Problem: "join", Method: "store-all", Instance: "zoo:siamese?as=join&length=2", Memory: 100},
	} {
		in, err := solve.Load(task.Instance, nil)
		if err != nil {
			t.Fatal(err)
		}
		task.Format, task.SHA256 = sweep.TaskFormat, in.SHA256
		row, plan, err := runner.Run(t.Context(), task)
		if err != nil {
			t.Fatal(err)
		}
		row.Sweep, row.Finished = "small", time.Now()
		if task.Memory == 2e12 {
			row.Task.SHA256 = strings.Repeat("0", 64) // as if the instance had been another one
			row.ID = row.Task.ID()
		}
		if err := night.Append(row, plan); err != nil {
			t.Fatal(err)
		}
	}
	if err := night.Close(); err != nil {
		t.Fatal(err)
	}
	h, err := addressreport.PlaceSweep(t.Context(), dir, 512, nil)
	if err == nil || !strings.Contains(err.Error(), "1 of 4 plans were not placed; the first: plan ") {
		t.Fatal(err)
	}
	if len(h.Plans) != 3 || h.Sweep != "small" {
		t.Fatalf("%+v", h)
	}
	for _, x := range h.Plans {
		if x.Height < x.Bound || x.Bound < x.Load || x.Load <= 0 || x.Buffers == 0 {
			t.Errorf("%+v", x)
		}
	}
	data, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := testfile.Schema(t, "heights-v1.json")(string(data)); err != nil {
		t.Error(err)
	}
	var text bytes.Buffer
	h.Write(&text)
	if !strings.Contains(text.String(), "remat") || !strings.Contains(text.String(), "swap") || strings.Contains(text.String(), "join") {
		t.Errorf("%s", &text)
	}

	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if h, err := addressreport.PlaceSweep(stopped, dir, 1, nil); err != nil || len(h.Plans) > 0 {
		t.Errorf("stopped at once: %v, %+v", err, h)
	}
}
