package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"

	"workbench/bench/sweep"
)

// Line is one line of a store: a row or an environment, the other is nil.
type Line struct {
	Row         *sweep.Row
	Environment *sweep.Environment
}

// longest is the maximum length of a line. Rows have less than a thousand bytes.
const longest = 1 << 20

// castagnoli is the polynomial that processors support.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The last field of a line is the checksum of the preceding text.
const sumField = `,"crc":"`

// Encode returns v, a *sweep.Row or *sweep.Environment, as a line with its
// checksum and the end of line.
func Encode(v any) ([]byte, error) {
	encode := func() ([]byte, error) { return json.Marshal(v) }
	if m, ok := v.(json.Marshaler); ok {
		encode = m.MarshalJSON
	}
	b, err := encode()
	if err != nil {
		return nil, fmt.Errorf("store: row cannot be written: %w", err)
	}
	b = b[:len(b)-1] // without the brace
	return fmt.Appendf(b, "%s%08x\"}\n", sumField, crc32.Checksum(b, castagnoli)), nil
}

// damagedError is the error of a line that was changed after it was written.
type damagedError struct{ why string }

// errUnsummed is the error of a line that is JSON and lacks its checksum.
var errUnsummed = &damagedError{"has no checksum"}

func (e *damagedError) Error() string { return e.why }

// Decode reads a line, with or without its line end. A damaged line and a valid line of a newer, unknown format
// yield different errors: see [Damaged].
func Decode(line []byte) (Line, error) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	body, err := checked(line)
	if err != nil {
		return Line{}, err
	}
	body = append(body[:len(body):len(body)], '}')
	// Encode writes the format first, so rows are parsed once.
	if bytes.HasPrefix(body, []byte(rowStart)) {
		return decodeRow(body)
	}
	var head struct {
		Format string `json:"format"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return Line{}, &damagedError{"is no JSON: " + err.Error()}
	}
	switch head.Format {
	case sweep.RowFormat:
		return decodeRow(body)
	case sweep.EnvironmentFormat:
		var e sweep.Environment
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&e); err != nil {
			return Line{}, err
		}
		return Line{Environment: &e}, nil
	}
	return Line{}, &sweep.FormatError{Want: sweep.RowFormat, Got: head.Format}
}

// rowStart is the start of lines with rows, environmentStart that of lines with an environment.
const (
	rowStart         = `{"format":"` + sweep.RowFormat + `",`
	environmentStart = `"format":"` + sweep.EnvironmentFormat + `"`
)

func decodeRow(body []byte) (Line, error) {
	r := &sweep.Row{}
	if err := r.UnmarshalJSON(body); err != nil {
		return Line{}, err
	}
	return Line{Row: r}, nil
}

// checked returns the line without its checksum and the closing brace.
func checked(line []byte) ([]byte, error) {
	const digits = 8
	at := len(line) - len(sumField) - digits - len(`"}`)
	if at < 0 || string(line[at:at+len(sumField)]) != sumField {
		if newer := formatOf(line); newer != "" {
			return nil, &sweep.FormatError{Want: sweep.RowFormat, Got: newer}
		}
		if json.Valid(line) {
			return nil, errUnsummed
		}
		return nil, &damagedError{"does not end with its checksum"}
	}
	body := line[:at]
	if want := fmt.Sprintf("%08x\"}", crc32.Checksum(body, castagnoli)); string(line[at+len(sumField):]) != want {
		return nil, &damagedError{"does not match its checksum"}
	}
	return body, nil
}

// formatOf returns the format of a line that lacks only a checksum, if it is none of this program's: another
// version may have no checksums.
func formatOf(line []byte) string {
	var head struct {
		Format string `json:"format"`
	}
	if json.Unmarshal(line, &head) != nil || head.Format == sweep.RowFormat || head.Format == sweep.EnvironmentFormat {
		return ""
	}
	if !strings.HasPrefix(head.Format, "workbench.") {
		return ""
	}
	return head.Format
}

// Damaged reports whether an error of Decode means that the line was changed after it was written.
func Damaged(err error) bool {
	var d *damagedError
	return errors.As(err, &d)
}
