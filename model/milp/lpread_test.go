package milp

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReadLP reads what the format allows.
func TestReadLP(t *testing.T) {
	const text = `\ a comment
maximise
 profit: 3 x + 2y - z + 4
   + 0.5 w - 2
such that
 first: x + y
   <= 4.5
 3 x + z >= y + 1 \ variables on both sides
 -2 <= x - y <= 3
 - x + 2 w = 1e2
bounds
 -inf <= x <= 10
 y free
 2 <= z
 w = 60
integers
 z
binaries
 y
end
`
	m, err := ReadLP(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := m.Print(&b); err != nil {
		t.Fatal(err)
	}
	d := m.Data()
	want := Data{
		Sense: Maximize, Offset: 2, Cost: []float64{3, 2, -1, 0.5}, Lower: []float64{-inf, 0, 2, 60}, Upper: []float64{10, 1, inf, 60},
		Integer: []bool{false, true, true, false}, RowLower: []float64{-inf, 1, -2, 100}, RowUpper: []float64{4.5, inf, 3, 100},
		Start: []int32{0, 2, 5, 7, 9}, Col: []int32{0, 1, 0, 1, 2, 0, 1, 0, 3}, Val: []float64{1, 1, 3, -1, 1, 1, -1, -1, 2},
	}
	d.Groups, d.RowGroup = nil, nil
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("(-want +got)\n%s\n%s", diff, b.String())
	}
}

// TestReadWrittenLP: a model that is written is read as it was.
func TestReadWrittenLP(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 9))
		m := New("random")
		var objective, e Expr
		var x []Var
		for k := range 1 + r.IntN(5) {
			lo := float64(r.IntN(7)-3) / 4
			up := []float64{lo + float64(r.IntN(3)), inf}[r.IntN(2)]
			if r.IntN(4) == 0 {
				lo = -inf
			}
			x = append(x, m.Var("x"+string(rune('a'+k)), []Kind{Continuous, Integer}[r.IntN(2)], lo, up))
			objective.Add(r.NormFloat64(), x[k])
		}
		rows := m.Group("row", "")
		for range 1 + r.IntN(4) {
			e.Reset()
			for _, v := range x {
				if r.IntN(2) == 0 {
					e.Add(r.NormFloat64()*1e3, v)
				}
			}
			e.Add(1, x[0])
			lo, up := float64(r.IntN(9)-4), 5.0
			switch r.IntN(3) { // two sides are written as two rows
			case 0:
				lo = -inf
			case 1:
				up = inf
			case 2:
				lo = up
			}
			rows.Between(lo, &e, up)
		}
		m.Minimize(&objective)
		var b bytes.Buffer
		if _, err := m.WriteLP(&b); err != nil {
			t.Fatal(err)
		}
		again, err := ReadLP(bytes.NewReader(b.Bytes()))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, b.String())
		}
		one, two := m.Data(), again.Data()
		one.Name, two.Name, one.Groups, two.Groups = "", "", nil, nil
		if one.Sense != two.Sense || !sameColumns(m, again) {
			t.Fatalf("seed %d: (-want +got)\n%s\n%s", seed, cmp.Diff(one, two), b.String())
		}
	}
}

// sameColumns compares models by the names of their columns: readers number them as they come.
func sameColumns(a, b *Model) bool {
	one, two := a.Data(), b.Data()
	at := map[string]int{}
	for j, name := range b.ColNames() {
		at[name] = j
	}
	for j, name := range a.ColNames() {
		k, ok := at[name]
		if !ok || one.Cost[j] != two.Cost[k] || one.Lower[j] != two.Lower[k] || one.Upper[j] != two.Upper[k] || one.Integer[j] != two.Integer[k] {
			return false
		}
	}
	if len(one.Col) != len(two.Col) || cmp.Diff(one.RowLower, two.RowLower)+cmp.Diff(one.RowUpper, two.RowUpper) != "" {
		return false
	}
	names := a.ColNames()
	for i := range one.RowLower {
		row := map[int]float64{}
		for k := one.Start[i]; k < one.Start[i+1]; k++ {
			row[at[names[one.Col[k]]]] = one.Val[k]
		}
		for k := two.Start[i]; k < two.Start[i+1]; k++ {
			if v, ok := row[int(two.Col[k])]; !ok || v != two.Val[k] {
				return false
			}
		}
	}
	return true
}

// TestBadLP: mistakes are refused, with their line.
func TestBadLP(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "without End",
		"st\n x <= 1\nend\n":          "line 1: .*Minimize",
		"min\n x\nst\n c: x <= 1\n":   "without End",
		"min\n x\nst\n c: x\nend\n":   "0 comparisons",
		"min\n x\nst\n c: x <=\n":     "End",
		"min\n x + + y >= 3\nend\n":   "in the objective",
		"min\n x\nst\n c: x - <= 1\n": "after a sign",

		"min\n x\nst\n c: x <= 1\n c: x >= 0\nend\n":                             "row c: ",
		"min\n x\nst\n c: x <= 1\nbounds\n 2 x <= 1\nend\n":                      "a bound is written",
		"min\n x\nst\n c: x <= 1\ngeneral\n y\nend\n":                            "column \"y\" is not",
		"min\n x^2\nst\n c: x <= 1\nend\n":                                       "quadratic terms",
		"min\n x * y\nst\n c: x <= 1\nend\n":                                     "quadratic terms",
		"min\n x\nst\n c: x >= 1\nGeneral Constraints\n g: x = MAX ( x )\nend\n": "general constraints",
		"min\n x\nst\n c: b = 1 -> x <= 1\nbinary\n b\nend\n":                    "indicators",
		"min\n x\nst\n c: x <= 1\nsos\n s: S1:: x:1\nend\n":                      "special ordered sets",
		"min\n x\nst\n c: x <= 1\nsemi-continuous\n x\nend\n":                    "semi-continuous variables",
		"min\n x\nst\n c: x <= 1\nlazy constraints\n d: x <= 1\nend\n":           "lazy constraints",
	} {
		_, err := ReadLP(strings.NewReader(text))
		if err == nil || !errors.Is(err, ErrLP) || !matches(want, err.Error()) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

func matches(want, text string) bool {
	for _, part := range strings.Split(want, ".*") {
		at := strings.Index(text, part)
		if at < 0 {
			return false
		}
		text = text[at+len(part):]
	}
	return true
}

// TestCommentsAndContinuedColumns: both are in the files of textbooks.
func TestCommentsAndContinuedColumns(t *testing.T) {
	m, err := ReadMPS(strings.NewReader("NAME\nROWS\n N o $ cost\n L c  $ a row\n G d\nCOLUMNS\n x o 1 c 2\n   d 3 $ more\n y o 4\nRHS\n "+
		"c 5 d 1\nENDATA\n"), FreeMPS)
	if err != nil {
		t.Fatal(err)
	}
	if d := m.Data(); cmp.Diff(d.Cost, []float64{1, 4}) != "" || cmp.Diff(d.Val, []float64{2, 3}) != "" {
		t.Errorf("%+v", d)
	}
}
