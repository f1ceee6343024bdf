package certificate

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"workbench/model/milp"
)

// large is a program of 10⁴ entries and a certificate of so many leaves: binary
// columns in covering rows, of costs and entries that no float64 adds up
// exactly. Every leaf has all multipliers. claimed is what part of the root's
// bound is claimed.
func large(leaves int, claimed float64) (*milp.Data, *Certificate) {
	const columns, rows, perRow = 1500, 1000, 10
	r := rand.New(rand.NewPCG(1, 2))
	d := &milp.Data{Sense: milp.Minimize, Start: []int32{0}}
	for range columns {
		d.Cost, d.Lower, d.Upper = append(d.Cost, 1+r.Float64()), append(d.Lower, 0), append(d.Upper, 1)
		d.Integer = append(d.Integer, true)
	}
	var y []Multiplier
	for i := range rows {
		for _, j := range r.Perm(columns)[:perRow] {
			d.Col, d.Val = append(d.Col, int32(j)), append(d.Val, 0.5+r.Float64())
		}
		d.Start = append(d.Start, int32(len(d.Col)))
		d.RowLower, d.RowUpper = append(d.RowLower, 2), append(d.RowUpper, inf)
		y = append(y, Multiplier{int32(i), 0.1 + 0.1*r.Float64()})
	}
	tree := &Node{Multipliers: y}
	for k := 1; k < leaves; k++ { // splitting the same leaf again and again
		tree = &Node{Column: k % columns, At: 0, Down: tree, Up: &Node{Multipliers: y}}
	}
	m := NewModel(d, inf)
	exact, _ := m.Exact(y, true).Rat(nil)
	exact.Mul(exact, new(big.Rat).SetFloat64(claimed))
	return d, &Certificate{Instance: digest, Model: Digest(d), Scale: 1, Bound: exact, Tree: tree}
}

// BenchmarkCheck goes through leaves of 10⁴ entries that floating point decides.
func BenchmarkCheck(b *testing.B) {
	d, c := large(1000, 0.999999)
	for b.Loop() {
		if err := c.Check(d); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Milliseconds())/float64(b.N*c.Tree.Leaves()), "ms/leaf")
}

// BenchmarkExact adds up such a leaf exactly.
func BenchmarkExact(b *testing.B) {
	d, c := large(1, 1)
	m := NewModel(d, inf)
	for b.Loop() {
		m.Exact(c.Tree.Multipliers, true)
	}
}
