package strictjson

import (
	"encoding/json"
	"fmt"
)

// maxDigits is how long an id may be that is written as a number: every reader
// of JSON takes these to the unit.
const maxDigits = 15

// errID is the error of [ReadID].
var errID = fmt.Errorf("an id is a text or an integer ≥ 0 of at most %d digits", maxDigits)

// isNumber reports whether id can be written as a number and read back to the
// same.
func isNumber(id string) bool {
	if id == "" || len(id) > maxDigits || id[0] == '0' && id != "0" {
		return false
	}
	for i := range len(id) {
		if id[i] < '0' || id[i] > '9' {
			return false
		}
	}
	return true
}

// ReadID reads a text or a whole number.
func ReadID(raw json.RawMessage) (id string, err error) {
	if raw[0] == '"' {
		err = json.Unmarshal(raw, &id)
		return id, err
	}
	if id = string(raw); !isNumber(id) {
		return "", errID
	}
	return id, nil
}

// IDs returns n ids as they are written: as numbers if all of them can be, else
// as texts. O(length of the ids).
func IDs(n int, id func(k int) string) []json.RawMessage {
	numbers := true
	for k := range n {
		numbers = numbers && isNumber(id(k))
	}
	ids := make([]json.RawMessage, n)
	for k := range ids {
		if numbers {
			ids[k] = json.RawMessage(id(k))
		} else {
			ids[k], _ = json.Marshal(id(k)) // texts always can be
		}
	}
	return ids
}
