package milp

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// MPSFormat is a variant of the MPS file format.
type MPSFormat uint8

const (
	// FreeMPS separates fields by blanks, and states so after the name. Numbers are exact.
	FreeMPS MPSFormat = iota
	// FixedMPS has fields in fixed positions: names of at most 8 characters,
	// numbers of at most 12, so that they lose digits beyond about 10.
	FixedMPS
)

// Reserved names of an MPS file.
const (
	mpsObjective = "OBJ"
	mpsOffset    = "OFFSET"
)

// mpsNegated is the comment of a file whose costs are negated.
const mpsNegated = "a maximisation, written as the minimisation of its negative"

// mpsAlphabet returns the legal names of an MPS file. Sections and sets have names too, and readers that guess
// whether one was omitted must not find it among the rows and columns; nor may a name look like a number.
func mpsAlphabet(f MPSFormat) alphabet {
	graphic := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' }
	a := alphabet{
		translate: func(name string) string { return replaceIllegal(name, graphic) },
		legal: func(name string) bool {
			switch name {
			case "", "RHS", "RNG", "BND", "MARKER", mpsObjective, mpsOffset:
				return false
			}
			for i := range len(name) {
				if !graphic(name[i]) {
					return false
				}
			}
			return (isLetter(name[0]) || name[0] == '_') && !isNumber(name)
		},
		longest: longestName,
		implied: func(name string) string { return name },
	}
	if f == FixedMPS {
		a.longest = 8
	}
	return a
}

// isNumber reports whether readers may parse name as a number, as "inf" or "nan".
func isNumber(name string) bool {
	_, err := strconv.ParseFloat(name, 64)
	return err == nil
}

// mpsWriter writes the lines of an MPS file.
type mpsWriter struct {
	*bufio.Writer
	fixed bool
	buf   []byte
}

// field appends s at position at of a fixed line, or after a blank.
func (w *mpsWriter) field(at int, s string) {
	w.buf = append(w.buf, ' ')
	for w.fixed && len(w.buf) < at {
		w.buf = append(w.buf, ' ')
	}
	w.buf = append(w.buf, s...)
}

// line writes a line of up to four fields; a NaN value is omitted.
func (w *mpsWriter) line(code, name1, name2 string, value float64) {
	w.buf = w.buf[:0]
	w.field(1, code)
	w.field(4, name1)
	if name2 != "" {
		w.field(14, name2)
	}
	if !math.IsNaN(value) {
		if w.fixed {
			w.field(24, number12(value))
		} else {
			w.buf = append(w.buf, ' ')
			w.buf = strconv.AppendFloat(w.buf, value, 'g', -1, 64)
		}
	}
	w.Write(append(w.buf, '\n'))
}

// number12 formats x in at most 12 characters, with as many digits as fit.
func number12(x float64) string {
	for digits := -1; ; digits-- {
		if digits == -2 {
			digits = 12
		}
		s := strconv.FormatFloat(x, 'g', digits, 64)
		if mantissa, exponent, ok := strings.Cut(s, "e"); ok {
			// "1.5e+06" wastes two characters.
			e, _ := strconv.Atoi(exponent)
			s = mantissa + "e" + strconv.Itoa(e)
		}
		if len(s) <= 12 {
			return s
		}
	}
}

// WriteMPS writes m as an MPS file and returns the names used in it. O(size of m). Features that readers interpret
// differently are written explicitly:
//
//   - every bound of an integer column, since its default upper bound is 1 to HiGHS, CPLEX and Gurobi, and
//     infinite to lp_solve;
//   - a constant in the objective as a last column OFFSET fixed at 1, since lp_solve and HiGHS read the
//     right-hand side of the objective with opposite signs;
//   - maximisation as the minimisation of the negative ([NameMap.Negated]), since CBC 2.10 ignores the section
//     OBJSENSE, and lp_solve in fixed files;
//   - a negative upper bound after an explicit lower one;
//   - FREE after the name of a free file: without it CBC 2.10 parses "BND t[0]" as one name, since it begins
//     and ends where a field of a fixed file does.
//
// Conditional rows are written in the form of [Model.Plain]. A row without finite sides becomes an N row, which
// most readers drop. A model with errors, or whose bounds or sides cross ([ErrCrossed]), is not written.
func (m *Model) WriteMPS(w io.Writer, f MPSFormat) (*NameMap, error) {
	if err := m.writable(); err != nil {
		return nil, err
	}
	m = m.Plain()
	names, comments := m.nameMap(mpsAlphabet(f))
	names.Negated = m.sense == Maximize
	out := &mpsWriter{Writer: bufio.NewWriter(w), fixed: f == FixedMPS}
	m.writeMPSHead(out, names, comments)
	m.writeMPSRows(out, names)
	m.writeMPSColumns(out, names)
	m.writeMPSSides(out, names)
	m.writeMPSBounds(out, names)
	out.WriteString("ENDATA\n")
	return names, out.Flush()
}

func (m *Model) writeMPSHead(out *mpsWriter, names *NameMap, comments []string) {
	fmt.Fprintf(out, "* %q\n", m.name)
	if names.Negated {
		fmt.Fprintf(out, "* %s\n", mpsNegated)
	}
	for _, c := range comments {
		fmt.Fprintf(out, "* %s\n", c)
	}
	name := replaceIllegal(m.name, func(c byte) bool { return isLetter(c) || isDigit(c) || c == '_' || c == '-' || c == '.' })
	if name == "" {
		name = "model" // readers would parse the next word as the name
	}
	if out.fixed {
		name = name[:min(8, len(name))]
	} else {
		name += " FREE"
	}
	fmt.Fprintf(out, "NAME          %s\n", name)
}

func (m *Model) writeMPSRows(out *mpsWriter, names *NameMap) {
	out.WriteString("ROWS\n")
	out.line("N", mpsObjective, "", math.NaN())
	for i, name := range names.Rows {
		out.line(mpsRowType(m.rowLower[i], m.rowUpper[i]), name, "", math.NaN())
	}
}

func mpsRowType(lo, up float64) string {
	switch {
	case lo == up:
		return "E"
	case !isInf(up):
		return "L"
	case !isInf(lo):
		return "G"
	}
	return "N"
}

func (m *Model) writeMPSColumns(out *mpsWriter, names *NameMap) {
	out.WriteString("COLUMNS\n")
	start, row, val := m.transpose()
	sign := 1.
	if names.Negated {
		sign = -1
	}
	integer, markers := false, 0
	mark := func(what string) {
		w := [3]string{fmt.Sprintf("M%d", markers), "'MARKER'", what}
		out.buf = out.buf[:0]
		out.field(4, w[0])
		out.field(14, w[1])
		out.field(39, w[2])
		out.Write(append(out.buf, '\n'))
		markers++
	}
	for j, name := range names.Cols {
		switch is := m.kind[j] != Continuous; {
		case is && !integer:
			mark("'INTORG'")
			integer = true
		case !is && integer:
			mark("'INTEND'")
			integer = false
		}
		// A column without entries must still be declared.
		if m.cost[j] != 0 || start[j] == start[j+1] {
			out.line("", name, mpsObjective, sign*m.cost[j]+0) // no −0
		}
		for p := start[j]; p < start[j+1]; p++ {
			out.line("", name, names.Rows[row[p]], val[p])
		}
	}
	if integer {
		mark("'INTEND'")
	}
	if m.offset != 0 {
		out.line("", mpsOffset, mpsObjective, sign*m.offset)
	}
}

// transpose returns the matrix compressed by column. O(columns + nonzeros).
func (m *Model) transpose() (start, row []int32, val []float64) {
	start = make([]int32, len(m.lower)+1)
	for _, j := range m.col {
		start[j+1]++
	}
	for j := range m.lower {
		start[j+1] += start[j]
	}
	next := append([]int32(nil), start...)
	row, val = make([]int32, len(m.col)), make([]float64, len(m.col))
	for i := range m.rowLower {
		for p := m.start[i]; p < m.start[i+1]; p++ {
			q := next[m.col[p]]
			next[m.col[p]]++
			row[q], val[q] = int32(i), m.val[p]
		}
	}
	return start, row, val
}

func (m *Model) writeMPSSides(out *mpsWriter, names *NameMap) {
	out.WriteString("RHS\n")
	ranges := false
	for i, name := range names.Rows {
		lo, up := m.rowLower[i], m.rowUpper[i]
		b := up
		if isInf(up) {
			b = lo
		}
		if !isInf(b) && b != 0 {
			out.line("", "RHS", name, b)
		}
		ranges = ranges || lo != up && !isInf(lo) && !isInf(up)
	}
	if !ranges {
		return
	}
	out.WriteString("RANGES\n")
	for i, name := range names.Rows {
		if lo, up := m.rowLower[i], m.rowUpper[i]; lo != up && !isInf(lo) && !isInf(up) {
			out.line("", "RNG", name, up-lo)
		}
	}
}

func (m *Model) writeMPSBounds(out *mpsWriter, names *NameMap) {
	out.WriteString("BOUNDS\n")
	for j, name := range names.Cols {
		lo, up := m.lower[j], m.upper[j]
		integer := m.kind[j] != Continuous
		switch {
		case integer && lo == 0 && up == 1:
			out.line("BV", "BND", name, math.NaN())
		case isInf(lo) && isInf(up):
			out.line("FR", "BND", name, math.NaN())
		case lo == up:
			out.line("FX", "BND", name, lo)
		default:
			switch {
			case isInf(lo):
				out.line("MI", "BND", name, math.NaN())
			case lo != 0 || integer || up < 0:
				out.line("LO", "BND", name, lo)
			}
			switch {
			case !isInf(up):
				out.line("UP", "BND", name, up)
			case integer:
				out.line("PL", "BND", name, math.NaN())
			}
		}
	}
	if m.offset != 0 {
		out.line("FX", "BND", mpsOffset, 1)
	}
}
