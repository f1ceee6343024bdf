package store_test

import (
	"testing"

	"workbench/bench/store"
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

// Ten thousand rows read and checked; their index made.
func BenchmarkRead(b *testing.B) {
	dir := b.TempDir()
	write(b, dir, 10_000)
	b.Run("rows", func(b *testing.B) {
		for b.Loop() {
			if c, err := store.Read(dir); err != nil || len(c.Rows) != 10_000 {
				b.Fatal(len(c.Rows), err)
			}
		}
	})
	b.Run("index", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			write(b, dir, 10_000+i%2) // as if a row had come
			db, err := store.Index(b.Context(), dir)
			if err != nil {
				b.Fatal(err)
			}
			if err := db.Close(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
