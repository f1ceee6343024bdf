package importer

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
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

// readNPYHeader reads a header, a Python dictionary written as
//
//	{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }
//
// padded with blanks, with these three keys in any order.
func readNPYHeader(text string) (*npyHeader, error) {
	s := &literal{strings.TrimRight(text, " \n")}
	h := &npyHeader{}
	var seen []string
	if !s.skip("{") {
		return nil, fmt.Errorf("%q is no dictionary", clip(text))
	}
	for !s.skip("}") {
		key, ok := s.quoted()
		if !ok || !s.skip(":") {
			return nil, fmt.Errorf("a key in quotes and a colon are needed at %q", clip(s.rest))
		}
		if slices.Contains(seen, key) {
			return nil, fmt.Errorf("%s stands twice", key)
		}
		seen = append(seen, key)
		if err := h.field(key, s); err != nil {
			return nil, err
		}
		if !s.skip(",") && !strings.HasPrefix(s.rest, "}") {
			return nil, fmt.Errorf("a comma is needed at %q", clip(s.rest))
		}
	}
	if s.rest != "" {
		return nil, fmt.Errorf("%q stands behind the dictionary", clip(s.rest))
	}
	if len(seen) != 3 {
		return nil, fmt.Errorf("descr, fortran_order and shape are needed, there is %q", seen)
	}
	return h, nil
}

// field reads the value of a key.
func (h *npyHeader) field(key string, s *literal) error {
	switch key {
	case "descr":
		kind, ok := s.quoted()
		switch {
		case ok && kind == "<f4":
			h.size = 4
		case ok && kind == "<f8":
			h.size = 8
		default:
			return fmt.Errorf("entries of type %q are not understood; '<f4' and '<f8' are (numpy: a.astype('<f8'))", clip(kind+s.rest))
		}
		h.kind = kind
	case "fortran_order":
		if s.skip("True") {
			return fmt.Errorf("the array is in Fortran order; C order is needed (numpy: ascontiguousarray)")
		}
		if !s.skip("False") {
			return fmt.Errorf("fortran_order is neither True nor False: %q", clip(s.rest))
		}
	case "shape":
		shape, ok := s.tuple()
		if !ok {
			return fmt.Errorf("the shape is no tuple of whole numbers: %q", clip(s.rest))
		}
		h.shape = shape
	default:
		return fmt.Errorf("unknown key %q", clip(key))
	}
	return nil
}

// literal is what is left to read of a Python literal.
type literal struct{ rest string }

// skip passes over blanks, and over a word if it comes next.
func (s *literal) skip(word string) bool {
	s.rest = strings.TrimLeft(s.rest, " ")
	after, ok := strings.CutPrefix(s.rest, word)
	if ok {
		s.rest = strings.TrimLeft(after, " ")
	}
	return ok
}

// quoted reads a text without escapes.
func (s *literal) quoted() (string, bool) {
	for _, quote := range []string{"'", `"`} {
		if s.skip(quote) {
			text, after, ok := strings.Cut(s.rest, quote)
			if !ok || strings.ContainsAny(text, `\`) {
				return "", false
			}
			s.rest = after
			s.skip("")
			return text, true
		}
	}
	return "", false
}

// tuple reads (), (2,), (2, 3) and so on, of numbers from 0 on.
func (s *literal) tuple() ([]int, bool) {
	if !s.skip("(") {
		return nil, false
	}
	shape := []int{}
	comma := true
	for !s.skip(")") {
		end := strings.IndexFunc(s.rest, func(r rune) bool { return r < '0' || r > '9' })
		if end <= 0 || !comma {
			return nil, false
		}
		n, err := strconv.ParseInt(s.rest[:end], 10, 32)
		if err != nil {
			return nil, false
		}
		shape = append(shape, int(n))
		s.rest = s.rest[end:]
		comma = s.skip(",")
	}
	return shape, len(shape) != 1 || comma // (2) is no tuple
}
