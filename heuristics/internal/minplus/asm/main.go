// Command asm writes the assembly of package minplus. It is a module of its
// own so that what it needs stays out of the workbench's; run it by go generate
// in the package.
package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// block is minplus.Block.
const block = 32

// A set of vector instructions: its name, the bytes of a register, and how to
// get one.
type set struct {
	name  string
	bytes int
	reg   func() reg.VecVirtual
}

var sets = []set{
	{"AVX2", 32, YMM},
	{"AVX512", 64, ZMM},
}

func main() {
	ConstraintExpr("!purego")
	for _, s := range sets {
		fold(s)
		elementwise(s, "add", "func(out, a, b []float64, c float64)", true)
		elementwise(s, "min", "func(out, a []float64)", false)
	}
	Generate()
}

// fold keeps out in registers while it runs through the candidates.
func fold(s set) {
	TEXT("fold"+s.name, NOSPLIT, fmt.Sprintf("func(out *[%d]float64, a, b []float64)", block))
	Pragma("noescape")
	out := Load(Param("out"), GP64())
	a := Load(Param("a").Base(), GP64())
	b := Load(Param("b").Base(), GP64())
	n := Load(Param("a").Len(), GP64())
	least := make([]reg.VecVirtual, block*8/s.bytes)
	for i := range least {
		least[i] = s.reg()
		VMOVUPD(Mem{Base: out, Disp: i * s.bytes}, least[i])
	}
	Label("loop")
	CMPQ(n, Imm(block))
	JL(LabelRef("done"))
	for i := range least {
		x := s.reg()
		VMOVUPD(Mem{Base: a, Disp: i * s.bytes}, x)
		VADDPD(Mem{Base: b, Disp: i * s.bytes}, x, x)
		VMINPD(x, least[i], least[i])
	}
	ADDQ(U32(block*8), a)
	ADDQ(U32(block*8), b)
	SUBQ(Imm(block), n)
	JMP(LabelRef("loop"))
	Label("done")
	for i := range least {
		VMOVUPD(least[i], Mem{Base: out, Disp: i * s.bytes})
	}
	VZEROUPPER()
	RET()
}

// elementwise writes min(out, a) or min(out, a+b+c): four registers at a time,
// then one, then single elements.
func elementwise(s set, name, signature string, sum bool) {
	TEXT(name+s.name, NOSPLIT, signature)
	Pragma("noescape")
	// Every parameter is read before the upper halves of the registers are in
	// use: the scalar load below is an SSE instruction and would stall.
	out := Load(Param("out").Base(), GP64())
	n := Load(Param("out").Len(), GP64())
	a := Load(Param("a").Base(), GP64())
	var b reg.Register
	var c reg.VecVirtual
	if sum {
		b = Load(Param("b").Base(), GP64())
		scalar := Load(Param("c"), XMM())
		c = s.reg()
		VBROADCASTSD(scalar, c)
	}
	i := GP64()
	XORQ(i, i)
	for _, unroll := range []int{4, 1} {
		elements := unroll * s.bytes / 8
		loop, done := fmt.Sprintf("loop%d", unroll), fmt.Sprintf("done%d", unroll)
		Label(loop)
		CMPQ(n, Imm(uint64(elements)))
		JL(LabelRef(done))
		for k := range unroll {
			at := func(base reg.Register) Mem { return Mem{Base: base, Index: i, Scale: 8, Disp: k * s.bytes} }
			x := s.reg()
			VMOVUPD(at(a), x)
			if sum {
				VADDPD(at(b), x, x)
				VADDPD(c, x, x)
			}
			VMINPD(at(out), x, x)
			VMOVUPD(x, at(out))
		}
		ADDQ(Imm(uint64(elements)), i)
		SUBQ(Imm(uint64(elements)), n)
		JMP(LabelRef(loop))
		Label(done)
	}
	Label("single")
	TESTQ(n, n)
	JLE(LabelRef("end"))
	at := func(base reg.Register) Mem { return Mem{Base: base, Index: i, Scale: 8} }
	x := XMM()
	VMOVSD(at(a), x)
	if sum {
		VADDSD(at(b), x, x)
		VADDSD(c.AsX(), x, x)
	}
	VMINSD(at(out), x, x)
	VMOVSD(x, at(out))
	INCQ(i)
	DECQ(n)
	JMP(LabelRef("single"))
	Label("end")
	VZEROUPPER()
	RET()
}
