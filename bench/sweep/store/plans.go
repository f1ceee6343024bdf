package store

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"workbench/bench/solve"
	"workbench/model/plan"
)

// planSuffix is the suffix of the files of plans, each named by its digest: equal plans are stored once, and
// folders of plans are merged by copying.
const planSuffix = ".json.gz"

// EncodePlan returns a plan in its stored form, compressed, and its digest: the first 32 hexadecimal digits of the
// SHA-256 of its JSON.
func EncodePlan(p *plan.Plan) (digest string, compressed []byte, err error) {
	var text, packed bytes.Buffer
	if err := p.Write(&text); err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(text.Bytes())
	z, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return "", nil, err
	}
	if _, err := z.Write(text.Bytes()); err != nil {
		return "", nil, err
	}
	err = z.Close()
	return hex.EncodeToString(sum[:16]), packed.Bytes(), err
}

// writePlan stores a compressed plan, unless it exists.
func writePlan(dir, digest string, compressed []byte) error {
	name := filepath.Join(dir, plansName, digest[:2], digest[2:]+planSuffix)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return WriteFile(name, compressed)
}

func readPlan(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, solve.InputError(fmt.Errorf("the plan is not there: %w", err))
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", name, err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", name, err)
	}
	return text, nil
}
