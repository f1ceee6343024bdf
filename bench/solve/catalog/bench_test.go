package catalog_test

import (
	"context"
	"testing"
	"time"

	run "workbench/bench/solve"
	"workbench/bench/solve/catalog"
	"workbench/model/platform"
)

// BenchmarkWeightOffload measures a whole run of the quick methods: reading, method, bounds and replay.
func BenchmarkWeightOffload(b *testing.B) {
	p, err := catalog.FindProblem("weight-offload")
	if err != nil {
		b.Fatal(err)
	}
	for _, network := range []string{"resnet152", "densenet201"} {
		for _, name := range []string{"greedy", "greedy-nodiscount", "first-half", "l2l"} {
			m, err := catalog.FindMethod(p, name)
			if err != nil {
				b.Fatal(err)
			}
			b.Run(network+"/"+name, func(b *testing.B) {
				for range b.N {
					in, err := run.Load("zoo:"+network, nil)
					if err != nil {
						b.Fatal(err)
					}
					low, high := p.Range(in, run.Setting{})
					at := platform.Platform{Memory: float64(int(low + 0.4*(high-low))), Bandwidth: 12e9}
					if r := run.Run(context.Background(), p, m, in, run.Setting{Platform: at, Time: time.Minute, Threads: 1}); r.Plan == nil {
						b.Fatal(r.Error)
					}
				}
			})
		}
	}
}
