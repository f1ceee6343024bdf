package milp

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"workbench/model/platform"
)

func isInf(x float64) bool { return math.IsInf(x, 0) }

// number formats x: shortest digits, no exponent for integers up to 10¹⁵, ∞ for infinity.
func number(x float64) string {
	switch {
	case math.IsInf(x, 1):
		return "∞"
	case math.IsInf(x, -1):
		return "-∞"
	case x == math.Trunc(x) && math.Abs(x) < 1e15:
		return strconv.FormatFloat(x, 'f', -1, 64)
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}

// String returns a line with the name and size of m. [Model.Print] writes all of it.
func (m *Model) String() string {
	return size(m.name, len(m.rowLower), kinds(m), len(m.col))
}

// size returns the first line of a printed model.
func size(name string, rows int, n Kinds, nonzeros int) string {
	return fmt.Sprintf("model %s: %s, %s (%d continuous, %d integer, %d binary), %s", name, platform.Count(rows, "row"),
		platform.Count(n.Cols(), "column"), n.Continuous, n.Integer, n.Binary, platform.Count(nonzeros, "nonzero"))
}

// String returns r as text: "memory[3]: 2 x[0] - y ≤ 12".
func (r Row) String() string {
	var b strings.Builder
	b.WriteString(r.Name())
	b.WriteString(": ")
	b.WriteString(r.m.condition(r.Index).text(r.m))
	if r.Lower != r.Upper && !isInf(r.Lower) && !isInf(r.Upper) || isInf(r.Lower) && isInf(r.Upper) {
		b.WriteString(number(r.Lower) + " ≤ ")
	}
	if len(r.Col) == 0 {
		b.WriteString("0")
	}
	for k, j := range r.Col {
		writeTerm(&b, k == 0, r.Val[k], r.m.colName(int(j)))
	}
	switch {
	case r.Lower == r.Upper:
		b.WriteString(" = " + number(r.Upper))
	case isInf(r.Upper) && !isInf(r.Lower):
		b.WriteString(" ≥ " + number(r.Lower))
	default:
		b.WriteString(" ≤ " + number(r.Upper))
	}
	return b.String()
}

// writeTerm writes "2 x", " + 2 x" or " - x".
func writeTerm(b *strings.Builder, first bool, a float64, name string) {
	switch {
	case first && a < 0:
		b.WriteString("-")
	case a < 0:
		b.WriteString(" - ")
	case !first:
		b.WriteString(" + ")
	}
	if math.Abs(a) != 1 {
		b.WriteString(number(math.Abs(a)))
		if name != "" {
			b.WriteByte(' ')
		}
	} else if name == "" {
		b.WriteByte('1')
	}
	b.WriteString(name)
}

// Print writes all of m as text: the objective, the rows under their groups and sources, and the columns, with
// runs of equal bounds on one line.
func (m *Model) Print(w io.Writer) error {
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, "%s\n%s\n  %s\n", m, m.sense, m.objectiveText())
	infos := m.Groups()
	rows := make([][]int32, len(infos)) // by group
	for i, g := range m.rowGroup {
		rows[g] = append(rows[g], int32(i))
	}
	for g, info := range infos {
		fmt.Fprintf(out, "%s\n", info)
		for _, i := range rows[g] {
			fmt.Fprintf(out, "  %s\n", m.Row(int(i)))
		}
	}
	fmt.Fprintf(out, "columns\n")
	for i := range m.families {
		m.printFamily(out, &m.families[i])
	}
	return out.Flush()
}

func (m *Model) objectiveText() string {
	var b strings.Builder
	for j, c := range m.cost {
		if c != 0 {
			writeTerm(&b, b.Len() == 0, c, m.colName(j))
		}
	}
	if m.offset != 0 || b.Len() == 0 {
		if m.offset == 0 {
			return "0"
		}
		writeTerm(&b, b.Len() == 0, m.offset, "")
	}
	return b.String()
}

// printFamily writes a line for each run of columns of f with equal kind and
// bounds.
func (m *Model) printFamily(out io.Writer, f *family) {
	for from := f.first; from < f.first+f.n; {
		to := from + 1
		for to < f.first+f.n && m.kind[to] == m.kind[from] && m.lower[to] == m.lower[from] && m.upper[to] == m.upper[from] {
			to++
		}
		names := m.colName(from)
		if to-from > 1 {
			names += " … " + m.colName(to-1)
		}
		fmt.Fprintf(out, "  %s: %s\n", names, domain(m.kind[from], m.lower[from], m.upper[from]))
		from = to
	}
}

// domain describes the values of a column.
func domain(k Kind, lo, up float64) string {
	switch {
	case k == Binary && lo == 0 && up == 1:
		return k.String()
	case lo == up:
		return k.String() + ", fixed at " + number(lo)
	case isInf(lo) && isInf(up):
		return k.String() + ", free"
	case isInf(up):
		return k.String() + " ≥ " + number(lo)
	case isInf(lo):
		return k.String() + " ≤ " + number(up)
	}
	return k.String() + " in [" + number(lo) + ", " + number(up) + "]"
}
