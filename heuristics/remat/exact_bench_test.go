package remat

import (
	"context"
	"testing"

	"workbench/model/instance/chain"
	"workbench/model/platform"
	"workbench/model/zoo"
)

// BenchmarkPersistent is one plan in the middle of the range, BenchmarkCurve the
// whole trade-off, for networks as the zoo has them.
func BenchmarkPersistent(b *testing.B) {
	benchmarkZoo(b, []string{
		"vgg16", "mobilenet", "inception", "resnet50", "resnet101", "resnet152", "gpt2-xl",
		"densenet121", "densenet161", "densenet169", "densenet201", "resnet1001",
	}, func(c *chain.Chain, low, high float64) error {
		_, err := Persistent(context.Background(), c, platform.Platform{Memory: (low + high) / 2})
		return err
	})
}

func BenchmarkPersistentCurve(b *testing.B) {
	benchmarkZoo(b, []string{"vgg16", "resnet152", "gpt2-xl", "densenet201"}, func(c *chain.Chain, _, high float64) error {
		_, err := PersistentCurve(context.Background(), c, high)
		return err
	})
}

func BenchmarkFloating(b *testing.B) {
	benchmarkZoo(b, []string{"vgg16", "resnet50", "resnet101", "inception", "resnet152", "mobilenet"},
		func(c *chain.Chain, low, high float64) error {
			_, err := Floating(context.Background(), c, platform.Platform{Memory: (low + high) / 2})
			return err
		})
}

func benchmarkZoo(b *testing.B, names []string, run func(c *chain.Chain, low, high float64) error) {
	for _, name := range names {
		c, err := zoo.Load("zoo:" + name)
		if err != nil {
			b.Fatal(err)
		}
		low, high := Range(c)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := run(c, low, high); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
