package lifetimes

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"workbench/model/strictjson"
)

// columns of the files of minimalloc, by the names that its reader accepts.
var columns = map[string]string{
	"id": "id", "buffer": "id", "buffer_id": "id",
	"lower": "lower", "start": "lower", "begin": "lower",
	"upper": "upper", "end": "end",
	"size": "size", "offset": "offset", "alignment": "alignment", "gaps": "gaps", "hint": "hint",
}

// ReadCSV reads lifetimes as the program minimalloc writes them: a header, then a line for
// each buffer with its id, lower, upper and size, integers all but the id (Moffitt,
// MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning,
// ASPLOS 2023). As there, a column "end" in the place of upper is the last instant and not
// the one after it, "gaps" lists intervals in which a buffer does not live ("3-5 8-9"),
// "alignment" is that of each buffer, and an "offset" that is not empty pins the buffer.
// Gaps with a window of addresses, and hints, are refused. Name names the file in errors
// and the instance. O(size of the file).
func ReadCSV(r io.Reader, name string) (*Lifetimes, error) {
	l, offsets, err := readCSV(r, name)
	if err != nil {
		return nil, err
	}
	for i, x := range offsets {
		if b := &l.Buffers[i]; !math.IsNaN(x) {
			b.Pinned, b.Offset = true, x
		}
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w%s", name, err, placedHint(offsets))
	}
	return l, nil
}

// placedHint says how a file with an offset for every buffer is read as a placement.
func placedHint(offsets []float64) string {
	if slices.ContainsFunc(offsets, math.IsNaN) {
		return ""
	}
	return "; if the column offset is a placement to check, use workbench import --placement PLAN, or workbench verify INSTANCE FILE"
}

// ReadPlacedCSV reads a file like [ReadCSV] whose column offset is a placement: the buffers
// are not pinned, and the offsets are returned in units, NaN where a buffer has none.
func ReadPlacedCSV(r io.Reader, name string) (*Lifetimes, []float64, error) {
	l, offsets, err := readCSV(r, name)
	if err == nil {
		if err = l.Validate(); err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
	}
	if err == nil && !slices.ContainsFunc(offsets, func(x float64) bool { return !math.IsNaN(x) }) {
		err = fmt.Errorf("%s: no buffer has an offset; a placement has a column offset", name)
	}
	if err != nil {
		return nil, nil, err
	}
	return l, offsets, nil
}

func readCSV(r io.Reader, name string) (*Lifetimes, []float64, error) {
	in := csv.NewReader(io.LimitReader(r, strictjson.MostBytes))
	in.ReuseRecord, in.TrimLeadingSpace = true, true
	header, err := in.Read()
	if err != nil {
		return nil, nil, csvError(name, err)
	}
	x := table{name: name, column: map[string]int{}, upper: "upper"}
	if err := x.header(header); err != nil {
		return nil, nil, err
	}
	l := &Lifetimes{Name: name}
	var offsets []float64
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, csvError(name, err)
		}
		line, _ := in.FieldPos(0)
		b, offset, err := x.row(record)
		if err != nil {
			return nil, nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
		l.Buffers, offsets = append(l.Buffers, b), append(offsets, offset)
	}
	l.commonAlign()
	return l, offsets, nil
}

// commonAlign makes an alignment that all buffers have that of the instance.
func (l *Lifetimes) commonAlign() {
	if len(l.Buffers) == 0 || slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Align != l.Buffers[0].Align }) {
		for i := range l.Buffers {
			if l.Buffers[i].Align == 1 {
				l.Buffers[i].Align = 0
			}
		}
		return
	}
	l.Align = l.Buffers[0].Align
	for i := range l.Buffers {
		l.Buffers[i].Align = 0
	}
}

func csvError(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty; it begins with the line id,lower,upper,size", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// table is what the header of a file says.
type table struct {
	name      string
	column    map[string]int
	upper     string // "upper" or "end"
	inclusive int64  // 1: "end" is the last instant
}

func (t *table) header(header []string) error {
	for k, field := range header {
		column, known := columns[strings.TrimSpace(strings.TrimPrefix(field, "\ufeff"))]
		if _, twice := t.column[column]; twice || !known {
			return fmt.Errorf("%s:1: column %q is unknown or given twice; the header is id,lower,upper,size, and alignment, gaps, offset if "+
				"there are any", t.name, field)
		}
		t.column[column] = k
	}
	if _, hint := t.column["hint"]; hint {
		return fmt.Errorf("%s:1: column hint: no method here starts from a suggested offset; remove the column, or call it offset to pin the "+
			"buffers", t.name)
	}
	if _, end := t.column["end"]; end {
		t.upper, t.inclusive = "end", 1
	}
	for _, column := range []string{"id", "lower", t.upper, "size"} {
		if _, ok := t.column[column]; !ok {
			return fmt.Errorf("%s:1: column %q is missing; the header is id,lower,upper,size", t.name, column)
		}
	}
	return nil
}

// integer reads a field of a column.
func integer(column, field string) (int64, error) {
	x, err := strconv.ParseInt(strings.TrimSpace(field), 10, 64)
	if err != nil || x < -MaxInstant || x > MaxInstant {
		return 0, fmt.Errorf("%s: %q is not an integer up to %d", column, field, int64(MaxInstant))
	}
	return x, nil
}

// row reads the buffer of a line and its offset, NaN if it has none.
func (t *table) row(record []string) (b Buffer, offset float64, err error) {
	var first error
	number := func(column string) int64 {
		x, err := integer(column, record[t.column[column]])
		first = cmp.Or(first, err)
		return x
	}
	text := func(column string) string {
		if k, ok := t.column[column]; ok {
			return strings.TrimSpace(record[k])
		}
		return ""
	}
	// A string of the record shares its memory with the whole line.
	b = Buffer{
		ID: strings.Clone(record[t.column["id"]]), Lower: number("lower"), Upper: number(t.upper) + t.inclusive,
		Size: float64(number("size")),
	}
	if _, ok := t.column["alignment"]; ok {
		if b.Align = number("alignment"); first == nil && b.Align < 1 {
			first = fmt.Errorf("alignment: %d; it is at least 1", b.Align)
		}
	}
	offset = math.NaN()
	if text("offset") != "" {
		offset = float64(number("offset"))
	}
	if first == nil {
		b.Gaps, first = t.gaps(&b, text("gaps"))
	}
	return b, offset, first
}

// gaps reads the gaps in the life of b, and shortens it by those at its ends.
func (t *table) gaps(b *Buffer, text string) (gaps []Interval, err error) {
	for _, field := range strings.Fields(text) {
		if strings.Contains(field, "@") {
			return nil, fmt.Errorf("gaps: %q keeps a window of addresses in the gap, which is not supported here", field)
		}
		from, to, ok := strings.Cut(field, "-")
		if !ok {
			return nil, fmt.Errorf("gaps: %q is not a gap; gaps are written LOWER-UPPER, with blanks between them", field)
		}
		lower, err := integer("gaps", from)
		if err != nil {
			return nil, err
		}
		upper, err := integer("gaps", to)
		if err != nil {
			return nil, err
		}
		gaps = append(gaps, Interval{lower, upper + t.inclusive})
	}
	slices.SortFunc(gaps, func(p, q Interval) int { return cmp.Compare(p.Lower, q.Lower) })
	kept := gaps[:0]
	for _, g := range gaps {
		switch last := len(kept) - 1; {
		case g.Lower >= g.Upper || g.Lower < b.Lower || g.Upper > b.Upper:
			return nil, fmt.Errorf("gaps: %d-%d is empty or not within the lifetime, [%d, %d)", g.Lower, g.Upper, b.Lower, b.Upper)
		case last >= 0 && g.Lower <= kept[last].Upper:
			kept[last].Upper = max(kept[last].Upper, g.Upper)
		default:
			kept = append(kept, g)
		}
	}
	if len(kept) > 0 && kept[0].Lower == b.Lower {
		b.Lower, kept = kept[0].Upper, kept[1:]
	}
	if last := len(kept) - 1; last >= 0 && kept[last].Upper == b.Upper {
		b.Upper, kept = kept[last].Lower, kept[:last]
	}
	if len(kept) == 0 {
		return nil, nil
	}
	return kept, nil
}

// Unsupported returns what of the instance a file of minimalloc cannot hold; "": nothing.
func (l *Lifetimes) Unsupported() string {
	pinned := slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Pinned })
	all := !slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return !b.Pinned })
	for _, x := range []struct {
		is   bool
		what string
	}{
		{l.Unit.PerByte() != 1, "sizes have decimals, and minimalloc takes whole bytes"},
		{len(l.Pools) > 1, "there are several pools"},
		{len(l.Pools) == 1 && len(l.Pools[0].Reserved) > 0, "the pool has reserved ranges"},
		{len(l.Separations) > 0, "there are separations"},
		{len(l.Colocations) > 0, "there are colocations"},
		{len(l.Exclusions) > 0, "there are exclusions"},
		{len(l.Penalties) > 0, "there are penalties"},
		{slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Exclusive }), "there are exclusive buffers"},
		{pinned && !all, "some buffers are pinned and others are not, and minimalloc pins all or none"},
	} {
		if x.is {
			return x.what
		}
	}
	return ""
}

// WriteCSV writes l as minimalloc reads it, with the offset of each buffer in units, in
// the order of l, if offsets are given, or those of pins; sizes are in units, the only
// unit of that format. What it cannot hold is left out: see [Lifetimes.Unsupported].
func (l *Lifetimes) WriteCSV(w io.Writer, offsets []float64) error {
	buffered := bufio.NewWriter(w)
	out := csv.NewWriter(buffered)
	aligned := l.Align > 1 || slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Align > 0 })
	gaps := slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return len(b.Gaps) > 0 })
	pins := offsets == nil && slices.ContainsFunc(l.Buffers, func(b Buffer) bool { return b.Pinned })
	header := []string{"id", "lower", "upper", "size"}
	for _, column := range []struct {
		is   bool
		name string
	}{{aligned, "alignment"}, {gaps, "gaps"}, {offsets != nil || pins, "offset"}} {
		if column.is {
			header = append(header, column.name)
		}
	}
	if err := out.Write(header); err != nil {
		return err
	}
	text := func(x int64) string { return strconv.FormatInt(x, 10) }
	for i := range l.Buffers {
		x := &l.Buffers[i]
		record := []string{x.ID, text(x.Lower), text(x.Upper), text(int64(x.Size))}
		if aligned {
			record = append(record, text(l.GridOf(i)))
		}
		if gaps {
			var list []string
			for _, g := range x.Gaps {
				list = append(list, text(g.Lower)+"-"+text(g.Upper))
			}
			record = append(record, strings.Join(list, " "))
		}
		switch {
		case offsets != nil:
			record = append(record, text(int64(offsets[i])))
		case x.Pinned:
			record = append(record, text(int64(x.Offset)))
		case pins:
			record = append(record, "")
		}
		if err := out.Write(record); err != nil {
			return err
		}
	}
	out.Flush()
	return errors.Join(out.Error(), buffered.Flush())
}
