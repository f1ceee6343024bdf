package results

import (
	"io"
	"testing"

	"workbench/bench/sweep/results/resultstest"
)

// tenThousand is a night of 10,080 rows: 90 instances under 10 limits, six
// methods of which one is not made for every instance, twice.
var tenThousand = resultstest.Size{Instances: 90, Limits: 10, Repetitions: 2}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

func BenchmarkPage10000(b *testing.B) {
	n := madeNight(tenThousand, "b", 2)
	b.ReportAllocs()
	var size counter
	for b.Loop() {
		size.n = 0
		if err := NewReport(n, nil).WriteHTML(&size); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size.n), "page-B")
	b.ReportMetric(float64(len(n.Rows)), "rows")
}

func BenchmarkPageWithComparison10000(b *testing.B) {
	old, n := madeNight(tenThousand, "a", 1), madeNight(tenThousand, "b", 2)
	b.ReportAllocs()
	for b.Loop() {
		c, err := Compare(old, n, Defaults())
		if err != nil {
			b.Fatal(err)
		}
		if err := NewReport(n, c).WriteHTML(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFolder10000(b *testing.B) {
	n := madeNight(tenThousand, "b", 2)
	dir := b.TempDir()
	for b.Loop() {
		if err := NewReport(n, nil).WriteFolder(dir); err != nil {
			b.Fatal(err)
		}
	}
}
