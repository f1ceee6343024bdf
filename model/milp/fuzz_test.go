package milp

import (
	"bytes"
	"strings"
	"testing"
)

// fuzzedModel checks of a text that it is refused, or a model that is written and read back to one of
// the same size; formats write an offset as a column, and one where there is none.
func fuzzedModel(t *testing.T, text string, read func(text string) (*Model, error), write func(m *Model, b *bytes.Buffer) error) {
	m, err := read(text)
	if err != nil {
		return
	}
	if err := m.Err(); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := write(m, &b); err != nil || m.NumCols() == 0 || m.Data().Offset != 0 {
		return // crossed bounds, for example, cannot be written
	}
	back, err := read(b.String())
	if err != nil {
		t.Fatalf("%v of\n%s", err, b.String())
	}
	if back.NumCols() != m.NumCols() || back.NumNonzeros() != m.NumNonzeros() || back.NumIntegers() != m.NumIntegers() {
		t.Errorf("%d columns, %d nonzeros, %d integers became %d, %d, %d:\n%s", m.NumCols(), m.NumNonzeros(), m.NumIntegers(),
			back.NumCols(), back.NumNonzeros(), back.NumIntegers(), b.String())
	}
}

func FuzzReadMPS(f *testing.F) {
	formats := map[bool]MPSFormat{false: FreeMPS, true: FixedMPS}
	for fixed, format := range formats {
		f.Add(writeMPS(f, zoo(), format), fixed)
	}
	f.Fuzz(func(t *testing.T, text string, fixed bool) {
		fuzzedModel(t, text, func(text string) (*Model, error) { return ReadMPS(strings.NewReader(text), formats[fixed]) },
			func(m *Model, b *bytes.Buffer) error { _, err := m.WriteMPS(b, formats[fixed]); return err })
	})
}

func FuzzReadLP(f *testing.F) {
	f.Add("Minimize\n obj: x + 2 y\nSubject To\n c: x + y >= 1\nBounds\n x <= 4\nGenerals\n y\nEnd\n")
	f.Fuzz(func(t *testing.T, text string) {
		fuzzedModel(t, text, func(text string) (*Model, error) { return ReadLP(strings.NewReader(text)) },
			func(m *Model, b *bytes.Buffer) error { _, err := m.WriteLP(b); return err })
	})
}
