package results

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"math"
	"reflect"
)

// Numbers of the Parquet format (parquet.thrift of Apache Parquet 2.10).
const (
	parquetBool, parquetInt64, parquetDouble, parquetBytes = 0, 2, 5, 6 // Type
	parquetRLE                                             = 3          // Encoding; PLAIN is 0
	parquetGzip                                            = 2          // CompressionCodec
)

// thriftStruct is a struct in the compact protocol of Thrift: its fields in the order of their numbers. The values are int (32 bits),
// int64, string, thriftStruct, or a []any of such.
type thriftStruct []thriftField

type thriftField struct {
	number byte
	value  any
}

// appendThrift appends a value to b.
func appendThrift(b []byte, value any) []byte {
	switch x := value.(type) {
	case int:
		return binary.AppendVarint(b, int64(x))
	case int64:
		return binary.AppendVarint(b, x)
	case string:
		return append(binary.AppendUvarint(b, uint64(len(x))), x...)
	case []any: // none is empty
		if kind := thriftType(x[0]); len(x) < 15 {
			b = append(b, byte(len(x))<<4|kind)
		} else {
			b = binary.AppendUvarint(append(b, 0xf0|kind), uint64(len(x)))
		}
		for _, e := range x {
			b = appendThrift(b, e)
		}
		return b
	}
	last := byte(0)
	for _, f := range value.(thriftStruct) {
		b = appendThrift(append(b, (f.number-last)<<4|thriftType(f.value)), f.value)
		last = f.number
	}
	return append(b, 0)
}

// thriftType returns the number of the type of a value.
func thriftType(value any) byte {
	switch value.(type) {
	case int:
		return 5
	case int64:
		return 6
	case string:
		return 8
	case []any:
		return 9
	}
	return 12
}

// parquetColumn is one field of all records.
type parquetColumn struct {
	name            string
	kind            int
	optional        bool
	offset          int    // of its page in the file
	plain, encoded  int    // bytes of the page, with its header
	present, values []byte // bits of present values; these values
}

// writeParquet writes the rows of a night as a Parquet file: one row group, a page a column,
// plain values, gzip. It takes the memory of the file.
func writeParquet(w io.Writer, n *Night) error {
	records := Records(n)
	var file bytes.Buffer
	file.WriteString("PAR1")
	fields := columns()
	list := make([]*parquetColumn, len(fields))
	for k, f := range fields {
		c := &parquetColumn{name: f.Tag.Get("parquet"), offset: file.Len()}
		c.kind, c.optional = parquetType(f.Type)
		for i := range records {
			c.add(i, reflect.ValueOf(&records[i]).Elem().FieldByIndex(f.Index))
		}
		if err := c.writePage(&file, len(records)); err != nil {
			return err
		}
		list[k] = c
	}
	footer := file.Len()
	file.Write(appendThrift(nil, parquetFooter(list, len(records))))
	file.Write(binary.LittleEndian.AppendUint32(nil, uint32(file.Len()-footer)))
	file.WriteString("PAR1")
	_, err := file.WriteTo(w)
	return err
}

// parquetType returns the type of a field; a pointer is optional.
func parquetType(t reflect.Type) (kind int, optional bool) {
	switch t.Kind() {
	case reflect.Pointer:
		kind, _ = parquetType(t.Elem())
		return kind, true
	case reflect.Bool:
		return parquetBool, false
	case reflect.Int64:
		return parquetInt64, false
	case reflect.Float64:
		return parquetDouble, false
	}
	return parquetBytes, false
}

// setBit appends bit number n to b, from the lowest bit of each byte on.
func setBit(b []byte, n int, on bool) []byte {
	if n%8 == 0 {
		b = append(b, 0)
	}
	if on {
		b[n/8] |= 1 << (n % 8)
	}
	return b
}

// add adds the value of record i.
func (c *parquetColumn) add(i int, v reflect.Value) {
	if c.optional {
		c.present = setBit(c.present, i, !v.IsNil())
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch c.kind {
	case parquetBool: // none is optional
		c.values = setBit(c.values, i, v.Bool())
	case parquetInt64:
		c.values = binary.LittleEndian.AppendUint64(c.values, uint64(v.Int()))
	case parquetDouble:
		c.values = binary.LittleEndian.AppendUint64(c.values, math.Float64bits(v.Float()))
	default:
		c.values = append(binary.LittleEndian.AppendUint32(c.values, uint32(v.Len())), v.String()...)
	}
}

// writePage writes the values of all rows as one data page: which of them are present, as one
// bit-packed run, and these.
func (c *parquetColumn) writePage(file *bytes.Buffer, rows int) error {
	var page []byte
	if c.optional {
		levels := append(binary.AppendUvarint(nil, uint64(len(c.present))<<1|1), c.present...)
		page = append(binary.LittleEndian.AppendUint32(nil, uint32(len(levels))), levels...)
	}
	page = append(page, c.values...)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(page); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	file.Write(appendThrift(nil, thriftStruct{
		{1, 0}, // a data page
		{2, len(page)},
		{3, packed.Len()},
		{5, thriftStruct{{1, rows}, {2, 0}, {3, parquetRLE}, {4, parquetRLE}}},
	}))
	header := file.Len() - c.offset
	c.plain, c.encoded = header+len(page), header+packed.Len()
	_, err := packed.WriteTo(file)
	return err
}

// parquetFooter is FileMetaData: the schema, and where its columns are.
func parquetFooter(list []*parquetColumn, rows int) thriftStruct {
	schema, chunks := []any{thriftStruct{{4, "Record"}, {5, len(list)}}}, []any{}
	total := 0
	for _, c := range list {
		total += c.plain
		element := thriftStruct{{1, c.kind}, {3, bit(c.optional)}, {4, c.name}}
		if c.kind == parquetBytes {
			element = append(element, thriftField{6, 0}) // UTF8
		}
		schema, chunks = append(schema, element), append(chunks, c.chunk(rows))
	}
	group := thriftStruct{{1, chunks}, {2, int64(total)}, {3, int64(rows)}}
	return thriftStruct{{1, 1}, {2, schema}, {3, int64(rows)}, {4, []any{group}}, {6, "workbench"}}
}

// chunk is ColumnChunk.
func (c *parquetColumn) chunk(rows int) thriftStruct {
	return thriftStruct{{2, int64(c.offset)}, {3, thriftStruct{
		{1, c.kind},
		{2, []any{0, parquetRLE}},
		{3, []any{c.name}},
		{4, parquetGzip},
		{5, int64(rows)},
		{6, int64(c.plain)},
		{7, int64(c.encoded)},
		{9, int64(c.offset)},
	}}}
}
