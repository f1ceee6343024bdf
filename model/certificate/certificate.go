// Package certificate holds proofs of bounds on mixed-integer programs that exact arithmetic can check, and checks
// them. It trusts no solver, no producer of certificates, and no floating-point rounding.
//
// A program is min c·x + offset, L ≤ Ax ≤ U, l ≤ x ≤ u, some x_j integer, its float64 numbers taken as exact. For
// arbitrary multipliers y, and d = c − Aᵀy,
//
//	offset + Σ_i (y_i > 0 ? y_i L_i : y_i U_i) + Σ_j (d_j > 0 ? d_j l_j : d_j u_j)
//
// is a lower bound on the objective (weak duality; safe bounds: Neumaier and Shcherbina, Safe bounds in linear and
// mixed-integer linear programming, 2004). With c and offset omitted, a value above zero proves infeasibility. A
// certificate is a branch-and-bound tree. Its inner nodes split the values of an integer column into x_j ≤ k and
// x_j ≥ k + 1, and its leaves hold such multipliers: the minimum of the leaves' bounds is a bound on the program.
// (VIPR by Cheung, Gleixner and Steffy, 2017, is the general case; this one needs no solver log.)
//
// Two rules strengthen the leaves. Infinite bounds of columns are first made finite where the rows, and the
// assumption that x is better than the bound to be proved, allow: see [Model]. And if the objective takes only
// integer multiples of a granularity, leaves that prove a bound less than one granularity below a multiple prove
// the multiple.
//
// [Certificate.Check] is the checker. [Model.Bound] serves both the checker and producers.
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

// Certificate states and proves that the objective of a formulation of an instance is at least Bound, or that the
// formulation is infeasible.
type Certificate struct {
	// The data from which the program can be rebuilt.
	Name        string // of the instance
	Instance    string // SHA-256 of its canonical JSON
	Problem     string
	Platform    json.RawMessage
	Formulation string
	Options     json.RawMessage // nil: none
	Backend     string          // source of the multipliers; proves nothing
	Model       string          // Digest of the program

	// Infeasible states that the program has no solution; there is no Bound then.
	Infeasible bool
	// Bound is a bound on the objective multiplied by Scale, a power of two: the formulation's unit in the
	// problem's unit, seconds.
	Bound *big.Rat
	Scale float64
	// Granularity > 0 states that costs are integer multiples of it, and costs of continuous columns 0, so that
	// the program's objective without its offset is an integer multiple of it. 0 states nothing.
	Granularity float64
	Tree        *Node
}

// Value is the largest float64 that is at most the bound.
func (c *Certificate) Value() float64 { return milp.Down.Rat(c.Bound) }

// Node is a node of a tree: an inner one, with two children, or a leaf.
type Node struct {
	// Down is the child with column Column at most At, Up the one with it at least At + 1.
	Column   int
	At       float64
	Down, Up *Node

	// Multipliers of a leaf's rows, by increasing row. If Empty, they prove the leaf infeasible; else they prove a
	// bound.
	Empty       bool
	Multipliers []Multiplier
}

// Multiplier is the factor of a row. Rows without one have 0.
type Multiplier struct {
	Row   int32
	Value float64
}

// Leaves returns the number of leaves. O(nodes).
func (n *Node) Leaves() int {
	if n.Down == nil {
		return 1
	}
	return n.Down.Leaves() + n.Up.Leaves()
}

// Digest returns the SHA-256, in hexadecimal, of the program: the numbers of columns, rows and entries, the sense,
// the offset, and the arrays of [milp.Data] without names and groups, as little-endian 64-bit numbers. −0 counts
// as 0. O(columns + rows + entries).
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

// Leaves returns the number of leaves of the tree.
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
