package strictjson

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// The functions of this file find their way through a document that need not
// be JSON. They never fail: what follows a break is not looked at, or wrongly.

// lineOf returns the line, from 1, of an offset.
func lineOf(data []byte, offset int) int {
	return 1 + bytes.Count(data[:min(offset, len(data))], []byte{'\n'})
}

// space returns the first offset from i on that is not white space.
func space(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// stringEnd returns the offset behind the string that begins at i, and whether
// it ends at all.
func stringEnd(data []byte, i int) (end int, closed bool) {
	for i++; i < len(data); i++ {
		switch data[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return len(data), false
}

// text returns what a string in quotes stands for.
func text(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return string(quoted)
	}
	return s
}

// skip returns the offset behind the value that begins at i. It does not
// recurse, since it may be given anything.
func skip(data []byte, i int) int {
	for depth := 0; i < len(data); {
		switch data[i] {
		case '"':
			i, _ = stringEnd(data, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default:
			if depth == 0 { // a number, true, false or null
				if n := bytes.IndexAny(data[i:], " \t\r\n,]}"); n > 0 {
					return i + n
				}
				return len(data)
			}
			i++
		}
		if depth <= 0 {
			return i
		}
	}
	return len(data)
}

// find returns the offset of the value at path, or of the innermost one around
// it that is there.
func find(data []byte, path string) (at int, found bool) {
	at = space(data, 0)
	for path != "" {
		child, rest, ok := descend(data, at, path)
		if !ok {
			return at, false
		}
		at, path = child, rest
	}
	return at, at < len(data)
}

// descend returns the child of the container at i in which path leads on, and
// the rest of the path.
func descend(data []byte, i int, path string) (child int, rest string, ok bool) {
	if i >= len(data) || data[i] != '{' && data[i] != '[' {
		return 0, "", false
	}
	object := data[i] == '{'
	for n := 0; ; n++ {
		i = space(data, i+1) // behind the bracket or the comma
		if i >= len(data) || data[i] == '}' || data[i] == ']' {
			return 0, "", false
		}
		step := "[" + strconv.Itoa(n) + "]"
		if object {
			if data[i] != '"' {
				return 0, "", false
			}
			end, closed := stringEnd(data, i)
			if !closed {
				return 0, "", false
			}
			step = text(data[i:end])
			i = space(data, end)
			if i >= len(data) || data[i] != ':' {
				return 0, "", false
			}
			i = space(data, i+1)
		}
		if rest, ok := strings.CutPrefix(path, step); ok && i < len(data) {
			switch {
			case rest == "" || rest[0] == '[':
				return i, rest, true
			case rest[0] == '.':
				return i, rest[1:], true
			}
		}
		i = space(data, skip(data, i))
		if i >= len(data) || data[i] != ',' {
			return 0, "", false
		}
	}
}

// maxSteps is how much of the path of a deeply nested value is written.
const maxSteps = 16

// pathAt returns the path of the value that begins, or whose name ends, where
// prefix does, and how many lists and objects it is in.
func pathAt(prefix []byte) (path string, depth int) {
	type container struct {
		list  bool
		index int
		named bool
		name  string
	}
	var open []container
	for i := 0; i < len(prefix); i++ {
		c := prefix[i]
		if c == '{' || c == '[' {
			open = append(open, container{list: c == '['})
			continue
		}
		if len(open) == 0 {
			continue
		}
		in := &open[len(open)-1]
		switch c {
		case '}', ']':
			open = open[:len(open)-1]
		case ',':
			in.index++
			in.named = false
		case '"':
			end, closed := stringEnd(prefix, i)
			if closed && !in.list && !in.named {
				in.named, in.name = true, text(prefix[i:end])
			}
			i = end - 1
		}
	}
	var b strings.Builder
	for k, in := range open {
		switch {
		case k == maxSteps:
			b.WriteString("…")
			return printable(b.String()), len(open)
		case in.list:
			b.WriteString("[" + strconv.Itoa(in.index) + "]")
		case in.named:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(in.name)
		}
	}
	return printable(b.String()), len(open)
}

// printable quotes a path that would disturb a line of text.
func printable(path string) string {
	if strings.IndexFunc(path, func(r rune) bool { return !strconv.IsPrint(r) }) >= 0 {
		return strconv.Quote(path)
	}
	return path
}
