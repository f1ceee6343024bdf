package lifetimes

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"workbench/model/strictjson"
)

// columns of the files of minimalloc, by the names that its reader knows.
var columns = map[string]string{
	"id": "id", "buffer": "id", "buffer_id": "id",
	"lower": "lower", "start": "lower", "begin": "lower",
	"upper": "upper", "end": "end",
	"size": "size", "offset": "offset", "alignment": "alignment", "gaps": "gaps",
}

// ReadCSV reads lifetimes as the program minimalloc has them: a header, then a
// line for each buffer with its id, lower, upper and size, whole numbers all but
// the id (Moffitt, MiniMalloc: A Lightweight Memory Allocator for
// Hardware-Accelerated Machine Learning, ASPLOS 2023). As there, a column "end" in the place
// of upper is the last instant and not the one after it. An offset, the answer of
// that program, is read over; gaps in lifetimes and alignments that differ are
// refused. Name names the file in errors and the instance. O(size of the file).
func ReadCSV(r io.Reader, name string) (*Lifetimes, error) {
	in := csv.NewReader(io.LimitReader(r, strictjson.MostBytes))
	in.ReuseRecord, in.TrimLeadingSpace = true, true
	header, err := in.Read()
	if err != nil {
		return nil, csvError(name, err)
	}
	at := map[string]int{}
	for k, field := range header {
		column, known := columns[strings.TrimSpace(strings.TrimPrefix(field, "\ufeff"))]
		if _, twice := at[column]; twice || !known {
			return nil, fmt.Errorf("%s:1: column %q is unknown or there twice; the header is id,lower,upper,size, and offset if there are any", name, field)
		}
		at[column] = k
	}
	upper, inclusive := "upper", int64(0)
	if _, end := at["end"]; end {
		upper, inclusive = "end", 1
	}
	for _, column := range []string{"id", "lower", upper, "size"} {
		if _, ok := at[column]; !ok {
			return nil, fmt.Errorf("%s:1: column %q is missing; the header is id,lower,upper,size", name, column)
		}
	}
	l := &Lifetimes{Name: name}
	for {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(name, err)
		}
		line, _ := in.FieldPos(0)
		if err := l.row(record, at, upper, inclusive); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, line, err)
		}
	}
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return l, nil
}

func csvError(name string, err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: the file is empty; it begins with the line id,lower,upper,size", name)
	}
	return fmt.Errorf("%s: %w", name, err)
}

// row adds the buffer of a line.
func (l *Lifetimes) row(record []string, at map[string]int, upper string, inclusive int64) error {
	if k, ok := at["gaps"]; ok && strings.TrimSpace(record[k]) != "" {
		return errors.New("gaps: buffers live without a gap here; split it into several")
	}
	number := func(column string) (x int64, err error) {
		field := strings.TrimSpace(record[at[column]])
		if x, err = strconv.ParseInt(field, 10, 64); err != nil || x < -MaxInstant || x > MaxInstant {
			return 0, fmt.Errorf("%s: %q is not a whole number up to %d", column, field, int64(MaxInstant))
		}
		return x, nil
	}
	lower, err := number("lower")
	if err != nil {
		return err
	}
	end, err := number(upper)
	if err != nil {
		return err
	}
	size, err := number("size")
	if err != nil {
		return err
	}
	if _, ok := at["alignment"]; ok {
		align, err := number("alignment")
		switch {
		case err != nil:
			return err
		case len(l.Buffers) > 0 && align != l.Align, align < 1:
			return fmt.Errorf("alignment: %d; all buffers have the same here, at least 1", align)
		}
		l.Align = align
	}
	// A string of the record shares its memory with the whole line.
	id := strings.Clone(record[at["id"]])
	l.Buffers = append(l.Buffers, Buffer{ID: id, Lower: lower, Upper: end + inclusive, Size: float64(size)})
	return nil
}

// WriteCSV writes l as minimalloc has it, with the offset of each buffer in units, in
// the order of l, if offsets are given; sizes are in units, which that format has no
// other for.
func (l *Lifetimes) WriteCSV(w io.Writer, offsets []float64) error {
	buffered := bufio.NewWriter(w)
	out := csv.NewWriter(buffered)
	header := []string{"id", "lower", "upper", "size"}
	if l.Align > 1 {
		header = append(header, "alignment")
	}
	if offsets != nil {
		header = append(header, "offset")
	}
	if err := out.Write(header); err != nil {
		return err
	}
	whole := func(x float64) string { return strconv.FormatInt(int64(x), 10) }
	for i := range l.Buffers {
		x := &l.Buffers[i]
		record := []string{x.ID, strconv.FormatInt(x.Lower, 10), strconv.FormatInt(x.Upper, 10), whole(x.Size)}
		if l.Align > 1 {
			record = append(record, strconv.FormatInt(l.Grid(), 10))
		}
		if offsets != nil {
			record = append(record, whole(offsets[i]))
		}
		if err := out.Write(slices.Clip(record)); err != nil {
			return err
		}
	}
	out.Flush()
	return errors.Join(out.Error(), buffered.Flush())
}
