package store_test

import (
	"testing"

	"workbench/bench/sweep/store"
)

// One row made durable.
func BenchmarkAppend(b *testing.B) {
	s, err := store.Open(b.TempDir(), "night")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for i := 0; b.Loop(); i++ {
		if err := s.Append(row(i), nil); err != nil {
			b.Fatal(err)
		}
	}
}

// Ten thousand rows read and checked.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, 10_000)
	for b.Loop() {
		if c, err := store.Read(dir); err != nil || len(c.Rows) != 10_000 {
			b.Fatal(len(c.Rows), err)
		}
	}
}
