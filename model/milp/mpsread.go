package milp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrMPS is wrapped by every error of ReadMPS about the contents of a file.
var ErrMPS = errors.New("not a model in MPS format")

// ReadMPS reads a model in MPS format, from [Model.WriteMPS] or any other program. Where the format is ambiguous,
// it follows CPLEX and HiGHS: an integer column between markers without any bound is in [0, 1], a negative upper
// bound alone makes the lower one infinite, a right-hand side b of the objective is the constant −b, further N
// rows are rows without sides. Names that WriteMPS had to change, and its OFFSET column, are restored from its
// comments. All rows belong to one group "row". Errors name the line. O(size of the file).
func ReadMPS(r io.Reader, f MPSFormat) (*Model, error) {
	p := &mpsReader{
		fixed:   f == FixedMPS,
		colAt:   make(map[string]int),
		rowAt:   make(map[string]int),
		renamed: make(map[string]string),
		d:       Data{Sense: Minimize},
	}
	p.objective = -1
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for !p.ended && lines.Scan() {
		p.number++
		if err := p.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w: %w", p.number, ErrMPS, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("after line %d: %w", p.number, err)
	}
	if !p.ended {
		return nil, fmt.Errorf("after line %d: %w: no ENDATA", p.number, ErrMPS)
	}
	m := p.model()
	if err := m.Err(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMPS, err)
	}
	return m, nil
}

// mpsReader is the state of ReadMPS. Rows include the objective until the end.
type mpsReader struct {
	d       Data
	fixed   bool
	number  int // of the line
	section string
	ended   bool
	integer bool // between markers

	colAt, rowAt map[string]int
	renamed      map[string]string // "column C7" → original name
	negated      bool              // the file minimises −objective
	rowType      []byte
	rhs          []float64
	ranged       []float64 // NaN: none
	lastCol      []int     // by row: 1 + last column with an entry, to find repetitions
	objective    int       // its row, or -1
	bounded      []bool    // columns with any bound
	lowered      []bool    // columns with a lower bound

	entries []mpsEntry
}

type mpsEntry struct {
	row, col int32
	val      float64
}

func (p *mpsReader) line(s string) error {
	switch {
	case strings.TrimSpace(s) == "":
		return nil
	case s[0] == '*':
		p.comment(strings.TrimSpace(s[1:]))
		return nil
	case s[0] != ' ' && s[0] != '\t':
		return p.header(strings.Fields(s))
	}
	var fields []string
	if p.fixed && p.section != "OBJSENSE" {
		fields = fixedFields(s)
	} else {
		fields = strings.Fields(s)
	}
	for k, f := range fields {
		if k > 0 && f[0] == '$' { // the rest is a comment
			fields = fields[:k]
			break
		}
	}
	if len(fields) == 0 {
		return nil
	}
	switch p.section {
	case "OBJSENSE":
		return p.sense(fields[0])
	case "ROWS":
		return p.row(fields)
	case "COLUMNS":
		return p.column(fields)
	case "RHS":
		return p.sides(fields, p.rhs)
	case "RANGES":
		return p.sides(fields, p.ranged)
	case "BOUNDS":
		return p.bound(fields)
	}
	return fmt.Errorf("data outside of a section")
}

// fixedFields splits a line at the positions of the fixed format: columns 2–3,
// 5–12, 15–22, 25–36, 40–47, 50–61. Empty fields at the start of data lines
// are dropped, so that fields come out as in the free format.
func fixedFields(s string) []string {
	var fields []string
	for _, at := range [...][2]int{{1, 3}, {4, 12}, {14, 22}, {24, 36}, {39, 47}, {49, 61}} {
		if at[0] >= len(s) {
			break
		}
		if f := strings.TrimSpace(s[at[0]:min(at[1], len(s))]); f != "" {
			fields = append(fields, f)
		}
	}
	return fields
}

// comment records what WriteMPS writes about names.
func (p *mpsReader) comment(s string) {
	if name, err := strconv.Unquote(s); err == nil && p.number == 1 {
		p.renamed["model"] = name
		return
	}
	if s == mpsNegated {
		p.negated = true
	}
	what, quoted, ok := strings.Cut(s, " is ")
	if name, err := strconv.Unquote(quoted); ok && err == nil {
		p.renamed[what] = name
	}
}

// mpsSections maps unsupported sections to what they contain.
var mpsSections = map[string]string{
	"QUADOBJ": "a quadratic objective", "QMATRIX": "a quadratic objective", "QSECTION": "a quadratic objective",
	"QCMATRIX": "quadratic rows", "CSECTION": "cones", "SOS": "special ordered sets", "SETS": "special ordered sets",
	"SOS1": "special ordered sets", "SOS2": "special ordered sets", "INDICATORS": "indicators", "LAZYCONS": "lazy constraints",
	"USERCUTS": "user cuts", "PWLOBJ": "piecewise-linear objectives", "GENCONS": "general constraints", "OBJECTIVES": "several objectives",
}

func (p *mpsReader) header(fields []string) error {
	p.section = strings.ToUpper(fields[0])
	switch p.section {
	case "NAME":
		if len(fields) > 1 {
			p.d.Name = fields[1]
		}
	case "OBJSENSE", "OBJSENSEMAX", "OBJSENSEMIN":
		if len(fields) > 1 {
			return p.sense(fields[1])
		}
		if p.section != "OBJSENSE" {
			return p.sense(p.section[len("OBJSENSE"):])
		}
	case "ROWS", "COLUMNS", "RHS", "RANGES", "BOUNDS":
	case "ENDATA":
		p.ended = true
	default:
		if what := mpsSections[p.section]; what != "" {
			return fmt.Errorf("%s (section %s): %w", what, p.section, ErrNotRepresented)
		}
		return fmt.Errorf("section %q is not known, want NAME, OBJSENSE, ROWS, COLUMNS, RHS, RANGES, BOUNDS or ENDATA", fields[0])
	}
	return nil
}

func (p *mpsReader) sense(s string) error {
	switch strings.ToUpper(s) {
	case "MAX", "MAXIMIZE", "MAXIMISE":
		p.d.Sense = Maximize
	case "MIN", "MINIMIZE", "MINIMISE":
		p.d.Sense = Minimize
	default:
		return fmt.Errorf("sense %q, want MAX or MIN", s)
	}
	return nil
}

func (p *mpsReader) row(fields []string) error {
	if len(fields) != 2 {
		return fmt.Errorf("%d fields, want a type and a row", len(fields))
	}
	kind, name := strings.ToUpper(fields[0]), fields[1]
	if len(kind) != 1 || !strings.Contains("NLGE", kind) {
		return fmt.Errorf("row %s of type %q, want N, L, G or E", name, fields[0])
	}
	if _, dup := p.rowAt[name]; dup {
		return fmt.Errorf("row %s: %w", name, ErrDuplicate)
	}
	if kind == "N" && p.objective < 0 {
		p.objective = len(p.rowType)
	}
	p.rowAt[name] = len(p.rowType)
	p.rowType = append(p.rowType, kind[0])
	p.rhs, p.ranged = append(p.rhs, 0), append(p.ranged, math.NaN())
	p.lastCol = append(p.lastCol, 0)
	p.d.RowNames = append(p.d.RowNames, name)
	return nil
}

func (p *mpsReader) column(fields []string) error {
	if len(fields) == 3 && fields[1] == "'MARKER'" {
		switch fields[2] {
		case "'INTORG'":
			p.integer = true
		case "'INTEND'":
			p.integer = false
		default:
			return fmt.Errorf("marker %s, want 'INTORG' or 'INTEND'", fields[2])
		}
		return nil
	}
	if n := len(p.d.ColNames); n > 0 && (len(fields) == 2 || len(fields) == 4) && isNumber(fields[1]) {
		fields = append([]string{p.d.ColNames[n-1]}, fields...) // further entries of the previous column
	}
	if len(fields) != 3 && len(fields) != 5 {
		return fmt.Errorf("%d fields, want a column and one or two pairs of row and value", len(fields))
	}
	name := fields[0]
	j, known := p.colAt[name]
	if !known {
		j = len(p.d.Cost)
		p.colAt[name] = j
		p.d.Cost, p.d.Integer = append(p.d.Cost, 0), append(p.d.Integer, p.integer)
		p.d.Lower, p.d.Upper = append(p.d.Lower, 0), append(p.d.Upper, inf)
		p.bounded, p.lowered = append(p.bounded, false), append(p.lowered, false)
		p.d.ColNames = append(p.d.ColNames, name)
	}
	if j != len(p.d.Cost)-1 {
		return fmt.Errorf("column %s: %w, entries of a column must follow each other", name, ErrDuplicate)
	}
	if len(p.entries) > math.MaxInt32-2 {
		return ErrTooLarge
	}
	for k := 1; k < len(fields); k += 2 {
		i, v, err := p.pair(fields[k], fields[k+1])
		if err != nil {
			return fmt.Errorf("column %s: %w", name, err)
		}
		if p.lastCol[i] == j+1 {
			return fmt.Errorf("column %s: row %s: %w", name, fields[k], ErrDuplicate)
		}
		p.lastCol[i] = j + 1
		if i == p.objective {
			p.d.Cost[j] = v
		} else {
			p.entries = append(p.entries, mpsEntry{int32(i), int32(j), v})
		}
	}
	return nil
}

// pair reads a row and a value.
func (p *mpsReader) pair(row, value string) (int, float64, error) {
	i, ok := p.rowAt[row]
	if !ok {
		return 0, 0, fmt.Errorf("row %q is not declared", row)
	}
	v, err := mpsNumber(value)
	return i, v, err
}

func mpsNumber(s string) (float64, error) {
	v, err := strconv.ParseFloat(s, 64)
	if errors.Is(err, strconv.ErrSyntax) {
		return 0, fmt.Errorf("%q is not a number", s)
	}
	if math.IsNaN(v) {
		return 0, fmt.Errorf("value %s: %w", s, ErrNotFinite)
	}
	return v, nil
}

// sides reads right-hand sides or ranges: pairs, optionally after a set's name.
func (p *mpsReader) sides(fields []string, into []float64) error {
	if len(fields)%2 == 1 {
		fields = fields[1:]
	}
	if len(fields) == 0 || len(fields) > 4 {
		return fmt.Errorf("%d fields, want one or two pairs of row and value", len(fields))
	}
	for k := 0; k < len(fields); k += 2 {
		i, v, err := p.pair(fields[k], fields[k+1])
		if err != nil {
			return err
		}
		into[i] = v
	}
	return nil
}

func (p *mpsReader) bound(fields []string) error {
	kind := strings.ToUpper(fields[0])
	name, value, err := boundFields(kind, fields[1:])
	if err != nil {
		return err
	}
	j, ok := p.colAt[name]
	if !ok {
		return fmt.Errorf("column %q is not declared", name)
	}
	v := 0.
	if value != "" {
		if v, err = mpsNumber(value); err != nil {
			return fmt.Errorf("bound %s of column %s: %w", kind, name, err)
		}
	}
	p.bounded[j] = true
	lo, up := &p.d.Lower[j], &p.d.Upper[j]
	switch kind {
	case "LO", "LI":
		*lo, p.lowered[j] = v, true
	case "UP", "UI":
		*up = v
		if v < 0 && !p.lowered[j] {
			*lo = -inf
		}
	case "FX":
		*lo, *up, p.lowered[j] = v, v, true
	case "FR":
		*lo, *up, p.lowered[j] = -inf, inf, true
	case "MI":
		*lo, p.lowered[j] = -inf, true
	case "PL":
		*up = inf
	case "BV":
		*lo, *up, p.lowered[j] = 0, 1, true
	}
	if kind == "LI" || kind == "UI" || kind == "BV" {
		p.d.Integer[j] = true
	}
	return nil
}

// boundFields splits what follows the type of a bound into column and value.
func boundFields(kind string, fields []string) (name, value string, err error) {
	n := len(fields)
	switch kind {
	case "LO", "UP", "FX", "LI", "UI":
		if n == 2 || n == 3 {
			return fields[n-2], fields[n-1], nil
		}
		return "", "", fmt.Errorf("bound %s with %d more fields, want a column and a value", kind, n)
	case "FR", "MI", "PL", "BV":
		switch n {
		case 1:
			return fields[0], "", nil
		case 2, 3: // a value may follow and is ignored
			return fields[1], "", nil
		}
		return "", "", fmt.Errorf("bound %s with %d more fields, want a column", kind, n)
	}
	if kind == "SC" || kind == "SI" || kind == "SF" {
		return "", "", fmt.Errorf("semi-continuous columns (bound %s): %w", kind, ErrNotRepresented)
	}
	return "", "", fmt.Errorf("bound of type %q, want LO, UP, FX, FR, MI, PL, BV, LI or UI", kind)
}

// model assembles the model.
func (p *mpsReader) model() *Model {
	d := &p.d
	for j, integer := range d.Integer {
		if integer && !p.bounded[j] {
			d.Upper[j] = 1
		}
	}
	if p.objective >= 0 && p.rhs[p.objective] != 0 {
		d.Offset = -p.rhs[p.objective]
	}
	p.foldOffset()
	p.restoreNames()
	if p.negated {
		d.Sense, d.Offset = Maximize, -d.Offset
		for j := range d.Cost {
			d.Cost[j] = 0 - d.Cost[j]
		}
	}
	p.compress()
	return FromData(*d)
}

// foldOffset converts the last column OFFSET, in which WriteMPS stores a constant of the objective, back to the
// constant.
func (p *mpsReader) foldOffset() {
	d := &p.d
	j := len(d.Cost) - 1
	_, ours := p.renamed["model"]
	if !ours || j < 0 || d.ColNames[j] != mpsOffset || d.Lower[j] != 1 || d.Upper[j] != 1 {
		return
	}
	for _, e := range p.entries {
		if int(e.col) == j {
			return
		}
	}
	d.Offset += d.Cost[j]
	d.Cost, d.Integer, d.Lower, d.Upper, d.ColNames = d.Cost[:j], d.Integer[:j], d.Lower[:j], d.Upper[:j], d.ColNames[:j]
}

func (p *mpsReader) restoreNames() {
	if name, ok := p.renamed["model"]; ok {
		p.d.Name = name
	}
	restore := func(what string, names []string) {
		for i, name := range names {
			if original, ok := p.renamed[what+" "+name]; ok {
				names[i] = original
			}
		}
	}
	restore("column", p.d.ColNames)
	restore("row", p.d.RowNames)
}

// compress removes the objective from the rows and sorts the entries by row.
func (p *mpsReader) compress() {
	d := &p.d
	rows := len(p.rowType)
	place := make([]int, rows) // of each remaining row
	stay := 0
	for i := range rows {
		place[i] = stay
		if i == p.objective {
			continue
		}
		lo, up := mpsSides(p.rowType[i], p.rhs[i], p.ranged[i])
		d.RowLower, d.RowUpper = append(d.RowLower, lo), append(d.RowUpper, up)
		d.RowNames[stay] = d.RowNames[i]
		stay++
	}
	d.RowNames = d.RowNames[:stay]
	d.Start = make([]int32, stay+1)
	for _, e := range p.entries {
		d.Start[place[e.row]+1]++
	}
	for i := range stay {
		d.Start[i+1] += d.Start[i]
	}
	next := append([]int32(nil), d.Start...)
	d.Col, d.Val = make([]int32, len(p.entries)), make([]float64, len(p.entries))
	for _, e := range p.entries { // in order of columns
		q := &next[place[e.row]]
		d.Col[*q], d.Val[*q] = e.col, e.val
		*q++
	}
}

// mpsSides returns the sides of a row of type kind with right-hand side b and
// range r (NaN: none).
func mpsSides(kind byte, b, r float64) (lo, up float64) {
	lo, up = b, b
	switch kind {
	case 'N':
		return -inf, inf
	case 'L':
		lo = b - math.Abs(r)
	case 'G':
		up = b + math.Abs(r)
	case 'E':
		if r < 0 {
			lo = b + r
		} else if r > 0 {
			up = b + r
		}
		return lo, up
	}
	if math.IsNaN(r) {
		if kind == 'L' {
			return -inf, b
		}
		return b, inf
	}
	return lo, up
}
