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

// Types of the compact protocol of Thrift.
const (
	thriftInt32, thriftInt64, thriftBinary, thriftList, thriftStruct = 5, 6, 8, 9, 12
)

// thrift is a struct in the compact protocol of Thrift: fields in the order of their numbers.
type thrift struct {
	bytes.Buffer
	last byte
}

func (t *thrift) field(number, kind byte) {
	t.WriteByte((number-t.last)<<4 | kind)
	t.last = number
}

func (t *thrift) uvarint(x uint64) { t.Write(binary.AppendUvarint(nil, x)) }

func (t *thrift) int32(number byte, x int) {
	t.field(number, thriftInt32)
	t.Write(binary.AppendVarint(nil, int64(x)))
}

func (t *thrift) int64(number byte, x int) {
	t.field(number, thriftInt64)
	t.Write(binary.AppendVarint(nil, int64(x)))
}

func (t *thrift) text(number byte, x string) {
	t.field(number, thriftBinary)
	t.uvarint(uint64(len(x)))
	t.WriteString(x)
}

// structure writes a field that is a struct.
func (t *thrift) structure(number byte, fields func(t *thrift)) {
	t.field(number, thriftStruct)
	t.element(fields)
}

// element writes a struct that is an element of a list, or what follows a field's header.
func (t *thrift) element(fields func(t *thrift)) {
	last := t.last
	t.last = 0
	fields(t)
	t.WriteByte(0)
	t.last = last
}

// list writes the header of a field that is a list of n.
func (t *thrift) list(number, kind byte, n int) {
	t.field(number, thriftList)
	if n < 15 {
		t.WriteByte(byte(n)<<4 | kind)
		return
	}
	t.WriteByte(0xf0 | kind)
	t.uvarint(uint64(n))
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
	var file thrift
	file.WriteString("PAR1")
	names, kind := columns(), reflect.TypeFor[Record]()
	list := make([]*parquetColumn, len(names))
	for k, name := range names {
		c := &parquetColumn{name: name, offset: file.Len()}
		c.kind, c.optional = parquetType(kind.Field(k).Type)
		for i := range records {
			c.add(i, reflect.ValueOf(&records[i]).Elem().Field(k))
		}
		if err := c.writePage(&file, len(records)); err != nil {
			return err
		}
		list[k] = c
	}
	footer := file.Len()
	file.element(func(t *thrift) { parquetFooter(t, list, len(records)) })
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
func (c *parquetColumn) writePage(file *thrift, rows int) error {
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
	file.element(func(t *thrift) {
		t.int32(1, 0) // a data page
		t.int32(2, len(page))
		t.int32(3, packed.Len())
		t.structure(5, func(t *thrift) {
			t.int32(1, rows)
			t.int32(2, 0)
			t.int32(3, parquetRLE)
			t.int32(4, parquetRLE)
		})
	})
	header := file.Len() - c.offset
	c.plain, c.encoded = header+len(page), header+packed.Len()
	_, err := packed.WriteTo(file)
	return err
}

// parquetFooter writes the fields of FileMetaData: the schema, and where its columns are.
func parquetFooter(t *thrift, list []*parquetColumn, rows int) {
	t.int32(1, 1)
	t.list(2, thriftStruct, len(list)+1)
	t.element(func(t *thrift) {
		t.text(4, "Record")
		t.int32(5, len(list))
	})
	total := 0
	for _, c := range list {
		total += c.plain
		t.element(func(t *thrift) {
			t.int32(1, c.kind)
			optional := 0
			if c.optional {
				optional = 1
			}
			t.int32(3, optional)
			t.text(4, c.name)
			if c.kind == parquetBytes {
				t.int32(6, 0) // UTF8
			}
		})
	}
	t.int64(3, rows)
	t.list(4, thriftStruct, 1)
	t.element(func(t *thrift) {
		t.list(1, thriftStruct, len(list))
		for _, c := range list {
			t.element(func(t *thrift) { c.chunk(t, rows) })
		}
		t.int64(2, total)
		t.int64(3, rows)
	})
	t.text(6, "workbench")
}

// chunk writes the fields of ColumnChunk.
func (c *parquetColumn) chunk(t *thrift, rows int) {
	t.int64(2, c.offset)
	t.structure(3, func(t *thrift) {
		t.int32(1, c.kind)
		t.list(2, thriftInt32, 2)
		t.Write(binary.AppendVarint(binary.AppendVarint(nil, 0), parquetRLE))
		t.list(3, thriftBinary, 1)
		t.uvarint(uint64(len(c.name)))
		t.WriteString(c.name)
		t.int32(4, parquetGzip)
		t.int64(5, rows)
		t.int64(6, c.plain)
		t.int64(7, c.encoded)
		t.int64(9, c.offset)
	})
}
