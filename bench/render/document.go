package render

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Document writes v as JSON that names its format first: an object, or an array of objects of
// which each does. format is as "workbench.method/v1"; docs/schema/method-v1.json is its schema.
func Document(w io.Writer, format string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if data[0] != '[' {
		return indented(w, named(format, data))
	}
	var list []json.RawMessage
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	for k := range list {
		list[k] = named(format, list[k])
	}
	if data, err = json.Marshal(list); err != nil {
		return err
	}
	return indented(w, data)
}

// named puts the name of the format before the fields of an object.
func named(format string, object []byte) []byte {
	head := fmt.Sprintf(`{"format":%q`, format)
	if len(object) > len("{}") {
		head += ","
	}
	return append([]byte(head), object[1:]...)
}

func indented(w io.Writer, data []byte) error {
	var b bytes.Buffer
	if err := json.Indent(&b, data, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}
