package milp

import (
	"io"
	"runtime"
	"testing"
)

// build1e6 builds 1e5 rows of 10 nonzeros over 1e5 columns.
func build1e6(grow bool) *Model {
	const rows, perRow = 100_000, 10
	m := New("bench")
	if grow {
		m.Grow(rows, rows, rows*perRow)
	}
	x := m.List("x", rows, Continuous, 0, 1)
	g := m.Group("rows", "")
	var e Expr
	for i := range rows {
		e.Reset()
		for k := range perRow {
			e.Add(float64(k+1), x.At((i*7+k*7919)%rows))
		}
		g.AtMost(&e, float64(i))
	}
	return m
}

func benchmarkBuild(b *testing.B, grow bool) {
	b.ReportAllocs()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	nonzeros := 0
	for b.Loop() {
		nonzeros += build1e6(grow).NumNonzeros()
	}
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(nonzeros), "B/nonzero")
}

func BenchmarkBuild1e6(b *testing.B)      { benchmarkBuild(b, false) }
func BenchmarkBuild1e6Grown(b *testing.B) { benchmarkBuild(b, true) }

func BenchmarkClone(b *testing.B) {
	m := build1e6(true)
	b.ReportAllocs()
	for b.Loop() {
		m.Clone()
	}
}

func BenchmarkViolations(b *testing.B) {
	m := build1e6(true)
	x := make([]float64, m.NumCols())
	b.ReportAllocs()
	for b.Loop() {
		if m.Violations(x, 1e-6) != nil {
			b.Fatal("0 satisfies all rows")
		}
	}
}

func BenchmarkPropagate(b *testing.B) {
	m := build1e6(true)
	b.ReportAllocs()
	for b.Loop() {
		if _, _, c := m.Propagate(10); c != nil {
			b.Fatal("0 satisfies all rows")
		}
	}
}

func BenchmarkWriteMPS(b *testing.B) {
	m := build1e6(true)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.WriteMPS(io.Discard, FreeMPS); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFromData(b *testing.B) {
	d := build1e6(true).Data()
	b.ReportAllocs()
	for b.Loop() {
		if err := FromData(d).Err(); err != nil {
			b.Fatal(err)
		}
	}
}
