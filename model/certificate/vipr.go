package certificate

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"math/big"
	"strconv"

	"workbench/model/milp"
)

// WriteVIPR writes c, a certificate about d that passes its check, in the VIPR 1.0 format of Cheung, Gleixner and
// Steffy (Verifying integer programming results, 2017), in rational numbers. The file's objective has neither d's
// offset nor c's scale; comments contain them.
//
// Leaves are lin lines over rows, bounds and the assumptions of their branches; inner nodes are uns lines. A bound
// that rows imply is a lin or rnd line. One that also assumes that the objective is at most the bound to be proved
// becomes x_j ≤ β + α·(objective), which assumes nothing: at a leaf, objective ≥ V − A·objective is objective ≥
// V/(1 + A). Granularity is a rnd line. bound is the bound that the file proves on its objective, nil:
// infeasibility. It is at least c's, except for what rounding of bounds with α > 0 would have gained. O(leaves ·
// (columns + entries)) exactly.
func (c *Certificate) WriteVIPR(w io.Writer, d *milp.Data) (bound *big.Rat, err error) {
	cutoff := math.Inf(1)
	if !c.Infeasible {
		cutoff = milp.Up.Rat(new(big.Rat).Quo(c.Bound, new(big.Rat).SetFloat64(c.Scale)))
	}
	out := &viprWriter{d: d, model: NewModel(d, cutoff), bounds: map[viprSide]*viprBound{}}
	out.constraints()
	root, err := out.node(c.Tree)
	if err != nil {
		return nil, err
	}
	if root.value != nil && c.Granularity != 0 {
		root = out.round(root, new(big.Rat).SetFloat64(c.Granularity))
	}
	if c.Infeasible && root.value != nil {
		return nil, fmt.Errorf("the tree proves a bound, not that there is no solution")
	}
	b := bufio.NewWriter(w)
	fmt.Fprintf(b, "%% %s of %q (sha256 %s), formulation %s\n%% the objective is (this one + %s) * %s\n",
		c.Problem, c.Name, c.Instance, c.Formulation, rational(d.Offset), rational(max(c.Scale, 1)))
	fmt.Fprintf(b, "VER 1.0\nVAR %d\n", len(d.Cost))
	for j := range d.Cost {
		fmt.Fprintf(b, "x%d\n", j)
	}
	var whole []int
	for j, integer := range d.Integer {
		if integer {
			whole = append(whole, j)
		}
	}
	fmt.Fprintf(b, "INT %d\n", len(whole))
	for _, j := range whole {
		fmt.Fprintf(b, "%d\n", j)
	}
	fmt.Fprintf(b, "OBJ min\n%s\n", out.objective())
	fmt.Fprintf(b, "CON %d %d\n", out.given, out.givenBounds)
	for _, line := range out.lines[:out.given] {
		fmt.Fprintln(b, line)
	}
	if root.value == nil {
		fmt.Fprintln(b, "RTP infeas")
	} else {
		fmt.Fprintf(b, "RTP range %s inf\n", root.value.RatString())
	}
	fmt.Fprintf(b, "SOL 0\nDER %d\n", len(out.lines)-out.given)
	for _, line := range out.lines[out.given:] {
		fmt.Fprintln(b, line)
	}
	return root.value, b.Flush()
}

// viprWriter collects lines: the given constraints, then the derived ones.
type viprWriter struct {
	d                  *milp.Data
	model              *Model
	lines              []string
	given, givenBounds int
	rowLower, rowUpper []int // lines of rows' sides
	bounds             map[viprSide]*viprBound
}

// viprSide is a side of a column's range.
type viprSide struct {
	column int32
	upper  bool
}

// viprBound is a line that states x ≤ value + slope·objective or x ≥ value − slope·objective.
type viprBound struct {
	line         int
	value, slope *big.Rat
}

// viprFact is a line that bounds the objective from below; value nil: a contradiction.
type viprFact struct {
	line  int
	value *big.Rat
}

func rational(x float64) string { return new(big.Rat).SetFloat64(x).RatString() }

// add appends a line "name sense side coefficients" and the reason, "" if it is given.
func (v *viprWriter) add(sense byte, side, coefficients, reason string) (line int) {
	line = len(v.lines)
	text := fmt.Sprintf("C%d %c %s %s", line, sense, side, coefficients)
	if reason != "" {
		text += " { " + reason + " } -1"
	}
	v.lines = append(v.lines, text)
	return line
}

// single returns the coefficients of column j alone.
func single(j int32) string { return "1 " + strconv.Itoa(int(j)) + " 1" }

func (v *viprWriter) objective() string {
	n, text := 0, ""
	for j, c := range v.d.Cost {
		if c != 0 {
			n++
			text += fmt.Sprintf("  %d %s", j, rational(c))
		}
	}
	return strconv.Itoa(n) + text
}

// constraints adds rows and bounds, and the rounded bounds of integer columns.
func (v *viprWriter) constraints() {
	d := v.d
	v.rowLower, v.rowUpper = make([]int, len(d.RowLower)), make([]int, len(d.RowLower))
	for i, lower := range d.RowLower {
		col, val := v.model.row(int32(i))
		text := strconv.Itoa(len(col))
		for k, j := range col {
			text += fmt.Sprintf("  %d %s", j, rational(val[k]))
		}
		upper := d.RowUpper[i]
		if lower == upper {
			v.rowLower[i] = v.add('E', rational(lower), text, "")
			v.rowUpper[i] = v.rowLower[i]
			continue
		}
		if !math.IsInf(lower, 0) {
			v.rowLower[i] = v.add('G', rational(lower), text, "")
		}
		if !math.IsInf(upper, 0) {
			v.rowUpper[i] = v.add('L', rational(upper), text, "")
		}
	}
	rows := len(v.lines)
	for j := range d.Cost {
		for _, upper := range []bool{false, true} {
			if x := v.bound(d.Lower, d.Upper, int32(j), upper); !math.IsInf(x, 0) {
				v.set(int32(j), upper, v.add(senseOf(upper), rational(x), single(int32(j)), ""), new(big.Rat).SetFloat64(x), new(big.Rat))
			}
		}
	}
	v.given, v.givenBounds = len(v.lines), len(v.lines)-rows
	for j, integer := range d.Integer {
		for _, upper := range []bool{false, true} {
			side := viprSide{int32(j), upper}
			if b := v.bounds[side]; integer && b != nil && !b.value.IsInt() {
				v.roundBound(side, b)
			}
		}
	}
	for _, x := range v.model.implied {
		v.imply(x)
	}
}

func senseOf(upper bool) byte {
	if upper {
		return 'L'
	}
	return 'G'
}

func (v *viprWriter) bound(lower, upper []float64, j int32, isUpper bool) float64 {
	if isUpper {
		return upper[j]
	}
	return lower[j]
}

func (v *viprWriter) set(j int32, upper bool, line int, value, slope *big.Rat) {
	v.bounds[viprSide{j, upper}] = &viprBound{line, value, slope}
}

// roundBound adds a rnd line for the bound b of an integer column.
func (v *viprWriter) roundBound(side viprSide, b *viprBound) {
	whole := new(big.Int).Div(b.value.Num(), b.value.Denom()) // down
	if !side.upper && !b.value.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	value := new(big.Rat).SetInt(whole)
	v.set(side.column, side.upper, v.add(senseOf(side.upper), value.RatString(), single(side.column), fmt.Sprintf("rnd 1 %d 1", b.line)),
		value, new(big.Rat))
}

// combination is a linear combination of lines.
type combination struct {
	n    int
	text string
}

func (c *combination) add(line int, factor *big.Rat) {
	if factor.Sign() != 0 {
		c.n++
		c.text += fmt.Sprintf(" %d %s", line, factor.RatString())
	}
}

func (c *combination) reason(kind string) string { return fmt.Sprintf("%s %d%s", kind, c.n, c.text) }

// imply adds the line of an implied bound: from Σ a·x ≤ side, with the others at their minimum, a_j x_j ≤ side − Σ
// a_k·least_k.
func (v *viprWriter) imply(x implication) {
	j := x.column
	col, val := []int32(nil), v.d.Cost
	side, slope := new(big.Rat), new(big.Rat)
	sign := new(big.Rat).SetFloat64(x.side)
	var sum combination
	var own *big.Rat
	if x.row >= 0 {
		col, val = v.model.row(x.row)
	} else {
		col = make([]int32, len(val))
		for k := range col {
			col[k] = int32(k)
		}
		slope.SetInt64(1) // the row "objective ≤ objective"
	}
	coefficient := func(k int) *big.Rat {
		a := new(big.Rat).SetFloat64(val[k])
		return a.Mul(a, sign)
	}
	for k := range col {
		if col[k] == j {
			own = coefficient(k)
		}
	}
	scale := new(big.Rat).Inv(own) // the line is the combination over a_j
	if x.row >= 0 {
		line, at := v.rowUpper[x.row], v.d.RowUpper[x.row]
		if x.side < 0 {
			line, at = v.rowLower[x.row], v.d.RowLower[x.row]
		}
		side.Mul(new(big.Rat).SetFloat64(at), sign)
		sum.add(line, new(big.Rat).Mul(sign, scale))
	}
	for k := range col {
		a := coefficient(k)
		if col[k] == j || a.Sign() == 0 {
			continue
		}
		b := v.bounds[viprSide{col[k], a.Sign() < 0}]
		if b == nil {
			return // leaf reports it if it is needed
		}
		side.Sub(side, new(big.Rat).Mul(a, b.value))
		slope.Add(slope, new(big.Rat).Mul(new(big.Rat).Abs(a), b.slope))
		sum.add(b.line, new(big.Rat).Mul(new(big.Rat).Neg(a), scale))
	}
	value := side.Mul(side, scale)
	slope.Mul(slope, new(big.Rat).Abs(scale))
	line := v.add(senseOf(x.upper), value.RatString(), v.tilted(j, x.upper, slope), sum.reason("lin"))
	v.set(j, x.upper, line, value, slope)
	if v.d.Integer[j] && slope.Sign() == 0 && !value.IsInt() {
		v.roundBound(viprSide{j, x.upper}, v.bounds[viprSide{j, x.upper}])
	}
}

// tilted returns the coefficients of x_j − slope·objective or, for a lower bound, with +.
func (v *viprWriter) tilted(j int32, upper bool, slope *big.Rat) string {
	if slope.Sign() == 0 {
		return single(j)
	}
	n, text := 0, ""
	for k, c := range v.d.Cost {
		a := new(big.Rat).SetFloat64(c)
		if a.Mul(a, slope); upper {
			a.Neg(a)
		}
		if int32(k) == j {
			a.Add(a, new(big.Rat).SetInt64(1))
		}
		if a.Sign() != 0 {
			n++
			text += fmt.Sprintf("  %d %s", k, a.RatString())
		}
	}
	return strconv.Itoa(n) + text
}

// node adds the lines of a subtree, whose box is set.
func (v *viprWriter) node(n *Node) (viprFact, error) {
	if n.Down == nil {
		return v.leaf(n)
	}
	j := int32(n.Column)
	branch := func(upper bool, at float64, child *Node) (viprFact, int, error) {
		side := viprSide{j, upper}
		before := v.bounds[side]
		line := v.add(senseOf(upper), rational(at), single(j), "asm")
		v.set(j, upper, line, new(big.Rat).SetFloat64(at), new(big.Rat))
		fact, err := v.node(child)
		v.bounds[side] = before
		return fact, line, err
	}
	down, left, err := branch(true, n.At, n.Down)
	if err != nil {
		return down, err
	}
	up, right, err := branch(false, n.At+1, n.Up)
	if err != nil {
		return up, err
	}
	value := down.value
	if value == nil || up.value != nil && up.value.Cmp(value) < 0 {
		value = up.value
	}
	return v.fact(value, fmt.Sprintf("uns %d %d %d %d", down.line, left, up.line, right)), nil
}

// fact adds a line that the objective is at least value; nil: that 0 ≥ 1.
func (v *viprWriter) fact(value *big.Rat, reason string) viprFact {
	if value == nil {
		return viprFact{v.add('G', "1", "0", reason), nil}
	}
	return viprFact{v.add('G', value.RatString(), "OBJ", reason), value}
}

// leaf adds the line of a leaf.
func (v *viprWriter) leaf(n *Node) (viprFact, error) {
	reduced := make([]*big.Rat, len(v.d.Cost))
	value, slope := new(big.Rat), new(big.Rat) // the sum is value − slope·objective
	type part struct {
		line   int
		factor *big.Rat
	}
	var parts []part
	for j, c := range v.d.Cost {
		if reduced[j] = new(big.Rat); !n.Empty {
			reduced[j].SetFloat64(c)
		}
	}
	for _, y := range n.Multipliers {
		if y.Value == 0 {
			continue
		}
		factor, line := new(big.Rat).SetFloat64(y.Value), v.rowUpper[y.Row]
		if y.Value > 0 {
			line = v.rowLower[y.Row]
		}
		parts = append(parts, part{line, factor})
		value.Add(value, new(big.Rat).Mul(factor, new(big.Rat).SetFloat64(v.model.side(y))))
		col, val := v.model.row(y.Row)
		for k, j := range col {
			a := new(big.Rat).SetFloat64(val[k])
			reduced[j].Sub(reduced[j], a.Mul(a, factor))
		}
	}
	for j, r := range reduced {
		if r.Sign() == 0 {
			continue
		}
		b := v.bounds[viprSide{int32(j), r.Sign() < 0}]
		if b == nil {
			return viprFact{}, fmt.Errorf("column %d has no bound that a leaf needs", j)
		}
		parts = append(parts, part{b.line, r})
		value.Add(value, new(big.Rat).Mul(r, b.value))
		slope.Add(slope, new(big.Rat).Mul(new(big.Rat).Abs(r), b.slope))
	}
	by := new(big.Rat).Set(slope) // divisor of the combination
	switch {
	case !n.Empty:
		by.Add(by, new(big.Rat).SetInt64(1))
	case slope.Sign() == 0 && value.Sign() > 0:
		by.Set(value)
	case slope.Sign() == 0:
		return v.crossed()
	}
	var sum combination
	by.Inv(by)
	for _, p := range parts {
		sum.add(p.line, p.factor.Mul(p.factor, by))
	}
	if n.Empty && slope.Sign() == 0 {
		return v.fact(nil, sum.reason("lin")), nil
	}
	return v.fact(value.Mul(value, by), sum.reason("lin")), nil
}

// crossed adds the line of a box that is empty for some column.
func (v *viprWriter) crossed() (viprFact, error) {
	for j := range v.d.Cost {
		lower, upper := v.bounds[viprSide{int32(j), false}], v.bounds[viprSide{int32(j), true}]
		if lower == nil || upper == nil || lower.slope.Sign()+upper.slope.Sign() != 0 || lower.value.Cmp(upper.value) <= 0 {
			continue
		}
		by := new(big.Rat).Sub(lower.value, upper.value)
		by.Inv(by)
		var sum combination
		sum.add(lower.line, by)
		sum.add(upper.line, new(big.Rat).Neg(by))
		return v.fact(nil, sum.reason("lin")), nil
	}
	return viprFact{}, fmt.Errorf("a leaf is not empty without rounding")
}

// round adds the lines that the objective is a multiple of the granularity.
func (v *viprWriter) round(f viprFact, grain *big.Rat) viprFact {
	steps := new(big.Rat).Quo(f.value, grain)
	whole := new(big.Int).Div(steps.Num(), steps.Denom())
	if !steps.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	n, text := 0, ""
	for j, c := range v.d.Cost {
		if c != 0 {
			a := new(big.Rat).SetFloat64(c)
			n++
			text += fmt.Sprintf("  %d %s", j, a.Quo(a, grain).RatString())
		}
	}
	line := v.add('G', whole.String(), strconv.Itoa(n)+text, fmt.Sprintf("rnd 1 %d %s", f.line, new(big.Rat).Inv(grain).RatString()))
	value := new(big.Rat).SetInt(whole)
	return v.fact(value.Mul(value, grain), fmt.Sprintf("lin 1 %d %s", line, grain.RatString()))
}
