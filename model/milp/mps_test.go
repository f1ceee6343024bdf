package milp

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"workbench/model/testfile"
)

func writeMPS(t interface{ Fatal(...any) }, m *Model, f MPSFormat) string {
	var b strings.Builder
	if _, err := m.WriteMPS(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// ungrouped is a model as ReadMPS returns it: all rows in one group.
func ungrouped(m *Model) *Model {
	d := m.Data()
	d.ColNames, d.RowNames = m.ColNames(), m.RowNames()
	d.Groups, d.RowGroup = nil, nil
	return FromData(d)
}

// MPS lists entries by column, so the order within rows changes: compare them
// as a matrix and the rest as it is.
func sameModel(t interface{ Fatal(...any) }, want, got *Model) {
	if diff := cmp.Diff(matrix(want), matrix(got)); diff != "" {
		t.Fatal(diff)
	}
	byCol := cmp.FilterPath(func(p cmp.Path) bool {
		name := p.Last().String()
		return name == ".Col" || name == ".Val"
	}, cmp.Ignore())
	same(t, want, got, byCol)
}

func TestMPSRoundTrip(t *testing.T) {
	for _, f := range []MPSFormat{FreeMPS, FixedMPS} {
		testfile.Property(t, func(t *rapid.T) {
			m, _ := anyModel(t)
			got, err := ReadMPS(strings.NewReader(writeMPS(t, m, f)), f)
			if err != nil {
				t.Fatal(err)
			}
			sameModel(t, ungrouped(m), got)
		})
		got, err := ReadMPS(strings.NewReader(writeMPS(t, zoo(), f)), f)
		if err != nil {
			t.Fatal(err)
		}
		sameModel(t, ungrouped(zoo()), got)
	}
}

// Free MPS keeps every bit of every number, except in ranges; fixed MPS what
// fits into 12 characters.
func TestMPSNumbers(t *testing.T) {
	testfile.Property(t, func(t *rapid.T) {
		a := rapid.Float64Range(-1e19, 1e19).Draw(t, "a")
		b := rapid.Float64().Filter(func(b float64) bool { return math.Abs(b) < 1e300 && math.Abs(b) > 1e-290 }).Draw(t, "b")
		m := New("numbers")
		x := m.Var("x", Continuous, a, inf)
		var e Expr
		m.Group("g", "").AtMost(e.Add(b, x), a)
		for _, f := range []MPSFormat{FreeMPS, FixedMPS} {
			got, err := ReadMPS(strings.NewReader(writeMPS(t, m, f)), f)
			if err != nil {
				t.Fatal(err)
			}
			r := got.Row(0)
			tol := 0.
			if f == FixedMPS {
				tol = 5e-5 // -1.2345e-300
			}
			for _, v := range [][2]float64{{a, r.Upper}, {b, r.Val[0]}, {a, got.Col(0).Lower}} {
				if !(math.Abs(v[0]-v[1]) <= tol*math.Abs(v[0])) {
					t.Fatalf("wrote %v, read %v", v[0], v[1])
				}
			}
		}
	})
	for x, want := range map[float64]string{
		0: "0", 1e6: "1e6", 1234567: "1.234567e6", -1.0 / 3: "-0.333333333", 1.0 / 3: "0.3333333333",
		-math.Pi * 1e-200: "-3.1416e-200", 123456789012: "123456789012", -1.23456789e-5: "-1.234568e-5",
	} {
		if got := number12(x); got != want {
			t.Errorf("%v as %q, want %q", x, got, want)
		}
	}
}

func TestWrittenNamesAreUnique(t *testing.T) {
	names := []string{
		"x(1)", "x[1]", "x 1", "x_1", "x\n1", "", "", "C5", "C6", "end", "END", "obj", "OBJ", "RHS", "inf", "NaN", "e2", "E", "1x",
		"-x", "$x", "*x", "ü", "ö", strings.Repeat("long", 80), "offset", "OFFSET", "C7_2", "a b", "a\tb", `q"q`, "x(1)",
	}
	testfile.Property(t, func(t *rapid.T) {
		m := New("names")
		var e Expr
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			name := rapid.OneOf(rapid.SampledFrom(names), rapid.String()).Draw(t, "name")
			e.Keep().Add(1, m.Var(name, Continuous, 0, 1))
			m.Group(name, "").AtLeast(&e, 0)
		}
		for _, a := range []alphabet{mpsAlphabet(FreeMPS), mpsAlphabet(FixedMPS), lpAlphabet()} {
			nm, _ := m.nameMap(a)
			for _, written := range [][]string{nm.Cols, nm.Rows} {
				seen := map[string]bool{}
				for _, w := range written {
					if seen[w] || !a.legal(w) || len(w) > a.longest {
						t.Fatalf("name %q is repeated or not legal", w)
					}
					seen[w] = true
				}
			}
		}
		for _, f := range []MPSFormat{FreeMPS, FixedMPS} {
			got, err := ReadMPS(strings.NewReader(writeMPS(t, m, f)), f)
			if err != nil {
				t.Fatal(err)
			}
			sameModel(t, ungrouped(m), got)
		}
	})
}

func TestCrossedIsNotWritten(t *testing.T) {
	col, row := New("col"), New("row")
	col.Var("x", Continuous, 3, 2)
	row.Group("g", "").Between(5, new(Expr), 4)
	for _, m := range []*Model{col, row} {
		if _, err := m.WriteMPS(new(strings.Builder), FreeMPS); !errors.Is(err, ErrCrossed) {
			t.Errorf("MPS of %v: %v", m, err)
		}
		if _, err := m.WriteLP(new(strings.Builder)); !errors.Is(err, ErrCrossed) {
			t.Errorf("LP of %v: %v", m, err)
		}
	}
}

type failingWriter struct{}

var errDisk = errors.New("disk full")

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }

func TestWriteErrors(t *testing.T) {
	m := zoo()
	if _, err := m.WriteMPS(failingWriter{}, FreeMPS); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	if _, err := m.WriteLP(failingWriter{}); !errors.Is(err, errDisk) {
		t.Error(err)
	}
	if err := m.Print(failingWriter{}); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}
