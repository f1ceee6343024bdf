package vipr

import (
	"strings"
	"testing"
)

// proof is min x + y, 2x + 2y ≥ 3, x and y integer: at least 2.
const proof = `VER 1.0
VAR 2
x y
INT 2
0 1
OBJ min
2 0 1 1 1
CON 1 0
c G 3 2 0 2 1 2
RTP range 2 inf
SOL 0
DER 2
half G 3/2 2 0 1 1 1 { lin 1 0 1/2 } -1
up G 2 2 0 1 1 1 { rnd 1 1 1 } -1
`

// The proof is accepted, and refused with any one of its numbers changed to the better.
func TestCheck(t *testing.T) {
	if _, err := Check(strings.NewReader(proof)); err != nil {
		t.Fatal(err)
	}
	for old, wrong := range map[string]string{
		"RTP range 2 inf": "RTP range 3 inf", "half G 3/2": "half G 2", "up G 2 2": "up G 3 2", "lin 1 0 1/2": "lin 1 0 1/3",
		"INT 2\n0 1": "INT 1\n0", "lin 1 0 1/2 ": "lin 1 0 -1/2 ", "c G 3": "c L 3", "DER 2": "DER 3", "VER 1.0": "VER 2.0",
	} {
		if !strings.Contains(proof, old) {
			t.Fatalf("no %q", old)
		}
		if r, err := Check(strings.NewReader(strings.Replace(proof, old, wrong, 1))); err == nil {
			t.Errorf("%q for %q is accepted: %+v", wrong, old, r)
		}
	}
}

// No file makes the checker panic, or take more numbers than the file has.
func FuzzCheck(f *testing.F) {
	f.Add(proof)
	f.Fuzz(func(_ *testing.T, text string) { _, _ = Check(strings.NewReader(text)) })
}
