package main

import (
	"testing"
	"time"

	"workbench/bench/catalog"
	"workbench/bench/run"
	"workbench/model/plan"
	"workbench/model/testfile"
)

func TestMain(m *testing.M) {
	run.ServeChild()
	m.Run()
}

// A method made of others has no worse plan and bound than each of them alone with the
// same limit. That is asked for of parts that take less than a quarter of it alone:
// where the limit is near, what they take from each other of a busy machine counts, too.
func TestNoCombinationIsWorseThanItsParts(t *testing.T) {
	testfile.Long(t)
	backend, err := run.Backend("highs", false)
	if err != nil {
		t.Fatal(err)
	}
	compared := map[string]int{}
	for _, x := range []struct {
		problem, instance string
	}{
		{plan.Remat, "zoo:resnet50"},
		{plan.Remat, "random:60"},
		{plan.Remat, "zoo:vgg16?as=graph"},
		{plan.Remat, "zoo:resnet34?as=graph"},
		{plan.ActivationOffload, "zoo:densenet121"},
		{plan.ActivationOffload, "random:60"},
		{plan.RematOffload, "zoo:vgg16"},
		{plan.RematOffload, "random:300"},
		{plan.WeightOffload, "zoo:gpt2"},
		{plan.WeightOffload, "random:60"},
		{plan.Swap, "zoo:vgg16?as=functions"},
		{plan.Swap, "zoo:resnet50?as=functions"},
		{plan.Pipeline, "zoo:vgg16"},
		{plan.Pipeline, "random:60"},
	} {
		problem, err := catalog.FindProblem(x.problem)
		if err != nil {
			t.Fatal(err)
		}
		in, err := instanceNamed(x.instance)
		if err != nil {
			t.Fatal(err)
		}
		m := &measurer{ctx: t.Context(), problem: problem, setting: run.Setting{Time: 5 * time.Second, Threads: 1, Backend: backend, Gap: 1e-6}}
		if err := m.give(in, "25"); err != nil {
			t.Fatal(err)
		}
		for _, p := range m.pairs(in) {
			if p.whole.Status == run.Failed || p.part.Status == run.Failed {
				t.Errorf("%s %s", in.Name, &p)
			}
			if p.part.WallTime > p.limit.Seconds()/4 {
				continue
			}
			compared[x.problem]++
			if p.worse() {
				t.Errorf("%s %s", in.Name, &p)
			}
		}
	}
	if len(compared) < 6 {
		t.Errorf("compared %v", compared)
	}
}
