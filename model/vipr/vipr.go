// Package vipr checks certificates in the VIPR 1.0 format (Cheung, Gleixner and Steffy,
// Verifying integer programming results, IPCO 2017) in exact arithmetic. It is written from the
// format's definition and shares nothing with what writes such files here.
package vipr

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Result is what a file proves.
type Result struct {
	Infeasible   bool
	Lower, Upper *big.Rat // of the optimum, nil: none is claimed
	Derived      int      // lines
}

// Check reads a certificate and checks every line. The error names the first that is wrong.
// O(size of the file), each rational operation counted as one.
func Check(r io.Reader) (*Result, error) {
	c := &checker{in: bufio.NewScanner(r)}
	c.in.Buffer(nil, 1<<26)
	result, err := c.file()
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", c.number, err)
	}
	return result, nil
}

// constraint is Σ a·x sense side.
type constraint struct {
	sense byte // 'E', 'L', 'G'
	side  *big.Rat
	a     map[int]*big.Rat
	// assumptions are the asm lines that it depends on.
	assumptions map[int]bool
	assumed     bool // it is one
}

// checker is the state of Check.
type checker struct {
	in      *bufio.Scanner
	number  int
	tokens  []string
	integer []bool
	cost    map[int]*big.Rat
	maximum bool
	lines   []*constraint
	best    *big.Rat // objective of the best solution given
}

// next returns the next token.
func (c *checker) next() (string, error) {
	for len(c.tokens) == 0 {
		if !c.in.Scan() {
			if err := c.in.Err(); err != nil {
				return "", err
			}
			return "", io.ErrUnexpectedEOF
		}
		c.number++
		if text := strings.TrimSpace(c.in.Text()); !strings.HasPrefix(text, "%") {
			c.tokens = strings.Fields(text)
		}
	}
	t := c.tokens[0]
	c.tokens = c.tokens[1:]
	return t, nil
}

func (c *checker) want(word string) error {
	t, err := c.next()
	if err == nil && t != word {
		err = fmt.Errorf("%.40q where %s is needed", t, word)
	}
	return err
}

// count returns a number from 0 to most.
func (c *checker) count(most int) (int, error) {
	t, err := c.next()
	if err != nil {
		return 0, err
	}
	n, err := strconv.Atoi(t)
	if err != nil || n < 0 || n > most {
		return 0, fmt.Errorf("%.40q is not a number from 0 to %d", t, most)
	}
	return n, nil
}

func (c *checker) rational() (*big.Rat, error) {
	t, err := c.next()
	if err != nil {
		return nil, err
	}
	return parse(t)
}

func parse(t string) (*big.Rat, error) {
	v, ok := new(big.Rat).SetString(t)
	if !ok || strings.ContainsAny(t, "pPxX_") {
		return nil, fmt.Errorf("%.40q is not a rational number", t)
	}
	return v, nil
}

// vector reads "k index value …", or OBJ for the objective, with indices below n.
func (c *checker) vector(n int) (map[int]*big.Rat, error) {
	t, err := c.next()
	if err != nil {
		return nil, err
	}
	if t == "OBJ" {
		return c.cost, nil
	}
	k, err := strconv.Atoi(t)
	if err != nil || k < 0 || k > n {
		return nil, fmt.Errorf("%.40q is not a count of up to %d", t, n)
	}
	a := make(map[int]*big.Rat, k)
	for range k {
		i, err := c.count(n - 1)
		if err != nil {
			return nil, err
		}
		v, err := c.rational()
		if err != nil {
			return nil, err
		}
		if a[i] != nil {
			return nil, fmt.Errorf("index %d twice", i)
		}
		if v.Sign() != 0 {
			a[i] = v
		}
	}
	return a, nil
}

const most = 1 << 28 // of variables and lines

func (c *checker) file() (*Result, error) {
	for _, section := range []func() error{c.version, c.variables, c.integers, c.objective, c.constraints} {
		if err := section(); err != nil {
			return nil, err
		}
	}
	r, err := c.toProve()
	if err != nil {
		return nil, err
	}
	if err := c.solutions(); err != nil {
		return nil, err
	}
	if r.Derived, err = c.derivations(); err != nil {
		return nil, err
	}
	if len(c.tokens) > 0 {
		return nil, fmt.Errorf("%.40q behind the last line", c.tokens[0])
	}
	return r, c.proved(r)
}

func (c *checker) version() error {
	if err := c.want("VER"); err != nil {
		return err
	}
	t, err := c.next()
	if err == nil && t != "1.0" {
		err = fmt.Errorf("version %.20q, not 1.0", t)
	}
	return err
}

func (c *checker) variables() error {
	if err := c.want("VAR"); err != nil {
		return err
	}
	n, err := c.count(most)
	for range n {
		if err == nil {
			_, err = c.next()
		}
	}
	c.integer = make([]bool, n)
	return err
}

func (c *checker) integers() error {
	if err := c.want("INT"); err != nil {
		return err
	}
	n, err := c.count(len(c.integer))
	for range n {
		if err != nil {
			break
		}
		var j int
		if j, err = c.count(len(c.integer) - 1); err == nil {
			c.integer[j] = true
		}
	}
	return err
}

func (c *checker) objective() error {
	if err := c.want("OBJ"); err != nil {
		return err
	}
	sense, err := c.next()
	if err != nil {
		return err
	}
	if sense != "min" && sense != "max" {
		return fmt.Errorf("%.20q, not min or max", sense)
	}
	c.maximum = sense == "max"
	c.cost, err = c.vector(len(c.integer))
	return err
}

// line reads name, sense, side and coefficients.
func (c *checker) line() (*constraint, error) {
	if _, err := c.next(); err != nil { // the name
		return nil, err
	}
	sense, err := c.next()
	if err != nil {
		return nil, err
	}
	if sense != "E" && sense != "L" && sense != "G" {
		return nil, fmt.Errorf("%.20q, not E, L or G", sense)
	}
	side, err := c.rational()
	if err != nil {
		return nil, err
	}
	a, err := c.vector(len(c.integer))
	return &constraint{sense: sense[0], side: side, a: a, assumptions: map[int]bool{}}, err
}

func (c *checker) constraints() error {
	if err := c.want("CON"); err != nil {
		return err
	}
	n, err := c.count(most)
	if err != nil {
		return err
	}
	if _, err := c.count(n); err != nil { // how many of them are bounds
		return err
	}
	for range n {
		l, err := c.line()
		if err != nil {
			return err
		}
		c.lines = append(c.lines, l)
	}
	return nil
}

// toProve reads RTP infeas, or RTP range lower upper.
func (c *checker) toProve() (*Result, error) {
	if err := c.want("RTP"); err != nil {
		return nil, err
	}
	kind, err := c.next()
	switch {
	case err != nil:
		return nil, err
	case kind == "infeas":
		return &Result{Infeasible: true}, nil
	case kind != "range":
		return nil, fmt.Errorf("%.20q, not infeas or range", kind)
	}
	r := &Result{}
	for _, side := range []struct {
		none string
		into **big.Rat
	}{{"-inf", &r.Lower}, {"inf", &r.Upper}} {
		t, err := c.next()
		if err != nil {
			return nil, err
		}
		if t == side.none {
			continue
		}
		if *side.into, err = parse(t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// solutions reads and checks the solutions.
func (c *checker) solutions() error {
	if err := c.want("SOL"); err != nil {
		return err
	}
	n, err := c.count(most)
	if err != nil {
		return err
	}
	for range n {
		name, err := c.next()
		if err != nil {
			return err
		}
		x, err := c.vector(len(c.integer))
		if err != nil {
			return err
		}
		for j, v := range x {
			if c.integer[j] && !v.IsInt() {
				return fmt.Errorf("solution %.40s: variable %d is %s", name, j, v.RatString())
			}
		}
		for i, l := range c.lines {
			if !l.satisfiedBy(product(l.a, x)) {
				return fmt.Errorf("solution %.40s breaks constraint %d", name, i)
			}
		}
		if v := product(c.cost, x); c.best == nil || (v.Cmp(c.best) < 0) != c.maximum {
			c.best = v
		}
	}
	return nil
}

func product(a, x map[int]*big.Rat) *big.Rat {
	sum := new(big.Rat)
	for j, v := range x {
		if w := a[j]; w != nil {
			sum.Add(sum, new(big.Rat).Mul(v, w))
		}
	}
	return sum
}

// satisfiedBy reports whether a value satisfies the constraint.
func (l *constraint) satisfiedBy(value *big.Rat) bool {
	order := value.Cmp(l.side)
	return order == 0 || order > 0 && l.sense == 'G' || order < 0 && l.sense == 'L'
}

// absurd reports whether the constraint has no variables and does not hold.
func (l *constraint) absurd() bool { return len(l.a) == 0 && !l.satisfiedBy(new(big.Rat)) }

// dominates reports whether what satisfies l satisfies k.
func (l *constraint) dominates(k *constraint) bool {
	if l.absurd() || len(k.a) == 0 && k.satisfiedBy(new(big.Rat)) {
		return true
	}
	if !maps.EqualFunc(l.a, k.a, func(v, w *big.Rat) bool { return v.Cmp(w) == 0 }) {
		return false
	}
	order := l.side.Cmp(k.side)
	switch k.sense {
	case 'E':
		return l.sense == 'E' && order == 0
	case 'G':
		return l.sense != 'L' && order >= 0
	}
	return l.sense != 'G' && order <= 0
}

// derivations reads the derived lines and checks each.
func (c *checker) derivations() (int, error) {
	if err := c.want("DER"); err != nil {
		return 0, err
	}
	n, err := c.count(most)
	if err != nil {
		return 0, err
	}
	for range n {
		l, err := c.line()
		if err != nil {
			return 0, err
		}
		if err := c.reason(l); err != nil {
			return 0, fmt.Errorf("derivation %d: %w", len(c.lines), err)
		}
		c.lines = append(c.lines, l)
	}
	return n, nil
}

// reason reads "{ kind … } index" and checks that it gives l.
func (c *checker) reason(l *constraint) error {
	if err := c.want("{"); err != nil {
		return err
	}
	kind, err := c.next()
	if err != nil {
		return err
	}
	switch kind {
	case "asm":
		l.assumed, l.assumptions[len(c.lines)] = true, true
	case "lin", "rnd":
		err = c.combined(l, kind == "rnd")
	case "uns":
		err = c.unsplit(l)
	case "sol":
		err = c.byObjective(l)
	default:
		err = fmt.Errorf("reason %.20q is not known", kind)
	}
	if err != nil {
		return err
	}
	if err := c.want("}"); err != nil {
		return err
	}
	t, err := c.next() // the last line that uses it: a hint that need not be believed
	if err == nil {
		_, err = strconv.Atoi(t)
	}
	return err
}

// combined checks that a linear combination of lines, rounded if so, dominates l.
func (c *checker) combined(l *constraint, rounded bool) error {
	factors, err := c.vector(len(c.lines))
	if err != nil {
		return err
	}
	sum := &constraint{sense: 'E', side: new(big.Rat), a: map[int]*big.Rat{}}
	for _, i := range slices.Sorted(maps.Keys(factors)) {
		line, f := c.lines[i], factors[i]
		sense := line.sense
		if f.Sign() < 0 && sense != 'E' {
			sense ^= 'G' ^ 'L'
		}
		switch {
		case sum.sense == 'E':
			sum.sense = sense
		case sense != 'E' && sense != sum.sense:
			return fmt.Errorf("line %d has the wrong direction for its factor", i)
		}
		sum.side.Add(sum.side, new(big.Rat).Mul(f, line.side))
		for j, v := range line.a {
			if sum.a[j] == nil {
				sum.a[j] = new(big.Rat)
			}
			sum.a[j].Add(sum.a[j], new(big.Rat).Mul(f, v))
		}
		maps.Copy(l.assumptions, line.assumptions)
	}
	maps.DeleteFunc(sum.a, func(_ int, v *big.Rat) bool { return v.Sign() == 0 })
	if rounded {
		if err := c.roundSide(sum); err != nil {
			return err
		}
	}
	if !sum.dominates(l) {
		return fmt.Errorf("the combination gives %c %s, which does not imply the line", sum.sense, sum.side.RatString())
	}
	return nil
}

// roundSide rounds the side of a constraint of integers (Chvátal and Gomory).
func (c *checker) roundSide(l *constraint) error {
	for j, v := range l.a {
		if !v.IsInt() || !c.integer[j] {
			return fmt.Errorf("variable %d has the factor %s: nothing can be rounded", j, v.RatString())
		}
	}
	if l.sense == 'E' || l.side.IsInt() {
		return nil
	}
	whole := new(big.Int).Div(l.side.Num(), l.side.Denom())
	if l.sense == 'G' {
		whole.Add(whole, big.NewInt(1))
	}
	l.side.SetInt(whole)
	return nil
}

// unsplit checks "i1 l1 i2 l2": both i1 and i2 give l, under the assumptions l1 and l2, of which
// one holds.
func (c *checker) unsplit(l *constraint) error {
	var at [4]int
	for k := range at {
		var err error
		if at[k], err = c.count(len(c.lines) - 1); err != nil {
			return err
		}
	}
	one, left, two, right := c.lines[at[0]], c.lines[at[1]], c.lines[at[2]], c.lines[at[3]]
	if !one.dominates(l) || !two.dominates(l) {
		return fmt.Errorf("lines %d and %d do not both imply the line", at[0], at[2])
	}
	if !left.assumed || !right.assumed || !c.complementary(left, right) {
		return fmt.Errorf("lines %d and %d are no assumptions of which one holds", at[1], at[3])
	}
	for k, i := range []*constraint{one, two} {
		for a := range i.assumptions {
			if a != at[2*k+1] {
				l.assumptions[a] = true
			}
		}
	}
	return nil
}

// complementary reports whether every integer point satisfies one of both.
func (c *checker) complementary(low, high *constraint) bool {
	if low.sense == 'G' {
		low, high = high, low
	}
	if low.sense != 'L' || high.sense != 'G' || !maps.EqualFunc(low.a, high.a, func(v, w *big.Rat) bool { return v.Cmp(w) == 0 }) {
		return false
	}
	for j, v := range low.a {
		if !c.integer[j] || !v.IsInt() {
			return false
		}
	}
	next := new(big.Rat).Add(low.side, new(big.Rat).SetInt64(1))
	return low.side.IsInt() && high.side.IsInt() && high.side.Cmp(next) <= 0
}

// byObjective checks a line that excludes only what is worse than the best solution.
func (c *checker) byObjective(l *constraint) error {
	if c.best == nil {
		return fmt.Errorf("there is no solution")
	}
	sense := byte('L')
	if c.maximum {
		sense = 'G'
	}
	if !(&constraint{sense: sense, side: c.best, a: c.cost}).dominates(l) {
		return fmt.Errorf("the best solution has %s", c.best.RatString())
	}
	return nil
}

// proved checks that the lines prove what is to be proved.
func (c *checker) proved(r *Result) error {
	var last *constraint
	if len(c.lines) > 0 {
		last = c.lines[len(c.lines)-1]
	}
	open := last != nil && len(last.assumptions) > 0
	if r.Infeasible {
		if last == nil || open || !last.absurd() {
			return fmt.Errorf("the last line is not 0 ≥ 1 without assumptions")
		}
		return nil
	}
	dual, primal, sense := r.Lower, r.Upper, byte('G')
	if c.maximum {
		dual, primal, sense = r.Upper, r.Lower, 'L'
	}
	if dual != nil && (last == nil || open || !last.dominates(&constraint{sense: sense, side: dual, a: c.cost})) {
		return fmt.Errorf("the last line does not prove the bound %s without assumptions", dual.RatString())
	}
	if primal != nil && (c.best == nil || (c.best.Cmp(primal) > 0) != c.maximum && c.best.Cmp(primal) != 0) {
		return fmt.Errorf("no solution has %s", primal.RatString())
	}
	return nil
}
