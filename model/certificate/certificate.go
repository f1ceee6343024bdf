// Package certificate holds proofs of bounds on mixed-integer programs that
// exact arithmetic can check, and checks them. It trusts nobody: no solver, no
// maker of certificates, no floating-point rounding.
//
// A program is min c·x + offset, L ≤ Ax ≤ U, l ≤ x ≤ u, some x_j whole, its
// float64 numbers taken as exact. For any multipliers y whatever, and d = c − Aᵀy,
//
//	offset + Σ_i (y_i > 0 ? y_i L_i : y_i U_i) + Σ_j (d_j > 0 ? d_j l_j : d_j u_j)
//
// is a lower bound of the objective (weak duality; safe bounds: Neumaier and
// Shcherbina, Safe bounds in linear and mixed-integer linear programming, 2004).
// With c and offset left out, a value above zero proves that no x exists. A
// certificate is a tree whose inner nodes split a whole column's values into
// x_j ≤ k and x_j ≥ k + 1 and whose leaves carry such multipliers: the least of
// the leaves' bounds holds for the program (VIPR by Cheung, Gleixner and
// Steffy, 2017, is the general case; ours needs no solver's log).
//
// Two things are added to the leaves' sums. Infinite bounds of columns are first
// made finite where the rows, and the assumption that x is better than the bound
// to be proved, allow: see [Model]. And a program whose objective takes whole
// multiples of a granularity only is proved a bound by leaves that come within
// less than the granularity of it.
//
// [Certificate.Check] is the checker. [Model.Bound] serves it and makers alike.
package certificate

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"math/big"

	"workbench/model/milp"
)

// Format is the format of certificates' files.
const Format = "workbench.certificate/v1"

// Certificate says of an instance that the objective of a formulation of it is
// at least Bound, or that it has no solution, and why.
type Certificate struct {
	// What the program was made of, so that it can be made again.
	Name        string // of the instance
	Instance    string // SHA-256 of its canonical JSON
	Problem     string
	Platform    json.RawMessage
	Formulation string
	Options     json.RawMessage // nil: none
	Backend     string          // whose multipliers these are; proves nothing
	Model       string          // Digest of the program

	// Infeasible says that the program has no solution; then there is no Bound.
	Infeasible bool
	// Bound is on the objective times Scale, which is a power of two: that of
	// the formulation's own unit in the problem's, seconds.
	Bound *big.Rat
	Scale float64
	// Granularity > 0: costs are whole multiples of it, and those of columns
	// that need not be whole are 0, so that the program's objective less its
	// offset is a whole multiple of it. 0: nothing is said.
	Granularity float64
	Tree        *Node
}

// Value is the largest float64 that is at most the bound.
func (c *Certificate) Value() float64 { return milp.Down.Rat(c.Bound) }

// Node of a tree: an inner one, with two children, or a leaf.
type Node struct {
	// Down is where column Column is at most At, Up where it is At + 1 or more.
	Column   int
	At       float64
	Down, Up *Node

	// Multipliers of a leaf's rows, by increasing row. If Empty, they prove that
	// there is nothing in it; else they prove a bound.
	Empty       bool
	Multipliers []Multiplier
}

// Multiplier is the factor of a row. Rows without one have 0.
type Multiplier struct {
	Row   int32
	Value float64
}

// Leaves returns how many leaves there are. O(nodes).
func (n *Node) Leaves() int {
	if n.Down == nil {
		return 1
	}
	return n.Down.Leaves() + n.Up.Leaves()
}

// Digest returns the SHA-256, in hexadecimal, of the program: the numbers of
// columns, rows and entries, the sense, the offset, and the arrays of
// [milp.Data] but for names and groups, as little-endian 64-bit numbers. −0
// counts as 0. O(columns + rows + entries).
func Digest(d *milp.Data) string {
	h := sha256.New()
	buffer := make([]byte, 0, 1<<16)
	put := func(bits uint64) {
		if len(buffer) == cap(buffer) {
			h.Write(buffer)
			buffer = buffer[:0]
		}
		buffer = binary.LittleEndian.AppendUint64(buffer, bits)
	}
	put(uint64(len(d.Cost)))
	put(uint64(len(d.RowLower)))
	put(uint64(len(d.Val)))
	put(uint64(d.Sense))
	for _, numbers := range [][]float64{{d.Offset}, d.Cost, d.Lower, d.Upper, d.RowLower, d.RowUpper, d.Val} {
		for _, x := range numbers {
			put(math.Float64bits(x + 0))
		}
	}
	for _, integer := range d.Integer {
		var bit uint64
		if integer {
			bit = 1
		}
		put(bit)
	}
	for _, indices := range [][]int32{d.Start, d.Col} {
		for _, i := range indices {
			put(uint64(i))
		}
	}
	h.Write(buffer)
	return hex.EncodeToString(h.Sum(nil))
}

// Leaves returns how many leaves the tree has.
func (c *Certificate) Leaves() int {
	leaves := 0
	for open := []*Node{c.Tree}; len(open) > 0; {
		n := open[len(open)-1]
		open = open[:len(open)-1]
		switch {
		case n == nil:
		case n.Down == nil:
			leaves++
		default:
			open = append(open, n.Down, n.Up)
		}
	}
	return leaves
}
