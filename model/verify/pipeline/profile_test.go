package pipeline_test

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"workbench/model/plan"
	"workbench/model/testfile"
	"workbench/model/verify/pipeline"
	"workbench/model/verify/replay"
)

// The profile of a GPU peaks where the verifier says, and has the same mean however
// the period is cut out of the pattern.
func TestPipelineProfile(t *testing.T) {
	wrapped := 0
	testfile.Property(t, func(t *rapid.T) {
		c, p := drawPattern(t)
		r := mustVerify(t, c, p)
		profile, err := pipeline.Profile(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for i, samples := range profile {
			peak := 0.0
			for k, s := range samples {
				peak = max(peak, (s.Weights + s.Gradients + s.Activations))
				if k == 0 && s.Time != 0 || s.Time >= *p.Period || k > 0 && s.Time <= samples[k-1].Time {
					t.Fatalf("gpu%d: step %d of %+v", i, k, samples)
				}
			}
			// What takes no time is seen by the verifier alone.
			instant := false
			for _, o := range p.Ops {
				instant = instant || o.Resource == fmt.Sprintf("gpu%d", i) && o.End == o.Start
			}
			if want := r.Pattern.TaskMemory[i]; peak > want || peak < want && !instant {
				t.Fatalf("gpu%d peaks at %g, the verifier says %g: %+v", i, peak, want, samples)
			}
		}
		by := float64(rapid.IntRange(1, int(*p.Period)).Draw(t, "rotation"))
		for k := range p.Ops {
			o := &p.Ops[k]
			if (o.Op == plan.OpF || o.Op == plan.OpB) && math.Mod(o.Start+5**p.Period, *p.Period)+o.End-o.Start > *p.Period {
				wrapped++
			}
			o.Start, o.End = o.Start+by, o.End+by
		}
		rotated, err := pipeline.Profile(c, p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range profile {
			if a, b := mean(profile[i], *p.Period), mean(rotated[i], *p.Period); math.Abs(a-b) > 1e-9*max(a, 1) {
				t.Fatalf("gpu%d has %g on average, rotated by %g %g\n%+v\n%+v", i, a, by, b, profile[i], rotated[i])
			}
		}
	})
	if wrapped == 0 {
		t.Error("no computation went over the end of the period")
	}
}

func mean(samples []replay.Sample, period float64) (sum float64) {
	for k, s := range samples {
		end := period
		if k+1 < len(samples) {
			end = samples[k+1].Time
		}
		sum += (s.Weights + s.Gradients + s.Activations) * (end - s.Time) / period
	}
	return sum
}
