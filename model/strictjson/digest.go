package strictjson

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Digest returns the SHA-256, in hexadecimal, of v as compact JSON, or err if there is
// one: that of making v. Of an instance v is its canonical document: every default is
// spelt out, fields are in the order of the format, "source", which says where the
// numbers come from and not what they are, and the fields of the user's own are away.
func Digest(v any, err error) (string, error) {
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}
