package milp

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// lpLine is the length at which lines of an LP file are broken; readers have limits from 255 characters on.
const lpLine = 100

// lpWords are the words with a meaning in LP files, in lower case.
var lpWords = map[string]bool{
	"max": true, "maximize": true, "maximum": true, "min": true, "minimize": true, "minimum": true,
	"subject": true, "to": true, "such": true, "that": true, "st": true, "s.t.": true, "st.": true,
	"bounds": true, "bound": true, "free": true, "inf": true, "infinity": true,
	"general": true, "generals": true, "gen": true, "integer": true, "integers": true, "int": true,
	"binary": true, "binaries": true, "bin": true, "semi-continuous": true, "semis": true, "semi": true,
	"sos": true, "sos1": true, "sos2": true, "end": true, "obj": true, lpOffset: true,
}

const lpOffset = "offset"

// lpAlphabet returns the legal names of an LP file: x[3,7] becomes x(3,7). A name may not begin with a digit, nor
// with e and a digit like an exponent. Nor may it begin with inf or nan, which HiGHS parses as a number followed
// by a name.
func lpAlphabet() alphabet {
	ok := func(c byte) bool { return isLetter(c) || isDigit(c) || strings.IndexByte("_.,()", c) >= 0 }
	brackets := strings.NewReplacer("[", "(", "]", ")")
	back := strings.NewReplacer("(", "[", ")", "]")
	return alphabet{
		translate: func(name string) string { return replaceIllegal(brackets.Replace(name), ok) },
		legal: func(name string) bool {
			if name == "" || !isLetter(name[0]) && name[0] != '_' || lpWords[strings.ToLower(name)] {
				return false
			}
			if (name[0] == 'e' || name[0] == 'E') && (len(name) == 1 || isDigit(name[1])) {
				return false
			}
			if len(name) >= 3 && isNumber(name[:3]) { // strtod would parse it
				return false
			}
			for i := range len(name) {
				if !ok(name[i]) {
					return false
				}
			}
			return true
		},
		longest: longestName,
		implied: back.Replace,
	}
}

// lpWriter writes expressions, breaking lines.
type lpWriter struct {
	*bufio.Writer
	width int
}

// label begins a row or objective.
func (w *lpWriter) label(name string) {
	w.WriteString(" " + name + ":")
	w.width = len(name) + 2
}

// term writes " + 2 x".
func (w *lpWriter) term(a float64, name string) {
	sign := " + "
	if a < 0 {
		sign, a = " - ", -a
	}
	s := sign + strconv.FormatFloat(a, 'g', -1, 64) + " " + name
	if w.width+len(s) > lpLine {
		w.WriteString("\n  ")
		w.width = 2
	}
	w.WriteString(s)
	w.width += len(s)
}

// WriteLP writes m as a file in the LP format of CPLEX, which HiGHS, Gurobi, SCIP and CBC read too, and returns
// the names used in it. lp_solve's own LP format differs; it reads MPS. O(size of m).
//
// Rows with two different finite sides are written as two rows, the second with ".lower" added to its name: HiGHS
// 1.10 silently misreads "1 ≤ x + y ≤ 2" in an LP file. A constant in the objective becomes a column offset fixed
// at 1, since not all readers allow constants. If there are no rows or no costs, a row 0 x ≥ 0 and a cost 0 x
// replace them, since GLPK 5.0 requires some.
//
// Conditional rows are written in the form of [Model.Plain]. Sources of constraint groups are comments. A model
// with errors, or whose bounds or sides cross ([ErrCrossed]), is not written.
func (m *Model) WriteLP(w io.Writer) (*NameMap, error) {
	if err := m.writable(); err != nil {
		return nil, err
	}
	m = m.Plain()
	names, comments := m.nameMap(lpAlphabet())
	out := &lpWriter{Writer: bufio.NewWriter(w)}
	fmt.Fprintf(out, "\\ %q\n", m.name)
	for _, c := range comments {
		fmt.Fprintf(out, "\\ %s\n", c)
	}
	m.writeLPObjective(out, names)
	m.writeLPRows(out, names)
	m.writeLPBounds(out, names)
	out.WriteString("End\n")
	return names, out.Flush()
}

func (m *Model) writeLPObjective(out *lpWriter, names *NameMap) {
	if m.sense == Maximize {
		out.WriteString("Maximize\n")
	} else {
		out.WriteString("Minimize\n")
	}
	used := make([]bool, len(m.lower))
	for _, j := range m.col {
		used[j] = true
	}
	out.label("obj")
	empty := true
	for j, c := range m.cost {
		if c != 0 || !used[j] { // a column must occur somewhere
			out.term(c, names.Cols[j])
			empty = false
		}
	}
	switch {
	case m.offset != 0:
		out.term(m.offset, lpOffset)
	case empty: // GLPK does not read it
		out.term(0, anyCol(names))
	}
	out.WriteString("\n")
}

// anyCol returns the name of a column for a term 0 x, where a term is required.
func anyCol(names *NameMap) string {
	if len(names.Cols) > 0 {
		return names.Cols[0]
	}
	return lpOffset
}

func (m *Model) writeLPRows(out *lpWriter, names *NameMap) {
	out.WriteString("Subject To\n")
	rowNames := newNamer(lpAlphabet(), "L")
	for _, name := range names.Rows {
		rowNames.used[name] = true
	}
	if len(names.Rows) == 0 { // GLPK requires one
		out.WriteString("\\ there is none\n none: + 0 " + anyCol(names) + " >= 0\n")
	}
	infos := m.Groups()
	for i, name := range names.Rows {
		if g := m.rowGroup[i]; i == 0 || g != m.rowGroup[i-1] {
			fmt.Fprintf(out, "\\ %s\n", oneLine(infos[g].String()))
		}
		lo, up := m.rowLower[i], m.rowUpper[i]
		switch {
		case lo == up:
			m.writeLPRow(out, names, i, name, "=", up)
		case isInf(up):
			// Rows without sides, too. Not all readers support -inf in a row, but all treat this value as
			// infinite.
			m.writeLPRow(out, names, i, name, ">=", math.Max(lo, -1e30))
		case isInf(lo):
			m.writeLPRow(out, names, i, name, "<=", up)
		default:
			m.writeLPRow(out, names, i, name, "<=", up)
			m.writeLPRow(out, names, i, rowNames.claim(i, name+".lower"), ">=", lo)
		}
	}
}

func (m *Model) writeLPRow(out *lpWriter, names *NameMap, i int, name, relation string, side float64) {
	out.label(name)
	r := m.Row(i)
	for k, j := range r.Col {
		out.term(r.Val[k], names.Cols[j])
	}
	if len(r.Col) == 0 {
		out.term(0, anyCol(names))
	}
	out.WriteString(" " + relation + " " + lpNumber(side) + "\n")
}

// lpNumber formats a bound or side.
func lpNumber(x float64) string {
	return strings.ToLower(strconv.FormatFloat(x, 'g', -1, 64)) // -inf for infinity
}

func (m *Model) writeLPBounds(out *lpWriter, names *NameMap) {
	out.WriteString("Bounds\n")
	var integers, binaries []string
	for j, name := range names.Cols {
		lo, up := m.lower[j], m.upper[j]
		integer := m.kind[j] != Continuous
		switch {
		case integer && lo == 0 && up == 1:
			binaries = append(binaries, name)
			continue
		case isInf(lo) && isInf(up):
			out.WriteString(" " + name + " free\n")
		case lo == up:
			out.WriteString(" " + name + " = " + lpNumber(lo) + "\n")
		case isInf(up) && (lo != 0 || integer):
			out.WriteString(" " + name + " >= " + lpNumber(lo) + "\n")
		case !isInf(up):
			out.WriteString(" " + lpNumber(lo) + " <= " + name + " <= " + lpNumber(up) + "\n")
		}
		if integer {
			integers = append(integers, name)
		}
	}
	if m.offset != 0 {
		out.WriteString(" " + lpOffset + " = 1\n")
	}
	writeLPNames(out, "Generals", integers)
	writeLPNames(out, "Binaries", binaries)
}

func writeLPNames(out *lpWriter, section string, names []string) {
	if len(names) == 0 {
		return
	}
	out.WriteString(section + "\n")
	for _, name := range names {
		out.WriteString(" " + name + "\n")
	}
}

// oneLine makes free text safe in a comment.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, s)
}
