package milp

import (
	"errors"
	"fmt"
	"strings"
)

// ErrCrossed is returned by writers for a model whose bounds or sides cross, which no file format can express.
// Such a model is infeasible.
var ErrCrossed = errors.New("lower limit above upper limit cannot be written to a file")

// NameMap holds the names used in a written file, by column and by row. Names in memory are free text; in a file
// they must be unique and of a restricted alphabet. Each name is kept where the format allows it. Otherwise
// illegal characters become '_', and a '_' precedes a reserved word. Names that are repeated or too long become C7
// or R12, and a comment in the file has the original. A solution file of another program is read back with it.
type NameMap struct {
	Cols, Rows []string
	// Negated is set if the file minimises the negative of a maximisation.
	Negated bool
}

// longestName is shorter than the 255 characters of most readers: CBC 2.10 has a buffer of 159 and does not check
// it.
const longestName = 128

// alphabet describes the legal names of a file format.
type alphabet struct {
	translate func(name string) string // to legal characters; any result
	legal     func(name string) bool
	longest   int
	// implied returns the name that a reader derives from a written one without a comment.
	implied func(name string) string
}

// namer assigns unique legal names of one kind.
type namer struct {
	alphabet
	prefix string // of fallback names: C7, R12
	used   map[string]bool
}

func newNamer(a alphabet, prefix string) *namer {
	return &namer{a, prefix, make(map[string]bool)}
}

// claim returns the name for item i called original, and marks it used.
func (n *namer) claim(i int, original string) string {
	name := n.translate(original)
	for k := 0; !n.legal(name) || len(name) > n.longest || n.used[name]; k++ {
		switch k {
		case 0:
			name = "_" + name
		case 1:
			name = fmt.Sprintf("%s%d", n.prefix, i)
		default:
			name = fmt.Sprintf("%s%d_%d", n.prefix, i, k)
		}
	}
	n.used[name] = true
	return name
}

// nameMap returns the names of all columns and rows of m under alphabet a, and comments for the names that a
// reader cannot restore. Legal names of rows take precedence over generated ones, so that a generated name never
// displaces one.
func (m *Model) nameMap(a alphabet) (*NameMap, []string) {
	var comments []string
	name := func(what, prefix string, originals []string) []string {
		n, names := newNamer(a, prefix), make([]string, len(originals))
		for i, original := range originals {
			if a.legal(original) && len(original) <= a.longest && !n.used[original] {
				names[i], n.used[original] = original, true
			}
		}
		for i, original := range originals {
			if names[i] == "" {
				names[i] = n.claim(i, original)
			}
			if a.implied(names[i]) != original {
				comments = append(comments, fmt.Sprintf("%s %s is %q", what, names[i], original))
			}
		}
		return names
	}
	cols := name("column", "C", m.ColNames())
	rows := name("row", "R", m.RowNames())
	return &NameMap{Cols: cols, Rows: rows}, comments
}

// replaceIllegal returns s with every byte for which ok does not hold replaced by '_', runs of them by a single
// one.
func replaceIllegal(s string, ok func(c byte) bool) string {
	var b strings.Builder
	for i := range len(s) {
		switch {
		case ok(s[i]):
			b.WriteByte(s[i])
		case i == 0 || ok(s[i-1]):
			b.WriteByte('_')
		}
	}
	return b.String()
}

// crossed returns an error naming the first bounds or sides of m that cross.
func crossed(m *Model) error {
	for j, lo := range m.lower {
		if lo > m.upper[j] {
			return fmt.Errorf("variable %s: bounds [%v, %v]: %w", m.colName(j), lo, m.upper[j], ErrCrossed)
		}
	}
	for i, lo := range m.rowLower {
		if lo > m.rowUpper[i] {
			return fmt.Errorf("row %s: sides [%v, %v]: %w", m.rowName(i), lo, m.rowUpper[i], ErrCrossed)
		}
	}
	return nil
}

// writable returns an error if m has errors or cannot be written.
func (m *Model) writable() error {
	if err := m.Err(); err != nil {
		return err
	}
	return crossed(m)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
