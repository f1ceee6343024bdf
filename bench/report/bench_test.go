package report

import (
	"io"
	"testing"

	"workbench/bench/compare"
	"workbench/bench/report/rowstest"
)

// tenThousand is a night of 10,080 rows: 90 instances under 10 limits, six
// methods of which one is not made for every instance, twice.
var tenThousand = rowstest.Size{Instances: 90, Limits: 10, Repetitions: 2}

type counter struct{ n int64 }

func (c *counter) Write(p []byte) (int, error) { c.n += int64(len(p)); return len(p), nil }

func BenchmarkPage10000(b *testing.B) {
	n := rowstest.Night(tenThousand, "b", 2)
	b.ReportAllocs()
	var size counter
	for b.Loop() {
		size.n = 0
		if err := New(n, nil).WriteHTML(&size); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(size.n), "page-B")
	b.ReportMetric(float64(len(n.Rows)), "rows")
}

func BenchmarkPageWithComparison10000(b *testing.B) {
	old, n := rowstest.Night(tenThousand, "a", 1), rowstest.Night(tenThousand, "b", 2)
	b.ReportAllocs()
	for b.Loop() {
		c, err := compare.Nights(old, n, compare.Defaults())
		if err != nil {
			b.Fatal(err)
		}
		if err := New(n, c).WriteHTML(io.Discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFolder10000(b *testing.B) {
	n := rowstest.Night(tenThousand, "b", 2)
	dir := b.TempDir()
	for b.Loop() {
		if err := New(n, nil).WriteFolder(dir); err != nil {
			b.Fatal(err)
		}
	}
}
