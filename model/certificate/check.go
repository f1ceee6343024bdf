package certificate

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"workbench/model/milp"
	"workbench/model/strictjson"
)

// Check returns nil if c proves its statement about the program d. Otherwise it returns the first defect, a
// *[strictjson.FieldError] whose path is that of c's file. The caller ensures that d is the program of the
// instance: rebuild it from the instance and c's formulation and options, and compare c.Instance with the
// instance's digest.
//
// It takes O(leaves · (columns + entries)) in floating point. Leaves that are too close to the bound, or have an
// infinite bound, are evaluated exactly.
func (c *Certificate) Check(d *milp.Data) error {
	if d.Sense != milp.Minimize {
		return wrong("model", "the program is to be maximised; certificates are of programs to be minimised")
	}
	if digest := Digest(d); digest != c.Model {
		return wrong("model", "the certificate is about the program %.12s…, this one is %.12s…", c.Model, digest)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	k := &checker{d: d}
	cutoff := math.Inf(1)
	if !c.Infeasible {
		k.claim = new(big.Rat).Quo(c.Bound, new(big.Rat).SetFloat64(c.Scale))
		if err := k.grain(c.Granularity); err != nil {
			return err
		}
		k.enough = milp.Up.Rat(k.claim)
		cutoff = k.enough
	}
	k.model = NewModel(d, cutoff)
	return k.node(c.Tree, nil)
}

// Validate checks the properties that do not depend on the program. The error is a *[strictjson.FieldError].
func (c *Certificate) Validate() error {
	for _, digest := range []struct{ path, text string }{{"instance", c.Instance}, {"model", c.Model}} {
		if len(digest.text) != 64 {
			return wrong(digest.path, "%.80q is not a SHA-256 in hexadecimal", digest.text)
		}
	}
	switch fraction, _ := math.Frexp(c.Scale); {
	case c.Tree == nil:
		return wrong("tree", "missing")
	case c.Infeasible && c.Bound != nil:
		return wrong("bound", "there is none of a program without solution")
	case c.Infeasible && (c.Granularity != 0 || c.Scale != 0):
		return wrong("scale", "there is neither scale nor granularity without a bound")
	case c.Infeasible:
		return nil
	case c.Bound == nil:
		return wrong("bound", "missing")
	case fraction != 0.5:
		return wrong("scale", "%v is not a power of two", c.Scale)
	case !(c.Granularity >= 0) || math.IsInf(c.Granularity, 1):
		return wrong("granularity", "%v is not above zero", c.Granularity)
	}
	return nil
}

func wrong(path, format string, args ...any) error {
	return &strictjson.FieldError{Path: path, Msg: fmt.Sprintf(format, args...)}
}

// checker walks a tree.
type checker struct {
	d     *milp.Data
	model *Model
	// claim is the bound on the objective that every leaf must prove, nil for infeasibility. If beyond is set,
	// leaves must exceed it strictly. enough is at least claim.
	claim  *big.Rat
	beyond bool
	enough float64
}

// grain lowers the claim by the granularity, if the granularity is valid and the claim is a possible value of the
// objective.
func (k *checker) grain(g float64) error {
	if g == 0 {
		return nil
	}
	for j, cost := range k.d.Cost {
		if cost != 0 && (!k.d.Integer[j] || math.Mod(cost, g) != 0) {
			return wrong("granularity", "the objective is not of multiples of %v: column %d costs %v", g, j, cost)
		}
	}
	step := new(big.Rat).SetFloat64(g)
	above := new(big.Rat).Sub(k.claim, new(big.Rat).SetFloat64(k.d.Offset))
	if !above.Quo(above, step).IsInt() {
		return wrong("granularity", "the bound is not a multiple of %v above the objective's offset", g)
	}
	k.claim.Sub(k.claim, step)
	k.beyond = true
	return nil
}

// node checks the subtree of n in the model's box. path leads to n from the root.
func (k *checker) node(n *Node, path []byte) error {
	if n.Down == nil {
		return k.leaf(n, path)
	}
	fail := func(format string, args ...any) error { return wrong(where(path), format, args...) }
	j := n.Column
	switch {
	case n.Up == nil:
		return fail("a branch is missing")
	case j < 0 || j >= len(k.d.Cost):
		return fail("there is no column %d", j)
	case !k.d.Integer[j]:
		return fail("column %d need not be whole, so that values between %v and %v are lost", j, n.At, n.At+1)
	case n.At != math.Trunc(n.At) || math.Abs(n.At) > 1<<52:
		return fail("column %d is split at %v, which is not an integer up to 2^52", j, n.At)
	}
	lower, upper := k.model.Lower[j], k.model.Upper[j]
	if n.At < lower || n.At >= upper {
		return fail("column %d is split at %v, but is between %v and %v here", j, n.At, lower, upper)
	}
	k.model.Upper[j] = n.At
	if err := k.node(n.Down, append(path, 'd')); err != nil {
		return err
	}
	k.model.Lower[j], k.model.Upper[j] = n.At+1, upper
	if err := k.node(n.Up, append(path, 'u')); err != nil {
		return err
	}
	k.model.Lower[j] = lower
	return nil
}

// where returns the path of a node in the file.
func where(path []byte) string {
	s := "tree"
	for _, side := range path {
		if side == 'd' {
			s += ".down"
		} else {
			s += ".up"
		}
	}
	return s
}

// leaf checks that the multipliers of n prove what is required.
func (k *checker) leaf(n *Node, path []byte) error {
	name := ".multipliers"
	if n.Empty {
		name = ".empty"
	}
	last := int32(-1)
	for i, y := range n.Multipliers {
		fail := func(format string, args ...any) error {
			return wrong(fmt.Sprintf("%s%s[%d]", where(path), name, i), format, args...)
		}
		switch {
		case y.Row < 0 || int(y.Row) >= len(k.d.RowLower):
			return fail("there is no row %d", y.Row)
		case y.Row <= last:
			return fail("row %d after row %d: they have to increase", y.Row, last)
		case math.IsNaN(y.Value) || math.IsInf(y.Value, 0):
			return fail("%v is not finite", y.Value)
		case y.Value != 0 && math.IsInf(k.model.side(y), 0):
			return fail("the multiplier %v of row %d is of a side that is infinite", y.Value, y.Row)
		}
		last = y.Row
	}
	switch {
	case n.Empty:
		if k.model.Bound(n.Multipliers, false) > 0 || k.model.Crossed() {
			return nil
		}
		if v := k.model.Exact(n.Multipliers, false); v == nil || v.Sign() <= 0 {
			return wrong(where(path), "the multipliers do not prove that nothing is here: their sum is %s", number(v))
		}
	case k.claim == nil:
		return wrong(where(path), "a bound, where it has to be proved that there is no solution")
	default:
		if v := k.model.Bound(n.Multipliers, true); v > k.enough || v == k.enough && !k.beyond {
			return nil
		}
		if v := k.model.Exact(n.Multipliers, true); v == nil || !k.reaches(v) {
			return wrong(where(path), "the multipliers prove no more than %s, the claim needs %s%s",
				number(v), k.more(), decimal(k.claim, 17))
		}
	}
	return nil
}

// more describes a bound that must be exceeded.
func (k *checker) more() string {
	if k.beyond {
		return "more than "
	}
	return ""
}

func (k *checker) reaches(v *big.Float) bool {
	exactly, _ := v.Rat(nil)
	order := exactly.Cmp(k.claim)
	return order > 0 || order == 0 && !k.beyond
}

// number formats a sum, nil for −∞.
func number(v *big.Float) string {
	if v == nil {
		return "minus infinity: a bound that counts is infinite"
	}
	r, _ := v.Rat(nil)
	return decimal(r, 17)
}

// decimal formats x with at least the given number of digits, rounded down.
func decimal(x *big.Rat, digits int) string {
	_, power, _ := strings.Cut(new(big.Float).SetRat(x).Text('e', 0), "e")
	exponent, _ := strconv.Atoi(power)
	places := max(digits-1-exponent, 0)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)
	whole := new(big.Int).Mul(x.Num(), unit)
	whole.Div(whole, x.Denom()) // rounds down, since denominators are positive
	s := new(big.Rat).SetFrac(whole, unit).FloatString(places)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
