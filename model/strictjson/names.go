package strictjson

import (
	"encoding/json"
	"fmt"
)

// Names are the ids of the objects of a list in a document. Ids are texts or whole
// numbers.
type Names struct {
	list, what string
	index      map[string]int
}

// NewNames returns the names of a list ("nodes") of n objects, each of which is a what
// ("node").
func NewNames(list, what string, n int) *Names {
	return &Names{list, what, make(map[string]int, n)}
}

// Read returns the id of object k as the document has it, and gives it to the object;
// whether another has it is for Add.
func (n *Names) Read(k int, raw json.RawMessage) (string, error) {
	path := fmt.Sprintf("%s[%d]", n.list, k)
	if raw == nil {
		return "", Wrong(path, "id is missing")
	}
	id, err := ReadID(raw)
	if err != nil {
		return "", Wrong(path+".id", "%v", err)
	}
	n.index[id] = k
	return id, nil
}

// Add gives an id to object k. It is an error if it is empty or another object has it.
func (n *Names) Add(k int, id string) error {
	before, twice := n.index[id]
	switch {
	case id == "":
		return Wrong(fmt.Sprintf("%s[%d].id", n.list, k), "the id is empty")
	case twice:
		return Wrong(fmt.Sprintf("%s[%d].id", n.list, k), "%q is the id of %s[%d] already", id, n.list, before)
	}
	n.index[id] = k
	return nil
}

// Find returns the object whose id stands at path.
func (n *Names) Find(path string, raw json.RawMessage) (int, error) {
	id, err := ReadID(raw)
	if err != nil {
		return 0, Wrong(path, "%v", err)
	}
	k, ok := n.index[id]
	if !ok {
		return 0, Wrong(path, "there is no %s with id %q", n.what, id)
	}
	return k, nil
}
