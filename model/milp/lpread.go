package milp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ErrLP is wrapped by every error of ReadLP about the contents of a file.
var ErrLP = errors.New("not a model in LP format")

// ReadLP reads a model in the LP format of CPLEX, from [Model.WriteLP] or any other program: a linear objective,
// rows with variables on either side or between two numbers, bounds, general and binary variables. Features that
// this package lacks (quadratic terms, special ordered sets, semi-continuous variables, indicators) are errors
// that name them. All rows belong to one group "row". Errors name the line. O(size of the file).
func ReadLP(r io.Reader) (*Model, error) {
	p := &lpReader{d: Data{Sense: Minimize, Start: []int32{0}}, colAt: map[string]int{}, rowAt: map[string]bool{}}
	err := p.scan(r)
	if err == nil {
		err = p.file()
	}
	if err != nil {
		return nil, fmt.Errorf("line %d: %w: %w", p.peek().line, ErrLP, err)
	}
	m := FromData(p.d)
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrLP, err)
	}
	return m, nil
}

// lpToken is a name, a number, an operator or, of kind 0, the end of the file.
type lpToken struct {
	text  string
	kind  byte // 'a' name, '1' number, '<' comparison, else the character itself
	value float64
	line  int
	first bool // first on its line
}

// lpReader is the state of ReadLP.
type lpReader struct {
	d      Data
	tokens []lpToken
	at     int
	colAt  map[string]int
	rowAt  map[string]bool
}

// scan splits the file into tokens.
func (p *lpReader) scan(r io.Reader) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<24)
	for number := 1; lines.Scan(); number++ {
		text, _, _ := strings.Cut(lines.Text(), `\`)
		first := true
		for {
			if text = strings.TrimLeft(text, " \t\r"); text == "" {
				break
			}
			t, n := lpScan(text)
			t.text, t.line, t.first = text[:n], number, first
			p.tokens, text, first = append(p.tokens, t), text[n:], false
		}
	}
	return lines.Err()
}

// lpScan returns the first token of text and its length.
func lpScan(text string) (t lpToken, n int) {
	c := text[0]
	switch {
	case strings.HasPrefix(text, "->"):
		return lpToken{kind: '>'}, 2
	case strings.IndexByte("<>=", c) >= 0:
		for n < len(text) && strings.IndexByte("<>=", text[n]) >= 0 {
			n++
		}
		return lpToken{kind: '<'}, n
	case strings.IndexByte("+-*:[]^/", c) >= 0:
		return lpToken{kind: c}, 1
	case isDigit(c) || c == '.' && len(text) > 1 && isDigit(text[1]):
		for n < len(text) && (isDigit(text[n]) || text[n] == '.') {
			n++
		}
		exponent := n
		if exponent < len(text) && text[exponent]|0x20 == 'e' {
			exponent++
			if exponent < len(text) && strings.IndexByte("+-", text[exponent]) >= 0 {
				exponent++
			}
			for n2 := exponent; n2 < len(text) && isDigit(text[n2]); n2++ {
				n = n2 + 1
			}
		}
		v, err := strconv.ParseFloat(text[:n], 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return lpToken{kind: 'a'}, n
		}
		return lpToken{kind: '1', value: v}, n
	}
	for n < len(text) && strings.IndexByte(" \t\r<>=+-*:[]^", text[n]) < 0 {
		n++
	}
	switch strings.ToLower(text[:n]) {
	case "inf", "infinity":
		return lpToken{kind: '1', value: inf}, n
	}
	return lpToken{kind: 'a'}, n
}

// peek returns the next token, next consumes it.
func (p *lpReader) peek() lpToken {
	if p.at < len(p.tokens) {
		return p.tokens[p.at]
	}
	line := 1
	if len(p.tokens) > 0 {
		line = p.tokens[len(p.tokens)-1].line
	}
	return lpToken{line: line}
}

func (p *lpReader) next() lpToken {
	t := p.peek()
	p.at++
	return t
}

// lpSections maps the words that begin a section to its kind.
var lpSections = map[string]string{
	"max": "max", "maximize": "max", "maximise": "max", "maximum": "max",
	"min": "min", "minimize": "min", "minimise": "min", "minimum": "min",
	"subject": "rows", "such": "rows", "st": "rows", "s.t.": "rows", "st.": "rows",
	"bounds": "bounds", "bound": "bounds",
	"general": "general", "generals": "general", "gen": "general", "integer": "general", "integers": "general", "int": "general",
	"binary": "binary", "binaries": "binary", "bin": "binary",
	"semi": "semi-continuous variables", "semis": "semi-continuous variables",
	"sos": "special ordered sets", "sos1": "special ordered sets", "sos2": "special ordered sets",
	"lazy": "lazy constraints", "user": "user cuts", "pwlobj": "piecewise-linear objectives", "general_constraints": "general constraints",
	"end": "end",
}

// section returns the kind of section that the next token begins, "" if none.
func (p *lpReader) section() string {
	t := p.peek()
	if t.kind == 0 {
		return "end of the file"
	}
	if t.kind != 'a' || !t.first || p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == ':' {
		return ""
	}
	word := strings.ToLower(t.text)
	if word == "general" && p.at+1 < len(p.tokens) { // Gurobi's section is two words
		if next := p.tokens[p.at+1]; next.line == t.line && strings.HasPrefix(strings.ToLower(next.text), "constraint") {
			word = "general_constraints"
		}
	}
	return lpSections[word]
}

func (p *lpReader) file() error {
	began := false
	for {
		s := p.section()
		if s == "end of the file" {
			return errors.New("the file ends without End")
		}
		if !began && s != "max" && s != "min" {
			return fmt.Errorf("%.40q, where Minimize or Maximize is needed", p.peek().text)
		}
		began = true
		word := p.next()
		var err error
		switch s {
		case "max", "min":
			if s == "max" {
				p.d.Sense = Maximize
			}
			err = p.objective()
		case "rows":
			if next := strings.ToLower(p.peek().text); strings.ToLower(word.text)[0] == 's' && (next == "to" || next == "that") {
				p.next()
			}
			err = p.each(p.row)
		case "bounds":
			err = p.each(p.limits)
		case "general", "binary":
			err = p.each(func() error { return p.integer(s == "binary") })
		case "end":
			return nil
		case "":
			p.at--
			err = fmt.Errorf("%.40q, where a section is needed", word.text)
		default:
			p.at--
			err = fmt.Errorf("%s (section %s): %w", s, word.text, ErrNotRepresented)
		}
		if err != nil {
			return err
		}
	}
}

// each calls f until the next section.
func (p *lpReader) each(f func() error) error {
	for p.section() == "" {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// label consumes a name and a colon.
func (p *lpReader) label() string {
	if t := p.peek(); t.kind == 'a' && p.at+1 < len(p.tokens) && p.tokens[p.at+1].kind == ':' {
		p.at += 2
		return t.text
	}
	return ""
}

// lpSum is a linear expression.
type lpSum struct {
	terms    []lpTerm
	constant float64
}

type lpTerm struct {
	col   int
	value float64
}

// sum reads an expression. It ends before any token that cannot continue it; on the right of a comparison also at
// the end of a line.
func (p *lpReader) sum(right bool) (s lpSum, err error) {
	for began := false; p.section() == "" && !(began && right && p.peek().first); began = true {
		sign, signed := 1.0, false
		for p.peek().kind == '+' || p.peek().kind == '-' {
			if p.next().kind == '-' {
				sign = -sign
			}
			signed = true
		}
		if began && !signed {
			return s, nil
		}
		v, number := sign, false
		if p.peek().kind == '1' {
			v, number = sign*p.next().value, true
			if p.peek().kind == '*' {
				p.next()
			}
		}
		switch t := p.peek(); {
		case t.kind == '[' || t.kind == '^' || t.kind == '*':
			return s, fmt.Errorf("quadratic terms ([ … ]): %w", ErrNotRepresented)
		case t.kind == 'a' && p.section() == "" && !p.labelled() && !(right && number && t.first):
			s.terms = append(s.terms, lpTerm{p.col(p.next().text), v})
			if k := p.peek().kind; k == '^' || k == '*' {
				return s, fmt.Errorf("quadratic terms (%s%c): %w", t.text, k, ErrNotRepresented)
			}
		case number:
			s.constant += v
		case signed:
			return s, fmt.Errorf("%.40q after a sign, where a number or a variable is needed", t.text)
		default:
			return s, nil
		}
	}
	return s, nil
}

// labelled reports whether the next token is a label.
func (p *lpReader) labelled() bool {
	return p.at+1 < len(p.tokens) && p.tokens[p.at].kind == 'a' && p.tokens[p.at+1].kind == ':'
}

// col returns the column of a name.
func (p *lpReader) col(name string) int {
	j, known := p.colAt[name]
	if !known {
		j = len(p.d.Cost)
		p.colAt[name] = j
		p.d.Cost, p.d.Integer = append(p.d.Cost, 0), append(p.d.Integer, false)
		p.d.Lower, p.d.Upper = append(p.d.Lower, 0), append(p.d.Upper, inf)
		p.d.ColNames = append(p.d.ColNames, name)
	}
	return j
}

func (p *lpReader) objective() error {
	p.label()
	s, err := p.sum(false)
	if err != nil {
		return err
	}
	if p.section() == "" {
		return fmt.Errorf("%.40q in the objective", p.peek().text)
	}
	p.d.Offset = s.constant
	for _, t := range s.terms {
		p.d.Cost[t.col] += t.value
	}
	return nil
}

// comparison consumes <, > or =, 0 if there is none.
func (p *lpReader) comparison() byte {
	t := p.peek()
	if t.kind != '<' {
		return 0
	}
	p.next()
	for _, c := range []byte("<>") {
		if strings.IndexByte(t.text, c) >= 0 {
			return c
		}
	}
	return '='
}

// chain reads sum op sum [op sum].
func (p *lpReader) chain() (sums []lpSum, ops []byte, err error) {
	for {
		s, err := p.sum(len(ops) > 0)
		if err != nil {
			return nil, nil, err
		}
		sums = append(sums, s)
		op := p.comparison()
		if op == 0 {
			return sums, ops, nil
		}
		ops = append(ops, op)
	}
}

func (p *lpReader) row() error {
	begin := p.at
	name := p.label()
	if name == "" {
		name = "c" + strconv.Itoa(len(p.d.RowLower)+1)
	}
	if p.rowAt[name] {
		return fmt.Errorf("row %s: %w", name, ErrDuplicate)
	}
	p.rowAt[name] = true
	sums, ops, err := p.chain()
	switch {
	case err != nil:
		return fmt.Errorf("row %s: %w", name, err)
	case p.peek().kind == '>':
		return fmt.Errorf("row %s: indicators (->): %w", name, ErrNotRepresented)
	case len(ops) == 0 || len(ops) > 2:
		p.at = min(max(begin, p.at-1), len(p.tokens)-1)
		return fmt.Errorf("row %s has %d comparisons, want one, or two around it", name, len(ops))
	}
	lo, up := math.Inf(-1), inf
	limit := func(op byte, v float64) {
		if op != '>' {
			up = v
		}
		if op != '<' {
			lo = v
		}
	}
	e := sums[0]
	if len(ops) == 1 {
		for _, t := range sums[1].terms {
			e.terms = append(e.terms, lpTerm{t.col, -t.value})
		}
		limit(ops[0], sums[1].constant-e.constant)
	} else {
		e = sums[1]
		if len(sums[0].terms)+len(sums[2].terms) > 0 {
			return fmt.Errorf("row %s: variables beside the outer comparisons", name)
		}
		limit(flipped(ops[0]), sums[0].constant-e.constant)
		limit(ops[1], sums[2].constant-e.constant)
	}
	p.add(name, lo, e.terms, up)
	return nil
}

// flipped returns op with its sides exchanged.
func flipped(op byte) byte {
	switch op {
	case '<':
		return '>'
	case '>':
		return '<'
	}
	return op
}

// add appends a row, with the terms of a column merged.
func (p *lpReader) add(name string, lo float64, terms []lpTerm, up float64) {
	slices.SortStableFunc(terms, func(a, b lpTerm) int { return a.col - b.col })
	for k, t := range terms {
		if k > 0 && terms[k-1].col == t.col {
			p.d.Val[len(p.d.Val)-1] += t.value
			continue
		}
		p.d.Col, p.d.Val = append(p.d.Col, int32(t.col)), append(p.d.Val, t.value)
	}
	p.d.Start = append(p.d.Start, int32(len(p.d.Col)))
	p.d.RowLower, p.d.RowUpper = append(p.d.RowLower, lo), append(p.d.RowUpper, up)
	p.d.RowNames = append(p.d.RowNames, name)
}

// limits reads one line of bounds.
func (p *lpReader) limits() error {
	sums, ops, err := p.chain()
	if err != nil {
		return err
	}
	one := func(s lpSum) int { // the column of a sum with a single term
		if len(s.terms) == 1 && s.terms[0].value == 1 && s.constant == 0 {
			return s.terms[0].col
		}
		return -1
	}
	switch {
	case len(ops) == 0 && strings.EqualFold(p.peek().text, "free") && one(sums[0]) >= 0:
		p.next()
		j := one(sums[0])
		p.d.Lower[j], p.d.Upper[j] = math.Inf(-1), inf
	case len(ops) == 1 && one(sums[0]) >= 0 && len(sums[1].terms) == 0:
		p.limit(one(sums[0]), ops[0], sums[1].constant)
	case len(ops) == 1 && one(sums[1]) >= 0 && len(sums[0].terms) == 0:
		p.limit(one(sums[1]), flipped(ops[0]), sums[0].constant)
	case len(ops) == 2 && one(sums[1]) >= 0 && len(sums[0].terms)+len(sums[2].terms) == 0:
		p.limit(one(sums[1]), flipped(ops[0]), sums[0].constant)
		p.limit(one(sums[1]), ops[1], sums[2].constant)
	default:
		return fmt.Errorf("a bound is written l <= x <= u, x >= l, x <= u, x = v or x free; %.40q is not", p.peek().text)
	}
	return nil
}

func (p *lpReader) limit(j int, op byte, v float64) {
	if op != '<' {
		p.d.Lower[j] = v
	}
	if op != '>' {
		p.d.Upper[j] = v
	}
}

// integer reads one name of a list of integer columns.
func (p *lpReader) integer(binary bool) error {
	t := p.next()
	j, known := p.colAt[t.text]
	if t.kind != 'a' || !known {
		p.at--
		return fmt.Errorf("column %.40q is not in the objective, a row or a bound", t.text)
	}
	p.d.Integer[j] = true
	if binary {
		p.d.Lower[j], p.d.Upper[j] = 0, 1
	}
	return nil
}
