package isolate

import (
	"bytes"
	"encoding/binary"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"workbench/model/milp"
	"workbench/solvers"
)

// The request is a frame with a header (gob) followed by the arrays in little-endian memory layout, each preceded
// by its length. The response consists of frames with one message each (gob). A frame is its length in 8 bytes,
// little-endian, followed by that many bytes.

// maxFrame limits the length that a frame may declare; arrays are not in frames.
const maxFrame = 1 << 32

var errWire = errors.New("malformed message between processes")

// header is a Problem without arrays and functions.
type header struct {
	Name                   string
	Sense                  milp.Sense
	Offset                 float64
	Time                   time.Duration
	RelGap, AbsGap         float64
	Threads, Seed, Attempt int
	Nodes, Memory          int64
	Raw                    map[string]string
	WantsLog, HasStart     bool
}

// writeProblem writes p without groups and names, which no engine uses.
func writeProblem(w io.Writer, p *solvers.Problem) error {
	d := &p.Model
	err := writeFrame(w, &header{
		Name: d.Name, Sense: d.Sense, Offset: d.Offset, Time: p.Time, RelGap: p.RelGap, AbsGap: p.AbsGap,
		Threads: p.Threads, Seed: p.Seed, Attempt: p.Attempt, Nodes: p.Nodes, Memory: p.Memory, Raw: p.Raw,
		WantsLog: p.Log != nil, HasStart: p.Start != nil,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		writeArray(w, d.Cost), writeArray(w, d.Lower), writeArray(w, d.Upper), writeArray(w, d.Integer),
		writeArray(w, d.RowLower), writeArray(w, d.RowUpper),
		writeArray(w, d.Start), writeArray(w, d.Col), writeArray(w, d.Val), writeArray(w, p.Start),
	)
}

// readProblem reads the output of writeProblem. Log is set to a placeholder if the parent wants a log.
func readProblem(r io.Reader) (*solvers.Problem, error) {
	var h header
	if err := readFrame(r, &h); err != nil {
		return nil, err
	}
	p := &solvers.Problem{
		Model: milp.Data{Name: h.Name, Sense: h.Sense, Offset: h.Offset},
		Time:  h.Time, RelGap: h.RelGap, AbsGap: h.AbsGap, Threads: h.Threads, Seed: h.Seed, Attempt: h.Attempt,
		Nodes: h.Nodes, Memory: h.Memory, Raw: h.Raw,
	}
	if h.WantsLog {
		p.Log = io.Discard
	}
	d := &p.Model
	err := errors.Join(
		readArray(r, &d.Cost), readArray(r, &d.Lower), readArray(r, &d.Upper), readArray(r, &d.Integer),
		readArray(r, &d.RowLower), readArray(r, &d.RowUpper),
		readArray(r, &d.Start), readArray(r, &d.Col), readArray(r, &d.Val), readArray(r, &p.Start),
	)
	if !h.HasStart {
		p.Start = nil
	}
	return p, err
}

// message holds exactly one of its fields.
type message struct {
	Progress *solvers.Progress
	Log      []byte
	Answer   *solvers.Answer
	Err      *remoteError
}

func writeMessage(w io.Writer, m *message) error { return writeFrame(w, m) }

func readMessage(r io.Reader) (*message, error) {
	m := new(message)
	return m, readFrame(r, m)
}

// writeFrame writes v in one call, so that the death of a process does not split a frame.
func writeFrame(w io.Writer, v any) error {
	b := bytes.NewBuffer(make([]byte, 8, 512))
	if err := gob.NewEncoder(b).Encode(v); err != nil {
		return err
	}
	binary.LittleEndian.PutUint64(b.Bytes(), uint64(b.Len()-8))
	_, err := w.Write(b.Bytes())
	return err
}

func readFrame(r io.Reader, v any) error {
	n, err := readLength(r, maxFrame)
	if err != nil {
		return err
	}
	// The length may be wrong, so it is not allocated at once.
	var b bytes.Buffer
	if _, err := io.CopyN(&b, r, int64(n)); err != nil {
		return short(err)
	}
	if err := gob.NewDecoder(&b).Decode(v); err != nil {
		return fmt.Errorf("%w: %w", errWire, err)
	}
	return nil
}

func readLength(r io.Reader, most uint64) (uint64, error) {
	var b [8]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(b[:])
	if n > most {
		return 0, fmt.Errorf("%w: length %d", errWire, n)
	}
	return n, nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

type element interface{ float64 | int32 | bool }

func writeArray[T element](w io.Writer, a []T) error {
	if err := binary.Write(w, binary.LittleEndian, uint64(len(a))); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, a)
}

// chunk is the number of elements that readArray allocates at once.
const chunk = 1 << 16

func readArray[T element](r io.Reader, a *[]T) error {
	n, err := readLength(r, math.MaxInt32+1)
	if err != nil {
		return short(err)
	}
	for len(*a) < int(n) {
		k := min(int(n)-len(*a), chunk)
		part := make([]T, k)
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			return short(err)
		}
		*a = append(*a, part...)
	}
	return nil
}
