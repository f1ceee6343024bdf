package importer

import (
	"encoding/binary"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// npyMagic is what NumPy's .npy files begin with.
const npyMagic = "\x93NUMPY"

// An array is what an .npy file holds, row after row.
type array struct {
	shape  []int
	values []float64
}

// readNPY reads a NumPy .npy file, version 1.0 or 2.0: float32 or float64 in
// little-endian, C order, all numbers finite, no byte more or less than the
// shape says. Name is for errors. O(len(data)).
func readNPY(data []byte, name string) (*array, error) {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", name, fmt.Errorf(format, args...))
	}
	if len(data) < 10 || string(data[:6]) != npyMagic {
		return nil, fail("no .npy file: it does not begin with \\x93NUMPY and a version")
	}
	length, begin := int(binary.LittleEndian.Uint16(data[8:])), 10
	switch version := [2]byte{data[6], data[7]}; version {
	case [2]byte{1, 0}:
	case [2]byte{2, 0}:
		if len(data) < 12 {
			return nil, fail("the file ends in the header")
		}
		length, begin = int(binary.LittleEndian.Uint32(data[8:])), 12
	default:
		return nil, fail("version %d.%d of .npy is not understood; 1.0 and 2.0 are", version[0], version[1])
	}
	if length > len(data)-begin {
		return nil, fail("the file ends in the header, which has %d bytes", length)
	}
	h, err := readNPYHeader(string(data[begin : begin+length]))
	if err != nil {
		return nil, fail("header: %w", err)
	}
	data = data[begin+length:]
	if !h.matchesSize(len(data)) {
		return nil, fail("%d bytes of data do not make an array of shape %v and type %s", len(data), h.shape, h.kind)
	}
	a := &array{h.shape, make([]float64, len(data)/h.size)}
	for i := range a.values {
		x := 0.0
		if h.size == 4 {
			x = float64(math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:])))
		} else {
			x = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, fail("entry %d is %v; only finite numbers are understood", i, x)
		}
		a.values[i] = x
	}
	return a, nil
}

// npyHeader is the header of an .npy file.
type npyHeader struct {
	kind  string // "<f4" or "<f8"
	size  int    // bytes of an entry
	shape []int
}

// matchesSize reports whether so many bytes are what the shape needs.
func (h *npyHeader) matchesSize(bytes int) bool {
	need := h.size
	for _, n := range h.shape {
		if n != 0 && need > bytes/n {
			return false // or it would overflow
		}
		need *= n
	}
	return need == bytes
}

// npyEntry matches a key of a header with its value, npyDictionary a header.
const npyEntry = `['"](descr|fortran_order|shape)['"]\s*:\s*([^,(){}]+|\([^(){}]*\))\s*`

var (
	npyEntries    = regexp.MustCompile(npyEntry)
	npyDictionary = regexp.MustCompile(`^\{\s*` + npyEntry + `(?:,\s*` + npyEntry + `)*,?\s*\}\s*$`)
	npyShape      = regexp.MustCompile(`^\((?:\s*\d{1,10}\s*,)*(?:\s*\d{1,10}\s*,\s*\d{1,10})?\s*\)$`) // (2) is not a tuple
)

// readNPYHeader reads a header, a Python dictionary written as
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }
//
// padded with blanks, with these three keys in any order.
func readNPYHeader(text string) (*npyHeader, error) {
	entries, values := npyEntries.FindAllStringSubmatch(text, -1), map[string]string{}
	for _, m := range entries {
		values[m[1]] = strings.TrimSpace(m[2])
	}
	if !npyDictionary.MatchString(text) || len(entries) != 3 || len(values) != 3 {
		return nil, fmt.Errorf("%q is not a dictionary of descr, fortran_order and shape, each once", clip(strings.TrimSpace(text)))
	}
	h := &npyHeader{kind: strings.Trim(values["descr"], `'"`)}
	switch h.kind {
	case "<f4":
		h.size = 4
	case "<f8":
		h.size = 8
	default:
		return nil, fmt.Errorf("entries of type %q are not supported; '<f4' and '<f8' are (numpy: a.astype('<f8'))", clip(h.kind))
	}
	switch order := values["fortran_order"]; order {
	case "False":
	case "True":
		return nil, fmt.Errorf("the array is in Fortran order; C order is needed (numpy: ascontiguousarray)")
	default:
		return nil, fmt.Errorf("fortran_order is neither True nor False: %q", clip(order))
	}
	shape := values["shape"]
	if !npyShape.MatchString(shape) {
		return nil, fmt.Errorf("the shape is not a tuple of integers: %q", clip(shape))
	}
	for _, number := range strings.FieldsFunc(shape, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.ParseInt(number, 10, 32)
		if err != nil {
			return nil, fmt.Errorf("the shape is not a tuple of integers: %q", clip(shape))
		}
		h.shape = append(h.shape, int(n))
	}
	return h, nil
}
