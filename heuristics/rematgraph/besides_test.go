package rematgraph

import (
	"testing"

	"workbench/model/platform"
	"workbench/model/testcase/random"
	"workbench/model/testfile"
)

// The schedule of a choice is a plan that computes again what was chosen and nothing else.
func TestBesides(t *testing.T) {
	r := testfile.Random(t, 25, 1)
	some, all := 0, 0
	for range testfile.Cases(400) {
		g := random.Training(r, 2+r.IntN(12))
		v := view(t, g)
		low, high := Range(v)
		memory := low + float64(r.IntN(1+int(high-low)))
		h := v.TimeBound(memory)
		for _, again := range h.Again {
			s := besides(v, h.Node, again)
			peak, _, _ := s.Peak()
			most := g.TotalTime()
			for _, j := range again {
				most += v.Time[j]
			}
			p, err := fit("besides", s, platform.Platform{Memory: peak})
			if err != nil {
				t.Fatal(err)
			}
			got := verified(t, g, p)
			if got > most {
				t.Fatalf("%s, memory %v: %v s, what is chosen takes %v", g.Name, memory, got, most)
			}
			if got == most && len(again) > 0 {
				all++
			}
			if got > g.TotalTime() {
				some++
			}
		}
	}
	if some < testfile.Cases(200) || all < testfile.Cases(200) {
		t.Errorf("%d schedules compute something again, %d all that is chosen", some, all)
	}
}
