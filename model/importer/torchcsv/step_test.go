package torchcsv_test

import (
	"errors"
	"strings"
	"testing"

	"workbench/model/importer/torchcsv"
	"workbench/model/instance/stages"
)

// Two forwards are sent at 1 and 2 and take 2 each. With a queue the second waits for its receiver, until 4, and delays the first
// gradient, which ends at 8 instead of 7; the second gradient is received from 9 on.
func TestStepWithQueues(t *testing.T) {
	t.Parallel()
	in := &stages.Partition{Name: "two", CommunicationTime: 2, Stages: []stages.Stage{
		{ForwardTime: 1, BackwardTime: 1, ForwardMemory: 1, BackwardMemory: -1},
		{ForwardTime: 1, BackwardTime: 1, ForwardMemory: 1, BackwardMemory: -1},
	}}
	s, err := torchcsv.Read(strings.NewReader("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"), "x.csv")
	if err != nil {
		t.Fatal(err)
	}
	for queue, want := range map[bool]float64{false: 10, true: 12} {
		if got, err := s.Step(in, queue); err != nil || got != want {
			t.Errorf("queue %v: %v, %v; want %v", queue, got, err, want)
		}
	}
	s[0][0], s[0][2] = s[0][2], s[0][0]
	if got, err := s.Step(in, false); !errors.Is(err, torchcsv.ErrFormat) {
		t.Errorf("a deadlock takes %v, %v", got, err)
	}
}
