package torchsnapshot

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
)

// dict, list and the basic types are what a pickle of builtins holds: None is nil, tuples
// and sets are lists, bytes are texts, keys that are no texts are written as texts.
type (
	dict = map[string]any
	list struct{ items []any }
)

// mark is where the opcode MARK was.
type mark struct{}

// unpickler runs the opcodes of a pickle of protocol 2 to 5 that holds builtins alone. It
// imports and calls nothing.
type unpickler struct {
	data  []byte
	at    int
	stack []any
	memo  []any
}

// unpickle returns the object in a pickle. The error names what the pickle asks for beyond
// builtins. O(len(data)).
func unpickle(data []byte) (v any, err error) {
	u := &unpickler{data: data}
	defer func() {
		if r := recover(); r != nil {
			broken, ours := r.(pickleError)
			if !ours {
				panic(r)
			}
			v, err = nil, fmt.Errorf("pickle, byte %d: %s", u.at, string(broken))
		}
	}()
	for {
		if done := u.step(); done {
			return u.pop(), nil
		}
	}
}

// pickleError is what unpickle recovers from.
type pickleError string

func (u *unpickler) fail(format string, args ...any) {
	panic(pickleError(fmt.Sprintf(format, args...)))
}

func (u *unpickler) read(n int) []byte {
	if n < 0 || n > len(u.data)-u.at {
		u.fail("it ends too early")
	}
	u.at += n
	return u.data[u.at-n : u.at]
}

// number reads n bytes, the least first.
func (u *unpickler) number(n int) int {
	var b [8]byte
	copy(b[:], u.read(n))
	x := binary.LittleEndian.Uint64(b[:])
	if x > math.MaxInt64/2 {
		u.fail("a length of %d", x)
	}
	return int(x)
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

func (u *unpickler) pop() any {
	if len(u.stack) == 0 {
		u.fail("it takes from an empty stack")
	}
	v := u.stack[len(u.stack)-1]
	u.stack = u.stack[:len(u.stack)-1]
	return v
}

// marked returns what is above the last mark.
func (u *unpickler) marked() []any {
	for k := len(u.stack) - 1; k >= 0; k-- {
		if _, is := u.stack[k].(mark); is {
			items := append([]any(nil), u.stack[k+1:]...)
			u.stack = u.stack[:k]
			return items
		}
	}
	u.fail("there is no mark")
	return nil
}

func (u *unpickler) put(k int) {
	if k > len(u.data) {
		u.fail("memo %d", k)
	}
	v := u.pop()
	u.push(v)
	for len(u.memo) <= k {
		u.memo = append(u.memo, nil)
	}
	u.memo[k] = v
}

func (u *unpickler) get(k int) {
	if k >= len(u.memo) {
		u.fail("there is no memo %d", k)
	}
	u.push(u.memo[k])
}

// line reads up to the end of the line.
func (u *unpickler) line() string {
	for k := u.at; k < len(u.data); k++ {
		if u.data[k] == '\n' {
			text := string(u.data[u.at:k])
			u.at = k + 1
			return text
		}
	}
	u.fail("it ends too early")
	return ""
}

// step runs an opcode; the last one reports true.
func (u *unpickler) step() (done bool) {
	switch op := u.read(1)[0]; op {
	case 0x80: // PROTO
		if v := u.read(1)[0]; v < 2 || v > 5 {
			u.fail("protocol %d; 2 to 5 are read", v)
		}
	case 0x95: // FRAME
		u.read(8)
	case '.':
		return true
	case '(':
		u.push(mark{})
	case '0':
		u.pop()
	case '1':
		u.marked()
	case '2':
		v := u.pop()
		u.push(v)
		u.push(v)
	case 'q', 'r':
		u.put(u.number(map[byte]int{'q': 1, 'r': 4}[op]))
	case 0x94: // MEMOIZE
		u.put(len(u.memo))
	case 'h', 'j':
		u.get(u.number(map[byte]int{'h': 1, 'j': 4}[op]))
	default:
		if !u.value(op) && !u.collect(op) {
			u.refuse(op)
		}
	}
	return false
}

// value pushes a basic value.
func (u *unpickler) value(op byte) bool {
	lengths := map[byte]int{0x8c: 1, 'X': 4, 0x8d: 8, 'C': 1, 'B': 4, 0x8e: 8, 'U': 1, 'T': 4, 0x96: 8}
	switch op {
	case 'N':
		u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		u.push(op == 0x88)
	case 'J':
		u.push(int64(int32(binary.LittleEndian.Uint32(u.read(4)))))
	case 'K':
		u.push(int64(u.number(1)))
	case 'M':
		u.push(int64(u.number(2)))
	case 0x8a: // LONG1
		u.push(u.long(u.number(1)))
	case 0x8b: // LONG4
		u.push(u.long(u.number(4)))
	case 'G':
		u.push(math.Float64frombits(binary.BigEndian.Uint64(u.read(8))))
	default:
		n, text := lengths[op]
		if text {
			u.push(string(u.read(u.number(n))))
		}
		return text
	}
	return true
}

// long reads an integer in two's complement; one beyond 64 bits is a text.
func (u *unpickler) long(n int) any {
	b := u.read(n)
	x := new(big.Int)
	for k := n - 1; k >= 0; k-- {
		x.Or(x.Lsh(x, 8), big.NewInt(int64(b[k])))
	}
	if n > 0 && b[n-1] >= 0x80 {
		x.Sub(x, new(big.Int).Lsh(big.NewInt(1), uint(8*n)))
	}
	if x.IsInt64() {
		return x.Int64()
	}
	return x.String()
}

// collect makes and fills collections.
func (u *unpickler) collect(op byte) bool {
	last := func(n int) []any {
		items := make([]any, n)
		for k := n - 1; k >= 0; k-- {
			items[k] = u.pop()
		}
		return items
	}
	switch op {
	case ']', ')', 0x8f: // EMPTY_LIST, EMPTY_TUPLE, EMPTY_SET
		u.push(&list{})
	case 'l', 't', 0x91: // LIST, TUPLE, FROZENSET
		u.push(&list{u.marked()})
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		u.push(&list{last(int(op) - 0x84)})
	case '}':
		u.push(dict{})
	case 'd':
		items := u.marked()
		u.push(dict{})
		u.setItems(items)
	case 'a':
		u.extend(last(1))
	case 'e', 0x90: // APPENDS, ADDITEMS
		u.extend(u.marked())
	case 's':
		u.setItems(last(2))
	case 'u':
		u.setItems(u.marked())
	default:
		return false
	}
	return true
}

func (u *unpickler) extend(items []any) {
	x, ok := u.pop().(*list)
	if !ok {
		u.fail("it appends to something else than a list")
	}
	x.items = append(x.items, items...)
	u.push(x)
}

func (u *unpickler) setItems(items []any) {
	x, ok := u.pop().(dict)
	if !ok || len(items)%2 != 0 {
		u.fail("it sets items of something else than a dictionary")
	}
	for k := 0; k < len(items); k += 2 {
		switch key := items[k].(type) {
		case *list, dict: // it may hold itself
			u.fail("a key is a collection; keys are texts or numbers")
		default:
			x[fmt.Sprint(key)] = items[k+1]
		}
	}
	u.push(x)
}

// refuse fails with the name of what an opcode asks for.
func (u *unpickler) refuse(op byte) {
	switch op {
	case 'c', 'i': // GLOBAL, INST
		module := u.line()
		u.fail("it asks for %s.%s; only builtins are read: save the snapshot as JSON, or without objects", module, u.line())
	case 0x93: // STACK_GLOBAL
		name, _ := u.pop().(string)
		module, _ := u.pop().(string)
		u.fail("it asks for %s.%s; only builtins are read: save the snapshot as JSON, or without objects", module, name)
	case 'R', 'b', 'o', 0x81, 0x92: // REDUCE, BUILD, OBJ, NEWOBJ, NEWOBJ_EX
		u.fail("it makes an object; only builtins are read")
	case 'P', 'Q', 0x82, 0x83, 0x84: // PERSID, BINPERSID, EXT1 to EXT4
		u.fail("it refers to an object outside; only builtins are read")
	}
	u.fail("opcode %s is not read", strconv.QuoteRune(rune(op)))
}

// pickler writes builtins as a pickle of protocol 2.
type pickler struct{ out []byte }

// pickle returns v, made of fields, tuple, []any, texts, int64, bool and nil, as a pickle. O(size of v).
func pickle(v any) []byte {
	p := &pickler{out: []byte{0x80, 2}}
	p.write(v)
	return append(p.out, '.')
}

func (p *pickler) write(v any) {
	switch v := v.(type) {
	case nil:
		p.out = append(p.out, 'N')
	case bool:
		p.out = append(p.out, map[bool]byte{true: 0x88, false: 0x89}[v])
	case int64:
		if v >= 0 && v <= math.MaxUint8 {
			p.out = append(p.out, 'K', byte(v))
			return
		}
		p.out = binary.LittleEndian.AppendUint64(append(p.out, 0x8a, 8), uint64(v))
	case string:
		p.out = append(binary.LittleEndian.AppendUint32(append(p.out, 'X'), uint32(len(v))), v...)
	case []any:
		p.out = append(p.out, ']', '(')
		for _, x := range v {
			p.write(x)
		}
		p.out = append(p.out, 'e')
	case tuple:
		p.out = append(p.out, '(')
		for _, x := range v {
			p.write(x)
		}
		p.out = append(p.out, 't')
	case fields:
		p.out = append(p.out, '}', '(')
		for _, x := range v {
			p.write(x.name)
			p.write(x.value)
		}
		p.out = append(p.out, 'u')
	}
}

// fields is a dictionary in order, tuple what its name says.
type (
	fields []field
	tuple  []any
)

type field struct {
	name  string
	value any
}
